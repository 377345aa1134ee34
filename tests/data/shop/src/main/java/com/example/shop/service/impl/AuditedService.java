package com.example.shop.service.impl;

import java.util.logging.Logger;

/** What services that change data have in common: a line in the audit log for each change. */
abstract class AuditedService {

    private final Logger audit = Logger.getLogger("audit." + getClass().getSimpleName());

    protected void audited(String what, Object... details) {
        audit.info(() -> what.formatted(details));
    }
}
