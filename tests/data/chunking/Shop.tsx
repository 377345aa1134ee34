import React from "react";

export function Shop({ items }: { items: { name: string; price: number }[] }) {
  const total = items.reduce((s, i) => s + i.price, 0);
  return (
    <ul className="shop">
      {items.map((i) => (<li key={i.name}>{i.name} – {i.price} €</li>))}
      <li>Total: {total}</li>
    </ul>
  );
}
