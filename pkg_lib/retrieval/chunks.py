"""Chunks ranked for queries: BM25 or an embedder by name, and the paper's way to fill a context with them.

A ranker gives a score to every chunk for every query, so that scores can be mapped to lines (analysis/ranking.py);
`ChunkRetriever` is a column like those of retrieval/retrievers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pkg_lib.chunking.chunker import Chunk
from pkg_lib.core.types import Context, Task, UserError
from pkg_lib.retrieval.bm25 import BM25, tokenize
from pkg_lib.retrieval.embed import DEFAULT, EMBEDDERS, Embedder

BM25_NAME = "BM25"
SHORT = {"MiniLM": DEFAULT}
MAX_CONTEXT = 4000  # tokens (Appendix A.1); 10,000 for CrossCodeEval


class Ranker(Protocol):
    """One retriever of the paper."""

    name: str

    def scores(self, queries: list[str], chunks: list[Chunk]) -> np.ndarray: ...


class BM25Ranker:
    """Lexical scores; 0 where no word of the query is in the chunk."""

    name = BM25_NAME

    def scores(self, queries: list[str], chunks: list[Chunk]) -> np.ndarray:
        """float32 [q, n]."""
        index = BM25([c.text for c in chunks]).index
        found = np.zeros((len(queries), len(chunks)), np.float32)
        for row, query in zip(found, queries, strict=True):
            words = [t for t in tokenize(query) if t in index.vocab_dict]
            if words:
                row[:] = index.get_scores(words)
        return found


class EmbeddingRanker:
    """Cosine between the query and the chunk's text; a model reads no more of them than its window."""

    def __init__(self, name: str, embedder: Embedder | None = None) -> None:
        self.name = name
        self.embedder = embedder or Embedder(SHORT.get(name, name))

    def scores(self, queries: list[str], chunks: list[Chunk]) -> np.ndarray:
        """float32 [q, n]."""
        return self.embedder.encode(queries) @ self.embedder.encode([c.text for c in chunks]).T


def rankers() -> list[str]:
    """The names that `make_ranker` takes."""
    return [BM25_NAME, *SHORT, *(n for n in EMBEDDERS if n not in SHORT.values())]


def make_ranker(name: str) -> Ranker:
    """The ranker of that name; UserError for an unknown one."""
    if name not in rankers():
        raise UserError(f"unknown ranker '{name}'; choose from: {', '.join(rankers())}")
    return BM25Ranker() if name == BM25_NAME else EmbeddingRanker(name)


def order(scores: np.ndarray, k: int | None = None) -> np.ndarray:
    """Positions [k] of the best, best first; equal scores in the order of the corpus."""
    return np.argsort(-scores, kind="stable")[:k]


def fill(
    chunks: list[Chunk], limit: int = MAX_CONTEXT, measure: Callable[[str], int] = len
) -> tuple[str, list[Chunk], bool]:
    """The chunks' texts one after another up to `limit`, the last one cut at a line end where it must be (Appendix A.1).

    `measure` counts what the limit is in: characters, or a tokenizer's tokens. Returns the text, the chunks that are
    in it whole or in part, and whether anything of them was cut.
    """
    text, used = "", []
    for chunk in chunks:
        joined = f"{text}\n{chunk.text}" if text else chunk.text
        if measure(joined) <= limit:
            text, used = joined, [*used, chunk]
            continue
        part = _first_lines(text, chunk.text, limit, measure)
        return (part, [*used, chunk], True) if part else (text, used, bool(chunk.text))
    return text, used, False


def _first_lines(text: str, more: str, limit: int, measure: Callable[[str], int]) -> str:
    """`text` and as many lines of `more` as fit; "" where not one does. Sizes grow with lines, so their number is halved."""
    lines = more.splitlines(keepends=True)
    head = f"{text}\n" if text else ""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(head + "".join(lines[:middle])) <= limit:
            low = middle
        else:
            high = middle - 1
    return head + "".join(lines[:low]) if low else ""


class ChunkRetriever:
    """A Retriever over chunks: the best ones for the task's prompt, as many as fit.

    `allowed(task, chunk)` leaves out what a task may not see, such as the function that it asks for.
    """

    def __init__(
        self,
        column: str,
        chunks: list[Chunk],
        ranker: Ranker,
        limit: int = MAX_CONTEXT,
        measure: Callable[[str], int] = len,
        allowed: Callable[[Task, Chunk], bool] | None = None,
    ) -> None:
        if not chunks:
            raise UserError(
                f"there are no chunks, so column {column} has nothing to retrieve; choose another corpus"
            )
        self.column, self.chunks, self.ranker = column, [c for c in chunks if c.size], ranker
        self.limit, self.measure, self.allowed = limit, measure, allowed

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        scores = self.ranker.scores([t.prompt for t in tasks], self.chunks)
        return [self._context(t, row) for t, row in zip(tasks, scores, strict=True)]

    def _context(self, task: Task, row: np.ndarray) -> Context:
        best = [i for i in order(row) if self.allowed is None or self.allowed(task, self.chunks[i])]
        if self.ranker.name == BM25_NAME:
            best = [i for i in best if row[i] > 0]  # no word in common: the position says nothing
        if not best:
            return Context(task.id, self.column, "")
        text, used, cut = fill([self.chunks[i] for i in best], self.limit, self.measure)
        return Context(
            task.id, self.column, text, " + ".join(c.source for c in used), float(row[best[0]]), truncated=cut
        )
