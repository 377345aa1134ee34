package com.example.shop.event;

import java.time.Instant;

/** Something that happened and that others may want to know. */
public interface DomainEvent {

    default Instant at() {
        return Instant.now();
    }
}
