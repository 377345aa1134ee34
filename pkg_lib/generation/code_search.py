"""Search a text for lines that are Python, where no mark tells code from prose."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from pkg_lib.core.python_syntax import UNPARSABLE, first_line, is_constant, syntax_tree

MAX_PARSED = 2_000_000  # characters that are parsed in one search

# A line that opens a block. The lines indented below it belong to that statement; they are not a
# function body of their own.
_HEADER = re.compile(
    r"(?:(?:async[ ]+)?def|class|if|elif|else|for|while|with|try|except|finally|match|[)\]}])"
    r".*:[ \t]*(?:#.*)?$"
)
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+[A-Z`*]")


class _Budget:
    """The number of characters that may still be parsed, so that a search in junk ends."""

    def __init__(self, characters: int) -> None:
        self.left = characters

    def allows(self, text: str) -> bool:
        """Subtract a text from the budget and tell whether it was enough."""
        self.left -= len(text) + 100
        return self.left >= 0


def longest_run(
    parts: Iterable[str],
    accept: Callable[[str], str],
    are_bodies: bool = False,
) -> str:
    """Return the longest accepted run of lines within any of several texts.

    Args:
        parts: Texts without fence marks.
        accept: Turns a run into code, or into "" if the run is not acceptable.
        are_bodies: Whether runs are indented function bodies. Otherwise they are modules, of which
            the common indentation is removed.

    Returns:
        The code of the run with the most lines, the first among equals; "" without any.
    """
    budget = _Budget(MAX_PARSED)
    best, longest = "", 0  # the code, and its number of line breaks
    for part in parts:
        for run in _runs(part.split("\n"), are_bodies, budget):
            code = accept(run)
            length = code.strip("\n").count("\n")
            if length > longest or (code and not best):
                best, longest = code, length
    return best


def _runs(
    lines: list[str],
    are_bodies: bool,
    budget: _Budget,
) -> Iterator[str]:
    """Yield the runs of lines that are Python, without prose at their ends.

    A run ends only where its last statement ends. Code that breaks off inside a function is not a run.
    """
    start = 0
    header = ""  # the last line without indentation
    while start < len(lines) and budget.left > 0:
        indent = indent_of(lines[start])
        following = start + 1
        is_inside_block = indent and _HEADER.match(header)
        is_blank = not lines[start].strip()
        is_too_shallow = are_bodies and not indent
        if not (is_blank or is_inside_block or is_too_shallow):
            end = _end_of_run(lines, start, are_bodies, budget)
            if end > start and not _breaks_off(lines, start, end):
                yield _trimmed(lines, start, end, are_bodies)
            following = max(end, following)
        for line in lines[start:following]:
            if line.strip() and not indent_of(line):
                header = line
        start = following


def _end_of_run(
    lines: list[str],
    start: int,
    is_body: bool,
    budget: _Budget,
) -> int:
    """Find the line after the longest Python that begins at a line; the line itself without any."""
    indent = indent_of(lines[start])
    end = start
    while end < len(lines):
        line = lines[end]
        if line.strip() and indent_of(line) < indent and not is_body:
            break
        end += 1
    while end > start:
        source = "\n".join(lines[start:end])
        if not budget.allows(source):
            return start
        try:
            syntax_tree(f"def _():\n{source}" if is_body else dedented(source))
            return end
        except SyntaxError as error:
            failing_line = (error.lineno or 1) - (2 if is_body else 1)
            end = min(end - 1, start + max(failing_line, 0))
        except UNPARSABLE:
            return start
    return start


def _breaks_off(
    lines: list[str],
    start: int,
    end: int,
) -> bool:
    """Tell whether the first line after a run belongs to its block. A list item is prose."""
    for line in lines[end:]:
        if line.strip():
            is_inside = indent_of(line) >= max(indent_of(lines[start]), 1)
            return is_inside and not _LIST_ITEM.match(line)
    return False


def _trimmed(
    lines: list[str],
    start: int,
    end: int,
    is_body: bool,
) -> str:
    """Return a run as code.

    Statements at both ends of a module that do nothing may be words of prose. They are removed.
    """
    code = "\n".join(lines[start:end])
    code = code.rstrip() + "\n" if end < len(lines) else code.rstrip(" \t")
    if is_body:
        return code
    code = dedented(code)
    statements = syntax_tree(code).body
    kept = [node for node in statements if has_effect(node) or is_constant(node)]
    if not kept:
        return code
    is_start_kept = kept[0] is statements[0]
    if is_start_kept and kept[-1] is statements[-1]:
        return code
    first = 0 if is_start_kept else first_line(kept[0]) - 1
    kept_lines = code.split("\n")[first : kept[-1].end_lineno]
    return "\n".join(kept_lines) + "\n"


def has_effect(statement: ast.stmt) -> bool:
    """Tell whether a statement does more than a line of prose that happens to be Python.

    A name or a comparison has no effect; a call, an assignment or a definition has.

    Args:
        statement: A statement of a parsed module.

    Returns:
        False for an annotation without a value, and for an expression without a call, ``await`` or
        ``yield``, such as a docstring. True for any other statement.
    """
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    if not isinstance(statement, ast.Expr):
        return True
    effects = ast.Call | ast.Await | ast.Yield | ast.YieldFrom
    return any(isinstance(node, effects) for node in ast.walk(statement))


def dedented(code: str) -> str:
    """Remove the common indentation.

    Unlike ``textwrap.dedent`` this removes no more than that from blank lines, because they may be
    part of a string.

    Args:
        code: The lines. Blank ones do not count for the common indentation. A tab counts as one
            column.

    Returns:
        The same number of lines.
    """
    lines = code.split("\n")
    indents = [indent_of(line) for line in lines if line.strip()]
    margin = min(indents, default=0)
    return "\n".join(without_margin(line, margin) for line in lines)


def without_margin(line: str, margin: int) -> str:
    """Remove a margin from the start of a line.

    Args:
        line: A single line.
        margin: How many blanks and tabs to remove.

    Returns:
        The rest of the line. A line that is indented less loses its whole indentation and nothing
        else.
    """
    return line[min(margin, indent_of(line)) :]


def first_line_of(code: str) -> str:
    """Return the first line that is not blank.

    Args:
        code: Any text.

    Returns:
        The line with its indentation; "" if all lines are blank.
    """
    for line in code.split("\n"):
        if line.strip():
            return line
    return ""


def indent_of(line: str) -> int:
    """Count the blanks and tabs at the start of a line.

    Args:
        line: A single line.

    Returns:
        The number of characters; a tab counts as one. In a line of blanks all of them count.
    """
    return len(line) - len(line.lstrip(" \t"))
