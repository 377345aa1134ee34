package com.example.shop.util;

import java.time.Year;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;

/**
 * Numbers such as 2026-000042, counted by a table with one row a year. The row is locked while it is read and
 * raised, so two orders never have the same number; a number whose order is rolled back is not used again.
 */
@Component
public class OrderNumberGenerator {

    private static final String RAISE = "update order_sequence set last = last + 1 where year = ? returning last";

    private final JdbcTemplate jdbc;

    public OrderNumberGenerator(JdbcTemplate jdbc) {
        this.jdbc = jdbc;
    }

    @Transactional(propagation = Propagation.REQUIRES_NEW)
    public String next() {
        int year = Year.now().getValue();
        Integer number = jdbc.queryForObject(RAISE, Integer.class, year);
        return "%d-%06d".formatted(year, number);
    }
}
