"""Tasks of our own on newScience, the library of Scipy-M (Section 2.4; new_science.py).

The expected values come from the same solutions in plain scipy (tests/benchmarks/fill_scipy_tasks.py). A
solution passes if its output is right and it called a function of newScience that the task accepts.

The authors made the library for scipy 1.7.3. With scipy 1.17.1, LEFT_OUT does not work: it has no documents
and no tasks. These work in a part of the cases, which the tasks keep to: `medianFilter` needs an integer
`shift`, `one_sample_ks` a function as `ref`, `random_fill` a `random_seed`, and the linear interpolators an
`axis` where x has one dimension.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pkg_lib.core.store import read_rows
from pkg_lib.core.types import Task
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.sandbox import Limits
from pkg_lib.papers.evor import new_science
from pkg_lib.papers.evor.templates import HERE, PROGRAMS
from pkg_lib.papers.evor.watched_tasks import WatchedTask, WatchedTasks

FILE = "scipy_tasks.jsonl"
FIELDS = (
    "id",
    "apis",
    "statement",
    "signature",
    "inputs",
    "expected",
    "solution",
    "scipy_solution",
)
# What does not work with scipy 1.17.1, below newScience.
LEFT_OUT = (
    "func_operation.numeric_integrate",  # scipy.integrate.trapz was removed
    "sparse.SparseMatrix.update",  # the sparse matrices have no _update any more
    "sparse.SparseMatrix.num_ptr",  # the sparse matrices have no num_ptr, also in 1.7.3
    "sparse.SparseMatrix.std",  # with an axis it raises a matrix to a power
)
PLAIN_SCIPY = "plain SciPy"  # the control row that does not call newScience
MEMORY_MB = 4096
# The fork server imports them once, before it runs any sample.
PRELOADED = (
    "numpy",
    "scipy.fft",
    "scipy.integrate",
    "scipy.interpolate",
    "scipy.linalg",
    "scipy.ndimage",
    "scipy.optimize",
    "scipy.signal",
    "scipy.sparse",
    "scipy.spatial",
    "scipy.stats",
)


class ScipyTasks(WatchedTasks):
    """Tasks on the authors' library, which the user provides."""

    name = prompts = "scipy-m"
    title = "newScience (tasks of this study)"
    subject = module = new_science.NAME
    home = f"{new_science.NAME} in {new_science.VARIABLE}; the tasks are in papers/evor"
    imports = f"import {new_science.NAME} as {new_science.ALIAS}\nimport numpy as np"
    before_cases = PROGRAMS["plain"]
    case = "assert _same(_plain(solve({given})), {expected})"
    controls: Mapping[str, bool] = {**WatchedTasks.controls, PLAIN_SCIPY: False}

    @cached_property
    def files(self) -> dict[str, str]:
        """The texts of the library.

        Raises:
            BenchmarkMissingError: The library is not available.
            UserError: It cannot be read whole.
        """
        return new_science.read_library()

    @cached_property
    def _documents(self) -> dict[str, str]:
        documents = new_science.make_documents(self.files)
        for name in LEFT_OUT:
            documents.pop(f"{new_science.ALIAS}.{name}", None)
        return documents

    @cached_property
    def _preparation(self) -> str:
        return new_science.importing_program(self.files)

    def preparation(self) -> str:
        """Return the program that makes newScience importable in the sandbox."""
        return self._preparation

    def documents(self) -> dict[str, str]:
        """Return the library's documents by dotted name."""
        return self._documents

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the stored fields of each task by its id."""
        return {row["id"]: row for row in read_rows(HERE / FILE, FIELDS)}

    def tasks(self) -> list[Task]:
        """Return the tasks in the order of their file.

        Raises:
            BenchmarkMissingError: The library is not available.
            UserError: It cannot be read whole.
        """
        self.preparation()  # raises if the library cannot be read: no task could be solved
        return [self._task(row) for row in self.rows().values()]

    def _task(self, row: dict[str, Any]) -> WatchedTask:
        return self.watched_task(row, row["statement"], row["apis"], row["solution"])

    def limits(self, task: Task) -> Limits:
        """Return the limits of a test process, which may import numpy and scipy.

        Args:
            task: A task of this benchmark.
        """
        return Limits(
            seconds=self.seconds,
            memory_mb=MEMORY_MB,
            packages="all",
            preload=PRELOADED,
        )

    def control(self, task: Task, name: str) -> str:
        """Return the solution of a control row.

        Args:
            task: A task of this benchmark.
            name: A key of `controls`; PLAIN_SCIPY has the right output without newScience, which must fail.
        """
        if name != PLAIN_SCIPY:
            return super().control(task, name)
        body = self.rows()[task.id]["scipy_solution"]
        return self.solution(task, f"```python\n{body}```")


BENCHMARKS.register(ScipyTasks())
