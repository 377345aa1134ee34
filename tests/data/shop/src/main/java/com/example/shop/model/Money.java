package com.example.shop.model;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.Currency;

/** An amount in one currency, rounded to cents half up. */
public record Money(BigDecimal amount, Currency currency) {

    public Money {
        amount = amount.setScale(2, RoundingMode.HALF_UP);
    }

    public static Money zero(Currency currency) {
        return new Money(BigDecimal.ZERO, currency);
    }

    public Money plus(Money other) {
        requireSameCurrency(other);
        return new Money(amount.add(other.amount), currency);
    }

    public Money times(int factor) {
        return new Money(amount.multiply(BigDecimal.valueOf(factor)), currency);
    }

    /** This amount less so many percent. */
    public Money reducedBy(int percent) {
        BigDecimal share = BigDecimal.valueOf(100 - percent).movePointLeft(2);
        return new Money(amount.multiply(share), currency);
    }

    public boolean isNegative() {
        return amount.signum() < 0;
    }

    private void requireSameCurrency(Money other) {
        if (!currency.equals(other.currency)) {
            throw new IllegalArgumentException(currency + " and " + other.currency + " cannot be added");
        }
    }
}
