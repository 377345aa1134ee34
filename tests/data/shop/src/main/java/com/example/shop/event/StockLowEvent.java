package com.example.shop.event;

public record StockLowEvent(String articleNumber, int left) implements DomainEvent {}
