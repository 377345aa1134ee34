package com.example.shop.security;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Component;

/** Signed tokens that say who the customer is. */
@Component
public class Tokens {

    private final PasswordHasher hasher;
    private final String secret;

    public Tokens(PasswordHasher hasher, @Value("${shop.token-secret}") String secret) {
        this.hasher = hasher;
        this.secret = secret;
    }

    public String issue(long customerId) {
        String text = customerId + ":" + hasher.hash(Long.toString(customerId), secret);
        return Base64.getUrlEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    /** The customer's id; SecurityException for a token that is missing or forged. */
    public long verify(String token) {
        if (token == null) {
            throw new SecurityException("no token");
        }
        String[] parts = new String(Base64.getUrlDecoder().decode(token), StandardCharsets.UTF_8).split(":", 2);
        if (parts.length != 2 || !hasher.hash(parts[0], secret).equals(parts[1])) {
            throw new SecurityException("forged token");
        }
        return Long.parseLong(parts[0]);
    }
}
