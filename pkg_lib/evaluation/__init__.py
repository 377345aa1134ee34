"""Experiments: evaluate methods, read stored results, and execute notebooks."""
