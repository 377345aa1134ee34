"""HumanEval+ and MBPP+ (Liu et al., 2023): tasks of HumanEval and MBPP with far more tests, never committed.

Prompts, contexts and completions are those of the benchmark below, so nothing is generated for the new tests.
Of MBPP+'s 378 tasks 224 lie in MBPP's test split; 28 of these were changed (another name, arguments or
answer), so that MBPP's own prompt asks for what MBPP+ refuses: they are left out. One process a task.
"""

from dataclasses import dataclass, replace
from typing import Any

from pkg_lib.core.reading import Kinds
from pkg_lib.core.types import HiddenTests, Outcome, ProgramTests, Task
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.records import DataSet
from pkg_lib.execution.sandbox import Job, Limits

VARIABLE = "PKG_EVALPLUS_DIR"
# The first test of MBPP, which the prompt shows, does not hold of MBPP+'s own reference solution.
CHANGED = (
    "16 57 61 70 75 101 119 125 130 137 139 140 145 160 166 167 233 245 270 276 285 296 406 433"
)
CHANGED = frozenset(map(int, f"{CHANGED} 436 454 468 471".split()))
# The published tests are not quite the official evaluator's: that of HumanEval/32 unpacks a float, so that
# nothing passes, and floats are compared by `np.allclose` alone, so that `return []` passes 17 tasks. The
# evaluator asks for type and length; the whole shape, since an array of nothing is near to all.
MENDED = {
    "_poly(*candidate(*inp), inp)": "abs(_poly(*inp, candidate(*inp)))",
    "assert np.allclose(out, exp,": "assert type(out) == type(exp) and np.shape(out) == np.shape(exp) "
    "and np.allclose(out, exp,",
}
# Where expected values would be too large to print, the test computes them beside the candidate's. Reference
# solutions take up to 14 s of processor time there and up to 3 s elsewhere.
LONGER, LARGE = 4, Limits(memory_mb=4096)
ANSWERS_TOO_LONG = {
    "MBPP/255"
}  # 128 million strings in one, which do not go to tests in another process


FIELDS: Kinds = {"task_id": (str, int), "test": str}


@dataclass(frozen=True, slots=True)
class ExtendedTests:
    """Hidden tests of a task that EvalPlus has extended.

    Attributes:
        base: The tests of the benchmark that the task comes from. They do not decide here.
        program: EvalPlus's own tests, which do.
    """

    base: HiddenTests
    program: str

    @property
    def text(self) -> str:
        """Both tests, which identify the task in stored digests."""
        return f"{self.base.text}\n# +++\n{self.program}"

    @property
    def computes_answers(self) -> bool:
        """Whether the tests run the reference solution, since its answers are too large to print."""
        return "def ref_func(" in self.program


class EvalPlus(Benchmark):
    """The tasks of `base` that have such tests; completed where `base` is, judged here."""

    seconds = 15.0

    def __init__(self, base: Benchmark, title: str, file: str, repository: str) -> None:
        self.base, self.name, self.title, self.file = (
            base,
            f"{base.name}+",
            title,
            f"{file}.jsonl.gz",
        )
        self.prompts, self.stored_with = base.prompts, base.name
        source = f"{self.file} of github.com/evalplus/{repository}_release"
        self.data = DataSet(title, VARIABLE, source, (f"evalplus/{repository}",))
        self.home = self.data.home

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        return self.data.asks_hub or self.base.asks_hub

    def given(self, task: Task) -> str | None:
        return None if task.id in ANSWERS_TOO_LONG else self.base.given(task)

    def tasks(self) -> list[Task]:
        plus = dict(self.data.records((self.file,), self._read, FIELDS))
        return [
            replace(
                t,
                benchmark=self.name,
                hidden_tests=ExtendedTests(t.hidden_tests, plus[t.id][0]),
                solution=plus[t.id][1],
            )
            for t in self.base.tasks()
            if t.id in plus
        ]

    def _read(self, row: dict[str, Any]) -> tuple[str, tuple[str, str]]:
        """(task id, (test, reference solution)); MBPP's have numbers, and no id where they are changed."""
        name, test = row["task_id"], row["test"]
        for published, mended in MENDED.items():
            test = test.replace(published, mended)
        if isinstance(name, int):
            name = "" if name in CHANGED else f"MBPP/{name}"
        return name, (test, str(row["code" if "code" in row else "canonical_solution"]))

    def _below(self, task: Task) -> Task:
        """The task as `base` has it."""
        hidden = task.hidden_tests
        if isinstance(hidden, ExtendedTests):  # test-free signals come from a task without tests
            hidden = hidden.base
        return replace(task, benchmark=self.base.name, hidden_tests=hidden)

    def program(self, task: Task, solution: str) -> str:
        return self.base.program(self._below(task), solution)

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        # One text, whatever the protocol: it takes the place of the tests below, without setup code.
        own = ProgramTests(task.tests_as(ExtendedTests).program)
        return self.base.tests(replace(task, hidden_tests=own), "standard")

    def limits(self, task: Task) -> Limits:
        return LARGE if task.tests_as(ExtendedTests).computes_answers else Limits()

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        job = super().job(task, solution, protocol)
        slow = task.tests_as(ExtendedTests).computes_answers
        return replace(job, seconds=LONGER * self.seconds) if slow else job

    def solution(self, task: Task, raw: str) -> str:
        return self.base.solution(self._below(task), raw)

    def untested(self, task: Task, solution: str) -> str:
        return self.base.untested(self._below(task), solution)
