package com.example.shop.repository;

import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Repository;

@Repository
public class JdbcStockRepository implements StockRepository {

    private static final String AVAILABLE = "select pieces from stock where article_number = ?";
    private static final String TAKE =
            "update stock set pieces = pieces - ? where article_number = ? and pieces >= ?";
    private static final String PUT = "update stock set pieces = pieces + ? where article_number = ?";

    private final JdbcTemplate jdbc;

    public JdbcStockRepository(JdbcTemplate jdbc) {
        this.jdbc = jdbc;
    }

    @Override
    public int available(String articleNumber) {
        Integer pieces = jdbc.queryForObject(AVAILABLE, Integer.class, articleNumber);
        return pieces == null ? 0 : pieces;
    }

    @Override
    public boolean take(String articleNumber, int pieces) {
        return jdbc.update(TAKE, pieces, articleNumber, pieces) == 1;
    }

    @Override
    public void put(String articleNumber, int pieces) {
        jdbc.update(PUT, pieces, articleNumber);
    }
}
