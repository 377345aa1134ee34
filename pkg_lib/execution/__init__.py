"""Execution: model-written code is run in a sandbox and judged."""
