"""Import statements of a solution: those of ``__future__``, and those that another block holds."""

import ast
import builtins
import re
import textwrap
from collections.abc import Iterable
from itertools import takewhile
from typing import TypeGuard

from pkg_lib.core.python_syntax import parsed_or_none
from pkg_lib.generation.code_search import first_line_of, indent_of

_IMPORT_LINE = re.compile(
    r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]*\([^()]*\)|(?:import|from)[ \t]+[\w.]+.*$)", re.M
)


def without_future_imports(code: str, starts_program: bool) -> str:
    """Remove the imports of ``__future__`` that would be a syntax error in the judged program.

    Other statements on the same line stay, and strings are never changed.

    Args:
        code: A module, or an indented function body.
        starts_program: Whether the judged program begins with this code. Python then allows such an
            import after the docstring, and the import stays.

    Returns:
        The code; text that is not Python is returned unchanged.
    """
    if "__future__" not in code:
        return code
    tree, offset = _module_or_body(code)
    if tree is None:
        return code
    legal = _leading_future_imports(tree) if starts_program else []
    future_imports = filter(_is_future_import, ast.walk(tree))
    illegal = [node for node in future_imports if node not in legal]
    illegal.sort(key=lambda node: (node.lineno, node.col_offset))
    lines = code.split("\n")
    for node in reversed(illegal):
        _remove(node, lines, offset, is_nested=node not in tree.body)
    return "\n".join(lines)


def _module_or_body(code: str) -> tuple[ast.Module | None, int]:
    """Parse code.

    Returns:
        The syntax tree, None if the code is not Python, and how many lines its line numbers are too
        high by.
    """
    tree = parsed_or_none(code)
    if tree is not None:
        return tree, 0
    return parsed_or_none(f"if 1:\n{code}"), 1


def _is_future_import(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level


def _leading_future_imports(tree: ast.Module) -> list[ast.stmt]:
    """Return the imports of ``__future__`` where Python allows them: only a docstring before."""
    has_docstring = ast.get_docstring(tree, clean=False) is not None
    return list(takewhile(_is_future_import, tree.body[has_docstring:]))


def _remove(
    node: ast.stmt,
    lines: list[str],
    offset: int,
    is_nested: bool,
) -> None:
    """Cut a statement out of the lines, with the semicolon that separates it from its neighbour."""
    first = node.lineno - 1 - offset
    last = (node.end_lineno or node.lineno) - 1 - offset
    # Columns of the syntax tree count bytes.
    before = lines[first].encode()[: node.col_offset].decode()
    after = lines[last].encode()[node.end_col_offset :].decode()
    rest = after.lstrip()
    has_semicolon = rest.startswith(";")
    following = rest[1:].lstrip() if has_semicolon else ""
    is_line_of_header = before.rstrip().endswith(":") and not has_semicolon
    if is_nested and (not before.strip() or is_line_of_header):
        # The statement may be the only one of its block.
        replacement = [f"{before}pass{after}"]
    elif following and not following.startswith("#"):
        replacement = [before + following]
    elif before.strip():
        kept = before.rstrip().removesuffix(";").rstrip()
        replacement = [kept + after.lstrip(";")]
    else:
        replacement = []
    lines[first : last + 1] = replacement


def with_missing_imports(code: str, earlier: Iterable[str]) -> str:
    """Put the imports before a solution that it lacks and that earlier code holds.

    If several imports bind a name, the last of them counts, as in Python.

    Args:
        code: A module, or an indented function body.
        earlier: Code that precedes it in the answer. It need not be valid Python.

    Returns:
        The code with imports; text that is not Python is returned unchanged.
    """
    sources = [source for source in earlier if "import" in source]
    tree, offset = _module_or_body(code) if sources else (None, 0)
    if tree is None:
        return code
    wanted = _needed_imports(sources, _missing_names(tree))
    if not wanted:
        return code
    block = "\n".join(dict.fromkeys(wanted))
    if offset:
        first_line = first_line_of(code)
        block = textwrap.indent(block, first_line[: indent_of(first_line)])
    leading = _leading_future_imports(tree)
    if not leading:
        return f"{block}\n{code}"
    # Nothing but the docstring may precede an import of __future__.
    lines = code.split("\n")
    lines.insert(leading[-1].end_lineno or 0, block)
    return "\n".join(lines)


def _needed_imports(sources: list[str], missing: set[str]) -> list[str]:
    """Return the import statements of sources that bind missing names, in order."""
    statements: list[ast.Import | ast.ImportFrom] = []
    for source in sources:
        statements += _imports(source)
    wanted: list[str] = []
    for statement in reversed(statements):
        needed = [
            alias
            for alias in statement.names
            if _bound_name(alias) in missing or (alias.name == "*" and missing)
        ]
        if not needed:
            continue
        if isinstance(statement, ast.Import):  # each of its modules may be absent
            statement.names = needed
        wanted.insert(0, ast.unparse(statement))
        missing -= set(map(_bound_name, statement.names))
    return wanted


def _bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _imports(source: str) -> list[ast.Import | ast.ImportFrom]:
    """List the import statements of a source at module level.

    Statements inside ``try``, ``if`` and ``with`` count. A source that is not Python is read line
    by line.
    """
    tree = parsed_or_none(textwrap.dedent(source))
    waiting: list[ast.stmt] = []
    if tree is not None:
        waiting = tree.body[::-1]
    else:
        for line in reversed(_IMPORT_LINE.findall(source)):
            line_tree = parsed_or_none(line.strip())
            waiting += line_tree.body[::-1] if line_tree else []
    imports = []
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.Try | ast.If | ast.With):
            waiting += statement.body[::-1]
        if isinstance(statement, ast.Import | ast.ImportFrom) and not _is_future_import(statement):
            imports.append(statement)
    return imports


def _missing_names(tree: ast.AST) -> set[str]:
    """Return the names that code uses and binds nowhere, in whatever scope."""
    used = set()
    bound = set(dir(builtins))
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name):
                bound.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
            case ast.arg(arg=name):
                bound.add(name)
            case ast.alias():
                bound.add(_bound_name(node))
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
    return used - bound
