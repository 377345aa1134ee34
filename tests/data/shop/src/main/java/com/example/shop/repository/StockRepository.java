package com.example.shop.repository;

/** How many pieces of an article lie in the warehouse. Not a CrudRepository: stock is only counted up and down. */
public interface StockRepository {

    int available(String articleNumber);

    /** Takes so many pieces, in one statement; false where there are fewer. */
    boolean take(String articleNumber, int pieces);

    void put(String articleNumber, int pieces);
}
