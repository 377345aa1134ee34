"""The methods of EVOR's tables: one row of methods.toml each, and the five samples of MPSC.

The baselines and EVOR also exist with the paper's own loop, as METHOD, as published (`as_published`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Generation
from pkg_lib.generation.generator import GREEDY, Sampling
from pkg_lib.papers.evor.loop_options import AS_PUBLISHED, STORED_RUNS, LoopOptions
from pkg_lib.papers.evor.templates import read_toml
from pkg_lib.retrieval.methods import NO_RAG, TOP_P, sampled_name

SOURCES = ("documents", "snippets", "feedback")  # Section 3.2: the web is left out by default
# How the query of a round after the first is made; "model" is M_q of Algorithm 1.
QUERIES = ("question", "code", "feedback", "names", "absent names", "explained code", "model")
# M_q as line 7 of Algorithm 1 has it, with the inputs I; for methods with the paper's own loop.
PUBLISHED_QUERY = "needed knowledge"
TEMPERATURE = 0.8  # of every answer that is sampled
SAMPLES = 5  # solutions among which MPSC selects
LAST_PROMPT = "EVOR, last prompt"  # EVOR's last prompt of each task, which MPSC samples
PUBLISHED_ROUNDS = 30  # the maximum number of iterations m (Section 2.3)
# The methods that also exist with the paper's own loop: rows of Tables 2 and 3.
WITH_PUBLISHED_LOOP = (
    "DocPrompting",
    "RK",
    "Reflexion",
    "ExeDec",
    "EVOR",
    "EVOR + Reflexion",
    "EVOR + ExeDec",
)


@dataclass(frozen=True, slots=True)
class EvorMethod:
    """One method of EVOR's tables: how contexts are made, and for how many rounds.

    Attributes:
        name: Its name in tables.
        query: How rounds after the first formulate their query (Section 2.1): one of QUERIES, or
            PUBLISHED_QUERY.
        sources: The sources of its knowledge base (Section 2.2.1).
        rounds: The number m of iterations after the first.
        grows: Whether drafts enter the knowledge base (Section 2.2.2).
        retriever: "BM25", "MiniLM" or "both" (Figure 5).
        brief: Whether a document is shown as its signature and first paragraph.
        thinks: What a model is prompted with before it writes: "reflection", "subgoals" or "".
        nearest: Number of documents that a prompt names in place of a name that does not exist.
        context: Token budget of a context (Figure 6); 0 for the benchmark's.
        query_model: M_q by name; "" for M itself.
        input_model: M_t by name; "" for M itself.
        loop: How the loop is carried out.
    """

    name: str
    query: str = "question"
    sources: tuple[str, ...] = SOURCES
    rounds: int = 0
    grows: bool = True
    retriever: str = "both"
    brief: bool = True
    thinks: str = ""
    nearest: int = 0
    context: int = 0
    query_model: str = ""
    input_model: str = ""
    loop: LoopOptions = field(default=STORED_RUNS)

    def round_name(self, number: int) -> str:
        """Return the name under which the results of one round are stored.

        Args:
            number: The iteration i, from 0.

        Returns:
            Such as "EVOR@2"; the method's own name if it has only one round.
        """
        return f"{self.name}@{number}" if self.rounds else self.name

    @property
    def round_names(self) -> list[str]:
        """The names of all rounds, in order."""
        return [self.round_name(number) for number in range(self.rounds + 1)]

    @property
    def writes_scripts(self) -> bool:
        """Whether K starts with scripts of sample usage, and is searched for them."""
        is_searched = "snippets" in self.sources or "feedback" in self.sources
        return self.loop.starts_with_scripts and is_searched

    @property
    def executes_subgoals(self) -> bool:
        """Whether it writes programs in parts, each executed before the next (ExeDec)."""
        return self.thinks == "subgoals" and self.loop.executes_subgoals

    def sampling(self, number: int) -> Sampling:
        """Return how the answer of a round is decoded.

        Args:
            number: The iteration i.
        """
        first = self.loop.sampled_from
        if not first or number < first:
            return GREEDY
        return sampling_of(number)


def sampling_of(sample: int) -> Sampling:
    """Return how a numbered answer is sampled.

    Args:
        sample: The number, from 1.
    """
    return Sampling(TEMPERATURE, TOP_P, sample=sample)


def tokens_of(answer: Generation) -> int:
    """Return the tokens that a model read and wrote for an answer.

    Args:
        answer: The answer.
    """
    return answer.prompt_tokens + len(answer.tokens)


def as_published(method: EvorMethod) -> EvorMethod:
    """Return a method with the paper's own loop.

    Beside `AS_PUBLISHED`, it retrieves by vectors alone (Section 3.2) and whole documents, goes through
    up to 30 iterations (Section 2.3), and M_q writes what knowledge is needed (Section 2.1).

    Args:
        method: A method of methods.toml.
    """
    return replace(
        method,
        name=f"{method.name}, as published",
        query=PUBLISHED_QUERY if method.query == "model" else method.query,
        rounds=PUBLISHED_ROUNDS if method.rounds else 0,
        retriever="MiniLM",
        brief=False,
        loop=AS_PUBLISHED,
    )


def _read_methods() -> Iterator[EvorMethod]:
    """Yield the methods of methods.toml, then those that also exist with the paper's own loop."""
    rows: dict[str, dict[str, Any]] = read_toml("methods.toml")
    options = {option.name for option in fields(LoopOptions)}
    methods = {}
    for name, row in rows.items():
        changed = {key: row.pop(key) for key in options & row.keys()}
        methods[name] = EvorMethod(name, **row, loop=replace(STORED_RUNS, **changed))
    yield from methods.values()
    for name in WITH_PUBLISHED_LOOP:
        yield as_published(methods[name])


def _sample_names(method: str, first: int) -> tuple[str, ...]:
    """The names of five samples of a method, numbered from `first`."""
    numbers = range(first, first + SAMPLES)
    return tuple(sampled_name(method, sampling_of(number)) for number in numbers)


EVOR_METHODS: Registry[EvorMethod] = Registry("method", _read_methods())
# MPSC selects among five samples (Section 3.1). The samples of EVOR's last prompt have numbers above those of
# the rounds. Otherwise a round that was sampled from the same prompt would be taken for one of the five.
MPSC_SAMPLES = {
    "MPSC": _sample_names(NO_RAG, first=1),
    "EVOR + MPSC": _sample_names(LAST_PROMPT, first=11),
}
