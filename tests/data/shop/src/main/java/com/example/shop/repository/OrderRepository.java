package com.example.shop.repository;

import com.example.shop.model.Order;
import com.example.shop.model.OrderStatus;
import java.util.List;

public interface OrderRepository extends CrudRepository<Order, String> {

    List<Order> findByCustomerId(long customerId);

    @Query("select o from Order o where o.status = ?1 order by o.placedAt")
    List<Order> findOpen(OrderStatus status);
}
