"""Rows of a corpus of source files: windows of whole definitions, so that a row has a function's budget."""

import ast
from itertools import accumulate, pairwise

from pkg_lib.core.types import Document
from pkg_lib.graph.code import UNPARSABLE, split_lines, syntax_tree


def rows(document: Document, limit: int) -> list[tuple[str, str]]:
    """(source, text) of each row: the document, but of a Python file over `limit` characters its windows.

    Statements are joined while they fit. One that does not is alone in its windows, cut between the
    statements inside it; a statement without any, and a file that does not parse, between lines.
    """
    if document.kind != "python" or len(document.text) <= limit:
        return [(document.id, document.text)]
    lines = split_lines(document.text)
    ends = [0, *accumulate(len(line) + 1 for line in lines)]
    try:
        spans = _windows(1, len(lines), syntax_tree(document.text), ends, limit)
    except UNPARSABLE:
        spans = _windows(1, len(lines), ast.Pass(), ends, limit)
    texts = ((a, b, "\n".join(lines[a - 1 : b]).strip("\n")) for a, b in spans)
    return [(f"{document.id}:{a}-{b}", text) for a, b, text in texts if text.strip()]


def _windows(
    first: int, last: int, node: ast.AST, ends: list[int], limit: int
) -> list[tuple[int, int]]:
    """First and last lines that tile a statement; only a single line may be over the limit."""

    def fits(a: int, b: int) -> bool:
        return a == b or ends[b] - ends[a - 1] - 1 <= limit

    if fits(first, last):
        return [(first, last)]
    inside = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt | ast.ExceptHandler)]
    # By last line: what stands above a statement goes with it, and of several on one line there is one.
    parts = {n.end_lineno or 0: n for n in inside} or dict.fromkeys(range(first, last + 1), node)
    found: list[tuple[int, int]] = []
    joins = False
    for (above, stop), part in zip(
        pairwise([first - 1, *[*parts][:-1], last]), parts.values(), strict=True
    ):
        if joins and fits(found[-1][0], stop):
            found[-1] = (found[-1][0], stop)
        else:
            found += _windows(above + 1, stop, part, ends, limit)
        joins = fits(above + 1, stop)
    return found
