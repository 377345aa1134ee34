"""The columns of Tables 1 to 4, each a Retriever over one corpus (Section 5)."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np

from pkg_lib.core.registry import unknown
from pkg_lib.core.types import Context, Document, Task, UserError
from pkg_lib.data.corpora import CONTEXT_CHARS, UNICODE
from pkg_lib.graph.schema import BLOCK, IMPL, NODE_TYPES, PATHVALUE, PKG, build
from pkg_lib.graph.text.documents import Structured, build_text, deserialize, reasons
from pkg_lib.retrieval.augment import Augmented, Calls
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.prune import GUARDED, PRUNINGS, UNPRUNED, prune
from pkg_lib.retrieval.rows import rows

log = logging.getLogger(__name__)
NEARNESS = "# Relevance: {score:.3f}\n{text}"  # how the authors' runner for closed models joins several nodes


@dataclass
class Knowledge:
    """What the columns share: documents, their graph, one embedder. The graph is built when first needed."""

    documents: list[Document]
    embedder: Embedder = field(default_factory=Embedder)
    top: int = 1  # units in a context
    chars: int = CONTEXT_CHARS  # of a unit
    tokenizer: str = UNICODE  # of BM25, by name
    corpus: str = ""  # the name of the documents, where they have one

    @cached_property
    def graph(self) -> PKG:
        graph = self.build()
        if graph.skipped:
            counted = ", ".join(f"{name}: {n}" for name, n in reasons(graph.skipped).items())
            of = len({d for d, _ in graph.skipped}), len(self.documents)
            about = (
                "%d of %d documents are missing from the graph, in whole or in part (%s; first: %s)"
            )
            log.warning(about, *of, counted, graph.skipped[0][0])
        return graph

    def build(self) -> PKG:
        return build(self.documents)

    def nearest(
        self, kind: int, queries: np.ndarray, k: int, nodes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the nodes nearest to each query (Equation 5).

        Args:
            kind: The type of the nodes.
            queries: Unit vectors [q, d].
            k: How many nodes to find for each query.
            nodes: The nodes that are searched, at least one; None takes the first of each text.

        Returns:
            Nodes [q, k] and their cosines [q, k], best first, with fewer columns where there are fewer nodes.
        """
        searched = self.graph.first_of_each_text(kind) if nodes is None else nodes
        index = FlatIndex(self.embedder.encode(self.graph.payloads(searched)))
        positions, cosines = index.search(queries, k)
        return searched[positions], cosines

    @cached_property
    def calls(self) -> Calls:
        return Calls(self.graph)


@dataclass
class TextKnowledge(Knowledge):
    """The same of a text corpus. `structure` makes JSON of the documents; by default as their kind says."""

    structure: Callable[[list[Document]], list[Structured]] | None = None

    def build(self) -> PKG:
        from pkg_lib.graph.text.structure import (
            structured,
        )  # docutils is not needed for a corpus of code

        return build_text(self.documents, (self.structure or structured)(self.documents))


def cut(text: str, limit: int = CONTEXT_CHARS) -> tuple[str, bool]:
    """The text up to the last line end within `limit` characters, and whether anything was cut."""
    if len(text) <= limit:
        return text, False
    end = text.rfind("\n", 0, limit + 1)
    return text[: end if end > 0 else limit], True


def require(units: int, column: str, kind: str) -> None:
    """UserError where the corpus has nothing for a column to retrieve."""
    if not units:
        raise UserError(
            f"no {kind}, so column {column} has nothing to retrieve; choose another --corpus"
        )


def joined(task: Task, column: str, units: list[Context], form: str = "{text}") -> Context:
    """One context of the units, each cut and pruned as it is alone; its score is the first one's."""
    form = form if len(units) > 1 else "{text}"
    source, pruned = ("; ".join(getattr(u, name) for u in units) for name in ("source", "pruned"))
    text = "\n\n".join(form.format(score=u.score, text=u.text) for u in units)
    score, truncated = units[0].score if units else 0.0, any(u.truncated for u in units)
    return Context(task.id, column, text, source, score, pruned, truncated)


def place(graph: PKG, node: int) -> str:
    """The `source` of a context: document:first-last of code, document#path of a leaf of text."""
    if graph.type[node] != PATHVALUE:
        return graph.where(node)
    return f"{graph.documents[graph.document[node]]}#{deserialize(graph.payload(node))[0]}"


class NoRetrieval:
    """NoRAG: the prompt alone."""

    column = "None"

    def __init__(self, knowledge: Knowledge | None = None) -> None:
        pass

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        return [Context(t.id, self.column, "") for t in tasks]


class Unit(NamedTuple):
    """Something that can be retrieved.

    Attributes:
        source: Where it comes from.
        text: What a context shows of it.
        question: What is searched before the text; see `Document.question`.
    """

    source: str
    text: str
    question: str = ""

    @property
    def searched(self) -> str:
        """The text that a query is compared with."""
        return f"{self.question}\n\n{self.text}" if self.question else self.text


class BM25Rows:
    """BM25 over rows (rows.py), no preprocessing of the corpus.

    A question-answer pair is searched as a whole and shows its answer, as in the authors' published contexts.
    """

    column, unit, form = "BM25", "rows", "{text}"

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge

    @cached_property
    def units(self) -> list[Unit]:
        """All that can be retrieved."""
        found = []
        for document in self.knowledge.documents:
            if document.unit == "row":
                pieces = rows(document, self.knowledge.chars)
                found += [Unit(source, text, document.question) for source, text in pieces]
        return found

    def search(self, texts: list[str], queries: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """(positions, scores) [q, k] of the best texts for each query."""
        return BM25(texts, self.knowledge.tokenizer).search(queries, self.knowledge.top)

    def ranks(self, tasks: list[Task]) -> tuple[np.ndarray, np.ndarray]:
        """`search` for the tasks; UserError for a corpus without such units."""
        require(len(self.units), self.column, self.unit)
        return self.search([unit.searched for unit in self.units], [t.prompt for t in tasks])

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order; UserError for a corpus without such units."""
        contexts = []
        for task, *found in zip(tasks, *self.ranks(tasks), strict=True):
            units = [self._context(task.id, int(p), float(s)) for p, s in zip(*found, strict=True)]
            contexts.append(
                joined(task, self.column, [u for u in units if u.text] or units[:1], self.form)
            )
        return contexts

    def _context(self, task: str, position: int, score: float) -> Context:
        if self.column != "Dense" and score <= 0:
            return Context(task, self.column, "")  # no word of the task is in the corpus
        unit = self.units[position]
        text, truncated = cut(unit.text, self.knowledge.chars)
        return Context(task, self.column, text, unit.source, score, truncated=truncated)


class FuncBM25(BM25Rows):
    """BM25 over extracted functions."""

    column, unit = "Func-BM25", "functions"

    @cached_property
    def units(self) -> list[Unit]:
        """All functions of the corpus."""
        graph = self.knowledge.graph
        nodes = graph.of_type(IMPL)
        payloads = graph.payloads(nodes)
        return [Unit(graph.where(node), text) for node, text in zip(nodes, payloads, strict=True)]


class DenseRows(BM25Rows):
    """Cosine between task and row (the paper's VoyageEmb)."""

    column, form = "Dense", NEARNESS

    def search(self, texts: list[str], queries: list[str]) -> tuple[np.ndarray, np.ndarray]:
        encode = self.knowledge.embedder.encode
        return FlatIndex(encode(texts)).search(encode(queries), self.knowledge.top)


class GraphNodes:
    """Equation 5 over one node type, then pruning (6, 7, 9); `calls`: characters for called functions."""

    column, kind = "", -1

    def __init__(self, knowledge: Knowledge, pruning: str = GUARDED, calls: int = 0) -> None:
        if pruning not in PRUNINGS:
            raise unknown("pruning", pruning, PRUNINGS)
        if calls < 0:
            raise UserError(f"calls is {calls}; give 0 or more characters")
        self.knowledge, self.pruning, self.calls = knowledge, pruning, calls
        self.augmented: dict[str, Augmented] = {}

    def nearest(self, queries: np.ndarray, k: int = 1) -> tuple[list[list[int]], list[list[float]]]:
        """(nodes, cosines) of the k best for each query, one node a text; UserError where there is none."""
        nodes = self.candidates()
        require(len(nodes), self.column, f"{NODE_TYPES[self.kind]} nodes")
        found, cosines = self.knowledge.nearest(self.kind, queries, k, nodes)
        return found.tolist(), cosines.tolist()

    def candidates(self) -> np.ndarray:
        """The nodes that are searched, one a text."""
        return self.knowledge.graph.first_of_each_text(self.kind)

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order; UserError for a corpus without such nodes."""
        units = ([unit for _, unit in ranked] for ranked in self.ranked(tasks, self.knowledge.top))
        return [
            joined(task, self.column, of, NEARNESS) for task, of in zip(tasks, units, strict=True)
        ]

    def ranked(self, tasks: list[Task], k: int) -> list[Iterator[tuple[str, Context]]]:
        """For each task its k nearest units as (whole text, context), best first, pruned when asked for."""
        queries = self.knowledge.embedder.encode([t.prompt for t in tasks])
        best = zip(tasks, queries, *self.nearest(queries, k), strict=True)
        return [map(self._unit, repeat(t), repeat(query), *found) for t, query, *found in best]

    def _unit(self, task: Task, query: np.ndarray, node: int, score: float) -> tuple[str, Context]:
        return self.knowledge.graph.payload(node), self._context(task, query, node, score)

    def _context(self, task: Task, query: np.ndarray, node: int, score: float) -> Context:
        graph = self.knowledge.graph
        pruned = prune(graph, node, query, self.knowledge.embedder, self.pruning)
        text, truncated = cut(pruned.text, self.knowledge.chars)
        source = graph.where(node)
        if self.calls:
            done = self.knowledge.calls.augment(
                node, text, min(self.calls, self.knowledge.chars - len(text))
            )
            self.augmented[task.id], text = done, done.text
            source += "".join(f" calls {graph.where(v)}" for v in done.added)
        lines = (
            f"{graph.first[pruned.branch]}-{graph.last[pruned.branch]}"
            if pruned.branch >= 0
            else ""
        )
        return Context(task.id, self.column, text, source, score, lines, truncated)


class FuncPKG(GraphNodes):
    """Embeddings of IMPL nodes, pruned."""

    column, kind = "Func-PKG", IMPL


class BlockPKG(GraphNodes):
    """Embeddings of BLOCK nodes, pruned."""

    column, kind = "Block-PKG", BLOCK


class JsonPKG(GraphNodes):
    """Equations 5 and 8 over PATHVALUE nodes: the nearest leaf, unpruned."""

    column, kind = "JSON-PKG", PATHVALUE

    def __init__(self, knowledge: Knowledge) -> None:
        super().__init__(knowledge, UNPRUNED)

    def _context(self, task: Task, query: np.ndarray, node: int, score: float) -> Context:
        text, truncated = cut(self.knowledge.graph.payload(node), self.knowledge.chars)
        source = place(self.knowledge.graph, node)
        return Context(task.id, self.column, text, source, score, truncated=truncated)
