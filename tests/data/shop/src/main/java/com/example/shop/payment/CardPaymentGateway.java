package com.example.shop.payment;

import com.example.shop.model.Money;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import org.springframework.context.annotation.Primary;
import org.springframework.stereotype.Component;

/** Credit cards, by the provider's HTTP interface. */
@Primary
@Component
class CardPaymentGateway implements PaymentGateway {

    private static final URI PROVIDER = URI.create("https://cards.example.com/charges");

    private final HttpClient http = HttpClient.newHttpClient();

    @Override
    public Result pay(String orderNumber, Money amount, String token) {
        int status = post("charge " + orderNumber + " " + amount.amount() + " " + token);
        return new Result(status == 201, status == 402 ? "the card was refused" : "status " + status);
    }

    @Override
    public void refund(String orderNumber, Money amount) {
        post("refund " + orderNumber + " " + amount.amount());
    }

    private int post(String body) {
        HttpRequest request = HttpRequest.newBuilder(PROVIDER).POST(HttpRequest.BodyPublishers.ofString(body)).build();
        try {
            return http.send(request, BodyHandlers.discarding()).statusCode();
        } catch (IOException e) {
            return 503;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 503;
        }
    }
}
