"""Rows: the parts of a document that the methods BM25 and VoyageEmb retrieve (Section 4).

A document is one row. A Python file that exceeds the budget of a context is split into windows of
whole definitions, so that a row and a function have the same budget.
"""

import ast
from dataclasses import dataclass

from pkg_lib.core.python_syntax import UNPARSABLE, syntax_tree
from pkg_lib.core.types import Document
from pkg_lib.graph.code import split_lines

Lines = tuple[int, int]  # first and last line, from 1, inclusive


@dataclass(frozen=True, slots=True)
class Unit:
    """A text that can be retrieved.

    Attributes:
        source: The document, with its lines where the text is a part of it.
        text: What a context shows.
        question: What is searched in addition to the text; see ``Document.question``.
    """

    source: str
    text: str
    question: str = ""

    @property
    def searched(self) -> str:
        """The text that a query is compared with."""
        return f"{self.question}\n\n{self.text}" if self.question else self.text


def rows(document: Document, limit: int) -> list[Unit]:
    """Split a document into rows.

    Statements are joined while they fit into the limit. A statement that exceeds it is not joined
    with others. It is split between the statements inside it, or between lines if there are none. A
    file that does not parse is split between lines.

    Args:
        document: Any document; only Python files are split.
        limit: The most characters of a row. A single line may exceed it.

    Returns:
        The rows in order. Rows without any text are left out.
    """
    if document.kind != "python" or len(document.text) <= limit:
        return [Unit(document.id, document.text, document.question)]
    lines = split_lines(document.text)
    line_ends = [0]
    for line in lines:
        line_ends.append(line_ends[-1] + len(line) + 1)
    last_line = len(lines)
    try:
        tree = syntax_tree(document.text)
        windows = _windows(1, last_line, tree, line_ends, limit)
    except UNPARSABLE:
        windows = _windows(1, last_line, ast.Pass(), line_ends, limit)
    found = []
    for first, last in windows:
        text = "\n".join(lines[first - 1 : last]).strip("\n")
        if text.strip():
            source = f"{document.id}:{first}-{last}"
            found.append(Unit(source, text, document.question))
    return found


def _windows(
    first: int,
    last: int,
    node: ast.AST,
    line_ends: list[int],
    limit: int,
) -> list[Lines]:
    """Split the lines of a statement into windows; only a single line may exceed the limit."""

    def fits(start: int, stop: int) -> bool:
        length = line_ends[stop] - line_ends[start - 1] - 1
        return start == stop or length <= limit

    if fits(first, last):
        return [(first, last)]
    parts: dict[int, ast.AST] = {}  # by last line; of several statements on one line, the last
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler):
            parts[child.end_lineno or 0] = child
    if not parts:
        parts = dict.fromkeys(range(first, last + 1), node)
    stops = [*parts]
    stops[-1] = last
    windows: list[Lines] = []
    may_join = False
    for stop, part in zip(stops, parts.values(), strict=True):
        # A part begins after the one before, so that it includes the comments above it.
        if may_join and fits(windows[-1][0], stop):
            windows[-1] = (windows[-1][0], stop)
        else:
            windows += _windows(first, stop, part, line_ends, limit)
        may_join = fits(first, stop)
        first = stop + 1
    return windows
