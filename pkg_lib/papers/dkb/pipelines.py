"""No-Graph, DKB and LLM-KB (Section 5.1): what each puts before the model. All start from one ranking.

    ranking of chunks -> top-k (V0) -> neighbours in the graph (Algorithm 1) -> excerpts in a budget (C.1.5)

The paper prints no budgets; those of `Budget` are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple

from pkg_lib.core.types import UserError
from pkg_lib.graph.types.typegraph import TypeGraph, TypeNode
from pkg_lib.papers.dkb.splitter import TextChunk

TOP_K, DEPTH = 10, 1
Ranking = Mapping[str, Sequence[tuple[str, float]]]  # question id -> (chunk id, cosine), the best first


class Budget(NamedTuple):
    """Characters of a chunk, of a neighbour's excerpt, of a whole context; neighbours of a type a side."""

    chunk: int = 1000
    neighbour: int = 500
    total: int = 24_000
    neighbours: int = 20


BUDGET = Budget()


class Excerpt(NamedTuple):
    """Lines of a file that stand in a context."""

    path: str
    first: int
    last: int


@dataclass
class Gathered:
    """A question's context, part by part; one that the budget has no room for is left out.

    `excerpts` are its code, `listed` the types that the summary names.
    """

    budget: Budget = BUDGET
    parts: list[str] = field(default_factory=list)
    excerpts: list[Excerpt] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    seeds: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.parts)

    def add(self, text: str, listed: Sequence[str] = ()) -> bool:
        """Takes a part if it fits; later and smaller ones may still fit."""
        fits = sum(map(len, self.parts)) + len(self.parts) + len(text) + 1 <= self.budget.total
        if fits:
            self.parts.append(text)
            self.listed = list(dict.fromkeys([*self.listed, *listed]))
        return fits

    def add_code(self, path: str, first: int, text: str) -> None:
        if self.add(f"// {path}\n{text}\n"):
            self.excerpts.append(Excerpt(path, first, first + text.count("\n")))


@dataclass(frozen=True)
class RankedText:
    """Files as text, their chunks by id, and the ranking of chunks for every question."""

    texts: Mapping[str, str]
    chunks: Mapping[str, TextChunk]
    ranking: Ranking

    def top(self, question: str, k: int, paths: frozenset[str] | None = None) -> list[TextChunk]:
        """The k best chunks; of the given files only, where such are given."""
        ranked = (self.chunks[name] for name, _ in self.ranking[question])
        return [chunk for chunk in ranked if paths is None or chunk.path in paths][:k]


@dataclass
class Pipeline:
    """What gathers a question's context, by the question's id. UserError for k below 1 or depth below 0."""

    repository: RankedText
    column: str
    k: int = TOP_K
    depth: int = DEPTH

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"k = {self.k}: give 1 or more chunks")
        if self.depth < 0:
            raise UserError(f"depth = {self.depth}: give 0 or more edges")

    def gather(self, question: str) -> Gathered:
        raise NotImplementedError


@dataclass
class NoGraph(Pipeline):
    """The k best chunks; with `sizes` (question -> characters) as many as fit, at least one."""

    column: str = "No-Graph"
    sizes: Mapping[str, int] | None = None

    def gather(self, question: str) -> Gathered:
        sized = self.sizes is not None
        best = self.repository.top(question, len(self.repository.chunks) if sized else self.k)
        if sized:
            lengths = accumulate(len(f"// {c.path}\n{c.text}\n") + 1 for c in best)
            best = best[: max(1, sum(length <= self.sizes[question] for length in lengths))]
        context = Gathered(Budget(total=2**62))
        for chunk in best:
            context.add_code(chunk.path, chunk.first, chunk.text)
        return context


@dataclass
class GraphPipeline(Pipeline):
    """Chunks and what the graph knows around them: Algorithm 1 with depth d.

    `paths`: the files whose text is embedded (the coupled variant, Observation 4), None for all.
    `interfaces` adds the consumers of interfaces that a seed implements, `summary` [ONTOLOGY INFO]; `by_file`
    takes a chunk's file name for its class (Listing 2), not the types whose lines it holds. `nearest`:
    neighbours whose chunks are nearest to the question come first; "lines" shows that chunk of each.
    """

    column: str = "DKB"
    graph: TypeGraph = field(kw_only=True)
    paths: frozenset[str] | None = None
    interfaces: bool = True
    summary: bool = True
    by_file: bool = False
    nearest: Literal["", "first", "lines"] = ""
    budget: Budget = BUDGET

    def gather(self, question: str) -> Gathered:
        best, context = self.repository.top(question, self.k, self.paths), Gathered(self.budget)
        for chunk in best:
            context.add_code(chunk.path, chunk.first, chunk.text[: self.budget.chunk])
        context.seeds = list(dict.fromkeys(name for chunk in best for name in self._seeds(chunk)))
        around = {name: self._around(name) for name in context.seeds}
        for name in context.seeds if self.summary else ():
            context.add(*self._summary(name, *around[name]))
        reached = dict.fromkeys(n for below, above, _ in around.values() for n in [*below, *above])
        neighbours = [self.graph.nodes[name] for name in reached if name not in around]
        best_chunks = self._best_chunks(question, neighbours) if self.nearest else {}
        last = (len(self.repository.chunks), None)
        for node in sorted(neighbours, key=lambda n: best_chunks.get(n.name, last)[0]):
            chunk = best_chunks.get(node.name, last)[1] if self.nearest == "lines" else None
            text = chunk.text if chunk else self._declaration(node)
            first = chunk.first if chunk else node.first or 1
            context.add_code(node.path, first, text[: self.budget.neighbour])
        return context

    def _best_chunks(self, question: str, nodes: list[TypeNode]) -> dict[str, tuple[int, TextChunk]]:
        """Type -> (rank, chunk): the best chunk that holds lines of it, of those that the ranking has."""
        best: dict[str, tuple[int, TextChunk]] = {}
        for rank, (name, _) in enumerate(self.repository.ranking[question]):
            chunk = self.repository.chunks[name]
            for n in nodes:
                if n.path == chunk.path and n.first <= chunk.last and chunk.first <= (n.last or chunk.last):
                    best.setdefault(n.name, (rank, chunk))
        return best

    def _seeds(self, chunk: TextChunk) -> list[str]:
        """EntitiesFromDocs: the types of a chunk."""
        if self.by_file:
            name = chunk.path.rpartition("/")[2].removesuffix(".java")
            return [name] if name in self.graph.nodes else []
        declared = self.graph.by_path.get(chunk.path, [])
        inside = [
            n.name for n in declared if n.first == 0 or (n.first <= chunk.last and chunk.first <= n.last)
        ]
        return inside or [n.name for n in declared[:1]]

    def _around(self, name: str) -> tuple[list[str], list[str], dict[str, list[str]]]:
        """(successors, predecessors and interface consumers, interface -> its consumers) in budget."""
        most, consumers = self.budget.neighbours, {}
        below, above = (self.graph.within(name, self.depth, d)[:most] for d in ("successors", "predecessors"))
        for target in self.graph.successors.get(name, []) if self.interfaces else ():
            if "implements" in self.graph.edges[name, target]:
                consumers[target] = [u for u in self.graph.predecessors[target] if u != name][:most]
                above += [u for u in consumers[target] if u not in above]
        return below, above, consumers

    def _summary(
        self, name: str, below: list[str], above: list[str], consumers: Mapping[str, list[str]]
    ) -> tuple[str, list[str]]:
        """Listing 2 about one type, and the types it names; what is more than a step away is indirect."""
        shown = self._shown
        lines = [
            f"\n[ONTOLOGY INFO]: {shown(name)} implements {shown(i)}. Checking consumers of {shown(i)}..."
            for i in consumers
        ]
        lines.append(f"\n[ONTOLOGY INFO]: Relationships for {shown(name)}:")
        through = {u for users in consumers.values() for u in users}
        kinds = {n: self._relation(name, n) or "indirectly" for n in below}
        lines += [f" - [INJECTS/USES] -> {shown(n)} ({kind})" for n, kind in kinds.items()]
        otherwise = dict.fromkeys(above, "indirectly") | dict.fromkeys(through, "uses (via interface)")
        lines += [f" - [USED BY] <- {shown(n)} ({self._relation(n, name) or otherwise[n]})" for n in above]
        return "\n".join(lines) + "\n", [name, *below, *above, *consumers]

    def _relation(self, source: str, target: str) -> str:
        return " and ".join(self.graph.edges.get((source, target), ()))

    def _shown(self, name: str) -> str:
        """The simple name where it is the only one."""
        simple = self.graph.nodes[name].simple
        return simple if self._namesakes[simple] == 1 else name

    @cached_property
    def _namesakes(self) -> Counter[str]:
        return Counter(node.simple for node in self.graph.nodes.values())

    def _declaration(self, node: TypeNode) -> str:
        """A type's lines (its file's, where they are not known)."""
        lines = self.repository.texts[node.path].split("\n")
        return "\n".join(lines[(node.first or 1) - 1 : node.last or None])
