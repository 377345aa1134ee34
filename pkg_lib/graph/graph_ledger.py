"""Check that every function of a corpus is an IMPL node or is skipped for a reason.

Functions and blocks are counted a second time by other rules: a block is any statement of a
function that contains statements, or a body that begins on a line of its own. In text that does not
parse, the lines with `def` count as functions. The text of every node is compared with its lines.
"""

import ast
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pkg_lib.core.python_syntax import UNPARSABLE, syntax_tree
from pkg_lib.core.source_tree import NAMED
from pkg_lib.core.store import first_few
from pkg_lib.core.types import Document, UserError
from pkg_lib.core.workers import paused_collector
from pkg_lib.graph.code import sources_of, split_lines
from pkg_lib.graph.nodes import BLOCK, IMPL
from pkg_lib.graph.schema import Graph

UNPARSED = "does not parse: "
MOST_ERRORS = 10  # errors that are printed
_DEF = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]", re.M)


@dataclass
class Ledger:
    """What became of the functions of a corpus.

    Attributes:
        documents: Number of documents.
        functions: Number of functions in them, by the second count.
        implementations: Number of IMPL nodes.
        blocks: Number of BLOCK nodes.
        skipped: Number of skipped sources, by reason.
        lost: Number of functions in skipped sources, by reason.
        wrong: Descriptions of everything that does not add up.
        named: Names of the documents with skipped sources, by reason.
    """

    documents: int = 0
    functions: int = 0
    implementations: int = 0
    blocks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    named: dict[str, list[str]] = field(default_factory=dict)

    @property
    def balanced(self) -> bool:
        """Whether everything adds up."""
        return not self.wrong and self.functions == self.implementations + self.lost.total()

    def skip(self, document: str, reason: str, functions: int) -> None:
        """Record a skipped source and the number of functions in it.

        Args:
            document: Name of the document that contains the source.
            reason: Why the source gives no nodes. Sources are counted by it.
            functions: How many lines with `def` the source has.
        """
        self.skipped[reason] += 1
        self.lost[reason] += functions
        self.functions += functions
        self.named.setdefault(reason, []).append(document)

    def __str__(self) -> str:
        """Summarize the ledger, one fact per line."""
        lines = [
            f"{self.documents:,} documents, {self.skipped.total():,} sources skipped",
            f"{self.functions:,} functions = {self.implementations:,} IMPL nodes"
            f" + {self.lost.total():,} skipped",
        ]
        for reason, number in self.skipped.most_common():
            names = first_few(self.named[reason], NAMED)
            functions = _counted(self.lost[reason], "function")
            lines.append(f"  {_skipped_sources(reason, number)}: {names}; {functions} in them")
        state = "does not add up:" if self.wrong else "every text is exactly its lines"
        lines.append(f"{self.blocks:,} BLOCK nodes; {state}")
        lines += [f"  {error}" for error in self.wrong[:MOST_ERRORS]]
        more = len(self.wrong) - MOST_ERRORS
        if more > 0:
            lines.append(f"  and {more:,} more")
        return "\n".join(lines)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _skipped_sources(reason: str, number: int) -> str:
    """Say how many sources were skipped and why, such as "4 sources do not parse (SyntaxError)"."""
    sources = _counted(number, "source")
    if reason.startswith(UNPARSED):
        verb = "does" if number == 1 else "do"
        return f"{sources} {verb} not parse ({reason.removeprefix(UNPARSED)})"
    return f"{sources} skipped ({reason})"


def ledger(documents: list[Document], graph: Graph) -> Ledger:
    """Compare a graph with the documents that it was built from.

    Args:
        documents: The documents, in the same order.
        graph: The graph.

    Raises:
        UserError: The graph was built from other documents.
    """
    if [document.id for document in documents] != graph.documents:
        raise UserError(
            "the ledger needs the documents that the graph was built from, in the same order"
        )
    account = Ledger(len(documents))
    expected: Counter[tuple[str, str]] = Counter()  # (document, reason) of each skipped source
    numbers = np.arange(len(documents) + 1)
    bounds = np.searchsorted(graph.document, numbers).tolist()
    with paused_collector():
        for number, document in enumerate(documents):
            span = range(bounds[number], bounds[number + 1])
            nodes = [node for node in span if graph.type[node] in (IMPL, BLOCK)]
            expected.update(_check_document(account, document, graph, nodes))
    named = Counter(graph.skipped)
    for document_name, reason in (expected - named).elements():
        account.wrong.append(f"{document_name}: not named as skipped: {reason}")
    for document_name, reason in (named - expected).elements():
        account.wrong.append(f"{document_name}: skipped unnecessarily: {reason}")
    return account


def _check_document(
    account: Ledger,
    document: Document,
    graph: Graph,
    nodes: list[int],
) -> Iterator[tuple[str, str]]:
    """Add a document; yield (document, reason) for each source to be skipped."""
    expected: Counter[int] = Counter()
    sources = sources_of(document)
    if not sources:
        functions = len(_DEF.findall(document.text))
        account.skip(document.id, "no Python code", functions)
        yield document.id, "no Python code"
    for _, source in sources:
        try:
            expected += _count(source)
        except UNPARSABLE as e:
            reason = f"{UNPARSED}{type(e).__name__}"
            account.skip(document.id, reason, len(_DEF.findall(source)))
            yield document.id, f"{reason}: {e}"
    counts = Counter(graph.type[nodes].tolist())
    if counts != expected:
        words = f"{expected[IMPL]} functions and {expected[BLOCK]} blocks"
        found = f"{counts[IMPL]} and {counts[BLOCK]} nodes"
        account.wrong.append(f"{document.id}: {words}, but {found}")
    account.wrong += _other_texts(sources, graph, nodes)
    account.functions += expected[IMPL]
    account.implementations += counts[IMPL]
    account.blocks += counts[BLOCK]


def _count(source: str) -> Counter[int]:
    """Count the functions and blocks of a source, under IMPL and BLOCK."""
    tree = syntax_tree(source)
    lines = [line.encode() for line in split_lines(source)]
    blocks: set[ast.AST] = set()
    count: Counter[int] = Counter()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        count[IMPL] += 1
        for node in ast.walk(function):
            has_suite = hasattr(node, "body") or hasattr(node, "cases")
            if isinstance(node, ast.stmt) and has_suite and node is not function:
                blocks.add(node)
        has_docstring = ast.get_docstring(function, clean=False) is not None
        body = function.body[has_docstring:]
        for statement in body:
            before = lines[statement.lineno - 1][: statement.col_offset]
            if not before.strip():
                count[BLOCK] += 1
                break
    count[BLOCK] += len(blocks)
    return +count


def _other_texts(
    sources: list[tuple[int, str]],
    graph: Graph,
    nodes: list[int],
) -> Iterator[str]:
    """Describe the nodes whose payload is not their lines of one of the document's sources."""
    texts = []
    for offset, source in sources:
        lines = io.StringIO(source, newline=None).read().split("\n")
        texts.append((offset, lines))
    for node, payload in zip(nodes, graph.payloads(nodes), strict=True):
        first = graph.first[node]
        last = graph.last[node]
        for offset, lines in texts:
            span = lines[first - 1 - offset : last - offset]
            if offset < first and payload == "\n".join(span):
                break
        else:
            yield f"{graph.where(node)}: the text is not these lines of the document"
