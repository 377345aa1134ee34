"""Tasks and completions -> jobs -> outcomes."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping, Sequence

from pkg_lib.core.types import Outcome, Task
from pkg_lib.data.benchmarks import PROTOCOLS, Protocol, before_tests, is_mbpp, named_protocol, tests_of
from pkg_lib.execution.sandbox import Job, Limits, run_jobs


def task_job(task: Task, solution: str, protocol: str | Protocol | None = None) -> Job:
    """The job that judges a solution of a task under a named protocol (default: pkg-paper; UserError if unknown)."""
    rule = protocol if isinstance(protocol, Protocol) else named_protocol(protocol or "pkg-paper")
    return Job(
        task.id, before_tests(task, solution), tests_of(task, rule), task.entry_point, rule.seconds_for(task)
    )


def sanity_job(task: Task, solution: str) -> Job:
    """The job that only executes the solution, without any test (the re-ranker's runtime check, Section 3.3)."""
    return Job(
        task.id, untested(task, solution), (), task.entry_point, PROTOCOLS["pkg-paper"].seconds_for(task)
    )


def untested(task: Task, solution: str) -> str:
    """What stands before the tests, without assertions that repeat one of MBPP's: a model that is shown a test copies it, and
    what chooses among solutions may see none. As it is without such copies, or where it is no Python."""
    whole = before_tests(task, solution)
    if not is_mbpp(task) or "assert" not in solution:
        return whole
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree, tests = ast.parse(whole), ast.parse(task.test)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return whole
    copies = _Copies({ast.dump(n.test) for n in tests.body if isinstance(n, ast.Assert)})
    tree = copies.visit(tree)
    return ast.unparse(tree) if copies.found else whole


class _Copies(ast.NodeTransformer):
    """Puts `pass` where an assertion is one of the tests."""

    def __init__(self, tests: set[str]) -> None:
        self.tests, self.found = tests, 0

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        if ast.dump(node.test) not in self.tests:
            return node
        self.found += 1
        return ast.Pass()


def evaluate(
    tasks: Sequence[Task],
    solutions: Mapping[str, str],
    protocol: str | Protocol | None = None,
    limits: Limits | None = None,
    workers: int = 2,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Outcome]:
    """task id -> outcome for every task, in order; a task without a solution is not measured."""
    jobs = [task_job(t, solutions[t.id], protocol) for t in tasks if t.id in solutions]
    measured = dict(zip([j.id for j in jobs], run_jobs(jobs, limits, workers, progress), strict=True))
    missing = Outcome("not_measured", detail="no completion for this task")
    return {t.id: measured.get(t.id, missing) for t in tasks}
