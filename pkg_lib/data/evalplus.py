"""HumanEval+ and MBPP+ (Liu et al., 2023): tasks of HumanEval and MBPP with far more tests.

Prompts, contexts and completions are those of the base benchmark, so nothing is generated for the
new tests. Their files are never committed. One process runs all tests of a task.

MBPP+ has 378 tasks, of which 224 are in MBPP's test split. EvalPlus changed 28 of these: another
name, other arguments or another answer. MBPP's own prompt then asks for what MBPP+ rejects, so
these tasks are left out.
"""

from dataclasses import dataclass, replace
from typing import Any

from pkg_lib.core.reading import Kinds
from pkg_lib.core.types import HiddenTests, Outcome, ProgramTests, Task
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.records import DataSet
from pkg_lib.execution.sandbox import Job, Limits

VARIABLE = "PKG_EVALPLUS_DIR"
FIELDS: Kinds = {"task_id": (str, int), "test": str}
# The first test of MBPP, which the prompt shows, fails with MBPP+'s own reference solution.
CHANGED = frozenset(
    f"MBPP/{number}"
    for number in (
        "16 57 61 70 75 101 119 125 130 137 139 140 145 160 166 167 233 245 270 276 285 296 406 "
        "433 436 454 468 471"
    ).split()
)
# The published tests differ from the official evaluator. The test of HumanEval/32 unpacks a float,
# so that nothing passes. Floats are compared only by `np.allclose`, so that `return []` passes 17
# tasks; the evaluator compares type and length first. The whole shape is compared here, since an
# empty array is close to every array.
CORRECTIONS = {
    "_poly(*candidate(*inp), inp)": "abs(_poly(*inp, candidate(*inp)))",
    "assert np.allclose(out, exp,": (
        "assert type(out) == type(exp) and np.shape(out) == np.shape(exp) and np.allclose(out, exp,"
    ),
}
# Tests that run the reference solution take up to 14 s of processor time, others up to 3 s.
COMPUTING_FACTOR = 4
COMPUTING_LIMITS = Limits(memory_mb=4096)
# It returns 128 million strings in one list, which cannot be sent to tests in another process.
ANSWERS_TOO_LONG = {"MBPP/255"}


@dataclass(frozen=True, slots=True)
class ExtendedTests:
    """Hidden tests of a task that EvalPlus has extended.

    Attributes:
        base: The tests of the base benchmark. They do not decide here.
        program: EvalPlus's own tests, which decide.
    """

    base: HiddenTests
    program: str

    @property
    def text(self) -> str:
        """Both tests, which identify the task in stored digests."""
        return f"{self.base.text}\n# +++\n{self.program}"

    @property
    def computes_answers(self) -> bool:
        """Whether the tests run the reference solution, whose answers are too large to print."""
        return "def ref_func(" in self.program


class EvalPlus(Benchmark):
    """The tasks of a base benchmark for which EvalPlus has tests."""

    seconds = 15.0

    def __init__(
        self,
        base: Benchmark,
        title: str,
        file: str,
        repository: str,
    ) -> None:
        """Describe the benchmark without reading its tasks.

        Args:
            base: The benchmark that has the prompts.
            title: What tables call it.
            file: Name of the file with its tests, without suffix.
            repository: Name of EvalPlus's repository on the hub.
        """
        self.base = base
        self.name = f"{base.name}+"
        self.title = title
        self.file = f"{file}.jsonl.gz"
        self.prompts = base.prompts
        self.stored_with = base.name
        source = f"{self.file} of github.com/evalplus/{repository}_release"
        self.data = DataSet(title, VARIABLE, source, (f"evalplus/{repository}",))
        self.home = self.data.home

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]  # a property may replace the attribute
        """Whether the tasks or their tests would be downloaded."""
        return self.data.asks_hub or self.base.asks_hub

    def tasks(self) -> list[Task]:
        """Return the base benchmark's tasks with EvalPlus's tests and reference solutions."""
        records = self.data.records((self.file,), _extension, FIELDS)
        extensions = {extension.task_id: extension for extension in records}
        tasks = []
        for task in self.base.tasks():
            if task.id in extensions and task.id not in CHANGED:
                extension = extensions[task.id]
                extended = replace(
                    task,
                    benchmark=self.name,
                    hidden_tests=ExtendedTests(task.hidden_tests, extension.tests),
                    solution=extension.solution,
                )
                tasks.append(extended)
        return tasks

    def reranking_query(self, task: Task) -> str:
        """Return the query of the base benchmark's task."""
        return self.base.reranking_query(task)

    def _in_base(self, task: Task) -> Task:
        """Return the task as the base benchmark has it."""
        hidden = task.hidden_tests
        if isinstance(hidden, ExtendedTests):  # test-free signals come from a task without tests
            hidden = hidden.base
        return replace(task, benchmark=self.base.name, hidden_tests=hidden)

    def given(self, task: Task) -> str | None:
        """Return what the base benchmark's tests may use."""
        return None if task.id in ANSWERS_TOO_LONG else self.base.given(task)

    def program(self, task: Task, solution: str) -> str:
        """Return the base benchmark's program."""
        return self.base.program(self._in_base(task), solution)

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        """Return EvalPlus's tests as one program, under either protocol."""
        own = ProgramTests(task.tests_as(ExtendedTests).program)
        return self.base.tests(replace(task, hidden_tests=own), "standard")

    def limits(self, task: Task) -> Limits:
        """Return more memory where the tests run the reference solution."""
        hidden = task.hidden_tests  # none where only verdicts are stored
        computes = isinstance(hidden, ExtendedTests) and hidden.computes_answers
        return COMPUTING_LIMITS if computes else Limits()

    def job(
        self,
        task: Task,
        solution: str,
        protocol: str = "pkg-paper",
    ) -> Job | Outcome:
        """Return the job, with more time where the tests run the reference solution."""
        job = super().job(task, solution, protocol)
        if isinstance(job, Job) and task.tests_as(ExtendedTests).computes_answers:
            return replace(job, seconds=COMPUTING_FACTOR * self.seconds)
        return job

    def solution(self, task: Task, raw: str) -> str:
        """Extract the solution as the base benchmark does."""
        return self.base.solution(self._in_base(task), raw)


@dataclass(frozen=True, slots=True)
class _Extension:
    """What EvalPlus has of a task: its id in the base benchmark, tests and reference solution."""

    task_id: str
    tests: str
    solution: str


def _extension(row: dict[str, Any]) -> _Extension:
    name = row["task_id"]
    tests = row["test"]
    if isinstance(name, int):  # as MBPP+ has it
        name = f"MBPP/{name}"
    for published, correction in CORRECTIONS.items():
        tests = tests.replace(published, correction)
    solution = row["code"] if "code" in row else row["canonical_solution"]
    return _Extension(name, tests, str(solution))
