"""The conservation ledger: every function of the corpus is an IMPL node or skipped, by reason.

Functions and blocks are counted a second time, a block being whatever statement of a function has statements
of its own, or a body that begins a line; text that does not parse is counted by its `def` lines; every text
is compared with its lines.
"""

import ast
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pkg_lib.core.source_tree import NAMED
from pkg_lib.core.store import first_few
from pkg_lib.core.types import Document, UserError
from pkg_lib.core.workers import paused_collector
from pkg_lib.graph.code import UNPARSABLE, sources_of, split_lines, syntax_tree
from pkg_lib.graph.schema import BLOCK, IMPL, PKG

_DEF = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]", re.M)
UNPARSED = "does not parse: "
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Ledger:
    """`skipped`, `lost`: reason -> how many sources, and `def` lines in them; `wrong`: what is not right."""

    documents: int = 0
    functions: int = 0
    implementations: int = 0
    blocks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    named: dict[str, list[str]] = field(default_factory=dict)  # reason -> documents

    @property
    def balanced(self) -> bool:
        return not self.wrong and self.functions == self.implementations + self.lost.total()

    def __str__(self) -> str:
        state = "does not add up:" if self.wrong else "every text is exactly its lines"
        rows = [
            f"{self.documents:,} documents, {self.skipped.total():,} sources skipped",
            f"{self.functions:,} functions = {self.implementations:,} IMPL nodes"
            f" + {self.lost.total():,} skipped",
            *(
                f"  {_skipped_sources(reason, number)}: {first_few(self.named[reason], NAMED)};"
                f" {_counted(self.lost[reason], 'function')} in them"
                for reason, number in self.skipped.most_common()
            ),
            f"{self.blocks:,} BLOCK nodes; {state}",
            *(f"  {w}" for w in self.wrong[:10]),
            *([f"  and {len(self.wrong) - 10:,} more"] if len(self.wrong) > 10 else []),
        ]
        return "\n".join(rows)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _skipped_sources(reason: str, number: int) -> str:
    """Say how many sources were skipped and why, such as "4 sources do not parse (SyntaxError)"."""
    sources = _counted(number, "source")
    if reason.startswith(UNPARSED):
        verb = "does" if number == 1 else "do"
        return f"{sources} {verb} not parse ({reason.removeprefix(UNPARSED)})"
    return f"{sources} skipped ({reason})"


def ledger(documents: list[Document], graph: PKG) -> Ledger:
    """The ledger of a graph and its documents. UserError for other documents."""
    if [d.id for d in documents] != graph.documents:
        raise UserError(
            "the ledger needs the documents that the graph was built from, in the same order"
        )
    account, unparsable = Ledger(len(documents)), Counter[tuple[str, str]]()
    bounds = np.searchsorted(graph.document, np.arange(len(documents) + 1)).tolist()
    with paused_collector():
        for document, *span in zip(documents, bounds, bounds[1:], strict=False):
            nodes = [v for v in range(*span) if graph.type[v] in (IMPL, BLOCK)]
            counts = Counter(graph.type[nodes].tolist())
            expected: Counter[int] = Counter()
            sources = sources_of(document)
            reasons = [] if sources else [("no Python code", document.text)]
            for _, source in sources:
                try:
                    expected += _count(source)
                except UNPARSABLE as e:
                    reasons.append((f"{UNPARSED}{type(e).__name__}: {e}", source))
            if counts != expected:
                words = f"{expected[IMPL]} functions and {expected[BLOCK]} blocks"
                account.wrong.append(
                    f"{document.id}: {words}, but {counts[IMPL]} and {counts[BLOCK]} nodes"
                )
            account.wrong += _other_texts(sources, graph, nodes)
            account.functions += expected[IMPL]
            account.implementations += counts[IMPL]
            account.blocks += counts[BLOCK]
            for why, source in reasons:
                unparsable[document.id, why] += 1
                reason, lines = ":".join(why.split(":")[:2]), len(_DEF.findall(source))
                account.skipped[reason] += 1
                account.named.setdefault(reason, []).append(document.id)
                account.lost[reason] += lines
                account.functions += lines
    named = Counter(graph.skipped)
    account.wrong += [
        f"{d}: not named as skipped: {why}" for d, why in (unparsable - named).elements()
    ]
    account.wrong += [
        f"{d}: skipped without need: {why}" for d, why in (named - unparsable).elements()
    ]
    return account


def _count(source: str) -> Counter[int]:
    """How many functions and blocks a source has, under IMPL and BLOCK."""
    functions = [node for node in ast.walk(syntax_tree(source)) if isinstance(node, _FUNCTION)]
    inside = {
        node
        for f in functions
        for node in ast.walk(f)
        if isinstance(node, ast.stmt) and node is not f
    }
    blocks = [node for node in inside if hasattr(node, "body") or hasattr(node, "cases")]
    lines = [line.encode() for line in split_lines(source)]
    own = [f.body[ast.get_docstring(f, clean=False) is not None :] for f in functions]
    bodies = [any(not lines[s.lineno - 1][: s.col_offset].strip() for s in body) for body in own]
    return Counter({IMPL: len(functions), BLOCK: len(blocks) + sum(bodies)})


def _other_texts(sources: list[tuple[int, str]], graph: PKG, nodes: list[int]) -> Iterator[str]:
    """The nodes whose payload is not their lines of one of the document's sources."""
    texts = [
        (offset, io.StringIO(text, newline=None).read().split("\n")) for offset, text in sources
    ]
    for v, payload in zip(nodes, graph.payloads(nodes), strict=True):
        first, last = graph.first[v], graph.last[v]
        spans = (
            lines[first - 1 - offset : last - offset] for offset, lines in texts if offset < first
        )
        if payload not in map("\n".join, spans):
            yield f"{graph.where(v)}: the text is not these lines of the document"
