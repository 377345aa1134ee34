package com.example.shop.web;

import com.example.shop.model.Money;
import com.example.shop.model.Order;
import com.example.shop.service.CartService;
import com.example.shop.service.CustomerService;
import com.example.shop.service.OrderService;
import com.example.shop.shipping.ShippingCalculator;
import org.springframework.web.bind.annotation.*;

/** The last page: what it will cost, and the button. */
@RestController
@RequestMapping("/checkout")
public class CheckoutController {

    public record Summary(Money goods, Money shipping) {}

    private final CartService carts;
    private final CustomerService customers;
    private final ShippingCalculator shipping;
    private final OrderService orders;

    public CheckoutController(
            CartService carts, CustomerService customers, ShippingCalculator shipping, OrderService orders) {
        this.carts = carts;
        this.customers = customers;
        this.shipping = shipping;
        this.orders = orders;
    }

    @GetMapping
    public Summary summary(@RequestAttribute long customerId) {
        Money delivery = shipping.costOf(carts.cartOf(customerId), customers.get(customerId).address());
        return new Summary(carts.total(customerId), delivery);
    }

    @PostMapping
    public Order buy(@RequestAttribute long customerId, @RequestParam String paymentToken) {
        return orders.placeOrder(customerId, paymentToken);
    }
}
