package com.example.shop.model;

import java.time.LocalDate;

/** A person with an account. */
public class Customer {

    private final long id;
    private String email;
    private Address address;
    private String passwordHash;
    private LocalDate since;
    private boolean administrator;

    public Customer(long id, String email, Address address) {
        this.id = id;
        this.email = email;
        this.address = address;
        this.since = LocalDate.now();
    }

    public long id() {
        return id;
    }

    public String email() {
        return email;
    }

    public Address address() {
        return address;
    }

    public void moveTo(Address newAddress) {
        this.address = newAddress;
    }

    public void setPasswordHash(String hash) {
        this.passwordHash = hash;
    }

    public boolean hasPasswordHash(String hash) {
        return passwordHash != null && passwordHash.equals(hash);
    }

    /** Full years since the account was opened. */
    public int years() {
        return since.until(LocalDate.now()).getYears();
    }

    public boolean isAdministrator() {
        return administrator;
    }
}
