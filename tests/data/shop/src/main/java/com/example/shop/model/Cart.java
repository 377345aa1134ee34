package com.example.shop.model;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** What a customer has collected and not ordered yet. */
public class Cart {

    /** One product and how many of it. */
    public static class Item {
        private final Product product;
        private int quantity;

        Item(Product product, int quantity) {
            this.product = product;
            this.quantity = quantity;
        }

        public Product product() {
            return product;
        }

        public int quantity() {
            return quantity;
        }
    }

    private final long customerId;
    private final List<Item> items = new ArrayList<>();

    public Cart(long customerId) {
        this.customerId = customerId;
    }

    public long customerId() {
        return customerId;
    }

    public List<Item> items() {
        return List.copyOf(items);
    }

    public void put(Product product, int quantity) {
        Optional<Item> known = items.stream().filter(i -> i.product == product).findFirst();
        known.ifPresentOrElse(i -> i.quantity += quantity, () -> items.add(new Item(product, quantity)));
    }

    public void remove(String articleNumber) {
        items.removeIf(i -> i.product.articleNumber().equals(articleNumber));
    }

    public void clear() {
        items.clear();
    }

    public boolean isEmpty() {
        return items.isEmpty();
    }
}
