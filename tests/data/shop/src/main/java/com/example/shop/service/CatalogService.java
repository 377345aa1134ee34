package com.example.shop.service;

import com.example.shop.model.Money;
import com.example.shop.model.Product;
import java.util.List;
import java.util.Optional;

/** The products on offer. */
public interface CatalogService {

    Optional<Product> find(String articleNumber);

    List<Product> inCategory(Product.Category category);

    Product add(Product product);

    void changePrice(String articleNumber, Money price);

    void remove(String articleNumber);
}
