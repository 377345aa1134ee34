package com.example.shop.model;

/** The life of an order. */
public enum OrderStatus {
    NEW, PAID, SENT, DELIVERED, CANCELLED;

    public boolean mayBecome(OrderStatus next) {
        return switch (this) {
            case NEW -> next == PAID || next == CANCELLED;
            case PAID -> next == SENT || next == CANCELLED;
            case SENT -> next == DELIVERED;
            case DELIVERED, CANCELLED -> false;
        };
    }
}
