package com.example.shop.payment;

import com.example.shop.model.Customer;
import com.example.shop.model.Money;
import com.example.shop.service.CustomerService;
import org.springframework.stereotype.Component;

/** Payment after delivery, for customers of three years and more. The token is the customer's id. */
@Component
class InvoicePaymentGateway implements PaymentGateway {

    private final CustomerService customers;

    InvoicePaymentGateway(CustomerService customers) {
        this.customers = customers;
    }

    @Override
    public Result pay(String orderNumber, Money amount, String token) {
        Customer customer = customers.get(Long.parseLong(token));
        return new Result(customer.years() >= 3, "an invoice needs three years as a customer");
    }

    @Override
    public void refund(String orderNumber, Money amount) {
        // Nothing was paid yet.
    }
}
