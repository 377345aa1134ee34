"""Functions without their bodies: RepoEval's function level (Zhang et al., 2023), and any package's."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, count
from typing import Any

from pkg_lib.core.types import Task
from pkg_lib.data.packages import Package
from pkg_lib.data.records import DataSet
from pkg_lib.graph.code import UNPARSABLE, syntax_tree

WINDOW_LINES = 20  # RepoCoder's window: the query is what stands in it before the hole
MIN_LINES, MAX_LINES = 3, 30  # RepoCoder takes functions of 3 to 30 lines
PROMPT_CHARACTERS = 8000  # about the 2,000 tokens of RepoEval's prompts
NAME = "repoeval"
DATA = DataSet(
    "RepoEval", "PKG_REPOEVAL_DIR", "datasets.zip of RepoCoder (github.com/microsoft/CodeT)"
)
FILE = "function_level_completion_2k_context_codex.test.jsonl"


@dataclass(frozen=True, slots=True)
class NamedTests:
    """Hidden tests of a package's function: names of the package's own tests.

    Attributes:
        names: Each as ``module:TestCase.method`` or ``module:function``. RepoEval names none.
    """

    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One name per line."""
        return "\n".join(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoTask(Task):
    """One function to complete; line numbers count from 0, as RepoEval's do.

    `fpath_tuple`: (repository, *path); the prompt starts at `context_start_lineno`, the body at `lineno`, the
    function with its decorators at `def_lineno` (-1: not known).
    """

    fpath_tuple: tuple[str, ...]
    context_start_lineno: int
    lineno: int
    def_lineno: int = -1

    @property
    def test_names(self) -> tuple[str, ...]:
        return self.tests_as(NamedTests).names

    @property
    def repository(self) -> str:
        return self.fpath_tuple[0]

    @property
    def path(self) -> str:
        return "/".join(self.fpath_tuple[1:])

    @property
    def gold(self) -> tuple[int, int]:
        """First and last line of the body, from 1."""
        return self.lineno + 1, self.lineno + len(self.solution.rstrip("\n").split("\n"))

    @property
    def span(self) -> tuple[str, int, int]:
        """(path, first, last line from 1) of the function; without a head, of its body and a line more."""
        return (
            self.path,
            self.def_lineno + 1 if self.def_lineno >= 0 else max(self.lineno, 1),
            self.gold[1],
        )

    @property
    def query(self) -> str:
        """The last WINDOW_LINES lines of the prompt (RepoCoder, Section 3)."""
        return "\n".join(self.prompt.rstrip("\n").split("\n")[-WINDOW_LINES:])

    @property
    def indent(self) -> str:
        """What stands before the body's first statement."""
        first = self.solution.split("\n", 1)[0]
        return first[: len(first) - len(first.lstrip())]

    def record(self) -> dict[str, Any]:
        """The task in RepoEval's form, with what that lacks beside."""
        places = ("fpath_tuple", "context_start_lineno", "lineno", "def_lineno")
        about = {name: getattr(self, name) for name in places} | {
            "task_id": self.id,
            "tests": self.test_names,
        }
        about |= {"ground_truth": self.solution, "function_name": self.entry_point}
        return {"prompt": self.prompt, "metadata": about}


def load_repoeval() -> list[RepoTask]:
    """RepoEval's function level, or what `make-tasks` has written under its name.

    All of a repository have the id "owner--repository/idx"; as CodeRAG-Bench does, idx becomes a number.
    """
    numbers: defaultdict[str, count[int]] = defaultdict(count)
    tasks = []
    for task in DATA.records((FILE, f"{FILE}.gz"), _task):
        name = task.id.removesuffix("/idx").replace("--", "_")
        tasks.append(
            replace(task, id=f"{name}/{next(numbers[name])}") if task.id.endswith("/idx") else task
        )
    return tasks


def _task(row: dict[str, Any]) -> RepoTask:
    about = row["metadata"]
    prompt, name, start = (
        str(row["prompt"]),
        str(about["function_name"]),
        int(about["context_start_lineno"]),
    )
    head = about["def_lineno"] if "def_lineno" in about else _head(prompt, name, start)
    place, line = tuple(map(str, about["fpath_tuple"])), int(about["lineno"])
    return RepoTask(
        id=str(about["task_id"]),
        benchmark=NAME,
        prompt=prompt,
        entry_point=name,
        hidden_tests=NamedTests(tuple(map(str, about.get("tests", ())))),
        solution=str(about["ground_truth"]),
        fpath_tuple=place,
        context_start_lineno=start,
        lineno=line,
        def_lineno=int(head),
    )


def _head(prompt: str, function: str, start: int) -> int:
    """Where, from 0, the last function of that name in the prompt starts, with decorators; -1 for none."""
    lines = prompt.split("\n")
    head = re.compile(rf"(\s*)(async\s+)?def\s+{re.escape(function)}\b")
    heads = [(i, match[1]) for i, line in enumerate(lines) if (match := head.match(line))]
    if not heads:
        return -1
    first, indent = heads[-1]
    for i in range(first - 1, -1, -1):
        rest = lines[i].removeprefix(indent)
        if lines[i].startswith(f"{indent}@"):
            first = i
        elif rest.strip() and not rest[:1].isspace() and not rest.startswith(")"):
            break  # neither a decorator nor a line inside one
    return start + first


@dataclass(frozen=True, slots=True)
class MaskableFunction:
    """A function with a body of its own lines: from 1, `first` with decorators, body without docstring."""

    path: str
    name: str
    qualified: str
    first: int
    body: tuple[int, int]


def below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)


def candidates(package: Package, files: Mapping[str, str]) -> list[MaskableFunction]:
    """Functions of the package's own code, not of its tests, with a body of MIN_LINES to MAX_LINES lines."""
    code = [
        p for p in files if below(p, package.sources) and not below(p, (*package.tests, "tests"))
    ]
    every = (f for p in code for f in functions(p, files[p]))
    return [f for f in every if MIN_LINES <= f.body[1] - f.body[0] + 1 <= MAX_LINES]


def functions(path: str, text: str) -> Iterator[MaskableFunction]:
    """All functions of a file that lie in no other one and whose body starts on a line of its own."""
    with suppress(*UNPARSABLE):
        yield from _within(path, syntax_tree(text), "", text.split("\n"))


def _within(path: str, node: ast.AST, outer: str, lines: list[str]) -> Iterator[MaskableFunction]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if body := _body(child, lines):
                yield MaskableFunction(
                    path, child.name, outer + child.name, first_line(child), body
                )
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


def as_task(
    package: Package, function: MaskableFunction, text: str, tests: tuple[str, ...]
) -> RepoTask:
    """The function as a task: what precedes its body, cut to PROMPT_CHARACTERS, never within its head."""
    lines, (first, last) = text.split("\n"), function.body
    sizes = accumulate(len(line) + 1 for line in reversed(lines[: first - 1]))
    start = min(function.first - 1, first - 1 - sum(size <= PROMPT_CHARACTERS for size in sizes))
    name = f"{package.name}/{function.path.removesuffix('.py')}:{function.qualified}"
    prompt = "".join(line + "\n" for line in lines[start : first - 1])
    return RepoTask(
        id=name,
        benchmark="packages",
        prompt=prompt,
        entry_point=function.name,
        hidden_tests=NamedTests(tests),
        solution="\n".join(lines[first - 1 : last]),
        fpath_tuple=(package.name, *function.path.split("/")),
        context_start_lineno=start,
        lineno=first - 1,
        def_lineno=function.first - 1,
    )


def replaced(task: RepoTask, text: str, body: str) -> str:
    """The file with another body in the place of the task's."""
    lines = text.split("\n")
    first, last = task.gold
    return "\n".join([*lines[: first - 1], *body.rstrip("\n").split("\n"), *lines[last:]])
