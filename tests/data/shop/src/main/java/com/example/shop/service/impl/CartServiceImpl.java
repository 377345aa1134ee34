package com.example.shop.service.impl;

import com.example.shop.model.Cart;
import com.example.shop.model.Customer;
import com.example.shop.model.Money;
import com.example.shop.model.Product;
import com.example.shop.service.*;
import java.util.Currency;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.stereotype.Service;

/** Carts live in memory: one that is lost at a restart is filled again by its customer. */
@Service
class CartServiceImpl implements CartService {

    private static final Currency EURO = Currency.getInstance("EUR");

    private final Map<Long, Cart> carts = new ConcurrentHashMap<>();
    private final CatalogService catalog;
    private final PricingService pricing;
    private final CustomerService customers;

    CartServiceImpl(CatalogService catalog, PricingService pricing, CustomerService customers) {
        this.catalog = catalog;
        this.pricing = pricing;
        this.customers = customers;
    }

    @Override
    public Cart cartOf(long customerId) {
        return carts.computeIfAbsent(customerId, Cart::new);
    }

    @Override
    public void add(long customerId, String articleNumber, int quantity) {
        Product product = catalog.find(articleNumber).orElseThrow();
        cartOf(customerId).put(product, quantity);
    }

    @Override
    public void remove(long customerId, String articleNumber) {
        cartOf(customerId).remove(articleNumber);
    }

    @Override
    public Money total(long customerId) {
        Customer customer = customers.get(customerId);
        return cartOf(customerId).items().stream()
                .map(i -> pricing.unitPrice(i.product(), i.quantity(), customer).times(i.quantity()))
                .reduce(Money.zero(EURO), Money::plus);
    }

    @Override
    public void empty(long customerId) {
        cartOf(customerId).clear();
    }
}
