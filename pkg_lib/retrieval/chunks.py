"""Chunks ranked for queries, by BM25 or an embedder, and the paper's way to fill a context with them."""

from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from pkg_lib.chunking.chunker import Chunk
from pkg_lib.data.corpora import UNICODE
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.embed import DEFAULT, Embedder

BM25_NAME, SHORT = "BM25", {"MiniLM": DEFAULT}


class BM25Ranker:
    """A score [q, n] of every chunk for every query; 0 where no word of the query is in the chunk."""

    name = BM25_NAME

    def __init__(self, tokenizer: str = UNICODE) -> None:
        self.tokenizer = tokenizer

    def scores(self, queries: list[str], chunks: list[Chunk]) -> np.ndarray:
        index = BM25([c.text for c in chunks], self.tokenizer)
        return np.stack([index.scores(query) for query in queries])


class EmbeddingRanker:
    """Cosine between the query and the chunk's text, of which a model reads its window."""

    def __init__(self, name: str, embedder: Embedder | None = None) -> None:
        self.name = name
        self.embedder = embedder or Embedder(SHORT.get(name, name))

    def scores(self, queries: list[str], chunks: list[Chunk]) -> np.ndarray:
        return self.embedder.encode(queries) @ self.embedder.encode([c.text for c in chunks]).T


Ranker = BM25Ranker | EmbeddingRanker


def make_ranker(name: str, tokenizer: str = UNICODE) -> Ranker:
    """Make the ranker of a name.

    Args:
        name: BM25, or an embedder's name.
        tokenizer: How BM25 splits words; an embedder has its own.

    Returns:
        A ranker that scores chunks for queries.

    Raises:
        UserError: The name or the tokenizer is unknown.
    """
    return BM25Ranker(tokenizer) if name == BM25_NAME else EmbeddingRanker(name)


def order(scores: np.ndarray, k: int | None = None) -> np.ndarray:
    """Positions [k] of the best, best first; equal scores in the order of the corpus."""
    return np.argsort(-scores, kind="stable")[:k]


def fill(chunks: list[Chunk], limit: int, measure: Callable[[str], int]) -> tuple[str, list[Chunk]]:
    """(text, chunks in it) up to `limit` as `measure` counts, the last cut at a line end (Appendix A.1)."""
    text, used = "", []
    for chunk in chunks:
        head, lines = f"{text}\n" if text else "", chunk.text.splitlines(keepends=True)
        if measure(head + chunk.text) <= limit:
            text, used = head + chunk.text, [*used, chunk]
            continue
        shown = largest(
            0, len(lines), lambda n, h=head, ls=lines: measure(h + "".join(ls[:n])) <= limit
        )
        return (head + "".join(lines[:shown]), [*used, chunk]) if shown else (text, used)
    return text, used


def largest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `high` that fits, by halving; `low`, unasked, where none above it does."""
    return low + bisect_right(range(low + 1, high + 1), False, key=lambda number: not fits(number))
