package com.example.shop.service;

import com.example.shop.model.Cart;
import com.example.shop.model.Money;

/** The carts of customers who are logged in. */
public interface CartService {

    Cart cartOf(long customerId);

    void add(long customerId, String articleNumber, int quantity);

    void remove(long customerId, String articleNumber);

    /** What the cart costs now, with discounts and without shipping. */
    Money total(long customerId);

    void empty(long customerId);
}
