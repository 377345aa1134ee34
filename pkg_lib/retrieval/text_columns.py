"""The columns of Tables 3 and 4 over a text corpus (Section 5, RQ2).

    None, BM25, Dense  as for code: nothing, and whole rows
    JSON-PKG           embeddings of PATHVALUE leaves (Equation 5); the context is the leaf's payload (Equation 8)

All three read the same documents. JSON trees are not pruned: pruning is for code (Section 3.2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pkg_lib.core.types import Context, Document, Retriever, Task, UserError
from pkg_lib.graph.schema import PATHVALUE, PKG
from pkg_lib.graph.text.documents import Structured, build_text, deserialize, reasons
from pkg_lib.graph.text.structure import structured
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.retrievers import RETRIEVERS, Knowledge, cut

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
        if not len(nodes):
            raise UserError(
                "the corpus has no PATHVALUE nodes, so column JSON-PKG has nothing to retrieve; choose a text corpus"
            )
        index = FlatIndex(embedder.encode(graph.payloads(nodes)))
        positions, scores = index.search(embedder.encode([t.prompt for t in tasks]))
        return [
            self._context(t, int(nodes[p[0]]), float(s[0]))
            for t, p, s in zip(tasks, positions, scores, strict=True)
        ]

    def _context(self, task: Task, node: int, score: float) -> Context:
        graph = self.knowledge.graph
        payload = graph.payload(node)
        text, truncated = cut(payload)
        source = f"{graph.documents[graph.document[node]]}#{deserialize(payload)[0]}"
        return Context(task.id, self.column, text, source, score, truncated=truncated)


TEXT_RETRIEVERS: dict[str, Callable[[Knowledge], Retriever]] = {
    **{column: RETRIEVERS[column] for column in ("None", "BM25", "Dense")},
    JsonPKG.column: JsonPKG,
}
