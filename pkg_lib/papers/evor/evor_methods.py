"""The methods of EVOR's tables: one row of methods.toml each, and the five samples of MPSC."""

from dataclasses import dataclass

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Generation
from pkg_lib.generation.generator import GREEDY, Sampling
from pkg_lib.papers.evor.templates import read_toml
from pkg_lib.retrieval.methods import NO_RAG, TOP_P, sampled_name

SOURCES = ("documents", "snippets", "feedback")  # Section 3.2: the web is left out by default
# How the query of a round after the first is made; "model" is M_q of Algorithm 1.
QUERIES = ("question", "code", "feedback", "names", "absent names", "explained code", "model")
TEMPERATURE = 0.8  # of every answer that is sampled
SAMPLES = 5  # solutions among which MPSC selects
LAST_PROMPT = "EVOR, last prompt"  # EVOR's last prompt of each task, which MPSC samples


@dataclass(frozen=True, slots=True)
class EvorMethod:
    """One method of EVOR's tables: how contexts are made, and for how many rounds.

    Attributes:
        name: Its name in tables.
        query: One of QUERIES: how rounds after the first formulate their query (Section 2.1).
        sources: The sources of its knowledge base (Section 2.2.1).
        rounds: The number m of iterations after the first.
        grows: Whether drafts enter the knowledge base (Section 2.2.2).
        retriever: "BM25", "MiniLM" or "both" (Figure 5).
        brief: Whether a document is shown as its signature and first paragraph.
        whole_programs: Whether snippets are whole programs instead of the lines that call.
        thinks: What a model is prompted with before it writes, a key of "thoughts" in prompts.toml.
        drawn: The first round whose answer is sampled, since greedy repair repeats itself; 0 for none.
        nearest: Number of documents that a prompt names in place of a name that does not exist.
        context: Token budget of a context (Figure 6); 0 for the benchmark's.
        query_model: M_q by name; "" for M itself.
        input_model: M_t by name; "" for M itself.
    """

    name: str
    query: str = "question"
    sources: tuple[str, ...] = SOURCES
    rounds: int = 0
    grows: bool = True
    retriever: str = "both"
    brief: bool = True
    whole_programs: bool = False
    thinks: str = ""
    drawn: int = 2
    nearest: int = 0
    context: int = 0
    query_model: str = ""
    input_model: str = ""

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

    def sampling(self, number: int) -> Sampling:
        """Return how the answer of a round is decoded.

        Args:
            number: The iteration i.
        """
        if not self.drawn or number < self.drawn:
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


def _read_methods() -> Registry[EvorMethod]:
    rows = read_toml("methods.toml")
    methods = [EvorMethod(name, **fields) for name, fields in rows.items()]
    return Registry("method", methods)


def _sample_names(method: str, first: int) -> tuple[str, ...]:
    """The names of five samples of a method, numbered from `first`."""
    numbers = range(first, first + SAMPLES)
    return tuple(sampled_name(method, sampling_of(number)) for number in numbers)


EVOR_METHODS = _read_methods()
# MPSC selects among five samples (Section 3.1). Those of EVOR's last prompt have numbers that no
# round has: a round that was sampled from that prompt would be one of the five.
MPSC_SAMPLES = {
    "MPSC": _sample_names(NO_RAG, first=1),
    "EVOR + MPSC": _sample_names(LAST_PROMPT, first=11),
}
