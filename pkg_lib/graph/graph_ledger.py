"""The conservation ledger: every function of the corpus is an IMPL node or stands among the skipped, by reason.

Functions and blocks are counted a second time, by another walk than the one that builds the graph: over all statements of
the syntax tree, a block being whatever has statements of its own. Text of which no tree can be made is counted by its lines
that start with `def`. The text of every IMPL and BLOCK is compared with its lines of the document.
"""

from __future__ import annotations

import ast
import io
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from pkg_lib.core.types import Document, UserError
from pkg_lib.core.workers import paused_collector
from pkg_lib.graph.code import sources_of
from pkg_lib.graph.nodes import UNPARSABLE
from pkg_lib.graph.schema import BLOCK, IMPL, PKG

_DEF = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]", re.M)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_HOLDER = (ast.stmt, ast.excepthandler, ast.match_case)  # what can hold statements: expressions never do


@dataclass
class Ledger:
    """`skipped` and `lost`: reason -> how many sources, how many `def` lines in them. `wrong` says what does not add up."""

    documents: int = 0
    functions: int = 0
    implementations: int = 0
    blocks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        """Functions = IMPL nodes + skipped ones, document by document, and every text is exactly its lines."""
        return not self.wrong and self.functions == self.implementations + self.lost.total()

    def __str__(self) -> str:
        rows = [
            f"{self.documents:,} documents, {self.skipped.total():,} sources skipped",
            f"{self.functions:,} functions = {self.implementations:,} IMPL nodes + {self.lost.total():,} skipped",
            *(f"  {self.lost[r]:,} `def` lines in {n:,} sources: {r}" for r, n in self.skipped.most_common()),
            f"{self.blocks:,} BLOCK nodes; every text is exactly its lines"
            if not self.wrong
            else "does not add up:",
            *(f"  {w}" for w in self.wrong[:10]),
            *([f"  and {len(self.wrong) - 10:,} more"] if len(self.wrong) > 10 else []),
        ]
        return "\n".join(rows)


def ledger(documents: list[Document], graph: PKG) -> Ledger:
    """The ledger of a graph and the documents that it was built from, in their order; UserError for other documents."""
    if [d.id for d in documents] != graph.documents:
        raise UserError("the ledger needs the documents that the graph was built from, in the same order")
    found = Ledger(len(documents))
    bounds = np.searchsorted(graph.document, np.arange(len(documents) + 1))
    skipped = Counter(graph.skipped)
    with paused_collector():
        for i, document in enumerate(documents):
            _document(found, document, graph, range(bounds[i], bounds[i + 1]), skipped)
    found.wrong += [f"{name}: skipped without need: {why}" for name, why in skipped.elements()]
    return found


def _document(
    found: Ledger, document: Document, graph: PKG, nodes: range, skipped: Counter[tuple[str, str]]
) -> None:
    """Counts one document and takes its entries out of `skipped`."""
    functions = blocks = 0
    sources = sources_of(document)
    if not sources:
        _skip(found, document, "no Python code", document.text, skipped)
    for _, source in sources:
        try:
            f, b = _count(source)
        except UNPARSABLE as e:
            _skip(found, document, f"does not parse: {type(e).__name__}: {e}", source, skipped)
        else:
            functions, blocks = functions + f, blocks + b
    kinds = graph.type[nodes.start : nodes.stop]
    held = int((kinds == IMPL).sum()), int((kinds == BLOCK).sum())
    if held != (functions, blocks):
        found.wrong.append(
            f"{document.id}: {functions} functions and {blocks} blocks, but {held[0]} and {held[1]} nodes"
        )
    found.functions += functions
    found.implementations += held[0]
    found.blocks += held[1]
    found.wrong += _other_texts(
        document, sources, graph, [v for v in nodes if graph.type[v] in (IMPL, BLOCK)]
    )


def _skip(
    found: Ledger, document: Document, why: str, source: str, skipped: Counter[tuple[str, str]]
) -> None:
    reason, lines = ":".join(why.split(":")[:2]), len(_DEF.findall(source))
    found.skipped[reason] += 1
    found.lost[reason] += lines
    found.functions += lines
    if not skipped[document.id, why]:
        found.wrong.append(f"{document.id}: not named as skipped: {why}")
    skipped[document.id, why] -= 1


def _count(source: str) -> tuple[int, int]:
    """(functions, blocks) of a source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        stack: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    functions = blocks = 0
    while stack:
        node, inside = stack.pop()
        function = isinstance(node, _FUNCTION)
        functions += function
        blocks += inside and isinstance(node, ast.stmt) and (hasattr(node, "body") or hasattr(node, "cases"))
        lists = (v for v in map(node.__dict__.get, node._fields) if isinstance(v, list))
        stack += [(c, inside or function) for v in lists for c in v if isinstance(c, _HOLDER)]
    return functions, blocks


def _other_texts(
    document: Document, sources: list[tuple[int, str]], graph: PKG, nodes: list[int]
) -> list[str]:
    """The nodes whose payload is not their lines of one of the document's sources."""
    tables = [
        (offset, [line.rstrip("\n") for line in io.StringIO(text, newline=None)]) for offset, text in sources
    ]
    wrong = []
    for v, payload in zip(nodes, graph.payloads(nodes), strict=True):
        first, last = graph.first[v], graph.last[v]
        spans = (lines[first - 1 - offset : last - offset] for offset, lines in tables if offset < first)
        if not any("\n".join(span) == payload for span in spans):
            wrong.append(f"{graph.where(v)}: the text is not these lines of the document")
    return wrong
