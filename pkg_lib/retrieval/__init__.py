"""Retrieval: embedder, indexes, BM25, the retrievers of the methods, pruning and budgets."""
