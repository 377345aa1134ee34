package com.example.shop.listener;

import com.example.shop.event.ProductChangedEvent;
import com.example.shop.search.SearchService;
import com.example.shop.service.CatalogService;
import org.springframework.context.event.EventListener;
import org.springframework.stereotype.Component;

/** Keeps the search index in step with the catalogue. */
@Component
class SearchIndexListener {

    private final SearchService search;
    private final CatalogService catalog;

    SearchIndexListener(SearchService search, CatalogService catalog) {
        this.search = search;
        this.catalog = catalog;
    }

    @EventListener
    void on(ProductChangedEvent event) {
        if (event.removed()) {
            search.forget(event.articleNumber());
        } else {
            catalog.find(event.articleNumber()).ifPresent(search::index);
        }
    }
}
