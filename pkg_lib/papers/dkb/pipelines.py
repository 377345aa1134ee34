"""No-Graph, DKB and LLM-KB (Section 5.1): what each puts before the model. All are Retrievers, and start from one ranking.

    ranking of chunks -> top-k (V0) -> neighbours in the graph (Algorithm 1) -> excerpts within a budget (Section C.1.5)

The paper prints no budgets; those of `Budget` are ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pkg_lib.core.types import Context, Task, UserError
from pkg_lib.graph.types.typegraph import TypeGraph, TypeNode
from pkg_lib.papers.dkb.splitter import Chunk

TOP_K = 10
DEPTH = 1
Ranking = Mapping[str, Sequence[tuple[str, float]]]  # question id -> (chunk id, cosine), the best first


def check_sizes(k: int, depth: int = DEPTH) -> None:
    """UserError unless a pipeline can take k chunks and go `depth` edges."""
    if k < 1:
        raise UserError(f"k = {k}: give 1 or more chunks")
    if depth < 0:
        raise UserError(f"depth = {depth}: give 0 or more edges")


@dataclass(frozen=True, slots=True)
class Budget:
    """Characters of one chunk, of one neighbour's excerpt and of the whole context; neighbours of one type on each side."""

    chunk: int = 1000
    neighbour: int = 500
    total: int = 24_000
    neighbours: int = 20


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file that stand in a context."""

    path: str
    first: int
    last: int


@dataclass
class Gathered:
    """The context of a question. `excerpts` are its code, `listed` the types that the relationship summary names; truncated:
    the budget left something out."""

    text: str
    excerpts: list[Excerpt]
    listed: list[str] = field(default_factory=list)
    seeds: list[str] = field(default_factory=list)
    score: float = 0.0
    truncated: bool = False


@dataclass(frozen=True)
class Repository:
    """Files as text, their chunks by id, and the ranking of chunks for every question."""

    texts: Mapping[str, str]
    chunks: Mapping[str, Chunk]
    ranking: Ranking

    def top(self, question: str, k: int, paths: frozenset[str] | None = None) -> list[tuple[Chunk, float]]:
        """The k best chunks and their cosines; of the given files only, where such are given."""
        found = []
        for name, score in self.ranking[question]:
            if len(found) == k:
                break
            if paths is None or self.chunks[name].path in paths:
                found.append((self.chunks[name], score))
        return found


class Pipeline(ABC):
    """What the pipelines share: a context a task, as a Retriever gives it."""

    column: str

    @abstractmethod
    def gather(self, question: str) -> Gathered:
        """The context of a question, by its id."""

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, whose id is a question of the ranking."""
        found = [(t, self.gather(t.id)) for t in tasks]
        return [
            Context(
                t.id,
                self.column,
                g.text,
                "; ".join(dict.fromkeys(e.path for e in g.excerpts)),
                g.score,
                truncated=g.truncated,
            )
            for t, g in found
        ]


@dataclass
class NoGraph(Pipeline):
    """The k best chunks. With `sizes` (question -> characters) as many as fit, for a comparison at equal size. UserError for
    k below 1."""

    repository: Repository
    k: int = TOP_K
    sizes: Mapping[str, int] | None = None
    column: str = "No-Graph"

    def __post_init__(self) -> None:
        check_sizes(self.k)

    def gather(self, question: str) -> Gathered:
        best = self.repository.top(question, self.k if self.sizes is None else len(self.repository.chunks))
        if self.sizes is not None:
            best = best[: _fitting([len(_block(c)) + 1 for c, _ in best], self.sizes[question])]
        excerpts = [Excerpt(c.path, c.first, c.last) for c, _ in best]
        return Gathered("\n".join(_block(c) for c, _ in best), excerpts, score=best[0][1] if best else 0.0)


def _fitting(lengths: list[int], most: int) -> int:
    """How many of the lengths, from the first on, add up to at most `most`; at least one."""
    total = 0
    for n, length in enumerate(lengths):
        total += length
        if total > most:
            return max(1, n)
    return len(lengths)


def _block(chunk: Chunk) -> str:
    return f"// {chunk.path}\n{chunk.text}\n"


@dataclass
class GraphPipeline(Pipeline):
    """Chunks and what the graph knows around them: Algorithm 1 with depth d.

    `paths` restricts retrieval to files whose text is embedded (the coupled variant, Observation 4); None is all files.
    `interfaces` adds the consumers of interfaces that a seed implements; `summary` writes [ONTOLOGY INFO]; `by_file` takes
    a chunk's file name for its class, as Listing 2 does, else the types whose lines the chunk holds. UserError for k below 1
    or depth below 0.
    """

    repository: Repository
    graph: TypeGraph
    column: str
    k: int = TOP_K
    depth: int = DEPTH
    paths: frozenset[str] | None = None
    interfaces: bool = True
    summary: bool = True
    by_file: bool = False
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        check_sizes(self.k, self.depth)

    def gather(self, question: str) -> Gathered:
        best = self.repository.top(question, self.k, self.paths)
        context = _Context(self.budget)
        for chunk, _ in best:
            cut = chunk.text[: self.budget.chunk]
            last = chunk.first + cut.count("\n")
            context.add(f"// {chunk.path}\n{cut}\n", Excerpt(chunk.path, chunk.first, last))
        seeds = list(dict.fromkeys(name for chunk, _ in best for name in self.seeds(chunk)))
        around = {name: self._around(name, context) for name in seeds}
        for name in seeds if self.summary else ():
            self._summarise(name, *around[name], context)
        reached = dict.fromkeys(n for below, above, _ in around.values() for n in [*below, *above])
        for name in reached:
            if name not in around:
                self._excerpt(self.graph.nodes[name], context)
        found = Gathered(
            "\n".join(context.parts),
            context.excerpts,
            list(context.listed),
            seeds,
            best[0][1] if best else 0.0,
        )
        found.truncated = context.full
        return found

    def seeds(self, chunk: Chunk) -> list[str]:
        """EntitiesFromDocs: the types of a chunk."""
        if self.by_file:
            name = chunk.path.rpartition("/")[2].removesuffix(".java")
            return [name] if name in self.graph.nodes else []
        here = self.graph.by_path.get(chunk.path, [])
        inside = [n.name for n in here if n.first == 0 or (n.first <= chunk.last and chunk.first <= n.last)]
        return inside or [n.name for n in here[:1]]

    def _around(
        self, name: str, context: _Context
    ) -> tuple[list[str], list[str], list[tuple[str, list[str]]]]:
        """(successors, predecessors with interface consumers, [(interface, its consumers)]) of a seed, within the budget."""
        below = context.nearest(self.graph.within(name, self.depth, "successors"))
        above = context.nearest(self.graph.within(name, self.depth, "predecessors"))
        through = []
        for target in self.graph.successors.get(name, []) if self.interfaces else ():
            if "implements" in self.graph.edges[name, target]:
                users = context.nearest([u for u in self.graph.predecessors.get(target, []) if u != name])
                through.append((target, users))
                above += [u for u in users if u not in above]
        return below, above, through

    def _summarise(
        self,
        name: str,
        below: list[str],
        above: list[str],
        through: list[tuple[str, list[str]]],
        context: _Context,
    ) -> None:
        """The lines of Listing 2 about one type; one that only more than one step leads to is called indirect."""
        lines, own = [], self._shown(name)
        users = {u for _, through_one in through for u in through_one}
        for interface, _ in through:
            target = self._shown(interface)
            lines.append(f"\n[ONTOLOGY INFO]: {own} implements {target}. Checking consumers of {target}...")
        lines.append(f"\n[ONTOLOGY INFO]: Relationships for {own}:")
        lines += [
            f" - [INJECTS/USES] -> {self._shown(n)} ({self._relation(name, n, 'indirectly')})" for n in below
        ]
        otherwise = {n: "uses (via interface)" if n in users else "indirectly" for n in above}
        lines += [
            f" - [USED BY] <- {self._shown(n)} ({self._relation(n, name, otherwise[n])})" for n in above
        ]
        context.add("\n".join(lines) + "\n", None, [name, *below, *above, *(i for i, _ in through)])

    def _relation(self, source: str, target: str, otherwise: str) -> str:
        return " and ".join(self.graph.edges.get((source, target), ())) or otherwise

    def _shown(self, name: str) -> str:
        """The simple name where it is the only one."""
        simple = self.graph.nodes[name].simple
        return simple if self._simple.get(simple) == 1 else name

    @property
    def _simple(self) -> dict[str, int]:
        if not hasattr(self, "_counts"):
            self._counts: dict[str, int] = {}
            for node in self.graph.nodes.values():
                self._counts[node.simple] = self._counts.get(node.simple, 0) + 1
        return self._counts

    def _excerpt(self, node: TypeNode, context: _Context) -> None:
        """The beginning of a neighbour's declaration (of its file, where the lines are not known)."""
        lines = self.repository.texts[node.path].split("\n")
        first = node.first or 1
        text = "\n".join(lines[first - 1 : node.last or None])[: self.budget.neighbour]
        context.add(f"// {node.path}\n{text}\n", Excerpt(node.path, first, first + text.count("\n")))


@dataclass
class _Context:
    """Parts of a context until the budget is spent; a part that no longer fits is left out, later and smaller ones may fit."""

    budget: Budget
    parts: list[str] = field(default_factory=list)
    excerpts: list[Excerpt] = field(default_factory=list)
    listed: dict[str, None] = field(default_factory=dict)
    size: int = 0
    full: bool = False

    def nearest(self, names: list[str]) -> list[str]:
        """As many of the neighbours of one type, on one side, as the budget has."""
        self.full |= len(names) > self.budget.neighbours
        return names[: self.budget.neighbours]

    def add(self, text: str, excerpt: Excerpt | None, listed: Sequence[str] = ()) -> None:
        if self.size + len(text) + 1 > self.budget.total:
            self.full = True
            return
        self.size += len(text) + 1
        self.parts.append(text)
        self.excerpts += [excerpt] if excerpt else []
        self.listed |= dict.fromkeys(listed)
