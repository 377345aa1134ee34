"""Tasks and completions -> outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pkg_lib.core.types import Outcome, Task
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.sandbox import Limits, run_jobs


def evaluate(
    tasks: Sequence[Task],
    solutions: Mapping[str, str],
    protocol: str = "pkg-paper",
    limits: Limits | None = None,
    workers: int = 2,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Outcome]:
    """task id -> outcome for every task, in order; a task without a solution is not measured."""
    jobs = [BENCHMARKS[t.benchmark].job(t, solutions[t.id], protocol) for t in tasks if t.id in solutions]
    measured = dict(zip([j.id for j in jobs], run_jobs(jobs, limits, workers, progress), strict=True))
    absent = Outcome("not_measured", detail="no completion for this task")
    return {t.id: measured.get(t.id, absent) for t in tasks}
