"""The values that pass between the stages.

The stages are corpus, graph, index, retriever, prompt, generator, sandbox and selection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

Status = Literal["passed", "failed", "not_measured"]
DocumentKind = Literal["python", "answer", "rst", "html", "markdown", "text", "docstring"]


class UserError(Exception):
    """A mistake that the user can correct (exit code 2).

    Each argument is one line, which says what is wrong and what to do.
    """

    label = "error"

    def __str__(self) -> str:
        """Return the lines as one line."""
        return "; ".join(map(str, self.args))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the line, and no traceback."""
        return [f"{self.label}: {' '.join(str(self).split())}"]


class UnavailableError(UserError):
    """Stored results, a corpus or a benchmark that is needed is not available.

    A run leaves it out and reports its name.
    """

    label = "not available"


class BenchmarkMissingError(UnavailableError):
    """A benchmark's tasks are not available: no directory is given, and the hub does not answer."""


def digest(*parts: str) -> str:
    """Return the SHA-256 in hex over several texts.

    Args:
        parts: The texts. They are separated, so that ("ab", "c") and ("a", "bc") differ.
    """
    sha256 = hashlib.sha256()
    for part in parts:
        data = part.encode("utf8", "surrogatepass")
        sha256.update(str(len(data)).encode() + b":" + data)
    return sha256.hexdigest()


NOTHING = digest("")  # the `sha256` of an empty context


@dataclass(frozen=True, slots=True)
class Document:
    """One row of a corpus (Section 4).

    Attributes:
        id: Its name, which is unique in the corpus.
        text: Its text. A retrieved row shows this text, and the graph is built from it.
        kind: How to read the text.
        unit: Whether it is a row. A "function" only contributes to the graph.
        question: The question that the text answers; "" for other documents. A row is searched by
            both, as the paper's question-answer pairs are, but shows only the answer.
    """

    id: str
    text: str
    kind: DocumentKind = "python"
    unit: Literal["row", "function"] = "row"
    question: str = ""


def corpus_digest(documents: Iterable[Document]) -> str:
    """Identify the exact documents of a graph or an index.

    Args:
        documents: All documents of a corpus, in order.

    Returns:
        SHA-256 in hex. Documents without questions have the digest that they had before questions
        existed.
    """
    parts: list[str] = []
    for document in documents:
        parts += [document.id, document.kind, document.unit, document.text]
        if document.question:
            parts += ["question", document.question]
    return digest(*parts)


class HiddenTests(Protocol):
    """The tests that decide whether a solution is correct, and that no model sees.

    Each kind of benchmark has a frozen dataclass of its own for them.
    """

    @property
    def text(self) -> str:
        """All tests as one text, which identifies them in stored digests."""


AnyTests = TypeVar("AnyTests", bound=HiddenTests)


@dataclass(frozen=True, slots=True)
class ProgramTests:
    """Hidden tests that are one program, executed after the solution."""

    text: str


NO_TESTS = ProgramTests("")


@dataclass(frozen=True, slots=True)
class Task:
    """One benchmark problem.

    Attributes:
        id: The task's name, unique within its benchmark.
        benchmark: Name of the benchmark. To be tested, a task needs a registered one, which decides how the
            solution and the tests become a program.
        prompt: What the model is asked.
        entry_point: Name of the function that a solution defines; "" where there is none.
        hidden_tests: What decides whether a solution is correct. The model never sees it.
        solution: The reference solution.
    """

    id: str
    benchmark: str
    prompt: str
    entry_point: str
    hidden_tests: HiddenTests = NO_TESTS
    solution: str = ""

    def tests_as(self, kind: type[AnyTests]) -> AnyTests:
        """Return the hidden tests, which must be of one kind.

        Args:
            kind: The class that the task's benchmark uses.

        Returns:
            `hidden_tests`.

        Raises:
            TypeError: They are of another kind: the task is of another benchmark.
        """
        if not isinstance(self.hidden_tests, kind):
            found = type(self.hidden_tests).__name__
            raise TypeError(f"task {self.id} has {found}, where {kind.__name__} are needed")
        return self.hidden_tests


@dataclass(frozen=True, slots=True)
class Context:
    """The context C(q) of a task (Equations 8 and 9).

    Attributes:
        task_id: The task.
        method: The method that retrieved it.
        text: The context; "" if nothing matched, None if the corpus may not be copied.
        source: Document and lines that it comes from.
        score: Similarity to the query.
        pruned: Lines of the branch that pruning removed.
        truncated: Whether the budget cut it.
        defines_task: Whether it defines the very function that the task requests; None if not
            examined.
        sha256: Digest of the text.
        tokens: Length in the model's tokens. This and what follows is only set for prompts that are
            measured in tokens.
        prompt_sha256: Digest of the prompt with it.
        query: The query that retrieved it.
        spent: Tokens spent on formulating the query; None if it is the query of the round before.
        recall: Share of the documents needed by the task that it contains.
    """

    task_id: str
    method: str
    text: str | None
    source: str = ""
    score: float = 0.0
    pruned: str = ""
    truncated: bool = False
    defines_task: bool | None = None
    sha256: str = ""
    tokens: int | None = None
    prompt_sha256: str = ""
    query: str = ""
    spent: int | None = None
    recall: float | None = None

    def __post_init__(self) -> None:
        """Compute the digest of the text."""
        if self.text is not None:
            object.__setattr__(self, "sha256", digest(self.text))


@dataclass(frozen=True, slots=True)
class FurtherPrompts:
    """What a retriever prompts a model for beside the programs, at most, for a forecast.

    Attributes:
        what: Their plural, such as "queries".
        count: The number of prompts.
        prompt_tokens: Their tokens.
        new_tokens: Tokens to generate.
        shared: Whether all methods of the benchmark share them.
    """

    what: str
    count: int
    prompt_tokens: float
    new_tokens: float
    shared: bool = False


class Retriever(Protocol):
    """A method that retrieves contexts."""

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Retrieve one context per task, in order.

        Args:
            tasks: The tasks.
        """
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to complete.

    Attributes:
        task_id: The task.
        text: The prompt.
        entry_point: The function that the answer should define.
        sample: Number of the completion, if several are sampled from one prompt.
        as_it_is: Whether the prompt is sent without the model's chat template.
        whole_answer: Whether the answer is decoded to its end. By default, decoding stops once the
            extraction is settled.
        max_new_tokens: The most tokens of the answer; None for the number of the weights on this machine
            that complete it.
    """

    task_id: str
    text: str
    entry_point: str
    sample: int = 0
    as_it_is: bool = False
    whole_answer: bool = False
    max_new_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """One completion, as the cache stores it.

    Attributes:
        key: The generation key.
        task_id: The task for which it was generated first.
        raw: The completion.
        tokens: Token ids of `raw`, without the end token.
        finish: Why decoding stopped.
        prompt_tokens: Length of the prompt in tokens.
        meta: What else was recorded.
    """

    key: str
    task_id: str
    raw: str
    tokens: list[int]
    finish: Literal["end", "settled", "length"]
    prompt_tokens: int
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on a solution.

    Attributes:
        status: The verdict. "not_measured" is never the model's failure: the verdict is not stored,
            or the sandbox failed.
        error: A name of execution/errors.py.
        detail: The last line of the traceback, or the failing assertion.
        seconds: Wall time.
    """

    status: Status
    error: str = ""
    detail: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, row: dict[str, Any]) -> Outcome:
        """Build the outcome of a stored row.

        Args:
            row: The row. Its other fields are ignored.
        """
        return cls(**{name: row[name] for name in cls.__slots__ if name in row})
