package com.example.shop.shipping;

import com.example.shop.model.Address;
import com.example.shop.model.Cart;
import com.example.shop.model.Money;

/** What it costs to send a cart's goods somewhere. */
public interface ShippingCalculator {

    Money costOf(Cart cart, Address to);
}
