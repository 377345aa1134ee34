package com.example.shop.web;

import com.example.shop.model.Address;
import com.example.shop.model.Customer;
import com.example.shop.security.Tokens;
import com.example.shop.service.CustomerService;
import org.springframework.web.bind.annotation.*;

@RestController
@RequestMapping("/account")
public class AccountController {

    public record Registration(String email, String password, Address address) {}

    private final CustomerService customers;
    private final Tokens tokens;

    public AccountController(CustomerService customers, Tokens tokens) {
        this.customers = customers;
        this.tokens = tokens;
    }

    @PostMapping("/register")
    public String register(@RequestBody Registration r) {
        return tokens.issue(customers.register(r.email(), r.password(), r.address()).id());
    }

    @PostMapping("/login")
    public String logIn(@RequestParam String email, @RequestParam String password) {
        Customer customer = customers.logIn(email, password);
        return tokens.issue(customer.id());
    }

    @PutMapping("/address")
    public void move(@RequestAttribute long customerId, @RequestBody Address address) {
        customers.move(customerId, address);
    }
}
