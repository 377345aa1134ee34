package com.example.shop.security;

import com.example.shop.model.Customer;
import com.example.shop.service.CustomerService;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import org.springframework.stereotype.Component;
import org.springframework.web.method.HandlerMethod;
import org.springframework.web.servlet.HandlerInterceptor;

/** Reads the token of each request, and looks at @RequiresRole before a controller is called. */
@Component
class RoleInterceptor implements HandlerInterceptor {

    private final Tokens tokens;
    private final CustomerService customers;

    RoleInterceptor(Tokens tokens, CustomerService customers) {
        this.tokens = tokens;
        this.customers = customers;
    }

    @Override
    public boolean preHandle(HttpServletRequest request, HttpServletResponse response, Object handler) {
        long customerId = tokens.verify(request.getHeader("Authorization"));
        request.setAttribute("customerId", customerId);
        if (handler instanceof HandlerMethod method && !allowed(method, customers.get(customerId))) {
            response.setStatus(HttpServletResponse.SC_FORBIDDEN);
            return false;
        }
        return true;
    }

    private boolean allowed(HandlerMethod method, Customer customer) {
        RequiresRole role = method.getMethodAnnotation(RequiresRole.class);
        if (role == null) {
            role = method.getBeanType().getAnnotation(RequiresRole.class);
        }
        return role == null || ("administrator".equals(role.value()) && customer.isAdministrator());
    }
}
