"""Python source to functions and their blocks (Section 3.1.1, Equations 1 and 2).

A function is every `def`, methods and nested ones included, from its first decorator to its last
line. Its blocks are its body, as in the authors' code, and below that every compound statement. A
statement belongs to the innermost function only:

- The body reaches from the first statement after the docstring to the end. A function on one line
  has no body.
- `elif` is a block of its own and a child of the `if` before it, as in Python's grammar.
- `else`, `except`, `finally` and `case` are part of their statement; statements in them are its
  children.
- A local `def` is a block of the function around it, and also a function with blocks of its own.
- The blocks of a class body inside a function belong to that function.

Lines are exact and inclusive. The text of a node is these lines of the source, unchanged.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from pkg_lib.core.markdown import (
    MARKS,
    fences,
    with_plain_line_ends,
)
from pkg_lib.core.python_syntax import UNPARSABLE, syntax_tree
from pkg_lib.core.types import Document

_DEF = re.compile(r"\bdef[ \t\f\\]")
_DEF_LINE = re.compile(r"^[ \t]*(async )?def ", re.M)
_PYTHON = {"", "python", "python3", "py"}
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_LOOP = ast.For | ast.AsyncFor | ast.While
_OTHER = ast.If | ast.Try | ast.TryStar | ast.With | ast.AsyncWith | ast.Match | ast.ClassDef
_COMPOUND = _FUNCTION | _LOOP | _OTHER


@dataclass(slots=True)
class Block:
    """A body or a compound statement.

    Attributes:
        first: First line, counted from 1.
        last: Last line, inclusive.
        parent: Index of the block around it in its function, -1 for none.
    """

    first: int
    last: int
    parent: int


@dataclass(slots=True)
class Function:
    """A function, its lines and its blocks in source order.

    Attributes:
        name: The name after `def`, without its class or module.
        first: First line, counted from 1: that of the first decorator, if it has one.
        last: Last line, inclusive.
        blocks: The body, if it begins on a line of its own, and the compound statements in it.
            Those of local functions are not among them.
    """

    name: str
    first: int
    last: int
    blocks: list[Block] = field(default_factory=list)


def functions_of(source: str) -> list[Function]:
    """Find all functions of a module, in source order.

    The traversal uses an explicit stack, because an `elif` chain may be nested deeper than Python's
    recursion limit.

    Args:
        source: The text of the module.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: The source does not parse
        (`UNPARSABLE`).
    """
    lines = split_lines(source)
    functions: list[Function] = []
    # A statement, the innermost function around it, and the index of the block around it.
    stack: list[tuple[ast.AST, Function | None, int]] = [(syntax_tree(source), None, -1)]
    while stack:
        node, owner, parent = stack.pop()
        if isinstance(node, ast.stmt):
            first = _first_line(node, lines)
            last = node.end_lineno or node.lineno
            if owner is not None:
                owner.blocks.append(Block(first, last, parent))
                parent = len(owner.blocks) - 1
            if isinstance(node, _FUNCTION):
                owner = Function(
                    node.name,
                    first,
                    last,
                    _body(node, last, lines),
                )
                functions.append(owner)
                parent = len(owner.blocks) - 1
        inside = list(_compound_statements(node))
        stack += [(child, owner, parent) for child in reversed(inside)]
    return functions


def _compound_statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the compound statements directly inside a node, in source order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _COMPOUND):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from _compound_statements(child)


def _first_line(node: ast.stmt, lines: list[str]) -> int:
    r"""Return the line of the first "@", which may be above its expression: `@(` or `@\`."""
    decorators = getattr(node, "decorator_list", None)
    if not decorators:
        return node.lineno
    line: int = decorators[0].lineno
    while line > 1 and not lines[line - 1].lstrip(" \t\f").startswith("@"):
        line -= 1
    return line


def _body(node: _FUNCTION, last: int, lines: list[str]) -> list[Block]:
    """Return the one block of a body; none if only the docstring begins on a line of its own."""
    has_docstring = ast.get_docstring(node, clean=False) is not None
    for statement in node.body[has_docstring:]:
        before = lines[statement.lineno - 1].encode()[: statement.col_offset]
        if not before.strip():
            return [Block(_first_line(statement, lines), last, -1)]
    return []


def split_lines(source: str) -> list[str]:
    r"""Split lines as Python's tokenizer does: a form feed and \x1c to \x1e do not end one.

    Args:
        source: The text of a module, with any line ends.

    Returns:
        The lines without their ends, so that line n is at index n - 1. After a line end at the end
        of the text, the last one is "".
    """
    return with_plain_line_ends(source).split("\n")


def sources_of(document: Document) -> list[tuple[int, str]]:
    """List the Python sources in a document.

    A fence that is never closed runs to the end. An answer without a fence is code if it contains a
    ``def``.

    Args:
        document: A module or an answer in Markdown.

    Returns:
        (line offset, source): the module itself, or each fenced block of an answer that has a
        function.
    """
    text = document.text
    if document.kind == "python":
        return [(0, text)]
    if not any(mark in text for mark in MARKS):
        return [(0, text)] if _DEF_LINE.search(text) else []
    python = (fence for fence in fences(text) if fence.language.lower() in _PYTHON)
    return [(fence.line, fence.code) for fence in python if _DEF.search(fence.code)]


def parses(source: str) -> bool:
    """Tell whether a text is Python after removing common indentation, as that of a method.

    Args:
        source: The text of a node or of a part of it. It may begin with indentation.

    Returns:
        Whether it parses. A text without any statement does.
    """
    if is_python(textwrap.dedent(source)):
        return True
    # A string that starts in column 0 keeps dedent from working; such a text parses inside an "if".
    return source[:1].isspace() and is_python("if 1:\n" + source)


def is_python(source: str) -> bool:
    """Tell whether a text parses as a module.

    Args:
        source: The text. No indentation is removed from it.

    Returns:
        Whether it parses. False also for a text that is nested too deep for Python's parser.
    """
    try:
        syntax_tree(source)
    except UNPARSABLE:
        return False
    return True
