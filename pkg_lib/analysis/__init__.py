"""Statistics, tables, figures and the report."""
