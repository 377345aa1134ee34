import { readFile } from "node:fs/promises";

export interface Item { readonly kind: "book" | "food"; price: number }
type Sum<T extends Item = Item> = (items: T[]) => number;

@sealed
export class Basket<T extends Item> {
  constructor(private items: T[] = []) {}
  get total(): number { return this.items.reduce((sum, { price }) => sum + price, 0); }
  async *lines(): AsyncGenerator<string> {
    for (const item of this.items) { yield `${item.kind}: ${item.price.toFixed(2)} € — ${"`"}`; }
  }
}
const old = <Item>(<unknown>{ kind: "book", price: 1 });
export function first<T>(items: T[], is: (t: T) => boolean): T | undefined {
  return items.find((t) => is(t)) ?? undefined;
}
