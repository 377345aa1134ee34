"""From a stored context back to where it stands: the document, the node, the branch that pruning took out.

Only the document that `source` names becomes a graph, and what is there counts only where it gives the stored
digest again. Nothing is encoded.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
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
    """Finds a context among the documents (by id) of its corpus; UserError says why it is not there.

    `structure` makes JSON of text documents, as in `TextKnowledge`.
    """
    if place := _LINES.fullmatch(context.source) if context.column in KINDS else None:
        candidates = _nodes(context, _document(place[1], documents), (int(place[2]), int(place[3])))
    elif context.column == LEAVES:
        candidates = _leaves(context, documents, structure)
    else:
        text = _document(context.source, documents).text
        candidates = iter([Traced(text), Traced(cut(text)[0])])
    same = next((t for t in candidates if digest(t.text) == context.sha256), None)
    if same is None:
        raise UserError(f"{context.source} does not read here as it did: another version of the corpus")
    return same


def _document(name: str, documents: Mapping[str, Document]) -> Document:
    if name not in documents:
        raise UserError(f"the corpus at hand has no {name}")
    return documents[name]


def _nodes(context: Context, document: Document, lines: tuple[int, int]) -> Iterator[Traced]:
    """The nodes of these lines as the column cuts them; Func-BM25 leaves the indentation as it is."""
    graph = build([document])
    for node in graph.of_type(KINDS[context.column]).tolist():
        if (graph.first[node], graph.last[node]) != lines:
            continue
        children = {f"{graph.first[c]}-{graph.last[c]}": int(c) for c in graph.children(node)[::-1]}
        branch = children.get(context.pruned, -1)
        text = without(graph, node, branch) if branch >= 0 else graph.payload(node)
        text = text if context.column == "Func-BM25" else textwrap.dedent(text)
        yield Traced(cut(text)[0], graph, node, branch)


def _leaves(context: Context, documents: Mapping[str, Document], structure: Structure) -> Iterator[Traced]:
    """The leaf at a path of a document's JSON; `source` is document#path, and ids may hold a # themselves."""
    ends = [i for i, letter in enumerate(context.source) if letter == "#"] or [len(context.source)]
    end = next((i for i in reversed(ends) if context.source[:i] in documents), ends[0])
    name, path = context.source[:end], context.source[end + 1 :]
    document = _document(name, documents)
    graph = build_text([document], structure([document]))
    for node in graph.of_type(PATHVALUE).tolist():
        if deserialize(graph.payload(node))[0] == path:
            yield Traced(cut(graph.payload(node))[0], graph, node)
