"""The pipelines No-Graph, DKB and LLM-KB (Section 5.1), which gather a question's context.

All three start from the same ranking of chunks:

1. Take the k best chunks (V0).
2. Follow the graph from the types in them (Algorithm 1).
3. Add a summary of each type and excerpts of its neighbours, up to a budget (Appendix C.1.5).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

from pkg_lib.core.types import UserError
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb.splitter import TextChunk
from pkg_lib.retrieval.budget import largest

TOP_K = 10
DEPTH = 1


class Budget(NamedTuple):
    """Limits of a context in characters, chosen by us because the paper states none.

    Attributes:
        chunk: Characters of a retrieved chunk.
        neighbour: Characters of a neighbour's excerpt.
        total: Characters of the context.
        neighbours: Number of neighbours of a type in each direction.
    """

    chunk: int = 1000
    neighbour: int = 500
    total: int = 24_000
    neighbours: int = 20


BUDGET = Budget()
# The options that make a pipeline No-Graph.
CHUNKS_ALONE: dict[str, Any] = {
    "graph": TypeGraph("none"),
    "budget": Budget(total=sys.maxsize),
}


class ContextPart(NamedTuple):
    """A part of a context: lines of a file, or a summary that names types.

    Attributes:
        text: What the model reads.
        path: Path of the file; "" for a summary.
        first: First line, counted from 1.
        last: Last line, inclusive.
        names: Types that a summary names.
    """

    text: str
    path: str = ""
    first: int = 0
    last: int = 0
    names: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Characters of the part, with the line end that separates it from the next one."""
        return len(self.text) + 1

    @classmethod
    def of_code(
        cls,
        path: str,
        first: int,
        text: str,
    ) -> ContextPart:
        """Make a part of code.

        Args:
            path: Path of the file.
            first: First line of the code in the file.
            text: The code.

        Returns:
            The code under a comment with its path.
        """
        return cls(
            text=f"// {path}\n{text}\n",
            path=path,
            first=first,
            last=first + text.count("\n"),
        )

    @classmethod
    def of_chunk(cls, chunk: TextChunk, size: int | None = None) -> ContextPart:
        """Make a part of a chunk.

        Args:
            chunk: The chunk.
            size: The most characters; None for the whole chunk.

        Returns:
            The beginning of the chunk under a comment with its path.
        """
        return cls.of_code(chunk.path, chunk.first, chunk.text[:size])


class Gathered(list[ContextPart]):
    """The parts of a context, in order."""

    @property
    def text(self) -> str:
        """What the model reads."""
        return "\n".join(part.text for part in self)


@dataclass(frozen=True)
class RankedText:
    """A repository's chunks, ranked for every question.

    Attributes:
        texts: Text of each file by path.
        chunks: Chunk by id.
        ranking: Question -> (chunk id, cosine), best first.
    """

    texts: Mapping[str, str]
    chunks: Mapping[str, TextChunk]
    ranking: Mapping[str, Sequence[tuple[str, float]]]

    def best(self, question: str) -> list[TextChunk]:
        """Look up the ranking of a question.

        Args:
            question: Id of the question.

        Returns:
            The chunks, best first.
        """
        return [self.chunks[name] for name, _ in self.ranking[question]]

    def fitting(self, question: str, size: int) -> int:
        """Count the best chunks that fit into a context.

        Args:
            question: Id of the question.
            size: Characters of the context.

        Returns:
            The number of chunks, at least one.
        """
        parts = [ContextPart.of_chunk(chunk) for chunk in self.best(question)]

        def fits(count: int) -> bool:
            return sum(part.size for part in parts[:count]) <= size

        return largest(1, len(parts), fits)


class Neighbours(NamedTuple):
    """The types around a type.

    Attributes:
        below: What it uses.
        above: What uses it.
        through: Interface that it implements -> what uses it through that interface.
    """

    below: list[str]
    above: list[str]
    through: dict[str, list[str]]


@dataclass(frozen=True)
class Pipeline:
    """Gathers the best chunks, and what the graph knows about the types in them.

    Attributes:
        method: Name of the pipeline.
        repository: The ranked chunks.
        graph: The graph; an empty one for No-Graph.
        k: Number of chunks.
        depth: How many edges are followed.
        budget: Limits of the context.
        counts: Question -> a number of chunks that replaces k.
        paths: The only files that are searched (coupled, Observation 4); None for all.
        interfaces: Whether consumers of a type's interfaces are neighbours.
        summary: Whether [ONTOLOGY INFO] is added.
        by_file: Whether a chunk stands for the type with its file's name, as in Listing 2. By
            default it stands for the types on its lines.
        nearest: "first" orders neighbours by their nearness to the question, "lines" also shows
            their nearest lines.

    Raises:
        UserError: `k` or `depth` is too small.
    """

    method: str
    repository: RankedText
    graph: TypeGraph
    k: int = TOP_K
    depth: int = DEPTH
    budget: Budget = BUDGET
    counts: Mapping[str, int] = field(default_factory=dict)
    paths: frozenset[str] | None = None
    interfaces: bool = True
    summary: bool = True
    by_file: bool = False
    nearest: Literal["", "first", "lines"] = ""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.k < 1 or self.depth < 0:
            raise UserError(
                f"k = {self.k}, depth = {self.depth}: give 1 or more chunks, 0 or more edges"
            )

    def gather(self, question: str) -> Gathered:
        """Gather the context of a question.

        Args:
            question: Id of the question.

        Returns:
            The parts that the budget has room for. A part that is too long is left out, and
            shorter ones after it may still fit.
        """
        context = Gathered()
        size = 0
        for part in self._parts(question):
            if size + part.size <= self.budget.total:
                context.append(part)
                size += part.size
        return context

    def _parts(self, question: str) -> Iterator[ContextPart]:
        """Yield all parts by importance: chunks, summaries, excerpts of neighbours."""
        around: dict[str, Neighbours] = {}
        for chunk in self._retrieved(question):
            yield ContextPart.of_chunk(chunk, self.budget.chunk)
            for name in self._seeds(chunk):
                around[name] = self._around(name)
        reached: list[str] = []
        for name, neighbours in around.items():
            if self.summary:
                yield self._summary(name, neighbours)
            reached += neighbours.below
            reached += neighbours.above
        others = [name for name in dict.fromkeys(reached) if name not in around]
        yield from self._excerpts(question, others)

    def _retrieved(self, question: str) -> list[TextChunk]:
        """Return the k best chunks (V0)."""
        chunks = self.repository.best(question)
        if self.paths is not None:
            chunks = [chunk for chunk in chunks if chunk.path in self.paths]
        count = self.counts.get(question, self.k)
        return chunks[:count]

    def _seeds(self, chunk: TextChunk) -> list[str]:
        """Return the types of a chunk (EntitiesFromDocs of Algorithm 1)."""
        if self.by_file:
            name = PurePosixPath(chunk.path).stem
            return [name] if name in self.graph.nodes else []
        nodes = self.graph.within_lines(chunk.path, chunk.first, chunk.last)
        if not nodes:
            file_nodes = self.graph.by_path.get(chunk.path, [])
            nodes = file_nodes[:1]
        return [node.name for node in nodes]

    def _around(self, name: str) -> Neighbours:
        """Return the neighbours of a type (Algorithm 1)."""
        below = self.graph.within(name, self.depth, "successors")
        above = self.graph.within(name, self.depth, "predecessors")
        most = self.budget.neighbours
        below = below[:most]
        above = above[:most]
        through = self._users_of_interfaces(name) if self.interfaces else {}
        for users in through.values():
            above += [user for user in users if user not in above]
        return Neighbours(below, above, through)

    def _users_of_interfaces(self, name: str) -> dict[str, list[str]]:
        """Return what uses each interface that a type implements."""
        digraph = self.graph.digraph
        users = {}
        most = self.budget.neighbours
        for target in digraph.succ[name]:
            if "implements" in self.graph.edges[name, target]:
                others = [user for user in digraph.pred[target] if user != name]
                users[target] = others[:most]
        return users

    def _summary(self, name: str, neighbours: Neighbours) -> ContextPart:
        """Return [ONTOLOGY INFO] about a type (Listing 2); more than one edge away is indirect."""
        below, above, through = neighbours
        shown = self._printed_names([name, *below, *above, *through])
        title = "\n[ONTOLOGY INFO]:"
        subject = shown[name]
        text = ""
        consumers: set[str] = set()
        for interface, users in through.items():
            consumers.update(users)
            printed = shown[interface]
            text += f"{title} {subject} implements {printed}. Checking consumers of {printed}...\n"
        text += f"{title} Relationships for {subject}:\n"
        for used in below:
            relation = self._relation(name, used, "indirectly")
            text += f" - [INJECTS/USES] -> {shown[used]} ({relation})\n"
        for user in above:
            otherwise = "uses (via interface)" if user in consumers else "indirectly"
            relation = self._relation(user, name, otherwise)
            text += f" - [USED BY] <- {shown[user]} ({relation})\n"
        return ContextPart(text, names=frozenset(shown))

    def _relation(
        self,
        user: str,
        used: str,
        otherwise: str,
    ) -> str:
        """Return the labels of an edge, or another text where there is none."""
        labels = self.graph.edges.get((user, used), [otherwise])
        return " and ".join(labels)

    def _printed_names(self, names: Iterable[str]) -> dict[str, str]:
        """Return simple names where they are unique in the graph, else full ones."""
        printed = {}
        for name in names:
            simple = self.graph.nodes[name].simple
            unique = len(self.graph.by_simple[simple]) == 1
            printed[name] = simple if unique else name
        return printed

    def _excerpts(self, question: str, names: list[str]) -> Iterator[ContextPart]:
        """Yield the first lines of neighbours, or the chunks of them nearest to the question.

        Where the lines of a type are not known, the excerpt begins with its file.
        """
        chunks = self.repository.best(question) if self.nearest else []
        nearest = self._nearest_chunks(chunks)

        def rank(name: str) -> int:
            return nearest.get(name, len(chunks))

        for name in sorted(names, key=rank):
            node = self.graph.nodes[name]
            if self.nearest == "lines" and name in nearest:
                chunk = chunks[nearest[name]]
                first = chunk.first
                text = chunk.text
            else:
                first = node.first or 1
                lines = self.repository.texts[node.path].split("\n")
                text = "\n".join(lines[first - 1 : node.last or None])
            excerpt = text[: self.budget.neighbour]
            yield ContextPart.of_code(node.path, first, excerpt)

    def _nearest_chunks(self, chunks: list[TextChunk]) -> dict[str, int]:
        """Return the rank of the best chunk of each type."""
        nearest: dict[str, int] = {}
        for rank, chunk in enumerate(chunks):
            for node in self.graph.within_lines(chunk.path, chunk.first, chunk.last):
                nearest.setdefault(node.name, rank)
        return nearest
