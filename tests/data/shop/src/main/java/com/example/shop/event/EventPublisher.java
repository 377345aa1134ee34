package com.example.shop.event;

import org.springframework.context.ApplicationEventPublisher;
import org.springframework.stereotype.Component;

/** Hands events to the framework, which calls each method with @EventListener that takes such an event. */
@Component
public class EventPublisher {

    private final ApplicationEventPublisher publisher;

    public EventPublisher(ApplicationEventPublisher publisher) {
        this.publisher = publisher;
    }

    public void publish(DomainEvent event) {
        publisher.publishEvent(event);
    }
}
