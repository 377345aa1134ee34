package com.example.shop.service.impl;

import com.example.shop.event.EventPublisher;
import com.example.shop.event.StockLowEvent;
import com.example.shop.repository.StockRepository;
import com.example.shop.service.InventoryService;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;

@Service
class InventoryServiceImpl extends AuditedService implements InventoryService {

    private static final int LOW = 10;

    private final StockRepository stock;
    private final EventPublisher events;

    InventoryServiceImpl(StockRepository stock, EventPublisher events) {
        this.stock = stock;
        this.events = events;
    }

    @Override
    public boolean isAvailable(String articleNumber, int pieces) {
        return stock.available(articleNumber) >= pieces;
    }

    /** Only inside a transaction of the caller: a reservation without an order would be lost stock. */
    @Override
    @Transactional(propagation = Propagation.MANDATORY)
    public void reserve(String articleNumber, int pieces) {
        if (!stock.take(articleNumber, pieces)) {
            throw new OutOfStockException(articleNumber);
        }
        audited("%d pieces of %s reserved", pieces, articleNumber);
        int left = stock.available(articleNumber);
        if (left < LOW) {
            events.publish(new StockLowEvent(articleNumber, left));
        }
    }

    @Override
    @Transactional
    public void release(String articleNumber, int pieces) {
        stock.put(articleNumber, pieces);
        audited("%d pieces of %s released", pieces, articleNumber);
    }
}
