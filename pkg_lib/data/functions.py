"""Functions to complete: RepoEval's function level (Zhang et al., 2023), and any package's."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pkg_lib.core.python_syntax import UNPARSABLE, first_line, syntax_tree
from pkg_lib.core.types import Task
from pkg_lib.data.packages import Package
from pkg_lib.data.records import DataSet

WINDOW_LINES = 20  # RepoCoder's window: the query is the lines before the body
# RepoCoder takes functions of 3 to 30 lines
MIN_LINES = 3
MAX_LINES = 30
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
    """One function to complete. The `solution` is its body.

    Line numbers of the attributes count from 0, as RepoEval's do.

    Attributes:
        repository: Name of the repository or package.
        path: Path of the file below it.
        context_start_lineno: First line of the prompt.
        lineno: First line of the body.
        def_lineno: First line of the function, decorators included; -1 if unknown.
    """

    repository: str
    path: str
    context_start_lineno: int
    lineno: int
    def_lineno: int = -1

    @property
    def test_names(self) -> tuple[str, ...]:
        """Names of the tests that call the function."""
        return self.tests_as(NamedTests).names

    @property
    def gold(self) -> tuple[int, int]:
        """First and last line of the body, counted from 1."""
        lines = self.solution.rstrip("\n").split("\n")
        return self.lineno + 1, self.lineno + len(lines)

    @property
    def span(self) -> tuple[str, int, int]:
        """Path, first and last line of the function, counted from 1.

        Where the function's start is unknown, it is the body and the line before.
        """
        _, last = self.gold
        if self.def_lineno < 0:
            return self.path, max(self.lineno, 1), last
        return self.path, self.def_lineno + 1, last

    @property
    def query(self) -> str:
        """The last WINDOW_LINES lines of the prompt (RepoCoder, Section 3)."""
        lines = self.prompt.rstrip("\n").split("\n")
        return "\n".join(lines[-WINDOW_LINES:])

    @property
    def indent(self) -> str:
        """Indentation of the body."""
        first = self.solution.split("\n", 1)[0]
        return first.removesuffix(first.lstrip())

    def record(self) -> dict[str, Any]:
        """Return the task as a record of RepoEval, with the fields that RepoEval lacks."""
        metadata = {
            "task_id": self.id,
            "fpath_tuple": (self.repository, *self.path.split("/")),
            "context_start_lineno": self.context_start_lineno,
            "lineno": self.lineno,
            "def_lineno": self.def_lineno,
            "function_name": self.entry_point,
            "ground_truth": self.solution,
            "tests": self.test_names,
        }
        return {"prompt": self.prompt, "metadata": metadata}


def load_repoeval() -> list[RepoTask]:
    """Load RepoEval's function level, or tasks that ``pkg-lib cast make-tasks`` has written.

    RepoEval gives all tasks of a repository the id "owner--repository/idx". As in CodeRAG-Bench,
    "idx" becomes the task's number within the repository.

    Returns:
        Tasks in the order of the file.

    Raises:
        BenchmarkMissingError: The data set is not available.
    """
    numbers: Counter[str] = Counter()
    tasks = []
    for task in DATA.records((FILE, f"{FILE}.gz"), _task_of_record):
        repository = task.id.removesuffix("/idx")
        if repository != task.id:
            name = repository.replace("--", "_")
            task = replace(task, id=f"{name}/{numbers[name]}")
            numbers[name] += 1
        tasks.append(task)
    return tasks


def _task_of_record(record: dict[str, Any]) -> RepoTask:
    about = record["metadata"]
    prompt = str(record["prompt"])
    name = str(about["function_name"])
    start = int(about["context_start_lineno"])
    tests = about.get("tests", ())
    if "def_lineno" in about:
        head = int(about["def_lineno"])
    else:
        line = _line_of_function(prompt, name)
        head = -1 if line is None else start + line
    repository, *folders = map(str, about["fpath_tuple"])
    return RepoTask(
        id=str(about["task_id"]),
        benchmark=NAME,
        prompt=prompt,
        entry_point=name,
        hidden_tests=NamedTests(tuple(map(str, tests))),
        solution=str(about["ground_truth"]),
        repository=repository,
        path="/".join(folders),
        context_start_lineno=start,
        lineno=int(about["lineno"]),
        def_lineno=head,
    )


def _line_of_function(prompt: str, name: str) -> int | None:
    """Return the first line, from 0, of the last function of that name, with decorators."""
    lines = prompt.split("\n")
    head = re.compile(rf"(\s*)(async\s+)?def\s+{re.escape(name)}\b")
    for number in range(len(lines) - 1, -1, -1):
        if match := head.match(lines[number]):
            return _first_decorator(lines[:number], match[1])
    return None


def _first_decorator(before: list[str], indent: str) -> int:
    """Return the line, from 0, of the first decorator of a head that follows the lines."""
    first = len(before)
    for number in range(first - 1, -1, -1):
        rest = before[number].removeprefix(indent)
        if before[number].startswith(f"{indent}@"):
            first = number
        elif rest.strip() and not rest[0].isspace() and not rest.startswith(")"):
            break  # neither a decorator nor a line inside one
    return first


@dataclass(frozen=True, slots=True)
class MaskableFunction:
    """A function whose body can be masked, since it has lines of its own. Lines count from 1.

    Attributes:
        path: Path of the file.
        name: Name of the function.
        qualified: The name with its classes before it.
        first: First line, decorators included.
        body: First and last line of the body, without its docstring.
    """

    path: str
    name: str
    qualified: str
    first: int
    body: tuple[int, int]

    @property
    def body_lines(self) -> int:
        """Number of lines of the body."""
        return self.body[1] - self.body[0] + 1


def below(path: str, places: tuple[str, ...]) -> bool:
    """Return whether a path is one of the places, or inside one.

    Args:
        path: Path of a file.
        places: Paths of files or directories.
    """
    return any(path == place or path.startswith(place + "/") for place in places)


def candidates(package: Package, files: Mapping[str, str]) -> list[MaskableFunction]:
    """Find the functions of a package's own code that may become tasks.

    Args:
        package: The package.
        files: Text of each file by path.

    Returns:
        Functions outside the tests, with a body of MIN_LINES to MAX_LINES lines.
    """
    tests = (*package.tests, "tests")
    found: list[MaskableFunction] = []
    for path, text in files.items():
        if below(path, package.sources) and not below(path, tests):
            found += functions(path, text)
    return [f for f in found if MIN_LINES <= f.body_lines <= MAX_LINES]


def functions(path: str, text: str) -> Iterator[MaskableFunction]:
    """Find the functions of a file that are not inside another function.

    Args:
        path: Path of the file.
        text: Its source. Nothing is found in a text that is not Python.

    Yields:
        Each function whose body starts on a line of its own.
    """
    with suppress(*UNPARSABLE):
        yield from _functions_in(path, syntax_tree(text), "", text.split("\n"))


def _functions_in(
    path: str,
    node: ast.AST,
    outer: str,
    lines: list[str],
) -> Iterator[MaskableFunction]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if body := _own_lines_of_body(child, lines):
                qualified = outer + child.name
                first = first_line(child)
                yield MaskableFunction(path, child.name, qualified, first, body)
        else:
            inner = f"{outer}{child.name}." if isinstance(child, ast.ClassDef) else outer
            yield from _functions_in(path, child, inner, lines)


def _own_lines_of_body(
    node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]
) -> tuple[int, int] | None:
    """Return first and last line of a body; None if it shares a line with its head or docstring."""
    has_docstring = ast.get_docstring(node, clean=False) is not None
    body = node.body[has_docstring:]
    if not body:
        return None
    start = first_line(body[0])
    before = lines[start - 1].encode()[: body[0].col_offset]
    if before.strip() or start <= node.lineno:
        return None
    return start, body[-1].end_lineno or start


def as_task(
    package: Package,
    function: MaskableFunction,
    text: str,
    tests: tuple[str, ...],
) -> RepoTask:
    """Make a task of a function.

    Args:
        package: The package.
        function: A function of it.
        text: Source of the function's file.
        tests: Names of the tests that call the function.

    Returns:
        The task. Its prompt is the source before the body, cut to PROMPT_CHARACTERS at a line but
        never within the function's head.
    """
    lines, (first, last) = text.split("\n"), function.body
    start = first - 1
    size = 0
    while start > 0:
        size += len(lines[start - 1]) + 1
        if size > PROMPT_CHARACTERS:
            break
        start -= 1
    start = min(start, function.first - 1)
    return RepoTask(
        id=f"{package.name}/{function.path.removesuffix('.py')}:{function.qualified}",
        benchmark="packages",
        prompt="".join(line + "\n" for line in lines[start : first - 1]),
        entry_point=function.name,
        hidden_tests=NamedTests(tests),
        solution="\n".join(lines[first - 1 : last]),
        repository=package.name,
        path=function.path,
        context_start_lineno=start,
        lineno=first - 1,
        def_lineno=function.first - 1,
    )


def replaced(
    task: RepoTask,
    text: str,
    body: str,
) -> str:
    """Replace the body of a task's function.

    Args:
        task: The task.
        text: Source of its file.
        body: The new body.

    Returns:
        The new source.
    """
    lines = text.split("\n")
    first, last = task.gold
    lines[first - 1 : last] = body.rstrip("\n").split("\n")
    return "\n".join(lines)
