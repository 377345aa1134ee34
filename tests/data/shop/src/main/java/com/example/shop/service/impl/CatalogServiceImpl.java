package com.example.shop.service.impl;

import com.example.shop.event.EventPublisher;
import com.example.shop.event.ProductChangedEvent;
import com.example.shop.model.Money;
import com.example.shop.model.Product;
import com.example.shop.repository.ProductRepository;
import com.example.shop.service.CatalogService;
import java.util.List;
import java.util.Optional;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

@Service
class CatalogServiceImpl extends AuditedService implements CatalogService {

    private final ProductRepository products;
    private final EventPublisher events;

    CatalogServiceImpl(ProductRepository products, EventPublisher events) {
        this.products = products;
        this.events = events;
    }

    @Override
    public Optional<Product> find(String articleNumber) {
        return products.findById(articleNumber);
    }

    @Override
    public List<Product> inCategory(Product.Category category) {
        return products.findByCategory(category);
    }

    @Override
    @Transactional
    public Product add(Product product) {
        Product saved = products.save(product);
        audited("product %s added", saved.articleNumber());
        events.publish(new ProductChangedEvent(saved.articleNumber(), false));
        return saved;
    }

    @Override
    @Transactional
    public void changePrice(String articleNumber, Money price) {
        Product product = products.findById(articleNumber).orElseThrow();
        product.changePrice(price);
        products.save(product);
        audited("price of %s is now %s", articleNumber, price);
        events.publish(new ProductChangedEvent(articleNumber, false));
    }

    @Override
    @Transactional
    public void remove(String articleNumber) {
        products.deleteById(articleNumber);
        audited("product %s removed", articleNumber);
        events.publish(new ProductChangedEvent(articleNumber, true));
    }
}
