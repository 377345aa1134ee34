"""Functions -> NAME, IMPL and BLOCK nodes (Section 3.1.1, Equations 1 and 2).

A function is every `def`, methods and nested ones too, from its first decorator to its last line. A block is
its body, as in the authors' code, and below that every compound statement, of the innermost function only:
- The body goes from the first statement after the docstring to the end; a function on one line has none.
- `elif` is a BLOCK of its own, child of the `if` before it, as Python's grammar has it.
- `else`, `except`, `finally` and `case` are part of their statement, and what is in them are its children.
- A local `def` is a BLOCK of the function around it and, beside it, a function with blocks of its own.
- The blocks of a class body inside a function belong to that function.

Lines are exact and inclusive; a text is these lines of the source, unchanged.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from pkg_lib.core.markdown import MARKS, fences
from pkg_lib.core.python_syntax import UNPARSABLE, syntax_tree
from pkg_lib.core.types import Document

_DEF = re.compile(r"\bdef[ \t\f\\]")
_PYTHON = {"", "python", "python3", "py"}
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCK = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Try,
    ast.TryStar,
    ast.With,
    ast.AsyncWith,
    ast.Match,
)
_BLOCK += (ast.ClassDef, *_FUNCTION)


@dataclass(slots=True)
class Block:
    """A body or a compound statement: 1-based inclusive lines, and the index of its parent (-1: none)."""

    first: int
    last: int
    parent: int


@dataclass(slots=True)
class Function:
    """A function with its blocks in source order."""

    name: str
    first: int
    last: int
    blocks: list[Block] = field(default_factory=list)


def _first(node: ast.stmt, lines: list[str]) -> int:
    """The line of the first "@", which may stand above its expression: `@(` or `@\\`."""
    decorators = getattr(node, "decorator_list", None)
    if not decorators:
        return node.lineno
    line = decorators[0].lineno
    while line > 1 and not lines[line - 1].lstrip(" \t\f").startswith("@"):
        line -= 1
    return line


def split_lines(source: str) -> list[str]:
    """Lines as Python's tokenizer counts them: a form feed and \\x1c to \\x1e do not end one."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _suites(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly inside a compound statement."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, name, ()):
            yield from (
                child.body if isinstance(child, ast.ExceptHandler | ast.match_case) else [child]
            )


def functions_of(source: str) -> list[Function]:
    """All functions of a module's source. Raises what UNPARSABLE names."""
    found: list[Function] = []
    lines = split_lines(source)
    stack: list[tuple[ast.AST, Function | None, int]] = [(syntax_tree(source), None, -1)]
    while stack:
        node, owner, parent = stack.pop()
        inside = [
            _visit(child, owner, parent, found, lines)
            for child in _suites(node)
            if isinstance(child, _BLOCK)
        ]
        stack += reversed(inside)
    for function in found:
        _sort_blocks(function)
    return sorted(found, key=lambda f: (f.first, -f.last))


def _visit(
    node: ast.stmt, owner: Function | None, parent: int, found: list[Function], lines: list[str]
) -> tuple[ast.AST, Function | None, int]:
    """Records one compound statement; returns what its own statements belong to."""
    first, last = _first(node, lines), node.end_lineno or node.lineno
    if owner is not None:
        owner.blocks.append(Block(first, last, parent))
        parent = len(owner.blocks) - 1
    if isinstance(node, _FUNCTION):
        function = Function(node.name, first, last, _body(node, last, lines))
        found.append(function)
        return node, function, len(function.blocks) - 1
    return node, owner, parent


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef, last: int, lines: list[str]) -> list[Block]:
    """The one block of a body; none where no statement but the docstring begins a line."""
    for statement in node.body[ast.get_docstring(node, clean=False) is not None :]:
        if not lines[statement.lineno - 1].encode()[: statement.col_offset].strip():
            return [Block(_first(statement, lines), last, -1)]
    return []


def _sort_blocks(function: Function) -> None:
    order = sorted(enumerate(function.blocks), key=lambda pair: (pair[1].first, -pair[1].last))
    place = {old: new for new, (old, _) in enumerate(order)} | {-1: -1}
    function.blocks = [Block(b.first, b.last, place[b.parent]) for _, b in order]


def sources_of(document: Document) -> list[tuple[int, str]]:
    """List the Python sources in a document.

    A fence that is never closed runs to the end. An answer without a fence is code if it contains a ``def``.

    Args:
        document: A module or an answer in Markdown.

    Returns:
        (line offset, source): the module itself, or each fenced block of an answer that has a function.
    """
    if document.kind == "python":
        return [(0, document.text)]
    blocks = fences(document.text)
    found = [(block.line, block.code) for block in blocks if block.language.lower() in _PYTHON]
    has_mark = any(mark in document.text for mark in MARKS)
    if not has_mark and re.search(r"^[ \t]*(async )?def ", document.text, re.M):
        found = [(0, document.text)]
    return [(offset, source) for offset, source in found if _DEF.search(source)]


def parses(source: str) -> bool:
    """Whether the text is Python by itself, after removing common indentation (a method or a block)."""
    # A string that starts in column 0 keeps dedent from working; such a text parses inside an "if".
    return is_python(textwrap.dedent(source)) or (
        source[:1].isspace() and is_python("if 1:\n" + source)
    )


def is_python(source: str) -> bool:
    """Whether `ast.parse` takes the text as a module."""
    try:
        return bool(syntax_tree(source))
    except UNPARSABLE:
        return False
