package com.example.shop.service;

import com.example.shop.model.Order;
import java.util.List;

/** Orders from the click on "buy" to the delivery. */
public interface OrderService {

    /** Turns the customer's cart into an order, pays and reserves; all of it or nothing. */
    Order placeOrder(long customerId, String paymentToken);

    List<Order> ordersOf(long customerId);

    void cancel(String orderNumber);

    void markSent(String orderNumber);
}
