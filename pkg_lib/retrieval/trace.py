"""From a stored context back to where it stands: the document, the node, the branch that pruning took out.

Only the document that `source` names becomes a graph; what gives the stored digest again is meant.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pkg_lib.core.types import Context, Document, UserError, digest
from pkg_lib.graph.schema import BLOCK, IMPL, PATHVALUE, PKG, build
from pkg_lib.graph.text.documents import Structured, build_text, deserialize
from pkg_lib.graph.text.structure import structured
from pkg_lib.retrieval.prune import without
from pkg_lib.retrieval.retrievers import cut

KINDS = {"Func-BM25": IMPL, "Func-PKG": IMPL, "Block-PKG": BLOCK, "JSON-PKG": PATHVALUE}
Structure = Callable[[list[Document]], list[Structured]]


@dataclass(frozen=True, slots=True)
class Traced:
    """A context as its corpus gives it: `text` as it stood in the prompt; without a graph it is a whole row.

    `graph` is that of the document, `node` the retrieved one and `removed` the pruned branch (-1: none).
    """

    text: str
    graph: PKG | None = None
    node: int = -1
    removed: int = -1

    @property
    def gone(self) -> frozenset[int]:
        """The pruned branch and all below it."""
        if self.graph is None or self.removed < 0:
            return frozenset()
        return frozenset([self.removed, *self.graph.descendants(self.removed)])

    @property
    def lines(self) -> list[tuple[int, str, bool]]:
        """(number, text, whether pruning took it out) of each line of the node in its document."""
        if self.graph is None:
            return []
        graph, removed = self.graph, self.removed
        pruned = range(int(graph.first[removed]), int(graph.last[removed]) + 1) if removed >= 0 else ()
        numbered = enumerate(graph.payload(self.node).split("\n"), int(graph.first[self.node]))
        return [(number, line, number in pruned) for number, line in numbered]


def trace(context: Context, documents: Mapping[str, Document], structure: Structure = structured) -> Traced:
    """Finds a context among the documents (by id) of its corpus; UserError says why it is not there."""
    name, source = context.source, context.source
    kind = None if source in documents else KINDS.get(context.column)
    if kind == PATHVALUE:  # document#path, and both may hold a # themselves
        ends = (source[:i] for i, letter in enumerate(source) if letter == "#")
        name = max((end for end in ends if end in documents), key=len, default=source.partition("#")[0])
    elif kind is not None:
        name = source.rpartition(":")[0]
    if name not in documents:
        raise UserError(f"the corpus at hand has no {name}")
    document = documents[name]
    if kind is None:
        candidates = (Traced(text) for text in (document.text, cut(document.text)[0]))
    elif kind == PATHVALUE:
        candidates = _leaves(context, build_text([document], structure([document])))
    else:
        candidates = _nodes(context, build([document]))
    for traced in candidates:
        if digest(traced.text) == context.sha256:
            return traced
    raise UserError(f"{source} does not read here as it did: another version of the corpus")


def _nodes(context: Context, graph: PKG) -> Iterator[Traced]:
    for node in graph.of_type(KINDS[context.column]).tolist():
        if graph.where(node) == context.source:
            children = {f"{graph.first[c]}-{graph.last[c]}": int(c) for c in graph.children(node)[::-1]}
            branch = children.get(context.pruned, -1)
            text = without(graph, node, branch) if branch >= 0 else graph.payload(node)
            text = text if context.column == "Func-BM25" else textwrap.dedent(text)  # as the column does
            yield Traced(cut(text)[0], graph, node, branch)


def _leaves(context: Context, graph: PKG) -> Iterator[Traced]:
    for node in graph.of_type(PATHVALUE).tolist():
        if f"{graph.documents[0]}#{deserialize(graph.payload(node))[0]}" == context.source:
            yield Traced(cut(graph.payload(node))[0], graph, node)
