"""Benchmarks and corpora: tasks with their tests, and documents."""
