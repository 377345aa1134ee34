package com.example.shop.model;

import java.util.Objects;

/** Something that can be bought. The article number never changes; name, price and weight may. */
public class Product {

    /** What kind of goods this is; the tax rate depends on it. */
    public enum Category {
        BOOK, FOOD, TOY, HOUSEHOLD
    }

    private final String articleNumber;
    private String name;
    private String description;
    private Category category;
    private Money price;
    private int weightInGrams;

    public Product(String articleNumber, String name, Category category, Money price) {
        this.articleNumber = Objects.requireNonNull(articleNumber);
        this.name = name;
        this.category = category;
        this.price = price;
    }

    public String articleNumber() {
        return articleNumber;
    }

    public String name() {
        return name;
    }

    public void rename(String name) {
        this.name = name;
    }

    public String description() {
        return description == null ? "" : description;
    }

    public void describe(String description) {
        this.description = description;
    }

    public Category category() {
        return category;
    }

    public Money price() {
        return price;
    }

    public void changePrice(Money price) {
        if (price.isNegative()) {
            throw new IllegalArgumentException("a price is not negative");
        }
        this.price = price;
    }

    public int weightInGrams() {
        return weightInGrams;
    }

    public void weigh(int grams) {
        this.weightInGrams = grams;
    }
}
