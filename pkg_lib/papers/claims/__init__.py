"""The ledger of the checkable claims of the PKG and EVOR papers."""
