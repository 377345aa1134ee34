package com.example.shop.service;

/** The stock, as the rest of the shop sees it. */
public interface InventoryService {

    boolean isAvailable(String articleNumber, int pieces);

    /** Throws OutOfStockException where there are fewer pieces. */
    void reserve(String articleNumber, int pieces);

    void release(String articleNumber, int pieces);

    class OutOfStockException extends RuntimeException {
        public OutOfStockException(String articleNumber) {
            super("not enough pieces of " + articleNumber);
        }
    }
}
