package com.example.shop.event;

/** A product is new, other than it was, or gone. */
public record ProductChangedEvent(String articleNumber, boolean removed) implements DomainEvent {}
