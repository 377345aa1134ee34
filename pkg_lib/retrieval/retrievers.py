"""The columns of Tables 1 and 2, each a Retriever over the same corpus (Section 5, RQ1).

    None       nothing
    BM25       BM25 over rows
    Dense      embeddings of rows (the paper's VoyageEmb)
    Func-BM25  BM25 over extracted functions
    Func-PKG   embeddings of IMPL nodes, pruned
    Block-PKG  embeddings of BLOCK nodes, pruned

A context longer than CONTEXT_CHARS is cut at a line end: rows of a source corpus are whole files, far longer than the
answers of PythonAlpaca (349 tokens on average in Table 9).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pkg_lib.graph.schema import BLOCK, IMPL, NODE_TYPES, PKG, build
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.prune import prune
from pkg_lib.types import Context, Document, Retriever, Task, UserError

log = logging.getLogger(__name__)
CONTEXT_CHARS = 2000


@dataclass
class Knowledge:
    """What the columns share: documents, their graph, one embedder. The graph is built when first needed."""

    documents: list[Document]
    embedder: Embedder = field(default_factory=Embedder)

    @cached_property
    def graph(self) -> PKG:
        graph = build(self.documents)
        if graph.skipped:
            log.warning(
                "%d of %d documents gave the graph no or not all of their functions (first: %s, %s); all are named in the "
                "columns' .meta.json", len({d for d, _ in graph.skipped}), len(self.documents), *graph.skipped[0],
            )  # fmt: skip
        return graph

    @cached_property
    def rows(self) -> list[Document]:
        return [d for d in self.documents if d.unit == "row"]


def cut(text: str, limit: int = CONTEXT_CHARS) -> tuple[str, bool]:
    """The text up to the last line end within `limit` characters, and whether anything was cut."""
    if len(text) <= limit:
        return text, False
    end = text.rfind("\n", 0, limit + 1)
    return text[: end if end > 0 else limit], True


def _require(units: int, column: str, kind: str) -> None:
    if not units:
        raise UserError(f"the corpus has no {kind}, so column {column} has nothing to retrieve; choose another --corpus")


class _Rows:
    """Contexts from rows: subclasses say which row is best for each task."""

    column = ""
    unit = "rows"

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.units = [(d.id, d.text) for d in knowledge.rows]

    def best(self, tasks: list[Task]) -> list[tuple[int, float]]:
        raise UserError(f"column {self.column} has no search")

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        _require(len(self.units), self.column, self.unit)
        return [self._context(t, i, s) for t, (i, s) in zip(tasks, self.best(tasks), strict=True)]

    def _context(self, task: Task, i: int, score: float) -> Context:
        source, text = self.units[i]
        text, truncated = cut(text)
        return Context(task.id, self.column, text, source, score, truncated=truncated)


class BM25Rows(_Rows):
    """BM25 over rows, no preprocessing of the corpus."""

    column = "BM25"

    def best(self, tasks: list[Task]) -> list[tuple[int, float]]:
        positions, scores = BM25([t for _, t in self.units]).search([t.prompt for t in tasks])
        return [(int(p[0]), float(s[0])) for p, s in zip(positions, scores, strict=True)]

    def _context(self, task: Task, i: int, score: float) -> Context:
        # A score of 0 means that no word of the task is in the corpus: the position says nothing.
        return super()._context(task, i, score) if score > 0 else Context(task.id, self.column, "")


class FuncBM25(BM25Rows):
    """BM25 over extracted functions."""

    column = "Func-BM25"
    unit = "functions"

    def __init__(self, knowledge: Knowledge) -> None:
        graph = knowledge.graph
        nodes = graph.of_type(IMPL)
        self.units = [(graph.where(v), t) for v, t in zip(nodes, graph.payloads(nodes), strict=True)]


class DenseRows(_Rows):
    """Cosine between the task and whole rows."""

    column = "Dense"

    def best(self, tasks: list[Task]) -> list[tuple[int, float]]:
        encode = self.knowledge.embedder.encode
        positions, scores = FlatIndex(encode([t for _, t in self.units])).search(encode([t.prompt for t in tasks]))
        return [(int(p[0]), float(s[0])) for p, s in zip(positions, scores, strict=True)]


class GraphNodes:
    """Equation 5 over one node type, then pruning (Equations 6, 7 and 9)."""

    def __init__(self, knowledge: Knowledge, column: str, kind: int) -> None:
        self.knowledge, self.column, self.kind = knowledge, column, kind

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        graph, embedder = self.knowledge.graph, self.knowledge.embedder
        nodes = graph.of_type(self.kind)
        _require(len(nodes), self.column, f"{NODE_TYPES[self.kind]} nodes")
        queries = embedder.encode([t.prompt for t in tasks])
        positions, scores = FlatIndex(embedder.encode(graph.payloads(nodes))).search(queries)
        best = nodes[positions[:, 0]]
        return [self._context(t, int(v), q, float(s)) for t, v, q, s in zip(tasks, best, queries, scores[:, 0], strict=True)]

    def _context(self, task: Task, node: int, query: np.ndarray, score: float) -> Context:
        graph = self.knowledge.graph
        pruned = prune(graph, node, query, self.knowledge.embedder)
        text, truncated = cut(pruned.text)
        branch = f"{graph.first[pruned.branch]}-{graph.last[pruned.branch]}" if pruned.branch >= 0 else ""
        return Context(task.id, self.column, text, graph.where(node), score, branch, truncated)


class NoRetrieval:
    """NoRAG: the prompt alone."""

    column = "None"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        return [Context(t.id, self.column, "") for t in tasks]


RETRIEVERS: dict[str, Callable[[Knowledge], Retriever]] = {
    "None": lambda k: NoRetrieval(),
    "BM25": BM25Rows,
    "Dense": DenseRows,
    "Func-BM25": FuncBM25,
    "Func-PKG": lambda k: GraphNodes(k, "Func-PKG", IMPL),
    "Block-PKG": lambda k: GraphNodes(k, "Block-PKG", BLOCK),
}
