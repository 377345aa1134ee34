package com.example.shop.service.impl;

import com.example.shop.event.EventPublisher;
import com.example.shop.event.OrderPlacedEvent;
import com.example.shop.model.Cart;
import com.example.shop.model.Customer;
import com.example.shop.model.Money;
import com.example.shop.model.Order;
import com.example.shop.model.OrderStatus;
import com.example.shop.payment.PaymentGateway;
import com.example.shop.repository.OrderRepository;
import com.example.shop.service.CartService;
import com.example.shop.service.CustomerService;
import com.example.shop.service.InventoryService;
import com.example.shop.service.OrderService;
import com.example.shop.service.PricingService;
import com.example.shop.shipping.ShippingCalculator;
import com.example.shop.util.OrderNumberGenerator;
import java.util.List;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

@Service
class OrderServiceImpl extends AuditedService implements OrderService {

    private final OrderRepository orders;
    private final CartService carts;
    private final CustomerService customers;
    private final PricingService pricing;
    private final InventoryService inventory;
    private final ShippingCalculator shipping;
    private final PaymentGateway payment;
    private final OrderNumberGenerator numbers;
    private final EventPublisher events;

    OrderServiceImpl(OrderRepository orders, CartService carts, CustomerService customers, PricingService pricing,
            InventoryService inventory, ShippingCalculator shipping, PaymentGateway payment,
            OrderNumberGenerator numbers, EventPublisher events) {
        this.orders = orders;
        this.carts = carts;
        this.customers = customers;
        this.pricing = pricing;
        this.inventory = inventory;
        this.shipping = shipping;
        this.payment = payment;
        this.numbers = numbers;
        this.events = events;
    }

    /** One transaction: where the payment is refused, the reservations are rolled back with the order. */
    @Override
    @Transactional
    public Order placeOrder(long customerId, String paymentToken) {
        Customer customer = customers.get(customerId);
        Cart cart = carts.cartOf(customerId);
        if (cart.isEmpty()) {
            throw new IllegalStateException("the cart is empty");
        }
        cart.items().forEach(i -> inventory.reserve(i.product().articleNumber(), i.quantity()));
        List<Order.Line> lines = cart.items().stream().map(i -> line(i, customer)).toList();
        Money goods = lines.stream().map(Order.Line::total).reduce(Money::plus).orElseThrow();
        Money total = goods.plus(shipping.costOf(cart, customer.address()));
        Order order = orders.save(new Order(numbers.next(), customerId, lines, total, customer.address()));
        PaymentGateway.Result result = payment.pay(order.number(), total, paymentToken);
        if (!result.accepted()) {
            throw new PaymentGateway.Refused(result.reason());
        }
        order.advanceTo(OrderStatus.PAID);
        orders.save(order);
        carts.empty(customerId);
        audited("order %s placed by customer %d", order.number(), customerId);
        events.publish(new OrderPlacedEvent(order.number(), customerId));
        return order;
    }

    private Order.Line line(Cart.Item item, Customer customer) {
        Money price = pricing.unitPrice(item.product(), item.quantity(), customer);
        return new Order.Line(item.product().articleNumber(), item.product().name(), item.quantity(), price);
    }

    @Override
    public List<Order> ordersOf(long customerId) {
        return orders.findByCustomerId(customerId);
    }

    @Override
    @Transactional
    public void cancel(String orderNumber) {
        Order order = orders.findById(orderNumber).orElseThrow();
        order.advanceTo(OrderStatus.CANCELLED);
        order.lines().forEach(l -> inventory.release(l.articleNumber(), l.quantity()));
        payment.refund(orderNumber, order.total());
        orders.save(order);
        audited("order %s cancelled", orderNumber);
    }

    @Override
    @Transactional
    public void markSent(String orderNumber) {
        Order order = orders.findById(orderNumber).orElseThrow();
        order.advanceTo(OrderStatus.SENT);
        orders.save(order);
    }
}
