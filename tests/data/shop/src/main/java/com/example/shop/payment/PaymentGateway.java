package com.example.shop.payment;

import com.example.shop.model.Money;

/** Whoever takes the money. */
public interface PaymentGateway {

    record Result(boolean accepted, String reason) {}

    class Refused extends RuntimeException {
        public Refused(String reason) {
            super(reason);
        }
    }

    Result pay(String orderNumber, Money amount, String token);

    void refund(String orderNumber, Money amount);
}
