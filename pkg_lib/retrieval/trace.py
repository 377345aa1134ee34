"""From a stored context back to its node; only its document becomes a graph, the stored digest decides."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pkg_lib.core.types import Context, Document, UserError, digest
from pkg_lib.graph.schema import BLOCK, IMPL, PATHVALUE, PKG, build
from pkg_lib.graph.text.documents import Structured, build_text
from pkg_lib.graph.text.structure import structured
from pkg_lib.retrieval.enhanced import ENHANCED
from pkg_lib.retrieval.prune import without
from pkg_lib.retrieval.retrievers import CONTEXT_CHARS, cut, place
from pkg_lib.retrieval.rows import rows

KINDS = {
    "Func-BM25": IMPL,
    "Func-PKG": IMPL,
    "Block-PKG": BLOCK,
    "JSON-PKG": PATHVALUE,
    ENHANCED: IMPL,
}
PRUNED = ("Func-PKG", "Block-PKG", ENHANCED)
Structure = Callable[[list[Document]], list[Structured]]


@dataclass(frozen=True, slots=True)
class Traced:
    """A context as its corpus gives it: a whole row, or a `node` without the `removed` branch (-1: none)."""

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
        first, last, removed = self.graph.first, self.graph.last, self.removed
        pruned = range(int(first[removed]), int(last[removed]) + 1) if removed >= 0 else ()
        numbered = enumerate(self.graph.payload(self.node).split("\n"), int(first[self.node]))
        return [(number, line, number in pruned) for number, line in numbered]


def trace(
    context: Context, documents: Mapping[str, Document], structure: Structure = structured
) -> Traced:
    """Finds a context among the documents (by id) of its corpus; UserError says why it is not there."""
    name, source = context.source, context.source
    kind = None if source in documents else KINDS.get(context.column)
    if kind == PATHVALUE:  # document#path, and both may hold a # themselves
        ends = (source[:i] for i, letter in enumerate(source) if letter == "#")
        name = max(
            (end for end in ends if end in documents), key=len, default=source.partition("#")[0]
        )
    elif source not in documents:
        name = source.rpartition(":")[0] or source
    if name not in documents:
        raise UserError(f"the corpus at hand has no {name}")
    document = [documents[name]]
    if kind is None:
        texts = [t for place, t in rows(document[0], CONTEXT_CHARS) if place == source]
        candidates = (
            Traced(t) for text in [*texts, document[0].text] for t in (text, cut(text)[0])
        )
    else:
        graph = build_text(document, structure(document)) if kind == PATHVALUE else build(document)
        candidates = _nodes(context, graph, kind)
    for traced in candidates:
        if digest(traced.text) == context.sha256:
            return traced
    if context.column == ENHANCED:
        raise UserError(
            f"{source} has a docstring that a model wrote, which the corpus does not hold"
        )
    raise UserError(f"{source} does not read here as it did: another version of the corpus")


def _nodes(context: Context, graph: PKG, kind: int) -> Iterator[Traced]:
    for node in graph.of_type(kind).tolist():
        if place(graph, node) == context.source:
            branches = {
                f"{graph.first[b]}-{graph.last[b]}": int(b) for b in graph.branches(node)[::-1]
            }
            branch = branches.get(context.pruned, -1)
            text = without(graph, node, branch) if branch >= 0 else graph.payload(node)
            text = textwrap.dedent(text) if context.column in PRUNED else text  # as the column does
            yield Traced(cut(text)[0], graph, node, branch)
