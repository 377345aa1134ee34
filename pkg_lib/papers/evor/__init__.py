"""EVOR (seed 002): queries and a knowledge soup that evolve with execution feedback."""
