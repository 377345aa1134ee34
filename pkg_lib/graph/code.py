"""Functions -> NAME, IMPL and BLOCK nodes (Section 3.1.1, Equations 1 and 2).

What is a function: every `def` and `async def` of a document, methods and nested ones included; its IMPL runs
from its first decorator to its last line (`end_lineno`). What is a block: every compound statement inside a
function, that is `if`, `for`, `while`, `try`, `with`, `match`, their async forms, and a local `def` or
`class`.

On purpose:
- `elif` is an `if` in the `else` of another (that is what Python's grammar says), so it is a BLOCK of its
  own, child of the `if` before it, and its text starts with `elif`.
- `else`, `except`, `finally` and `case` are no blocks: they are part of their statement, and the compound
  statements in them are its children.
- A local `def` is a BLOCK of the enclosing function and, beside it, a function with NAME, IMPL and blocks of
  its own. A statement belongs to the innermost function only, so no block is counted twice.
- The blocks of a class body inside a function belong to that function; methods are functions like any other.

Line ranges are exact and inclusive; a block's text is these lines of the source, unchanged.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from pkg_lib.core.types import Document

_FENCE = re.compile(r"^[ \t]*```[ \t]*([^\s`]*)[^`\n]*\n(.*?)(?:^[ \t]*```[ \t]*\r?$|\Z)", re.S | re.M)
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
    ast.ClassDef,
    *_FUNCTION,
)


@dataclass(slots=True)
class Block:
    """A compound statement: 1-based inclusive lines, and the index of its parent block (-1: directly in the
    function)."""

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
    """Lines as Python's tokenizer counts them: \\n, \\r\\n and \\r end a line, form feeds and \\x1c to \\x1e
    do not."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _suites(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly inside a compound statement, whichever of its suites they stand in."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, name, ()):
            if isinstance(child, ast.ExceptHandler | ast.match_case):
                yield from child.body
            else:
                yield child


def functions_of(source: str) -> list[Function]:
    """All functions of a module's source. Raises SyntaxError, ValueError (NUL) or RecursionError as
    `ast.parse` does."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", SyntaxWarning
        )  # Invalid escapes in other people's code are not our business.
        tree = ast.parse(source)
    found: list[Function] = []
    lines = split_lines(source)
    stack: list[tuple[ast.AST, Function | None, int]] = [(tree, None, -1)]
    while stack:
        node, owner, parent = stack.pop()
        inside = [
            _visit(child, owner, parent, found, lines) for child in _suites(node) if isinstance(child, _BLOCK)
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
        function = Function(node.name, first, last)
        found.append(function)
        return node, function, -1
    return node, owner, parent


def _sort_blocks(function: Function) -> None:
    order = sorted(
        range(len(function.blocks)), key=lambda i: (function.blocks[i].first, -function.blocks[i].last)
    )
    place = {old: new for new, old in enumerate(order)} | {-1: -1}
    function.blocks = [function.blocks[i] for i in order]
    for block in function.blocks:
        block.parent = place[block.parent]


def sources_of(document: Document) -> list[tuple[int, str]]:
    """(line offset, source) of the Python code in a document: the whole module, or each fenced block of an
    answer.

    A fence may say more than its language, and one that is never closed runs to the end, as in Markdown. An
    answer without a Python fence is taken as code itself when it holds a `def`.
    """
    if document.kind == "python":
        return [(0, document.text)]
    # Fences of other languages are matched too: else their closing line would be taken for an opening one.
    fences = (m for m in _FENCE.finditer(document.text) if m[1].lower() in _PYTHON)
    found = [(document.text.count("\n", 0, m.start(2)), m[2]) for m in fences]
    if not found and re.search(r"^[ \t]*(async )?def ", document.text, re.M) and "```" not in document.text:
        found = [(0, document.text)]
    return [(offset, source) for offset, source in found if _DEF.search(source)]


def parses(source: str) -> bool:
    """Whether the text is Python by itself, after removing common indentation (a method or a block)."""
    # "return" outside a function gives an AST all the same, which is all that is asked here. A string that
    # starts in column 0 keeps dedent from working; such a text parses inside an "if".
    return is_python(textwrap.dedent(source)) or (source[:1].isspace() and is_python("if 1:\n" + source))


def is_python(source: str) -> bool:
    """Whether `ast.parse` takes the text as a module."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
