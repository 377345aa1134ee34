"""Tracing a stored context back to its node.

Only the document of the context is read and made a graph. The digest that was stored with the
context decides whether a node is the one that was retrieved.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pkg_lib.core.types import Context, Document, UserError, digest
from pkg_lib.data.corpora import CONTEXT_CHARS
from pkg_lib.graph.nodes import BLOCK, IMPL, PATHVALUE
from pkg_lib.graph.schema import Graph, build_code_graph
from pkg_lib.graph.text.documents import Structured, build_text_graph
from pkg_lib.graph.text.structure import structured
from pkg_lib.retrieval.budget import cut_at_line_end
from pkg_lib.retrieval.enhanced import ENHANCED
from pkg_lib.retrieval.knowledge import source_of
from pkg_lib.retrieval.prune import NO_BRANCH, without_branch
from pkg_lib.retrieval.rows import rows

# What each method retrieves. The other methods retrieve rows.
NODE_OF = {
    "Func-BM25": IMPL,
    "Func-PKG": IMPL,
    "Block-PKG": BLOCK,
    "JSON-PKG": PATHVALUE,
    ENHANCED: IMPL,
}
DEDENTED = ("Func-PKG", "Block-PKG", ENHANCED)  # methods that prune, and dedent what remains
Structure = Callable[[list[Document]], list[Structured]]


class TracedLine(NamedTuple):
    """A line of a retrieved node.

    Attributes:
        number: Its number in the document, from 1.
        text: The line.
        pruned: Whether pruning removed it.
    """

    number: int
    text: str
    pruned: bool


@dataclass(frozen=True, slots=True)
class Traced:
    """A context and where it comes from.

    Attributes:
        text: The context's text.
        graph: The graph of its document; None for a row.
        node: The retrieved node.
        removed: The branch that pruning removed, or ``NO_BRANCH``.
    """

    text: str
    graph: Graph | None = None
    node: int = -1
    removed: int = NO_BRANCH

    @property
    def gone(self) -> frozenset[int]:
        """The pruned branch and all nodes below it."""
        if self.graph is None or self.removed == NO_BRANCH:
            return frozenset()
        return frozenset([self.removed, *self.graph.descendants(self.removed)])

    @property
    def lines(self) -> list[TracedLine]:
        """The lines of the node in its document; none for a row."""
        if self.graph is None:
            return []
        first, last, removed = self.graph.first, self.graph.last, self.removed
        pruned = range(0)
        if removed != NO_BRANCH:
            pruned = range(int(first[removed]), int(last[removed]) + 1)
        texts = self.graph.payload(self.node).split("\n")
        numbered = enumerate(texts, int(first[self.node]))
        return [
            TracedLine(
                number,
                text,
                number in pruned,
            )
            for number, text in numbered
        ]


def trace(
    context: Context,
    documents: Mapping[str, Document],
    structure: Structure = structured,
) -> Traced:
    """Find the row or the node that a context was made of.

    Args:
        context: A stored context, with or without its text.
        documents: The documents of its corpus, by id.
        structure: Turns text documents into JSON.

    Returns:
        The context's origin.

    Raises:
        UserError: The corpus does not have the document, or has it in another version.
    """
    source = context.source
    name = source
    if source not in documents:  # it is document:lines or document#path
        names = [d for d in documents if source.startswith((f"{d}:", f"{d}#"))]
        name = max(names, key=len, default="")
    if name not in documents:
        raise UserError(f"the available corpus has no document of {source}")
    document = documents[name]
    kind = None if source == name else NODE_OF.get(context.method)
    if kind is None:
        candidates = _rows(source, document)
    elif kind == PATHVALUE:
        candidates = _nodes(context, build_text_graph([document], structure([document])), kind)
    else:
        candidates = _nodes(context, build_code_graph([document]), kind)
    for traced in candidates:
        if digest(traced.text) == context.sha256:
            return traced
    if context.method == ENHANCED:
        raise UserError(
            f"{source} has a docstring that a model wrote, so its text is not in the corpus"
        )
    raise UserError(
        f"the text of {source} has changed: the corpus has another version than the context"
    )


def _rows(source: str, document: Document) -> Iterator[Traced]:
    """Yield the rows that a source may name, each whole and cut to the budget."""
    texts = [row.text for row in rows(document, CONTEXT_CHARS) if row.source == source]
    for text in [*texts, document.text]:
        yield Traced(text)
        yield Traced(cut_at_line_end(text)[0])


def _nodes(
    context: Context,
    graph: Graph,
    kind: int,
) -> Iterator[Traced]:
    """Yield the nodes that a context may show, without the branch whose lines it names."""
    for node in graph.of_type(kind).tolist():
        if source_of(graph, node) != context.source:
            continue
        removed = NO_BRANCH
        for branch in graph.branches(node).tolist():
            if context.pruned == f"{graph.first[branch]}-{graph.last[branch]}":
                removed = branch
                break
        text = without_branch(graph, node, removed)
        if context.method in DEDENTED:
            text = textwrap.dedent(text)
        yield Traced(cut_at_line_end(text)[0], graph, node, removed)
