"""The retrievers of the methods in Tables 1 to 4 (Section 5).

- ``NoRetrieval``: NoRAG.
- Over texts, ranked by BM25 or by cosine: ``BM25Rows``, ``DenseRows``, ``FuncBM25``.
- Over nodes of the graph, ranked by cosine (Equation 5): ``FuncPKG``, ``BlockPKG``, ``JsonPKG``.

Each is made from a ``Knowledge`` and gives one ``Context`` per task.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from pkg_lib.core.registry import unknown
from pkg_lib.core.types import Context, Task, UserError
from pkg_lib.graph.nodes import BLOCK, IMPL, PATHVALUE
from pkg_lib.retrieval.augment import Augmented
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.budget import cut_at_line_end
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.knowledge import Knowledge, source_of
from pkg_lib.retrieval.prune import GUARDED, NO_BRANCH, PRUNINGS, UNPRUNED, prune
from pkg_lib.retrieval.ranking import Positions, Ranked, Vectors
from pkg_lib.retrieval.rows import Unit, rows


def join_units(
    task: Task,
    method: str,
    units: list[Context],
    with_scores: bool = True,
) -> Context:
    """Join retrieved units to one context.

    Args:
        task: The task that they were retrieved for.
        method: The method that retrieved them.
        units: A context of each unit, best first, cut to its own budget.
        with_scores: Whether several units are separated by their scores, as in the authors' runner
            for closed models.

    Returns:
        A context with the score of the best unit. It is empty if there are no units.
    """
    if not units:
        return Context(task.id, method, "")
    texts = [unit.text or "" for unit in units]
    if with_scores and len(units) > 1:
        texts = [f"# Relevance: {unit.score:.3f}\n{unit.text}" for unit in units]
    return Context(
        task.id,
        method,
        "\n\n".join(texts),
        source="; ".join(unit.source for unit in units),
        score=units[0].score,
        pruned="; ".join(unit.pruned for unit in units),
        truncated=any(unit.truncated for unit in units),
    )


# Type of node -> what a corpus without such nodes lacks.
UNIT_NAMES = {IMPL: "functions", BLOCK: "blocks", PATHVALUE: "leaves"}


def require_units(
    count: int,
    method: str,
    kind: str,
) -> None:
    """Check that a corpus has something to retrieve.

    Args:
        count: How many units the corpus has.
        method: The method that retrieves them.
        kind: What the units are.

    Raises:
        UserError: There are none.
    """
    if not count:
        raise UserError(f"the corpus has no {kind} that {method} could find; choose another corpus")


def unit_context(
    task: Task,
    method: str,
    unit: Unit,
    score: float,
    limit: int,
) -> Context:
    """Make the context of one unit.

    Args:
        task: The task that it was retrieved for.
        method: The method that retrieved it.
        unit: The unit.
        score: Its score.
        limit: The most characters of its text.

    Returns:
        The context, its text cut at a line end.
    """
    text, truncated = cut_at_line_end(unit.text, limit)
    return Context(
        task.id,
        method,
        text,
        unit.source,
        score,
        truncated=truncated,
    )


@dataclass
class NoRetrieval:
    """NoRAG: the prompt without a context.

    Attributes:
        knowledge: Not used.
    """

    knowledge: Knowledge | None = None
    method = "NoRAG"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Return an empty context for each task.

        Args:
            tasks: Tasks of any benchmark.

        Returns:
            One context per task, in order.
        """
        return [Context(task.id, self.method, "") for task in tasks]


@dataclass
class BM25Rows:
    """BM25 over rows, without preprocessing of the corpus.

    A question-answer pair is searched as a whole but shows only its answer, as in the authors'
    published contexts.

    Attributes:
        knowledge: The corpus.
    """

    knowledge: Knowledge
    method = "BM25"
    unit = "rows"
    by_words = True  # a score of 0 means that no word of the task is in the text

    @cached_property
    def units(self) -> list[Unit]:
        """Everything that can be retrieved."""
        found: list[Unit] = []
        for document in self.knowledge.documents:
            if document.unit == "row":
                found += rows(document, self.knowledge.chars)
        return found

    def encoded_texts(self) -> list[str]:
        """Return the texts of the corpus whose vectors the method needs: none."""
        return []

    def search(self, texts: list[str], queries: list[str]) -> Ranked:
        """Rank texts for each query.

        Args:
            texts: The n texts to search.
            queries: The q queries.

        Returns:
            Positions [q, k] of the best texts and their scores [q, k], best first.
        """
        return BM25(texts, self.knowledge.tokenizer).search(queries, self.knowledge.top)

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Retrieve the best units for each task.

        Args:
            tasks: The tasks whose prompts are the queries.

        Returns:
            One context per task, in order; empty if no word of the task is in the corpus.

        Raises:
            UserError: The corpus has no such units.
        """
        require_units(len(self.units), self.method, self.unit)
        texts = [unit.searched for unit in self.units]
        positions, scores = self.search(texts, [task.prompt for task in tasks])
        contexts = []
        for task, best, its_scores in zip(tasks, positions.tolist(), scores.tolist(), strict=True):
            found = []
            for position, score in zip(best, its_scores, strict=True):
                if score > 0 or not self.by_words:
                    unit = self.units[position]
                    limit = self.knowledge.chars
                    found.append(unit_context(task, self.method, unit, score, limit))
            shown = [context for context in found if context.text] or found[:1]
            contexts.append(join_units(task, self.method, shown, with_scores=not self.by_words))
        return contexts


class FuncBM25(BM25Rows):
    """BM25 over the functions of the corpus."""

    method = "Func-BM25"
    unit = "functions"

    @cached_property
    def units(self) -> list[Unit]:
        """All functions of the corpus."""
        graph = self.knowledge.graph
        return [Unit(graph.where(node), graph.payload(node)) for node in graph.of_type(IMPL)]


class DenseRows(BM25Rows):
    """Cosine between the vectors of task and row: the paper's VoyageEmb (Equation 5 over rows)."""

    method = "VoyageEmb"
    by_words = False

    def encoded_texts(self) -> list[str]:
        """Return the texts of the corpus whose vectors the method needs: all rows."""
        return [unit.searched for unit in self.units]

    def search(self, texts: list[str], queries: list[str]) -> Ranked:
        """Rank texts for each query by cosine.

        Args:
            texts: The n texts to search.
            queries: The q queries.

        Returns:
            Positions [q, k] of the best texts and their cosines [q, k], best first.
        """
        encode = self.knowledge.embedder.encode
        return FlatIndex(encode(texts)).search(encode(queries), self.knowledge.top)


@dataclass
class GraphNodes:
    """Cosine over nodes of one type (Equation 5), then branch pruning (Equations 6, 7 and 9).

    Attributes:
        knowledge: The corpus.
        pruning: A name in ``PRUNINGS``.
        calls: How many characters of called functions to put before a unit (``augment.py``).
        augmented: The last unit of each task with its called functions, by task id.

    Raises:
        UserError: The pruning is unknown, or ``calls`` is negative.
    """

    knowledge: Knowledge
    pruning: str = GUARDED
    calls: int = 0
    augmented: dict[str, Augmented] = field(default_factory=dict, init=False)
    method = ""
    kind = -1

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.pruning not in PRUNINGS:
            raise unknown("pruning", self.pruning, PRUNINGS)
        if self.calls < 0:
            raise UserError(f"calls is {self.calls}; give 0 or more characters")

    def candidates(self) -> Positions:
        """Return the nodes that are searched.

        Returns:
            Node numbers [n], one for each distinct text.

        Raises:
            UserError: The corpus has no such nodes.
        """
        nodes = self.knowledge.graph.first_of_each_text(self.kind)
        require_units(len(nodes), self.method, UNIT_NAMES[self.kind])
        return nodes

    def encoded_texts(self) -> list[str]:
        """Return the texts of the corpus whose vectors the method needs: those of its nodes.

        Raises:
            UserError: The corpus has no such nodes.
        """
        return list(self.knowledge.graph.payloads(self.candidates()))

    def nearest(self, queries: Vectors, k: int) -> tuple[list[list[int]], list[list[float]]]:
        """Find the nodes nearest to each query (Equation 5).

        Args:
            queries: Unit vectors [q, d].
            k: How many nodes to find for each query.

        Returns:
            Nodes and their cosines, a list of k for each query, best first.

        Raises:
            UserError: The corpus has no such nodes.
        """
        nodes = self.candidates()
        found, cosines = self.knowledge.nearest(self.kind, queries, k, nodes)
        return found.tolist(), cosines.tolist()

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Retrieve the best units for each task.

        Args:
            tasks: The tasks whose prompts are the queries.

        Returns:
            One context per task, in order.

        Raises:
            UserError: The corpus has no such nodes.
        """
        contexts = []
        for task, ranked in zip(tasks, self.ranked(tasks, self.knowledge.top), strict=True):
            units = [unit for _, unit in ranked]
            contexts.append(join_units(task, self.method, units))
        return contexts

    def ranked(self, tasks: list[Task], k: int) -> list[Iterator[tuple[str, Context]]]:
        """Rank the units for each task.

        Args:
            tasks: The tasks whose prompts are the queries.
            k: How many units to rank.

        Returns:
            For each task pairs of a unit's whole text and its context, best first. A unit is pruned
            when it is asked for.

        Raises:
            UserError: The corpus has no such nodes.
        """
        queries = self.knowledge.embedder.encode([task.prompt for task in tasks])
        found = zip(tasks, queries, *self.nearest(queries, k), strict=True)
        return [self._units(*ranking) for ranking in found]

    def _units(
        self,
        task: Task,
        query: Vectors,
        nodes: list[int],
        cosines: list[float],
    ) -> Iterator[tuple[str, Context]]:
        for node, cosine in zip(nodes, cosines, strict=True):
            whole = self.knowledge.graph.payload(node)
            yield whole, self._context(task, query, node, cosine)

    def _context(
        self,
        task: Task,
        query: Vectors,
        node: int,
        cosine: float,
    ) -> Context:
        graph = self.knowledge.graph
        pruned = prune(graph, node, query, self.knowledge.embedder, self.pruning)
        text, truncated = cut_at_line_end(pruned.text, self.knowledge.chars)
        source = graph.where(node)
        if self.calls:
            budget = min(self.calls, self.knowledge.chars - len(text))
            augmented = self.knowledge.calls.augment(node, text, budget)
            self.augmented[task.id] = augmented
            text = augmented.text
            for called in augmented.added:
                source += f" calls {graph.where(called)}"
        lines = ""
        if pruned.branch != NO_BRANCH:
            lines = f"{graph.first[pruned.branch]}-{graph.last[pruned.branch]}"
        return Context(
            task.id,
            self.method,
            text,
            source,
            cosine,
            lines,
            truncated,
        )


class FuncPKG(GraphNodes):
    """Func-PKG: the nearest function (IMPL node), pruned."""

    method = "Func-PKG"
    kind = IMPL


class BlockPKG(GraphNodes):
    """Block-PKG: the nearest block (BLOCK node), pruned."""

    method = "Block-PKG"
    kind = BLOCK


@dataclass
class JsonPKG(GraphNodes):
    """JSON-PKG: the nearest leaf of a document's JSON (PATHVALUE node, Equation 8), unpruned."""

    pruning: str = UNPRUNED
    method = "JSON-PKG"
    kind = PATHVALUE

    def _context(
        self,
        task: Task,
        query: Vectors,
        node: int,
        cosine: float,
    ) -> Context:
        graph = self.knowledge.graph
        leaf = Unit(source_of(graph, node), graph.payload(node))
        return unit_context(task, self.method, leaf, cosine, self.knowledge.chars)
