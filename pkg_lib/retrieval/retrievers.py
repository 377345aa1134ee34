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

from pkg_lib.core.types import Context, Document, Retriever, Task, UserError
from pkg_lib.graph.schema import BLOCK, IMPL, NODE_TYPES, PKG, build
from pkg_lib.retrieval.augment import Augmented, Calls
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import INDEXES, FlatIndex, Index, make_index
from pkg_lib.retrieval.prune import prune

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
                "columns' .meta.json",
                len({d for d, _ in graph.skipped}),
                len(self.documents),
                *graph.skipped[0],
            )
        return graph

    @cached_property
    def calls(self) -> Calls:
        return Calls(self.graph)

    @cached_property
    def rows(self) -> list[Document]:
        return [d for d in self.documents if d.unit == "row"]


def cut(text: str, limit: int = CONTEXT_CHARS) -> tuple[str, bool]:
    """The text up to the last line end within `limit` characters, and whether anything was cut."""
    if len(text) <= limit:
        return text, False
    end = text.rfind("\n", 0, limit + 1)
    return text[: end if end > 0 else limit], True


def fitting(texts: list[str], limit: int = CONTEXT_CHARS) -> list[str]:
    """The first text, and those after it that together with the blank lines between them stay within `limit`."""
    size, count = len(texts[0]), 1
    while count < len(texts) and size + 2 + len(texts[count]) <= limit:
        size += 2 + len(texts[count])
        count += 1
    return texts[:count]


def _require(units: int, column: str, kind: str) -> None:
    if not units:
        raise UserError(
            f"the corpus has no {kind}, so column {column} has nothing to retrieve; choose another --corpus"
        )


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
        positions, scores = FlatIndex(encode([t for _, t in self.units])).search(
            encode([t.prompt for t in tasks])
        )
        return [(int(p[0]), float(s[0])) for p, s in zip(positions, scores, strict=True)]


@dataclass(frozen=True, slots=True)
class Options:
    """How a graph column retrieves; the defaults are the paper's (Section 3.2).

    `top_k` nodes, none inside another and no text twice, are put together as far as they fit into CONTEXT_CHARS, the first
    always. A node whose cosine is below `threshold` is left out (all of them: an empty context). `guarded` lets the whole
    node compete in pruning. `calls` characters at most are spent on the functions that the text calls (augment.py), or as many of
    what `measure` counts: the tokens of a model's own tokenizer, for instance. `index` is a name of INDEXES: "hnsw" trades
    a little recall for speed on large graphs.
    """

    top_k: int = 1
    threshold: float | None = None
    guarded: bool = False
    calls: int = 0
    index: str = "flat"
    measure: Callable[[str], int] = len

    def __post_init__(self) -> None:
        if self.top_k < 1 or self.calls < 0 or not -1 <= (self.threshold or 0) <= 1:
            raise UserError(
                f"{self}: top_k is at least 1, calls at least 0 and threshold a cosine between -1 and 1"
            )
        if self.index not in INDEXES:
            raise UserError(f"unknown index '{self.index}'; choose from: {', '.join(INDEXES)}")


Hit = tuple[int, float]  # a node and its cosine


class GraphNodes:
    """Equation 5 over one node type, then pruning (Equations 6, 7 and 9).

    `augmented` says by task which called functions were added and which could not be, where the options ask for calls.
    """

    def __init__(self, knowledge: Knowledge, column: str, kind: int, options: Options | None = None) -> None:
        self.knowledge, self.column, self.kind = knowledge, column, kind
        self.options = options or Options()
        self.augmented: dict[str, Augmented] = {}

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        graph, embedder = self.knowledge.graph, self.knowledge.embedder
        nodes = graph.of_type(self.kind)
        # One node a text, the first of the corpus: HNSW links twins badly, and misses what lies beyond them.
        nodes = nodes[np.sort(np.unique(graph.text[nodes], return_index=True)[1])]
        _require(len(nodes), self.column, f"{NODE_TYPES[self.kind]} nodes")
        queries = embedder.encode([t.prompt for t in tasks])
        index = make_index(self.options.index, embedder.encode(graph.payloads(nodes)))
        hits = (
            self._best(index, nodes, queries)
            if self.options.top_k == 1
            else [self._apart(index, nodes, q) for q in queries]
        )
        return [self._context(t, h, q) for t, h, q in zip(tasks, hits, queries, strict=True)]

    def _best(self, index: Index, nodes: np.ndarray, queries: np.ndarray) -> list[list[Hit]]:
        positions, scores = index.search(queries)
        return [[(int(nodes[p]), float(s))] for p, s in zip(positions[:, 0], scores[:, 0], strict=True)]

    def _apart(self, index: Index, nodes: np.ndarray, query: np.ndarray) -> list[Hit]:
        """The best nodes, none inside another and no text twice; the search widens until there are enough."""
        width, chosen = self.options.top_k, []
        while len(chosen) < self.options.top_k and width < 4 * len(nodes):
            positions, scores = index.search(query[None], width)
            chosen = []
            # FAISS leaves twins in no particular order; the first of the corpus is taken, as with top_k = 1.
            there = positions[0] >= 0  # an approximate search may find fewer than it is asked for
            for score, node in sorted(
                zip((-scores[0][there]).tolist(), nodes[positions[0][there]].tolist(), strict=True)
            ):
                if not any(self._alike(node, other) for other, _ in chosen):
                    chosen.append((node, -score))
            width *= 4
        return chosen[: self.options.top_k]

    def _alike(self, a: int, b: int) -> bool:
        """Whether two nodes share lines or text."""
        graph = self.knowledge.graph
        shared = (
            graph.document[a] == graph.document[b]
            and graph.first[a] <= graph.last[b]
            and graph.first[b] <= graph.last[a]
        )
        return bool(shared) or graph.payload(a) == graph.payload(b)

    def _context(self, task: Task, hits: list[Hit], query: np.ndarray) -> Context:
        graph, options = self.knowledge.graph, self.options
        nodes = [v for v, score in hits if options.threshold is None or score >= options.threshold]
        if not nodes:
            return Context(task.id, self.column, "", score=hits[0][1])
        pruned = [prune(graph, v, query, self.knowledge.embedder, options.guarded) for v in nodes]
        first, truncated = cut(pruned[0].text)
        texts = fitting([first, *(p.text for p in pruned[1:])])
        text, source = "\n\n".join(texts), " + ".join(graph.where(v) for v in nodes[: len(texts)])
        if options.calls:
            room = min(options.calls, CONTEXT_CHARS - len(text)) if options.measure is len else options.calls
            done = self.knowledge.calls.augment(list(zip(nodes, texts, strict=False)), room, options.measure)
            self.augmented[task.id] = done
            text = done.text
            source += "".join(f" calls {graph.where(v)}" for v in done.added)
        branches = (
            f"{graph.first[p.branch]}-{graph.last[p.branch]}" for p in pruned[: len(texts)] if p.branch >= 0
        )
        return Context(task.id, self.column, text, source, hits[0][1], " + ".join(branches), truncated)


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
