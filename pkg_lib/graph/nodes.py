"""Documents -> rows of nodes, in one process or in several.

This module loads neither numpy nor Arrow, so that a worker process is up in a tenth of a second.
"""

from collections.abc import Iterator
from itertools import accumulate, groupby

from pkg_lib.core.types import Document, UserError
from pkg_lib.core.workers import ordered, paused_collector
from pkg_lib.graph.code import UNPARSABLE, functions_of, sources_of, split_lines

NAME, IMPL, BLOCK, PATHVALUE, PATH = range(5)
NODE_TYPES = ("NAME", "IMPL", "BLOCK", "PATHVALUE", "PATH")
CHUNK_CHARS = (
    500_000  # of source for a worker at once: half a second, so that the last chunks end together
)

# Type, row of the node that this one refines (-1: none), first and last line (1-based, inclusive), payload.
Row = tuple[int, int, int, int, str]
# The rows of a document, parents before children, and why it or a part of it has none.
Rows = tuple[list[Row], list[str]]


def rows_of(document: Document) -> Rows:
    """The functions of a document: NAME, IMPL, then the BLOCKs of each, in source order."""
    rows: list[Row] = []
    reasons: list[str] = []
    sources = sources_of(document)
    for offset, source in sources:
        try:
            functions = functions_of(source)
        except UNPARSABLE as e:
            reasons.append(f"does not parse: {type(e).__name__}: {e}")
            continue
        lines = split_lines(source)
        for function in functions:
            name, impl = len(rows), len(rows) + 1
            rows.append((NAME, -1, function.first + offset, function.last + offset, function.name))
            parts = [
                (IMPL, name, function),
                *((BLOCK, impl + 1 + b.parent, b) for b in function.blocks),
            ]
            for kind, parent, part in parts:
                text = "\n".join(lines[part.first - 1 : part.last])
                rows.append((kind, parent, part.first + offset, part.last + offset, text))
    return rows, reasons if sources else ["no Python code"]


def scan(documents: list[Document], processes: int = 1) -> Iterator[Rows]:
    """The rows of each document, the same from any number of processes. UserError when a worker dies."""
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    ends = accumulate(len(d.text) for d in documents)
    runs = groupby(zip(documents, ends, strict=True), lambda pair: pair[1] // CHUNK_CHARS)
    chunks = ([document for document, _ in run] for _, run in runs)
    for rows in ordered(_scan, list(chunks), processes):
        yield from rows


def _scan(documents: list[Document]) -> list[Rows]:
    with paused_collector():
        return [rows_of(document) for document in documents]
