package com.example.shop.repository;

import java.util.List;
import java.util.Optional;

/** What every repository can do. The framework makes the implementation at start-up: a proxy that writes the SQL. */
public interface CrudRepository<T, ID> {

    /** Inserts a new entity, updates a known one. */
    T save(T entity);

    Optional<T> findById(ID id);

    List<T> findAll();

    void deleteById(ID id);

    default boolean existsById(ID id) {
        return findById(id).isPresent();
    }
}
