package com.example.shop.listener;

import com.example.shop.event.OrderPlacedEvent;
import com.example.shop.service.CustomerService;
import org.springframework.context.event.EventListener;
import org.springframework.mail.MailSender;
import org.springframework.mail.SimpleMailMessage;
import org.springframework.stereotype.Component;

@Component
class OrderMailListener {

    private final MailSender mail;
    private final CustomerService customers;

    OrderMailListener(MailSender mail, CustomerService customers) {
        this.mail = mail;
        this.customers = customers;
    }

    @EventListener
    void on(OrderPlacedEvent event) {
        SimpleMailMessage message = new SimpleMailMessage();
        message.setTo(customers.get(event.customerId()).email());
        message.setSubject("Your order " + event.orderNumber());
        message.setText("Thank you. We write again when the parcel is on its way.");
        mail.send(message);
    }
}
