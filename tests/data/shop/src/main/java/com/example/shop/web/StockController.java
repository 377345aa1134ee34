package com.example.shop.web;

import com.example.shop.security.RequiresRole;
import com.example.shop.service.InventoryService;
import org.springframework.web.bind.annotation.*;

/** For the warehouse: goods that arrived. */
@RestController
@RequestMapping("/stock")
@RequiresRole("administrator")
public class StockController {

    private final InventoryService inventory;

    public StockController(InventoryService inventory) {
        this.inventory = inventory;
    }

    @PostMapping("/{articleNumber}")
    public void arrived(@PathVariable String articleNumber, @RequestParam int pieces) {
        inventory.release(articleNumber, pieces);
    }
}
