"""The functions of a package that can be masked, as tasks, and files with a body replaced."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.data.packages import Package
from pkg_lib.data.repoeval import RepoTask

MIN_LINES, MAX_LINES = 3, 30  # RepoCoder takes functions of 3 to 30 lines
PROMPT_CHARACTERS = 8000  # about the 2,000 tokens of RepoEval's prompts


@dataclass(frozen=True, slots=True)
class MaskableFunction:
    """A function with a body of its own lines: from 1, `first` with decorators, body without docstring."""

    path: str
    name: str
    qualified: str
    first: int
    body: tuple[int, int]


def below(path: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of the places or lies below one."""
    return any(path == place or path.startswith(place + "/") for place in places)


def candidates(package: Package, files: Mapping[str, str]) -> list[MaskableFunction]:
    """Functions of the package's own code, not of its tests, with a body of MIN_LINES to MAX_LINES lines."""
    code = [p for p in files if below(p, package.sources) and not below(p, (*package.tests, "tests"))]
    every = (f for p in code for f in functions(p, files[p]))
    return [f for f in every if MIN_LINES <= f.body[1] - f.body[0] + 1 <= MAX_LINES]


def functions(path: str, text: str) -> Iterator[MaskableFunction]:
    """All functions of a file that lie in no other one and whose body starts on a line of its own."""
    try:
        yield from _within(path, ast.parse(text), "", text.split("\n"))
    except SyntaxError:
        return


def _within(path: str, node: ast.AST, outer: str, lines: list[str]) -> Iterator[MaskableFunction]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if body := _body(child, lines):
                yield MaskableFunction(path, child.name, outer + child.name, first_line(child), body)
        else:
            name = f"{child.name}." if isinstance(child, ast.ClassDef) else ""
            yield from _within(path, child, outer + name, lines)


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> tuple[int, int] | None:
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if not body:
        return None
    start = first_line(body[0])
    before = lines[start - 1].encode()[: body[0].col_offset]
    if before.strip() or start <= node.lineno:  # the signature or the docstring ends on this line
        return None
    return start, body[-1].end_lineno or start


def first_line(node: ast.stmt) -> int:
    """Where a statement starts, its decorators included."""
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def as_task(package: Package, function: MaskableFunction, text: str, tests: tuple[str, ...]) -> RepoTask:
    """The function as a task: what precedes its body, cut to PROMPT_CHARACTERS, never within its head."""
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
    texts = (name, "packages", prompt, function.name, "\n".join(tests), body)
    return RepoTask(*texts, path, start, first - 1, function.first - 1)


def replaced(task: RepoTask, text: str, body: str) -> str:
    """The file with another body in the place of the task's; line ends at the body's end do not matter."""
    lines = text.split("\n")
    first, last = task.gold
    return "\n".join([*lines[: first - 1], *body.rstrip("\n").split("\n"), *lines[last:]])
