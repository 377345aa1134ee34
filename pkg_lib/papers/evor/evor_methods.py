"""The methods of EVOR's tables, and their rounds as columns, METHOD@ROUND; rounds.py carries them out."""

import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Retriever
from pkg_lib.data.corpora import LIBRARY
from pkg_lib.retrieval.methods import (
    GREEDY,
    METHODS,
    TOP_P,
    Method,
    RetrieverFactory,
    Sampling,
    sampled_name,
)

SOURCES = ("documents", "snippets", "feedback")  # Section 3.2: the web is left out by default
QUERIES = ("question", "code", "feedback", "names", "absent names", "explained code", "model")


@dataclass(frozen=True, slots=True)
class EvorMethod:
    """How contexts are made, and for how many rounds after the first.

    `query` says how rounds after the first ask, `grows` whether drafts enter the soup, `thinks` what a model
    is asked before it writes (rounds.py and prompts.toml name both); rounds from `drawn` on draw their
    tokens, since greedy repair repeats itself;
    `nearest` is how many documents a prompt names in the place of a name that does not exist;
    `context` is a budget in tokens, 0 the benchmark's; M_q and M_t are models by name, "" M itself.
    """

    name: str
    query: str = "question"
    sources: tuple[str, ...] = SOURCES
    rounds: int = 0
    grows: bool = True
    retriever: str = "both"  # or "BM25", "MiniLM"
    brief: bool = True
    whole_programs: bool = False
    thinks: str = ""
    drawn: int = 2
    nearest: int = 0
    context: int = 0
    query_model: str = ""
    input_model: str = ""

    def column(self, number: int) -> str:
        return f"{self.name}@{number}" if self.rounds else self.name


_TEXT = Path(__file__).with_name("methods.toml").read_text("utf8")
EVOR_METHODS: Registry[EvorMethod] = Registry(
    "method", (EvorMethod(n, **m) for n, m in tomllib.loads(_TEXT).items())
)


def _made(name: str, module: str = "rounds", **about: Any) -> RetrieverFactory:
    """A class of a module here, which is loaded when the column is asked for its contexts."""

    def make(evolution: Any) -> Retriever:
        return getattr(import_module(f"pkg_lib.papers.evor.{module}"), name)(evolution, **about)

    return make


METHODS.register(Method("Oracle", _made("OracleRetriever"), (LIBRARY,), "document"))
for _method, _n in ((m, n) for m in EVOR_METHODS.values() for n in range(m.rounds + 1)):
    _needs = (_method.column(_n - 1),) if _n else ()
    _make = _made("RoundRetriever", method=_method, number=_n)
    _sampling = Sampling(0.8, TOP_P, sample=_n) if 0 < _method.drawn <= _n else GREEDY
    METHODS.register(
        Method(_method.column(_n), _make, (LIBRARY,), "document", needs=_needs, sampling=_sampling)
    )
# MPSC chooses among five draws: of the bare prompt, or of EVOR's last prompt of each task. The latter have
# numbers that no round has: a round that was drawn from that prompt would be one of the five.
DRAWS = {
    name: tuple(sampled_name(of, Sampling(0.8, TOP_P, sample=n)) for n in range(first, first + 5))
    for name, of, first in (("MPSC", "NoRAG", 1), ("EVOR + MPSC", "EVOR, last prompt", 11))
}
_last = EVOR_METHODS["EVOR"].column(EVOR_METHODS["EVOR"].rounds)
METHODS.register(
    Method(
        "EVOR, last prompt",
        _made("LastPrompts", "mpsc"),
        (LIBRARY,),
        "document",
        variant_of=_last,
        needs=(_last,),
    )
)
for _name, _drawn in DRAWS.items():
    METHODS.register(
        Method(_name, _made("MpscRetriever", "mpsc", column=_name), (LIBRARY,), needs=_drawn)
    )
