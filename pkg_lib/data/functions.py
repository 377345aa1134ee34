"""The functions of a package that can be masked, as tasks, and files with a body replaced."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.types import UserError
from pkg_lib.data.packages import Package, tree
from pkg_lib.data.repoeval import RepoTask

MIN_LINES, MAX_LINES = 3, 30  # RepoCoder takes functions of 3 to 30 lines
PROMPT_CHARACTERS = 8000  # about the 2,000 tokens of RepoEval's prompts


@dataclass(frozen=True, slots=True)
class Function:
    """A function with a body of its own lines; line numbers from 1, `first` with decorators, the body without docstring."""

    path: str
    name: str
    qualified: str
    first: int
    body: tuple[int, int]


def read_package(package: Package) -> dict[str, str]:
    """path -> text of every Python file of the archive that is UTF-8, tests among them, in order (RepoEval's corpus)."""
    return read_tree(tree(package))


def read_tree(root: Path) -> dict[str, str]:
    """path -> text of every Python file of a directory or zip archive that is UTF-8, in order. UserError where it is neither."""
    if root.is_dir():
        files = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*.py")}
    else:
        try:
            with zipfile.ZipFile(root) as archive:
                files = {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}
        except (OSError, zipfile.BadZipFile) as e:
            raise UserError(
                f"{root} is neither a directory of Python files nor a zip archive of them ({e})"
            ) from e
    found = {}
    for path in sorted(files, key=lambda p: p.split("/")):
        try:
            found[path] = files[path].decode("utf8").replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            continue
    return found


def below(path: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of the places or lies below one."""
    return any(path == place or path.startswith(place + "/") for place in places)


def candidates(package: Package, files: dict[str, str]) -> list[Function]:
    """Functions and methods of the package's own code, not of its tests, whose body has MIN_LINES to MAX_LINES lines."""
    own = [
        p
        for p in files
        if below(p, package.sources) and not below(p, package.tests) and not below(p, ("tests",))
    ]
    found = [f for p in own for f in functions(p, files[p])]
    return [f for f in found if MIN_LINES <= f.body[1] - f.body[0] + 1 <= MAX_LINES]


def functions(path: str, text: str) -> Iterator[Function]:
    """All functions of a file that lie in no other one and whose body starts on a line of its own."""
    try:
        yield from _functions(path, ast.parse(text), "", text.split("\n"))
    except SyntaxError:
        return


def _functions(path: str, node: ast.AST, within: str, lines: list[str]) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found = _function(path, child, within, lines)
            if found:
                yield found
        elif isinstance(child, ast.ClassDef):
            yield from _functions(path, child, f"{within}{child.name}.", lines)
        else:
            yield from _functions(path, child, within, lines)


def _function(
    path: str, node: ast.FunctionDef | ast.AsyncFunctionDef, within: str, lines: list[str]
) -> Function | None:
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if not body:
        return None
    start = min([body[0].lineno, *(d.lineno for d in getattr(body[0], "decorator_list", []))])
    before = lines[start - 1].encode()[: body[0].col_offset]
    if before.strip() or start <= node.lineno:  # the signature or the docstring ends on this line
        return None
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return Function(path, node.name, within + node.name, first, (start, body[-1].end_lineno or start))


def as_task(package: Package, function: Function, text: str, tests: tuple[str, ...]) -> RepoTask:
    """The function as a task: what precedes its body, cut at a line to PROMPT_CHARACTERS, but never within its signature."""
    lines = text.split("\n")
    start, (first, last) = function.first - 1, function.body
    size = sum(len(line) + 1 for line in lines[start : first - 1])
    while start and size + len(lines[start - 1]) + 1 <= PROMPT_CHARACTERS:
        start -= 1
        size += len(lines[start]) + 1
    name = f"{package.name}/{function.path.removesuffix('.py')}:{function.qualified}"
    prompt = "".join(line + "\n" for line in lines[start : first - 1])
    body = "\n".join(lines[first - 1 : last])
    path = (package.name, *Path(function.path).parts)
    return RepoTask(name, prompt, body, path, start, first - 1, function.name, function.first - 1, tests)


def replaced(task: RepoTask, text: str, body: str) -> str:
    """The file with another body in the place of the task's; line ends at the body's end do not matter."""
    lines = text.split("\n")
    first, last = task.gold
    return "\n".join([*lines[: first - 1], *body.rstrip("\n").split("\n"), *lines[last:]])
