package com.example.shop.listener;

import com.example.shop.event.StockLowEvent;
import java.util.logging.Logger;
import org.springframework.context.event.EventListener;
import org.springframework.stereotype.Component;

/** Tells the warehouse what to order again. */
@Component
class ReorderListener {

    private static final Logger LOG = Logger.getLogger("warehouse");

    @EventListener
    void on(StockLowEvent event) {
        LOG.warning(() -> "only %d pieces of %s are left".formatted(event.left(), event.articleNumber()));
    }
}
