package com.example.shop.web;

import com.example.shop.model.Order;
import com.example.shop.security.RequiresRole;
import com.example.shop.service.OrderService;
import java.util.List;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.web.bind.annotation.*;

@RestController
@RequestMapping("/orders")
public class OrderController {

    @Autowired
    private OrderService orders;

    @GetMapping
    public List<Order> mine(@RequestAttribute long customerId) {
        return orders.ordersOf(customerId);
    }

    @DeleteMapping("/{number}")
    public void cancel(@PathVariable String number) {
        orders.cancel(number);
    }

    @PostMapping("/{number}/sent")
    @RequiresRole("administrator")
    public void sent(@PathVariable String number) {
        orders.markSent(number);
    }
}
