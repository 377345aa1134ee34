"""Registers EVOR's methods, each round as a method of its own, and what they retrieve from.

The modules that retrieve are imported when a context is needed: they load numpy and models.
"""

from typing import TYPE_CHECKING, Any

from pkg_lib.core.types import Retriever
from pkg_lib.data.benchmark import KNOWLEDGE_MAKERS, Benchmark
from pkg_lib.data.corpora import LIBRARY
from pkg_lib.generation.generator import Generator
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark
from pkg_lib.papers.evor.evor_methods import (
    EVOR_METHODS,
    LAST_PROMPT,
    MPSC_SAMPLES,
    EvorMethod,
)
from pkg_lib.retrieval.methods import METHODS, Method, RetrieverFactory

if TYPE_CHECKING:
    from pkg_lib.papers.evor.evor_run import EvorRun

KINDS = (LIBRARY,)  # of corpora that offer the methods
UNIT = "document"


def evor_run(benchmark: Benchmark, generator: Generator) -> "EvorRun":
    """Return what the methods of a benchmark with the corpus LIBRARY retrieve from.

    Args:
        benchmark: One of EVOR's benchmarks.
        generator: M, the model that writes the programs.

    Returns:
        The run, with the stored results of the model.

    Raises:
        TypeError: The benchmark is no `EvorBenchmark`.
    """
    from pkg_lib.papers.evor.evor_run import EvorRun

    if not isinstance(benchmark, EvorBenchmark):
        raise TypeError(f"benchmark {benchmark.name} has no documents for EVOR")
    return EvorRun(benchmark, generator)


def _oracle(run: Any) -> Retriever:
    from pkg_lib.papers.evor.evor_loop import OracleRetriever

    return OracleRetriever(run)


def _round_factory(method: EvorMethod, number: int) -> RetrieverFactory:
    def make(run: Any) -> Retriever:
        from pkg_lib.papers.evor.evor_loop import EvorRound

        return EvorRound(run, method, number)

    return make


def _last_prompts(run: Any) -> Retriever:
    from pkg_lib.papers.evor.mpsc import LastPrompts

    return LastPrompts(run)


def _mpsc_factory(name: str) -> RetrieverFactory:
    def make(run: Any) -> Retriever:
        from pkg_lib.papers.evor.mpsc import MpscRetriever

        return MpscRetriever(run, name)

    return make


def _register_rounds(method: EvorMethod) -> None:
    """Register each round as a method that needs the round before."""
    names = method.round_names
    for number, name in enumerate(names):
        METHODS.register(
            Method(
                name,
                _round_factory(method, number),
                KINDS,
                UNIT,
                needs=tuple(names[number - 1 : number]) if number else (),
                sampling=method.sampling(number),
                window=method.loop.window,
            )
        )


def _register_all() -> None:
    METHODS.register(Method("Oracle", _oracle, KINDS, UNIT))
    for method in EVOR_METHODS.values():
        _register_rounds(method)
    last_round = EVOR_METHODS["EVOR"].round_names[-1]
    last_prompt = Method(
        LAST_PROMPT,
        _last_prompts,
        KINDS,
        UNIT,
        variant_of=last_round,
        needs=(last_round,),
    )
    METHODS.register(last_prompt)
    for name, samples in MPSC_SAMPLES.items():
        METHODS.register(Method(name, _mpsc_factory(name), KINDS, needs=samples))


KNOWLEDGE_MAKERS[LIBRARY] = evor_run
_register_all()
