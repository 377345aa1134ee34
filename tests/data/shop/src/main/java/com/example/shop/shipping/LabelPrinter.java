package com.example.shop.shipping;

import com.example.shop.model.Order;
import com.example.shop.repository.OrderRepository;
import org.springframework.stereotype.Component;

/** The label of a parcel. */
@Component
public class LabelPrinter {

    private final OrderRepository orders;
    private Address sender;

    public LabelPrinter(OrderRepository orders) {
        this.orders = orders;
    }

    public void sendFrom(Address sender) {
        this.sender = sender;
    }

    public String label(String orderNumber) {
        Order order = orders.findById(orderNumber).orElseThrow();
        Address to = Address.of(order.deliveryAddress());
        return String.join("\n", to.lines()) + "\n\nfrom " + String.join(", ", sender.lines());
    }
}
