"""JSON-PKG, the column of Tables 3 and 4 that has a graph (Section 5, RQ2); JSON trees are not pruned."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pkg_lib.core.types import Context, Document, Task
from pkg_lib.graph.schema import PATHVALUE, PKG
from pkg_lib.graph.text.documents import Structured, build_text, deserialize, reasons
from pkg_lib.graph.text.structure import structured
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.retrievers import Knowledge, cut, require

log = logging.getLogger(__name__)


@dataclass
class TextKnowledge(Knowledge):
    """What the columns of a text corpus share. `structure` makes JSON of the documents when the graph is first needed:
    the structurer of their kind (`headings`, `docstrings`), or another's, such as what a model wrote."""

    structure: Callable[[list[Document]], list[Structured]] = structured

    @cached_property
    def graph(self) -> PKG:
        graph = build_text(self.documents, self.structure(self.documents))
        if graph.skipped:
            counted = ", ".join(f"{name}: {n}" for name, n in reasons(graph.skipped).items())
            log.warning(
                "%d of %d documents gave no JSON (%s)", len(graph.skipped), len(self.documents), counted
            )
        return graph


class JsonPKG:
    """Equations 5 and 8 over PATHVALUE nodes: the payload of the leaf nearest to the task. `source` is document#path."""

    column = "JSON-PKG"

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order; UserError when the corpus gave no leaves."""
        graph, embedder = self.knowledge.graph, self.knowledge.embedder
        nodes = graph.of_type(PATHVALUE)
        require(len(nodes), self.column, "PATHVALUE nodes")
        index = FlatIndex(embedder.encode(graph.payloads(nodes)))
        positions, scores = index.search(embedder.encode([t.prompt for t in tasks]))
        best = zip(tasks, nodes[positions[:, 0]].tolist(), scores[:, 0].tolist(), strict=True)
        return [self._context(*b) for b in best]

    def _context(self, task: Task, node: int, score: float) -> Context:
        graph = self.knowledge.graph
        payload = graph.payload(node)
        text, truncated = cut(payload)
        source = f"{graph.documents[graph.document[node]]}#{deserialize(payload)[0]}"
        return Context(task.id, self.column, text, source, score, truncated=truncated)
