"""Documents -> node columns, in one process or in several.

Nodes are numbered from 0 in document order: NAME, IMPL, then the BLOCKs of each function. A payload is stored
once however many nodes carry it; `text` of a node is its row among the distinct payloads, in order of
appearance.

This module loads neither numpy nor Arrow, so that a worker process is up in a tenth of a second.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate, groupby

from pkg_lib.core.types import Document, UserError
from pkg_lib.core.workers import ordered, paused_collector
from pkg_lib.graph.code import Function, functions_of, sources_of, split_lines

NAME, IMPL, BLOCK, PATHVALUE, PATH = range(5)
NODE_TYPES = ("NAME", "IMPL", "BLOCK", "PATHVALUE", "PATH")
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)  # what `ast.parse` raises for no Python
CHUNK_CHARS = (
    500_000  # of source for a worker at once: half a second of work, so that the last chunks end together
)


class Columns:
    """Nodes under construction, one array a column; `PKG.of` makes a graph of them, edges included.

    `parent` is the node that this one refines (-1: none), `first` and `last` its 1-based inclusive lines.
    """

    def __init__(self) -> None:
        self.type = array("b")
        self.document, self.parent, self.first, self.last, self.text = (array("i") for _ in range(5))
        self.texts: dict[str, int] = {}
        self.skipped: list[tuple[str, str]] = []

    def __len__(self) -> int:
        return len(self.type)

    def node(self, kind: int, document: int, parent: int, first: int, last: int, payload: str) -> int:
        """Appends one node and returns its number. `PKG.of` refuses a payload with a lone surrogate."""
        self.type.append(kind)
        self.document.append(document)
        self.parent.append(parent)
        self.first.append(first)
        self.last.append(last)
        self.text.append(self.texts.setdefault(payload, len(self.texts)))
        return len(self.type) - 1

    def code(self, index: int, document: Document) -> None:
        """The functions of a document, or why (part of) it has none in `skipped`."""
        sources = sources_of(document)
        if not sources:
            self.skipped.append((document.id, "no Python code"))
        for offset, source in sources:
            try:
                functions = functions_of(source)
            except UNPARSABLE as e:
                self.skipped.append((document.id, f"does not parse: {type(e).__name__}: {e}"))
                continue
            lines = split_lines(source)
            for function in functions:
                self._function(index, offset, lines, function)

    def _function(self, document: int, offset: int, lines: list[str], function: Function) -> None:
        span = (function.first + offset, function.last + offset)
        name = self.node(NAME, document, -1, *span, function.name)
        impl = self.node(IMPL, document, name, *span, "\n".join(lines[function.first - 1 : function.last]))
        for b in function.blocks:
            text = "\n".join(lines[b.first - 1 : b.last])
            parent = impl + 1 + b.parent if b.parent >= 0 else impl
            self.node(BLOCK, document, parent, b.first + offset, b.last + offset, text)

    def extend(self, other: Columns, documents: int) -> None:
        """Appends the columns of the documents that follow the first `documents`."""
        nodes = len(self)
        rows = [self.texts.setdefault(text, len(self.texts)) for text in other.texts]
        self.type += other.type
        self.document.extend(d + documents for d in other.document)
        self.parent.extend(p + nodes if p >= 0 else -1 for p in other.parent)
        self.first += other.first
        self.last += other.last
        self.text.extend(map(rows.__getitem__, other.text))
        self.skipped += other.skipped


def scan(documents: list[Document], processes: int = 1) -> Columns:
    """The code columns of a corpus, the same from any number of processes. UserError when a worker dies."""
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    if processes == 1:
        return _scan(documents)
    whole, done, chunks = Columns(), 0, list(_chunks(documents))
    with paused_collector():
        for chunk, part in zip(chunks, ordered(_scan, chunks, processes), strict=True):
            whole.extend(part, done)
            done += len(chunk)
    return whole


def _scan(documents: list[Document]) -> Columns:
    columns = Columns()
    with paused_collector():
        for index, document in enumerate(documents):
            columns.code(index, document)
    return columns


def _chunks(documents: list[Document]) -> Iterator[list[Document]]:
    """Runs of documents of about CHUNK_CHARS characters."""
    ends = accumulate(len(d.text) for d in documents)
    for _, run in groupby(zip(documents, ends, strict=True), lambda pair: pair[1] // CHUNK_CHARS):
        yield [document for document, _ in run]
