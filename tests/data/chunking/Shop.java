package shop;

import java.util.*;

/** Überschrift: a record with a compact constructor. */
public record Shop(String name, List<Item> items) {
    public Shop {
        Objects.requireNonNull(name, "näme");
	items = List.copyOf(items);   
    }

    interface Priced { double price(); }

    enum Kind { BOOK, FOOD }

    public double total(Kind kind) {
        double sum = 0;
        for (Item item : items) {
            if (item.kind() == kind) { sum += item.price(); } else { continue; }
        }
        String text = """
            Total:
              %s
            """.formatted(sum);
        return text.isBlank() ? 0 : sum;
    }

    record Item(Kind kind, double price) implements Priced {}
}
