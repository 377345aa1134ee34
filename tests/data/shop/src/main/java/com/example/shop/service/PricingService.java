package com.example.shop.service;

import com.example.shop.model.Customer;
import com.example.shop.model.Money;
import com.example.shop.model.Product;

/** What a customer pays for a product. */
public interface PricingService {

    Money unitPrice(Product product, int quantity, Customer customer);
}
