package com.example.shop.service.impl;

import com.example.shop.model.Customer;
import com.example.shop.model.Money;
import com.example.shop.model.Product;
import com.example.shop.service.PricingService;
import org.springframework.stereotype.Service;

/**
 * The list price less a discount for quantity (5 % from ten pieces, 10 % from fifty) and one for loyalty
 * (1 % a year, at most 5 %). Books have a fixed price by law and are never reduced.
 */
@Service
class DiscountPricingService implements PricingService {

    private static final int MOST_FOR_LOYALTY = 5;

    @Override
    public Money unitPrice(Product product, int quantity, Customer customer) {
        if (product.category() == Product.Category.BOOK) {
            return product.price();
        }
        int percent = forQuantity(quantity) + Math.min(customer.years(), MOST_FOR_LOYALTY);
        return product.price().reducedBy(percent);
    }

    private int forQuantity(int quantity) {
        return quantity >= 50 ? 10 : quantity >= 10 ? 5 : 0;
    }
}
