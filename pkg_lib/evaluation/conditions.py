"""Conditions (what is measured) and samples (one measurement).

A condition names a model, a benchmark, a corpus and a method. Names are read by `parse_condition` and
printed by its inverse, `str`.
"""

from dataclasses import dataclass
from typing import Any

from pkg_lib.core.types import Context, Outcome, UserError, digest
from pkg_lib.retrieval.methods import Method, parse_method

SEPARATOR = " | "


@dataclass(frozen=True, slots=True)
class Condition:
    """One model on one benchmark with one method, whose contexts come from one corpus.

    Attributes:
        model: A model by name.
        benchmark: A benchmark by name.
        corpus: A corpus by name; "" for the benchmark's own or the default one.
        method: A method, which also says how the model is sampled. A name is converted.
        limit: Only so many of the first tasks; None for all.
    """

    model: str
    benchmark: str = "humaneval"
    corpus: str = ""
    method: Method | str = "NoRAG"
    limit: int | None = None

    def __post_init__(self) -> None:
        """Convert the name of a method.

        Raises:
            UserError: The method is unknown.
        """
        if isinstance(self.method, str):
            object.__setattr__(self, "method", parse_method(self.method))

    @property
    def id(self) -> str:
        """A digest of 16 hex digits that no other condition has."""
        return digest(str(self))[:16]

    def __str__(self) -> str:
        """Return the names of the parts in one line."""
        parts = [self.model, self.benchmark, self.corpus, str(self.method)]
        if self.limit is not None:
            parts.append(f"first {self.limit}")
        return SEPARATOR.join(parts)


def parse_condition(text: str) -> Condition:
    """Read a condition as `str` prints it.

    Args:
        text: Such as "qwen2.5-coder-0.5b-instruct | humaneval | textbook+stdlib | Func-PKG".

    Returns:
        The condition.

    Raises:
        UserError: The text has another form, or the method is unknown.
    """
    parts = [part.strip() for part in text.split(SEPARATOR.strip())]
    limit = None
    if len(parts) == 5 and parts[4].startswith("first "):
        number = parts.pop().removeprefix("first ")
        limit = 0
        if number.isdigit():
            limit = int(number)
    if len(parts) != 4 or limit == 0:
        form = "MODEL | BENCHMARK | CORPUS | METHOD"
        raise UserError(f"{text!r} is not a condition; write {form}, and | first N for a limit")
    model, benchmark, corpus, method = parts
    return Condition(model, benchmark, corpus, method, limit)


@dataclass(frozen=True, slots=True)
class Sample:
    """One task under one condition, with everything that is stored of it.

    Attributes:
        condition: What was measured.
        task_id: The task.
        context: What was retrieved; None if nothing is stored. Its `text` is None where the corpus' licence
            forbids a copy.
        prompt: The messages exactly as sent, each with "role" and "content"; None where a part of them may
            not be stored. `prompt_sha256` then identifies them.
        prompt_sha256: Digest of the prompt's text; "" if neither prompt nor completion is stored.
        completion: The model's text as it was written; None if it is not stored.
        solution: The code extracted from the completion; "" without one.
        outcome: The verdict.
        prompt_tokens: Number of tokens in the prompt; None if unknown.
        new_tokens: Number of tokens in the completion; None if unknown.
        seconds: Time since the completion before it in the same batch; None if unknown.
    """

    condition: Condition
    task_id: str
    context: Context | None
    prompt: list[dict[str, str]] | None
    prompt_sha256: str
    completion: str | None
    solution: str
    outcome: Outcome
    prompt_tokens: int | None = None
    new_tokens: int | None = None
    seconds: float | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The sample as one row of a table: names and numbers, without long texts."""
        return {
            "model": self.condition.model,
            "benchmark": self.condition.benchmark,
            "corpus": self.condition.corpus,
            "method": str(self.condition.method),
            "task_id": self.task_id,
            "status": self.outcome.status,
            "error": self.outcome.error,
            "prompt_tokens": self.prompt_tokens,
            "new_tokens": self.new_tokens,
            "seconds": self.seconds,
        }
