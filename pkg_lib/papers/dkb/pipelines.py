"""No-Graph, DKB and LLM-KB (Section 5.1): what each puts before the model. All start from one ranking.

ranking of chunks -> top-k (V0) -> neighbours in the graph (Algorithm 1) -> excerpts in a budget (C.1.5)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from pkg_lib.core.types import UserError
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb.splitter import TextChunk

TOP_K, DEPTH = 10, 1


class Budget(NamedTuple):
    """In characters; ours, since the paper prints none."""

    chunk: int = 1000
    neighbour: int = 500
    total: int = 24_000
    neighbours: int = 20  # of a type a side


BUDGET = Budget()
CHUNKS_ALONE = {"graph": TypeGraph("none"), "budget": Budget(total=sys.maxsize)}  # No-Graph


class ContextPart(NamedTuple):
    """A part of a context: lines of a file, or a summary that names types."""

    text: str
    path: str = ""
    first: int = 0
    last: int = 0
    names: frozenset[str] = frozenset()

    @classmethod
    def of_code(cls, path: str, first: int, text: str) -> ContextPart:
        return cls(f"// {path}\n{text}\n", path, first, first + text.count("\n"))


class Gathered(list[ContextPart]):
    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self)


@dataclass(frozen=True)
class RankedText:
    """Files as text, their chunks by id, and for every question (chunk id, cosine), the best first."""

    texts: Mapping[str, str]
    chunks: Mapping[str, TextChunk]
    ranking: Mapping[str, Sequence[tuple[str, float]]]

    def best(self, question: str) -> list[TextChunk]:
        return [self.chunks[name] for name, _ in self.ranking[question]]

    def fitting(self, question: str, size: int) -> int:
        """How many of the best chunks so many characters hold, at least one."""
        parts = (ContextPart.of_code(c.path, c.first, c.text) for c in self.best(question))
        return max(1, sum(length <= size for length in accumulate(len(p.text) + 1 for p in parts)))


@dataclass(frozen=True)
class Pipeline:
    """Gathers the k best chunks and what the graph knows up to `depth` edges around their types."""

    column: str
    repository: RankedText
    graph: TypeGraph
    k: int = TOP_K
    depth: int = DEPTH
    budget: Budget = BUDGET
    counts: Mapping[str, int] = field(default_factory=dict)  # question -> its own k
    paths: frozenset[str] | None = None  # the only files that are embedded (coupled, Observation 4)
    interfaces: bool = True  # consumers of the interfaces that a seed implements
    summary: bool = True  # [ONTOLOGY INFO]
    by_file: bool = (
        False  # a chunk's class is its file's name (Listing 2), not the types on its lines
    )
    nearest: Literal["", "first", "lines"] = (
        ""  # neighbours nearest to the question first, or their lines
    )

    def __post_init__(self) -> None:
        if self.k < 1 or self.depth < 0:
            raise UserError(
                f"k = {self.k}, depth = {self.depth}: give 1 or more chunks, 0 or more edges"
            )

    def gather(self, question: str) -> Gathered:
        """The parts that the budget has room for; after one that is too long smaller ones may still fit."""
        context, size = Gathered(), 0
        for part in self._parts(question):
            if size + len(part.text) + 1 <= self.budget.total:
                context.append(part)
                size += len(part.text) + 1
        return context

    def _parts(self, question: str) -> Iterator[ContextPart]:
        embedded = [
            c for c in self.repository.best(question) if self.paths is None or c.path in self.paths
        ]
        best = embedded[: self.counts.get(question, self.k)]
        yield from (ContextPart.of_code(c.path, c.first, c.text[: self.budget.chunk]) for c in best)
        around = {name: self._around(name) for chunk in best for name in self._seeds(chunk)}
        if self.summary:
            yield from (self._summary(name, *neighbours) for name, neighbours in around.items())
        reached = dict.fromkeys(n for below, above, _ in around.values() for n in [*below, *above])
        yield from self._excerpts(question, [n for n in reached if n not in around])

    def _seeds(self, chunk: TextChunk) -> list[str]:
        """EntitiesFromDocs: the types of a chunk."""
        if self.by_file:
            return [name] if (name := PurePosixPath(chunk.path).stem) in self.graph.nodes else []
        first_of_file = self.graph.by_path.get(chunk.path, [])[:1]
        return [
            n.name
            for n in self.graph.within_lines(chunk.path, chunk.first, chunk.last) or first_of_file
        ]

    def _around(self, name: str) -> tuple[list[str], list[str], dict[str, list[str]]]:
        """(what a type uses, what uses it, interface -> what uses the type through it)."""
        most, through = self.budget.neighbours, {}
        below, above = (
            self.graph.within(name, self.depth, d)[:most] for d in ("successors", "predecessors")
        )
        for target in self.graph.digraph.succ[name] if self.interfaces else ():
            if "implements" in self.graph.edges[name, target]:
                through[target] = [u for u in self.graph.digraph.pred[target] if u != name][:most]
                above += [u for u in through[target] if u not in above]
        return below, above, through

    def _summary(
        self, name: str, below: list[str], above: list[str], through: Mapping[str, list[str]]
    ) -> ContextPart:
        """Listing 2 about one type; what is more than a step away is indirect."""
        graph, title = self.graph, "\n[ONTOLOGY INFO]:"
        shown = {n: graph.nodes[n].simple for n in (name, *below, *above, *through)}
        shown = {
            n: simple if len(graph.by_simple[simple]) == 1 else n for n, simple in shown.items()
        }
        checks = (f"implements {shown[i]}. Checking consumers of {shown[i]}..." for i in through)
        lines = [f"{title} {shown[name]} {check}" for check in checks]
        lines.append(f"{title} Relationships for {shown[name]}:")
        for n in below:
            relation = " and ".join(graph.edges.get((name, n), ["indirectly"]))
            lines.append(f" - [INJECTS/USES] -> {shown[n]} ({relation})")
        consumers = set(chain.from_iterable(through.values()))
        for n in above:
            otherwise = "uses (via interface)" if n in consumers else "indirectly"
            relation = " and ".join(graph.edges.get((n, name), [otherwise]))
            lines.append(f" - [USED BY] <- {shown[n]} ({relation})")
        return ContextPart("\n".join(lines) + "\n", names=frozenset(shown))

    def _excerpts(self, question: str, names: list[str]) -> Iterator[ContextPart]:
        """The first lines of neighbours (their file's, where they are not known), or their best chunks."""
        chunks, nearest = self.repository.best(question) if self.nearest else [], {}
        for rank, chunk in enumerate(chunks):
            for n in self.graph.within_lines(chunk.path, chunk.first, chunk.last):
                nearest.setdefault(n.name, rank)
        for name in sorted(names, key=lambda n: nearest.get(n, len(chunks))):
            node, first = self.graph.nodes[name], self.graph.nodes[name].first or 1
            text = "\n".join(
                self.repository.texts[node.path].split("\n")[first - 1 : node.last or None]
            )
            if self.nearest == "lines" and name in nearest:
                first, text = chunks[nearest[name]].first, chunks[nearest[name]].text
            yield ContextPart.of_code(node.path, first, text[: self.budget.neighbour])
