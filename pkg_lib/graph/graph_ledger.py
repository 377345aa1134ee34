"""The conservation ledger: every function of the corpus is an IMPL node or skipped, by reason.

Functions and blocks are counted a second time, by another walk than the one that builds the graph: over all
statements of the syntax tree, a block being whatever has statements of its own. Text of which no tree can be
made is counted by its lines that start with `def`. The text of every IMPL and BLOCK is compared with its
lines of the document.
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
    """`skipped`, `lost`: reason -> how many sources, and `def` lines in them. `wrong`: what does not add
    up."""

    documents: int = 0
    functions: int = 0
    implementations: int = 0
    blocks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        """Functions = IMPL nodes + skipped ones in every document, and every text is its lines."""
        return not self.wrong and self.functions == self.implementations + self.lost.total()

    def __str__(self) -> str:
        state = "does not add up:" if self.wrong else "every text is exactly its lines"
        rows = [
            f"{self.documents:,} documents, {self.skipped.total():,} sources skipped",
            f"{self.functions:,} functions = {self.implementations:,} IMPL nodes"
            f" + {self.lost.total():,} skipped",
            *(f"  {self.lost[r]:,} `def` lines in {n:,} sources: {r}" for r, n in self.skipped.most_common()),
            f"{self.blocks:,} BLOCK nodes; {state}",
            *(f"  {w}" for w in self.wrong[:10]),
            *([f"  and {len(self.wrong) - 10:,} more"] if len(self.wrong) > 10 else []),
        ]
        return "\n".join(rows)

    def count(self, document: Document, graph: PKG, nodes: range, skipped: Counter[tuple[str, str]]) -> None:
        """Counts one document and its nodes, and takes its entries out of what the graph says it skipped."""
        functions = blocks = 0
        sources = sources_of(document)
        if not sources:
            self._skip(document, "no Python code", document.text, skipped)
        for _, source in sources:
            try:
                in_source = _functions_and_blocks(source)
            except UNPARSABLE as e:
                self._skip(document, f"does not parse: {type(e).__name__}: {e}", source, skipped)
            else:
                functions, blocks = functions + in_source[0], blocks + in_source[1]
        kinds = graph.type[nodes.start : nodes.stop]
        held = int((kinds == IMPL).sum()), int((kinds == BLOCK).sum())
        if held != (functions, blocks):
            counted = f"{functions} functions and {blocks} blocks, but {held[0]} and {held[1]} nodes"
            self.wrong.append(f"{document.id}: {counted}")
        self.functions += functions
        self.implementations += held[0]
        self.blocks += held[1]
        self.wrong += _other_texts(sources, graph, [v for v in nodes if graph.type[v] in (IMPL, BLOCK)])

    def _skip(self, document: Document, why: str, source: str, skipped: Counter[tuple[str, str]]) -> None:
        reason, lines = ":".join(why.split(":")[:2]), len(_DEF.findall(source))
        self.skipped[reason] += 1
        self.lost[reason] += lines
        self.functions += lines
        if not skipped[document.id, why]:
            self.wrong.append(f"{document.id}: not named as skipped: {why}")
        skipped[document.id, why] -= 1


def ledger(documents: list[Document], graph: PKG) -> Ledger:
    """The ledger of a graph and the documents that it was built from. UserError for other documents."""
    if [d.id for d in documents] != graph.documents:
        raise UserError("the ledger needs the documents that the graph was built from, in the same order")
    account = Ledger(len(documents))
    bounds = np.searchsorted(graph.document, np.arange(len(documents) + 1))
    skipped = Counter(graph.skipped)
    with paused_collector():
        for i, document in enumerate(documents):
            account.count(document, graph, range(bounds[i], bounds[i + 1]), skipped)
    account.wrong += [f"{name}: skipped without need: {why}" for name, why in skipped.elements()]
    return account


def _functions_and_blocks(source: str) -> tuple[int, int]:
    """How many of each a source has."""
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


def _other_texts(sources: list[tuple[int, str]], graph: PKG, nodes: list[int]) -> list[str]:
    """The nodes whose payload is not their lines of one of the document's sources."""
    read = ((offset, io.StringIO(text, newline=None)) for offset, text in sources)
    tables = [(offset, [line.rstrip("\n") for line in lines]) for offset, lines in read]
    wrong = []
    for v, payload in zip(nodes, graph.payloads(nodes), strict=True):
        first, last = graph.first[v], graph.last[v]
        spans = (lines[first - 1 - offset : last - offset] for offset, lines in tables if offset < first)
        if not any("\n".join(span) == payload for span in spans):
            wrong.append(f"{graph.where(v)}: the text is not these lines of the document")
    return wrong
