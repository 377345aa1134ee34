"""MBPP (Austin et al., 2021), from the directory that PKG_MBPP_DIR names, else from the hub; never committed.

Protocol pkg-paper: each assertion in a fresh process, on the generation and that assertion alone, without
setup code. Protocol standard: setup code, then all assertions together in one process. 20 s a process.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pkg_lib.core import hub
from pkg_lib.core.types import BenchmarkMissing, Outcome, Task, UserError
from pkg_lib.data.benchmark import Benchmark, without_copies
from pkg_lib.execution.sandbox import Job

DIRECTORY = "PKG_MBPP_DIR"
HUB = "google-research-datasets/mbpp"
TEST_SPLIT = range(11, 511)
SEPARATOR = "\n# ---\n"  # between setup code and assertions in a task's `test`, which so runs as it stands
FIELDS = {"task_id", "text", "code", "test_list", "test_setup_code"}


@dataclass(frozen=True)
class MBPP(Benchmark):
    """A completion is the whole program. The text of a task does not name its function, so `hint` adds
    something.

    The first test is the published way as far as it can be known: the paper does not print its MBPP prompt,
    but published completions use words that stand in the tests alone. `signature` shows the function's head
    instead.
    """

    name: str
    title: str
    prompts: str = "mbpp"
    ids: range | None = TEST_SPLIT
    hint: str = "first test"
    seconds: float = 20.0
    home: str = f"directory in {DIRECTORY}, else hub: {HUB}"

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        return not os.environ.get(DIRECTORY)

    def tasks(self) -> list[Task]:
        return [self._task(row) for row in _rows() if self.ids is None or row["task_id"] in self.ids]

    def _task(self, row: dict[str, Any]) -> Task:
        code = row["code"].replace("\r\n", "\n")
        setup, *tests = (text.replace("\r\n", "\n") for text in (row["test_setup_code"], *row["test_list"]))
        function = _tested_function(tests[0], code)
        hint = f"Function: {_signature(code, function)}" if self.hint == "signature" else f"Test: {tests[0]}"
        prompt = f"{row['text']}\n{hint}"
        return Task(
            f"MBPP/{row['task_id']}", self.name, prompt, function, SEPARATOR.join([setup, *tests]), code
        )

    def program(self, task: Task, solution: str) -> str:
        return solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        setup, *assertions = task.test.split(SEPARATOR)
        if protocol == "pkg-paper":
            return tuple(assertions)
        return ("\n".join([*([setup] if setup else []), *assertions]),)

    def control_job(self, task: Task, solution: str, protocol: str) -> Job | Outcome:
        """With setup code where the tests need it: no solution, not even the reference, could pass
        without."""
        needs_setup = task.test.split(SEPARATOR)[0].strip()
        return self.job(task, solution, "standard" if needs_setup else protocol)

    def untested(self, task: Task, solution: str) -> str:
        return without_copies(solution, task.test) if "assert" in solution else solution


def _rows() -> Iterable[dict[str, Any]]:
    """All 974 rows."""
    folder = os.environ.get(DIRECTORY)
    if not folder:
        return _rows_of_hub()
    path = Path(folder) / "mbpp.jsonl"
    if not path.is_file():
        raise UserError(
            f"{DIRECTORY} names {folder}, which holds no mbpp.jsonl; put the file there or unset it"
        )
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf8").split("\n") if line.strip()]
    except ValueError as e:
        raise UserError(f"{path} is not MBPP's JSONL ({e}); fetch it again") from e
    if not all(isinstance(r, dict) and r.keys() >= FIELDS for r in rows):
        raise UserError(f"{path} is not MBPP's JSONL: every line needs {', '.join(sorted(FIELDS))}")
    return rows


def _rows_of_hub() -> list[dict[str, Any]]:
    """All splits from the Hugging Face hub; BenchmarkMissing at once when it cannot be reached."""
    try:
        from datasets import load_dataset
        from datasets.exceptions import DatasetNotFoundError

        hub.require("benchmark mbpp", f"set {DIRECTORY} to a directory with mbpp.jsonl")
        splits = load_dataset(HUB, "full")
    except ImportError as e:
        raise BenchmarkMissing(
            f"benchmark mbpp needs {DIRECTORY}=<directory with mbpp.jsonl> or the package datasets"
        ) from e
    except UserError as e:
        raise BenchmarkMissing(str(e)) from e
    except (OSError, ValueError, DatasetNotFoundError) as e:
        raise BenchmarkMissing(
            f"cannot reach {HUB} on the hub; set {DIRECTORY}=<directory with mbpp.jsonl>"
        ) from e
    return sorted((row for split in splits.values() for row in split), key=lambda row: row["task_id"])


def _tested_function(assertion: str, code: str) -> str:
    """The first name that an assertion calls and the reference solution defines."""
    defined = [n.name for n in ast.parse(code).body if isinstance(n, ast.FunctionDef)]
    nodes = ast.walk(ast.parse(assertion))
    calls = [n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    return next((name for name in calls if name in defined), calls[0] if calls else defined[-1])


def _signature(code: str, name: str) -> str:
    """`def name(arguments)` as the reference solution has it."""
    heads = (n for n in ast.parse(code).body if isinstance(n, ast.FunctionDef) and n.name == name)
    return next((f"def {name}({ast.unparse(n.args)})" for n in heads), f"def {name}(*args)")
