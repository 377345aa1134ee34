"""Functions without their bodies: RepoEval's function level (Zhang et al., 2023), and any package's.

`prompt` is what precedes the body in its file, `ground_truth` the body's lines.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from pkg_lib.core.types import Task
from pkg_lib.data.records import DataSet

WINDOW_LINES = 20  # RepoCoder's window: the query is what stands in it before the hole
NAME = "repoeval"
PLACES = ("fpath_tuple", "context_start_lineno", "lineno", "def_lineno")
DATA = DataSet("RepoEval", "PKG_REPOEVAL_DIR", "datasets.zip of RepoCoder (github.com/microsoft/CodeT)")
FILE = "function_level_completion_2k_context_codex.test.jsonl"


@dataclass(frozen=True, slots=True)
class RepoTask(Task):
    """One function to complete; line numbers count from 0, as RepoEval's do.

    `fpath_tuple`: (repository, *path); the prompt starts at `context_start_lineno`, the body at `lineno`, the
    function with its decorators at `def_lineno` (-1: not known). `test` names a test a line; RepoEval none.
    """

    fpath_tuple: tuple[str, ...]
    context_start_lineno: int
    lineno: int
    def_lineno: int = -1

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(self.test.splitlines())

    @property
    def repository(self) -> str:
        return self.fpath_tuple[0]

    @property
    def path(self) -> str:
        return "/".join(self.fpath_tuple[1:])

    @property
    def gold(self) -> tuple[int, int]:
        """First and last line of the body in the original file, from 1."""
        return self.lineno + 1, self.lineno + len(self.solution.rstrip("\n").split("\n"))

    @property
    def span(self) -> tuple[str, int, int]:
        """(path, first, last line from 1) of the function; without a head, of its body and a line more."""
        return self.path, self.def_lineno + 1 if self.def_lineno >= 0 else max(self.lineno, 1), self.gold[1]

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
        about = {name: getattr(self, name) for name in PLACES}
        about |= {"task_id": self.id, "ground_truth": self.solution, "function_name": self.entry_point}
        return {"prompt": self.prompt, "metadata": about | {"tests": self.tests}}


def load_repoeval() -> list[RepoTask]:
    """RepoEval's function level, or what `make-tasks` has written under its name.

    All of a repository have the id "owner--repository/idx"; as CodeRAG-Bench does, idx becomes a number.
    """
    numbers: defaultdict[str, count[int]] = defaultdict(count)
    tasks = []
    for task in DATA.records((FILE, f"{FILE}.gz"), _task):
        name = task.id.removesuffix("/idx").replace("--", "_")
        tasks.append(replace(task, id=f"{name}/{next(numbers[name])}") if task.id.endswith("/idx") else task)
    return tasks


def _task(row: dict[str, Any]) -> RepoTask:
    about = row["metadata"]
    prompt, name, start = str(row["prompt"]), str(about["function_name"]), int(about["context_start_lineno"])
    head = about["def_lineno"] if "def_lineno" in about else _head(prompt, name, start)
    place, line = tuple(map(str, about["fpath_tuple"])), int(about["lineno"])
    body, tests = str(about["ground_truth"]), "\n".join(about.get("tests", ()))
    return RepoTask(str(about["task_id"]), NAME, prompt, name, tests, body, place, start, line, int(head))


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
