package com.example.shop.event;

public record OrderPlacedEvent(String orderNumber, long customerId) implements DomainEvent {}
