"""From a stored context back to where it stands: the document, the node, the branch that pruning took out.

Nothing is encoded and no other document is read: a context's `source` names its document and lines, and the graph of that one
document is built. What is found counts only where it gives the stored context's digest again.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pkg_lib.core.types import Context, Document, UserError, digest
from pkg_lib.graph.schema import BLOCK, IMPL, PATHVALUE, PKG, build
from pkg_lib.graph.text.documents import Structured, build_text, deserialize
from pkg_lib.graph.text.structure import structured
from pkg_lib.retrieval.prune import without
from pkg_lib.retrieval.retrievers import cut

KINDS = {"Func-BM25": IMPL, "Func-PKG": IMPL, "Block-PKG": BLOCK}
LEAVES = "JSON-PKG"
Structure = Callable[[list[Document]], list[Structured]]
_LINES = re.compile(r"(.+):(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Traced:
    """A context as its corpus gives it: `text` as it stood in the prompt.

    `graph` is that of the document, `node` the retrieved one and `removed` the pruned branch (-1: none); without a graph
    the context is a whole row.
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
        """(number, text, whether pruning took it out) of each line of the node as it stands in the document."""
        if self.graph is None:
            return []
        graph, cut_out = self.graph, range(0)
        if self.removed >= 0:
            cut_out = range(int(graph.first[self.removed]), int(graph.last[self.removed]) + 1)
        numbered = enumerate(graph.payload(self.node).split("\n"), int(graph.first[self.node]))
        return [(i, line, i in cut_out) for i, line in numbered]


def trace(context: Context, documents: Mapping[str, Document], structure: Structure = structured) -> Traced:
    """Finds a context among the documents (by id) of its corpus; UserError says why it is not there or reads otherwise.

    `structure` makes JSON of text documents, as in `TextKnowledge`.
    """
    place = _LINES.fullmatch(context.source) if context.column in KINDS else None
    if place:
        found = _nodes(context, _document(place[1], documents), int(place[2]), int(place[3]))
    elif context.column == LEAVES:
        found = _leaves(context, documents, structure)
    else:
        text = _document(context.source, documents).text
        found = [Traced(text), Traced(cut(text)[0])]
    same = next((t for t in found if digest(t.text) == context.sha256), None)
    if same is None:
        raise UserError(
            f"{context.source} does not read here as it did when it was retrieved: another version of the corpus"
        )
    return same


def _document(name: str, documents: Mapping[str, Document]) -> Document:
    if name not in documents:
        raise UserError(f"the corpus at hand has no {name}")
    return documents[name]


def _nodes(context: Context, document: Document, first: int, last: int) -> list[Traced]:
    """The nodes of these lines as the column cuts them; Func-BM25 leaves the indentation as it is."""
    graph = build([document])
    nodes = [
        int(v)
        for v in graph.of_type(KINDS[context.column])
        if (graph.first[v], graph.last[v]) == (first, last)
    ]
    found = []
    for node in nodes:
        branch = next(
            (int(c) for c in graph.children(node) if f"{graph.first[c]}-{graph.last[c]}" == context.pruned),
            -1,
        )
        text = without(graph, node, branch) if branch >= 0 else graph.payload(node)
        text = text if context.column == "Func-BM25" else textwrap.dedent(text)
        found.append(Traced(cut(text)[0], graph, node, branch))
    return found


def _leaves(context: Context, documents: Mapping[str, Document], structure: Structure) -> list[Traced]:
    """The leaf at a path of a text document's JSON; `source` is document#path, and ids of sections have a # of their own."""
    parts = context.source.split("#")
    pairs = [("#".join(parts[:i]), "#".join(parts[i:])) for i in range(len(parts) - 1, 0, -1)]
    name, path = next((p for p in pairs if p[0] in documents), pairs[-1] if pairs else (context.source, ""))
    document = _document(name, documents)
    graph = build_text([document], structure([document]))
    nodes = [int(v) for v in graph.of_type(PATHVALUE) if deserialize(graph.payload(v))[0] == path]
    return [Traced(cut(graph.payload(v))[0], graph, v) for v in nodes]
