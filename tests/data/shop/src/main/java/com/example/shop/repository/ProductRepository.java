package com.example.shop.repository;

import com.example.shop.model.Product;
import java.util.List;

public interface ProductRepository extends CrudRepository<Product, String> {

    @Query("select p from Product p where p.category = ?1 order by p.name")
    List<Product> findByCategory(Product.Category category);

    @Query("select p from Product p where p.articleNumber in ?1")
    List<Product> findAllByArticleNumbers(List<String> articleNumbers);
}
