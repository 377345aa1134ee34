package com.example.shop.repository;

import com.example.shop.model.Customer;
import java.util.Optional;

public interface CustomerRepository extends CrudRepository<Customer, Long> {

    Optional<Customer> findByEmail(String email);

    /** The next free id, from the database's own sequence. */
    @Query(value = "select nextval('customer_seq')", nativeQuery = true)
    long nextId();
}
