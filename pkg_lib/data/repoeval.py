"""Tasks of repository-level code completion: RepoEval's function level (Zhang et al., 2023), and the same made from any package.

A task is a function without its body. `prompt` is what precedes the body in its file, `ground_truth` the body's lines.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pkg_lib.core.types import BenchmarkMissing, UserError

WINDOW_LINES = 20  # RepoCoder's window: the query is what stands in it before the hole
VARIABLE, REPOEVAL = "PKG_REPOEVAL_DIR", "function_level_completion_2k_context_codex.test.jsonl"
FIELDS = ("task_id", "ground_truth", "fpath_tuple", "context_start_lineno", "lineno", "function_name")


@dataclass(frozen=True, slots=True)
class RepoTask:
    """One function to complete. Line numbers count from 0, as RepoEval's do.

    `fpath_tuple` is (repository, *path); `context_start_lineno` the line at which `prompt` starts, `lineno` the first line of
    the body; `def_lineno` the line at which the function starts, decorators included (-1: not known). RepoEval does not say it:
    it is read from the prompt, which holds the function's head.
    `tests` decide (empty for RepoEval's own records, which name none).
    """

    id: str
    prompt: str
    ground_truth: str
    fpath_tuple: tuple[str, ...]
    context_start_lineno: int
    lineno: int
    function_name: str
    def_lineno: int = -1
    tests: tuple[str, ...] = ()

    @property
    def repository(self) -> str:
        return self.fpath_tuple[0]

    @property
    def path(self) -> str:
        """The file's path in its repository."""
        return "/".join(self.fpath_tuple[1:])

    @property
    def gold(self) -> tuple[int, int]:
        """First and last line of the body in the original file, from 1."""
        return self.lineno + 1, self.lineno + len(self.ground_truth.rstrip("\n").split("\n"))

    @property
    def span(self) -> tuple[str, int, int]:
        """(path, first line, last line) of the whole function, from 1; of its body and the line before that without a head."""
        return self.path, self.def_lineno + 1 if self.def_lineno >= 0 else max(self.lineno, 1), self.gold[1]

    @property
    def query(self) -> str:
        """The last WINDOW_LINES lines of the prompt (RepoCoder, Section 3)."""
        return "\n".join(self.prompt.rstrip("\n").split("\n")[-WINDOW_LINES:])

    @property
    def indent(self) -> str:
        """What stands before the body's first statement."""
        first = self.ground_truth.split("\n", 1)[0]
        return first[: len(first) - len(first.lstrip())]

    def record(self) -> dict[str, Any]:
        """The task in RepoEval's form, with what it lacks beside."""
        about = {name: getattr(self, name) for name in FIELDS if name != "task_id"}
        metadata = {"task_id": self.id, **about, "fpath_tuple": list(self.fpath_tuple)}
        return {
            "prompt": self.prompt,
            "metadata": metadata | {"def_lineno": self.def_lineno, "tests": list(self.tests)},
        }


def read_repoeval(path: Path) -> list[RepoTask]:
    """The tasks of a file in RepoEval's function-level form, gzip or plain. UserError names a line without a field.

    The published file gives all tasks of a repository the id "owner--repository/idx". As CodeRAG-Bench does, "--" becomes "_"
    and idx the task's number in its repository.
    """
    seen: Counter[str] = Counter()
    tasks = []
    try:
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf8").split("\n")
    except (OSError, ValueError, EOFError) as e:
        raise UserError(f"RepoEval's tasks cannot be read: {path}: {e}") from e
    for number, line in enumerate(lines, 1):
        if line.strip():
            task = _task(line, f"{path}:{number}")
            if task.id.endswith("/idx"):
                name = task.id.removesuffix("/idx").replace("--", "_")
                tasks.append(_with_id(task, f"{name}/{seen[name]}"))
                seen[name] += 1
            else:
                tasks.append(task)
    return tasks


def load_repoeval(file: str = REPOEVAL) -> list[RepoTask]:
    """RepoEval's function level from PKG_REPOEVAL_DIR. BenchmarkMissing where it is not there."""
    folder = os.environ.get(VARIABLE)
    for path in (Path(folder) / file, Path(folder) / f"{file}.gz") if folder else ():
        if path.exists():
            return read_repoeval(path)
    raise BenchmarkMissing(
        f"RepoEval is not at hand: unpack datasets.zip of RepoCoder (github.com/microsoft/CodeT) and set {VARIABLE} to the "
        f"directory that holds {file}"
    )


def _head(prompt: str, function: str, start: int) -> int:
    """The line, from 0, at which the last function of that name in the prompt starts, its decorators included; -1 for none."""
    lines = prompt.split("\n")
    defs = [
        i for i, line in enumerate(lines) if re.match(rf"\s*(async\s+)?def\s+{re.escape(function)}\b", line)
    ]
    if not defs:
        return -1
    first, indent = defs[-1], re.match(r"\s*", lines[defs[-1]])[0]
    for i in range(defs[-1] - 1, -1, -1):
        rest = lines[i].removeprefix(indent)
        if lines[i].startswith(f"{indent}@"):
            first = i
        elif rest.strip() and not rest[:1].isspace() and not rest.startswith(")"):
            break  # neither a decorator nor a line inside one
    return start + first


def _with_id(task: RepoTask, name: str) -> RepoTask:
    return RepoTask(name, *(getattr(task, f) for f in RepoTask.__slots__ if f != "id"))


def _task(line: str, where: str) -> RepoTask:
    try:
        row = json.loads(line)
        about = row["metadata"]
        values = {name: about[name] for name in FIELDS}
        lines = {n: int(values[n]) for n in ("context_start_lineno", "lineno")}
        prompt, name = str(row["prompt"]), str(values["function_name"])
        head = (
            about["def_lineno"]
            if "def_lineno" in about
            else _head(prompt, name, lines["context_start_lineno"])
        )
        return RepoTask(
            str(values["task_id"]),
            prompt,
            str(values["ground_truth"]),
            tuple(map(str, values["fpath_tuple"])),
            **lines,
            function_name=name,
            def_lineno=int(head),
            tests=tuple(about.get("tests", ())),
        )
    except (ValueError, TypeError) as e:
        raise UserError(f"{where} is no task of RepoEval: {e}") from e
    except KeyError as e:
        raise UserError(f"{where} is no task of RepoEval: field {e} is missing") from e
