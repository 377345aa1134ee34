package com.example.shop.shipping;

import com.example.shop.model.Cart;
import com.example.shop.model.Money;
import java.math.BigDecimal;
import java.util.Currency;
import org.springframework.stereotype.Component;

/** By weight: 4.90 up to two kilograms, 6.90 up to ten, 12.90 above; twice that abroad. */
@Component
class WeightShippingCalculator implements ShippingCalculator {

    private static final String HOME = "DE";
    private static final Currency EURO = Currency.getInstance("EUR");

    @Override
    public Money costOf(Cart cart, com.example.shop.model.Address to) {
        int grams = cart.items().stream().mapToInt(i -> i.product().weightInGrams() * i.quantity()).sum();
        String rate = grams <= 2_000 ? "4.90" : grams <= 10_000 ? "6.90" : "12.90";
        Money cost = new Money(new BigDecimal(rate), EURO);
        return to.isAbroad(HOME) ? cost.times(2) : cost;
    }
}
