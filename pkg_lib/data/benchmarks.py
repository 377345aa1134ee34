"""The registry of benchmarks, and their tasks by name."""

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import ProgramTests, Task, UserError
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.evalplus import EvalPlus
from pkg_lib.data.humaneval import HumanEval
from pkg_lib.data.mbpp import MBPP

_HUMANEVAL = HumanEval()
_MBPP = MBPP("mbpp", "MBPP (first test shown)")
BENCHMARKS: Registry[Benchmark] = Registry(
    "benchmark",
    (
        _HUMANEVAL,
        EvalPlus(_HUMANEVAL, "HumanEval+", "HumanEvalPlus-OriginFmt", "humanevalplus"),
        _MBPP,
        EvalPlus(_MBPP, "MBPP+ (first test shown)", "MbppPlus-OriginFmt", "mbppplus"),
        MBPP("mbpp-all", "MBPP (all 974 tasks)", ids=None),
        MBPP(
            "mbpp-all-asserts",
            "MBPP (all tests shown)",
            prompts="mbpp-all-asserts",
            hint="all tests",
        ),
        MBPP(
            "mbpp-signature", "MBPP (signature shown)", prompts="mbpp-signature", hint="signature"
        ),
    ),
)


def title_of(name: str) -> str:
    """Return the title of a benchmark.

    Args:
        name: Name of a benchmark.

    Returns:
        Its title; `name` itself if no benchmark has that name.
    """
    return BENCHMARKS[name].title if name in BENCHMARKS else name


def load_benchmark(name: str, limit: int | None = None) -> list[Task]:
    """Load the tasks of a benchmark.

    Args:
        name: Name of a benchmark.
        limit: Number of tasks to load; None for all.

    Returns:
        Tasks in the benchmark's own order.

    Raises:
        UserError: The benchmark is unknown, it has no tasks or a wrong one, or the limit is no whole number
            of at least 1.
        BenchmarkMissingError: The tasks are not available on this machine.
    """
    is_count = isinstance(limit, int) and limit >= 1  # a notebook passes what its user wrote
    if limit is not None and not is_count:
        raise UserError(f"limit must be a whole number of at least 1, not {limit!r}")
    benchmark = BENCHMARKS.get_or_fail(name)
    tasks = benchmark.tasks()
    _check_tasks(name, tasks)
    return benchmark.first(tasks, limit) if limit else tasks


def _check_tasks(benchmark: str, tasks: list[Task]) -> None:
    """Raise UserError if there are no tasks, two have the same id, or a field is not text."""
    if not tasks:
        raise UserError(f"benchmark {benchmark} has no tasks; give it at least one")
    seen: set[str] = set()
    for number, task in enumerate(tasks, 1):
        fields = {name: getattr(task, name) for name in ("id", "prompt", "entry_point", "solution")}
        if isinstance(task.hidden_tests, ProgramTests):
            fields["test"] = task.hidden_tests.text
        for field, value in fields.items():
            if not isinstance(value, str):
                kind = type(value).__name__
                raise UserError(
                    f"benchmark {benchmark}, task {number}: {field} must be text, not {kind}"
                )
        if task.id in seen:
            raise UserError(
                f"benchmark {benchmark} has two tasks {task.id!r}; give each an id of its own"
            )
        seen.add(task.id)
