package com.example.shop.web;

import com.example.shop.model.Money;
import com.example.shop.model.Product;
import com.example.shop.search.SearchService;
import com.example.shop.security.RequiresRole;
import com.example.shop.service.CatalogService;
import java.util.List;
import org.springframework.web.bind.annotation.*;

@RestController
@RequestMapping("/products")
public class ProductController {

    private final CatalogService catalog;
    private final SearchService search;

    public ProductController(CatalogService catalog, SearchService search) {
        this.catalog = catalog;
        this.search = search;
    }

    @GetMapping("/{articleNumber}")
    public Product show(@PathVariable String articleNumber) {
        return catalog.find(articleNumber).orElseThrow();
    }

    @GetMapping
    public List<Product> find(@RequestParam String words) {
        return search.find(words).stream().map(n -> catalog.find(n).orElseThrow()).toList();
    }

    @PostMapping
    @RequiresRole("administrator")
    public Product add(@RequestBody Product product) {
        return catalog.add(product);
    }

    @PutMapping("/{articleNumber}/price")
    @RequiresRole("administrator")
    public void changePrice(@PathVariable String articleNumber, @RequestBody Money price) {
        catalog.changePrice(articleNumber, price);
    }
}
