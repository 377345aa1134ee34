"""Import statements of a solution: those on ``__future__``, and those that another code block holds."""

import ast
import builtins
import re
import textwrap
from collections.abc import Iterable, Iterator

from pkg_lib.core.python_syntax import parsed_or_none

_IMPORT_LINE = re.compile(
    r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]*\([^()]*\)|(?:import|from)[ \t]+[\w.]+.*$)", re.M
)


def without_future_imports(code: str, starts_program: bool) -> str:
    """Remove the imports of ``__future__`` that would be a syntax error in the judged program.

    Other statements on the same line stay, and strings are never changed. Text that is not Python is returned
    unchanged.

    Args:
        code: A module, or an indented function body.
        starts_program: Whether the program that is judged begins with this code. Then Python allows such an
            import after the docstring, and it stays there.
    """
    if "__future__" not in code:
        return code
    tree, offset = _module_or_body(code)
    if tree is None:
        return code
    legal = _leading_future_imports(tree) if starts_program else []
    illegal = [node for node in ast.walk(tree) if _is_future_import(node) and node not in legal]
    lines = code.split("\n")
    for node in sorted(illegal, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        _remove(node, lines, offset, is_nested=node not in tree.body)
    return "\n".join(lines)


def _module_or_body(code: str) -> tuple[ast.Module | None, int]:
    """The syntax tree, and how many lines its line numbers are too high by."""
    if (tree := parsed_or_none(code)) is not None:
        return tree, 0
    return parsed_or_none(f"if 1:\n{code}"), 1


def _is_future_import(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level


def _leading_future_imports(tree: ast.Module) -> list[ast.stmt]:
    found = []
    for number, node in enumerate(tree.body):
        if _is_future_import(node):
            found.append(node)
        elif not (number == 0 and ast.get_docstring(tree, clean=False) is not None):
            break
    return found


def _remove(node: ast.stmt, lines: list[str], offset: int, is_nested: bool) -> None:
    """Cut one statement out of the lines, with the semicolon that separated it from its neighbour."""
    first, last = node.lineno - 1 - offset, (node.end_lineno or node.lineno) - 1 - offset
    before = lines[first].encode()[: node.col_offset].decode()
    after = lines[last].encode()[node.end_col_offset :].decode()
    rest = after.lstrip()
    is_whole_line_block = before.rstrip().endswith(":") and not rest.startswith(";")
    if is_nested and (
        not before.strip() or is_whole_line_block
    ):  # it may be the only one of its block
        lines[first : last + 1] = [f"{before}pass{after}"]
    elif rest.startswith(";") and rest[1:].strip() and not rest[1:].lstrip().startswith("#"):
        lines[first : last + 1] = [before + rest[1:].lstrip()]
    elif before.strip():
        lines[first : last + 1] = [before.rstrip().removesuffix(";").rstrip() + after.lstrip(";")]
    else:
        del lines[first : last + 1]


def with_missing_imports(code: str, earlier: Iterable[str]) -> str:
    """Put before a solution the imports of earlier code that bind a name which the solution lacks.

    Of several imports of one name the last counts, as in Python.

    Args:
        code: A module, or an indented function body. Text that is not Python is returned unchanged.
        earlier: Code that precedes it in the answer. It need not be valid Python.
    """
    sources = [source for source in earlier if "import" in source]
    tree, offset = _module_or_body(code) if sources else (None, 0)
    if tree is None:
        return code
    missing = _used(tree) - _bound(tree) - set(dir(builtins))
    wanted = []
    statements = [statement for source in sources for statement in _imports(source)]
    for statement in reversed(statements):
        needed = [alias for alias in statement.names if _is_needed(alias, missing)]
        if needed:
            if isinstance(statement, ast.Import):  # each of its modules may be absent
                statement.names = needed
            wanted.insert(0, ast.unparse(statement))
            missing -= set(map(_bound_name, statement.names))
    if not wanted:
        return code
    first = next(line for line in code.split("\n") if line.strip())
    indent = first[: len(first) - len(first.lstrip())] if offset else ""
    block = textwrap.indent("\n".join(dict.fromkeys(wanted)), indent)
    if leading := _leading_future_imports(tree):  # nothing may precede these
        lines = code.split("\n")
        end = leading[-1].end_lineno or 0
        return "\n".join([*lines[:end], block, *lines[end:]])
    return f"{block}\n{code}"


def _bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _is_needed(alias: ast.alias, missing: set[str]) -> bool:
    return _bound_name(alias) in missing or (alias.name == "*" and bool(missing))


def _imports(source: str) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of a source at module level; line by line if the source is not Python."""
    tree = parsed_or_none(textwrap.dedent(source))
    if tree is None:
        trees = [parsed_or_none(line.strip()) for line in _IMPORT_LINE.findall(source)]
        statements = [node for tree in trees if tree for node in tree.body]
    else:
        statements = list(_statements(tree))
    imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    return [node for node in imports if not _is_future_import(node)]


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module in order, with those inside ``try``, ``if`` and ``with``."""
    waiting = tree.body[::-1]
    while waiting:
        statement = waiting.pop()
        yield statement
        if isinstance(statement, ast.Try | ast.If | ast.With):
            waiting.extend(statement.body[::-1])


def _used(tree: ast.AST) -> set[str]:
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _bound(tree: ast.AST) -> set[str]:
    """Every name that is bound anywhere in the code, in whatever scope."""
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return bound
