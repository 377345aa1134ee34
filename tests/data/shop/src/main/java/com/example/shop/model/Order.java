package com.example.shop.model;

import java.time.Instant;
import java.util.List;

/** What was bought, at the prices of that moment. */
public class Order {

    /** A copy of what the product was when it was ordered. */
    public record Line(String articleNumber, String productName, int quantity, Money unitPrice) {

        public Money total() {
            return unitPrice.times(quantity);
        }
    }

    private final String number;
    private final long customerId;
    private final Line[] lines;
    private final Money total;
    private final Address deliveryAddress;
    private final Instant placedAt = Instant.now();
    private OrderStatus status = OrderStatus.NEW;

    public Order(String number, long customerId, List<Line> lines, Money total, Address deliveryAddress) {
        this.number = number;
        this.customerId = customerId;
        this.lines = lines.toArray(Line[]::new);
        this.total = total;
        this.deliveryAddress = deliveryAddress;
    }

    public String number() {
        return number;
    }

    public long customerId() {
        return customerId;
    }

    public List<Line> lines() {
        return List.of(lines);
    }

    public Money total() {
        return total;
    }

    public Address deliveryAddress() {
        return deliveryAddress;
    }

    public Instant placedAt() {
        return placedAt;
    }

    public OrderStatus status() {
        return status;
    }

    /** Goes on to the next status; an order never goes back. */
    public void advanceTo(OrderStatus next) {
        if (!status.mayBecome(next)) {
            throw new IllegalStateException(number + " cannot go from " + status + " to " + next);
        }
        status = next;
    }
}
