package com.example.shop.model;

/** Where a customer lives, as the customer typed it. */
public record Address(String name, String street, String postalCode, String city, String countryCode) {

    public boolean isAbroad(String homeCountry) {
        return !countryCode.equalsIgnoreCase(homeCountry);
    }
}
