"""Node types, and the nodes of each document, found in one process or in several.

This module loads neither numpy nor Arrow, so that a worker process starts in a tenth of a second.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pkg_lib.core.python_syntax import UNPARSABLE
from pkg_lib.core.types import Document, UserError
from pkg_lib.core.workers import ordered, paused_collector
from pkg_lib.graph.code import (
    Block,
    Function,
    functions_of,
    sources_of,
    split_lines,
)

NAME, IMPL, BLOCK, PATHVALUE, PATH = range(5)
NODE_TYPES = ("NAME", "IMPL", "BLOCK", "PATHVALUE", "PATH")
# Characters of source in one batch of a worker: half a second, so that the last batches end
# together.
CHUNK_CHARS = 500_000


class NodeRow(NamedTuple):
    """A node of one document.

    Attributes:
        type: Its type, as a position in NODE_TYPES.
        parent: Row of the node that this one refines, -1 for none.
        first: First line, counted from 1; 0 in a text.
        last: Last line, inclusive.
        payload: Its text.
    """

    type: int
    parent: int
    first: int
    last: int
    payload: str


@dataclass(slots=True)
class DocumentNodes:
    """The nodes of one document.

    Attributes:
        rows: The nodes, each directly before all nodes below it.
        skipped: Why the document, or sources in it, gave no nodes.
    """

    rows: list[NodeRow] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def nodes_of(document: Document) -> DocumentNodes:
    """Find the functions of a document.

    Args:
        document: A module or an answer in Markdown.

    Returns:
        For each function in source order: NAME, IMPL and the BLOCKs. Their lines are those of the
        document. A source that does not parse gives a reason instead, as does a document without
        code.
    """
    found = DocumentNodes()
    sources = sources_of(document)
    if not sources:
        found.skipped.append("no Python code")
    for offset, source in sources:
        try:
            functions = functions_of(source)
        except UNPARSABLE as e:
            found.skipped.append(f"does not parse: {type(e).__name__}: {e}")
            continue
        lines = split_lines(source)
        for function in functions:
            _add_function(found.rows, function, lines, offset)
    return found


def _add_function(
    rows: list[NodeRow],
    function: Function,
    lines: list[str],
    offset: int,
) -> None:
    def add(
        kind: int,
        parent: int,
        part: Block | Function,
        payload: str = "",
    ) -> None:
        payload = payload or "\n".join(lines[part.first - 1 : part.last])
        first = part.first + offset
        last = part.last + offset
        rows.append(NodeRow(kind, parent, first, last, payload))

    name = len(rows)
    impl = name + 1
    add(NAME, -1, function, function.name)
    add(IMPL, name, function)
    for block in function.blocks:
        add(BLOCK, impl + 1 + block.parent, block)


def scan(documents: list[Document], processes: int = 1) -> Iterator[DocumentNodes]:
    """Find the nodes of each document; the result is the same with any number of processes.

    Args:
        documents: Modules, or answers in Markdown.
        processes: Number of processes on this machine; 1 uses this one. An engine that distributes
            the work ignores it.

    Yields:
        The nodes of each document, in the order of the documents.

    Raises:
        UserError: `processes` is less than 1, or a worker process died.
    """
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    batches: list[list[Document]] = [[]]
    characters = 0
    for document in documents:
        batches[-1].append(document)
        characters += len(document.text)
        if characters >= CHUNK_CHARS:
            batches.append([])
            characters = 0
    for found in ordered(_scan_batch, batches, processes):
        yield from found


def _scan_batch(
    documents: list[Document],
) -> list[DocumentNodes]:
    with paused_collector():
        return [nodes_of(document) for document in documents]
