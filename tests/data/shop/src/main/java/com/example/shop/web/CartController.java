package com.example.shop.web;

import com.example.shop.model.Cart;
import com.example.shop.model.Money;
import com.example.shop.service.CartService;
import org.springframework.web.bind.annotation.*;

@RestController
@RequestMapping("/cart")
public class CartController {

    private final CartService carts;

    public CartController(CartService carts) {
        this.carts = carts;
    }

    @GetMapping
    public Cart show(@RequestAttribute long customerId) {
        return carts.cartOf(customerId);
    }

    @PostMapping("/{articleNumber}")
    public Money add(@RequestAttribute long customerId, @PathVariable String articleNumber, @RequestParam int quantity) {
        carts.add(customerId, articleNumber, quantity);
        return carts.total(customerId);
    }

    @DeleteMapping("/{articleNumber}")
    public Money remove(@RequestAttribute long customerId, @PathVariable String articleNumber) {
        carts.remove(customerId, articleNumber);
        return carts.total(customerId);
    }
}
