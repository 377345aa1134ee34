"""The registry of benchmarks, and their tasks by name."""

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Task, UserError
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
        UserError: The benchmark is unknown, or the limit is no whole number of at least 1.
        BenchmarkMissingError: The tasks are not available on this machine.
    """
    is_count = isinstance(limit, int) and limit >= 1  # a notebook passes what its user wrote
    if limit is not None and not is_count:
        raise UserError(f"limit must be a whole number of at least 1, not {limit!r}")
    benchmark = BENCHMARKS.get_or_fail(name)
    tasks = benchmark.tasks()
    return benchmark.first(tasks, limit) if limit else tasks
