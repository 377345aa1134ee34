"""Benchmarks by name."""

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Task, UserError
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.evalplus import EvalPlus
from pkg_lib.data.humaneval import HumanEval
from pkg_lib.data.mbpp import MBPP

_HUMANEVAL, _MBPP = HumanEval(), MBPP("mbpp", "MBPP (first test shown)")
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
    """The name in words; the name itself where it is no benchmark's."""
    return BENCHMARKS[name].title if name in BENCHMARKS else name


def load_benchmark(name: str, limit: int | None = None) -> list[Task]:
    """The (first `limit`) tasks of a benchmark in its own order. UserError for a limit below 1."""
    if limit is not None and limit < 1:
        raise UserError(f"limit must be at least 1, not {limit}")
    benchmark = BENCHMARKS.get_or_fail(name)
    return benchmark.first(benchmark.tasks(), limit) if limit else benchmark.tasks()
