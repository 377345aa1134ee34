package com.example.shop.shipping;

import java.util.List;
import java.util.Locale;

/** An address as it is printed on a label: upper case, five lines at most. */
public record Address(List<String> lines) {

    public static Address of(com.example.shop.model.Address address) {
        return new Address(List.of(
                address.name().toUpperCase(Locale.ROOT),
                address.street().toUpperCase(Locale.ROOT),
                address.postalCode() + " " + address.city().toUpperCase(Locale.ROOT),
                address.countryCode()));
    }
}
