package com.example.shop.service;

import com.example.shop.model.Address;
import com.example.shop.model.Customer;
import com.example.shop.repository.CustomerRepository;
import com.example.shop.security.PasswordHasher;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

/** Accounts: registration, log-in, a new address. */
@Service
public class CustomerService {

    private final CustomerRepository customers;
    private final PasswordHasher hasher;

    public CustomerService(CustomerRepository customers, PasswordHasher hasher) {
        this.customers = customers;
        this.hasher = hasher;
    }

    /** Opens an account. The e-mail address is checked first, then the id is drawn, then the account is saved. */
    @Transactional
    public Customer register(String email, String password, Address address) {
        customers.findByEmail(email).ifPresent(known -> {
            throw new IllegalArgumentException(email + " has an account already");
        });
        Customer customer = new Customer(customers.nextId(), email, address);
        customer.setPasswordHash(hasher.hash(password, email));
        return customers.save(customer);
    }

    public Customer logIn(String email, String password) {
        return customers.findByEmail(email)
                .filter(c -> c.hasPasswordHash(hasher.hash(password, email)))
                .orElseThrow(() -> new SecurityException("wrong e-mail address or password"));
    }

    public Customer get(long id) {
        return customers.findById(id).orElseThrow();
    }

    @Transactional
    public void move(long id, Address address) {
        Customer customer = get(id);
        customer.moveTo(address);
        customers.save(customer);
    }
}
