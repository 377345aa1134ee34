"""What each stage takes and gives: corpus, graph, index, retriever, prompt, generator, sandbox, selection."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

Status = Literal["passed", "failed", "not_measured"]


class UserError(Exception):
    """A mistake that the user can mend: what is wrong and what to do (exit code 2), a line an argument."""

    label = "error"

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it: the line, and no traceback."""
        return [f"{self.label}: {' '.join(str(self).split())}"]


class NotAtHand(UserError):
    """Stored results, a corpus or a benchmark that is needed is not here; a run leaves it out by name."""

    label = "not at hand"


class BenchmarkMissing(NotAtHand):
    """A benchmark's tasks cannot be had: neither its directory is given nor the hub answers."""


def digest(*parts: str) -> str:
    """SHA-256 in hex over the parts, separated so that ("ab", "c") and ("a", "bc") differ."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode("utf8", "surrogatepass")
        h.update(str(len(data)).encode() + b":" + data)
    return h.hexdigest()


NOTHING = digest("")  # the `sha256` of an empty context


@dataclass(frozen=True, slots=True)
class Document:
    """One row of a corpus (Section 4).

    Attributes:
        id: Its name, which no other document of the corpus has.
        text: What it says. A retrieved row shows this text, and the graph is built from it.
        kind: How to read the text.
        unit: A "function" only feeds the graph; it is no row.
        question: The question that the text answers, "" for all else. A row is searched by both, as the
            paper's question-answer pairs are, but shows the answer alone.
    """

    id: str
    text: str
    kind: Literal["python", "answer", "rst", "html", "markdown", "text", "docstring"] = "python"
    unit: Literal["row", "function"] = "row"
    question: str = ""


def corpus_digest(documents: Iterable[Document]) -> str:
    """Identify the exact documents of a graph or an index.

    Args:
        documents: All documents of a corpus, in order.

    Returns:
        SHA-256 in hex. A document without a question counts as it did before there were questions.
    """
    parts: list[str] = []
    for d in documents:
        parts += [d.id, d.kind, d.unit, d.text]
        if d.question:
            parts += ["question", d.question]
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
        benchmark: Name of the benchmark.
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
    """C(q) of Equations 8 and 9. `text` is "" when nothing matched, None where the corpus may not be copied.

    `source` names document and lines, `pruned` the removed branch's lines; `truncated`: the budget cut it;
    `defines_task`: it defines the very function that is asked for (None: not looked at). The rest is given
    where prompts are measured in the model's tokens: `query`, the tokens `spent` on asking for it (None: it
    is the round's before), and its `recall` of the documents that the task needs.
    """

    task_id: str
    column: str
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
        if self.text is not None:
            object.__setattr__(self, "sha256", digest(self.text))


class Retriever(Protocol):
    column: str

    def retrieve(self, tasks: list[Task]) -> list[Context]: ...


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to complete.

    Attributes:
        task_id: The task it asks for.
        text: The prompt.
        entry_point: The function that the answer should define.
        sample: Number of the completion, where several are sampled from one prompt.
        as_it_is: Whether the prompt is sent without the model's chat template.
        whole_answer: Whether the answer is decoded to its end instead of stopping once its extraction is
            settled.
    """

    task_id: str
    text: str
    entry_point: str
    sample: int = 0
    as_it_is: bool = False
    whole_answer: bool = False


@dataclass(frozen=True, slots=True)
class Generation:
    """One completion as the cache holds it; `tokens` are the ids of `raw` without the end token."""

    key: str
    task_id: str
    raw: str
    tokens: list[int]
    finish: Literal["end", "settled", "length"]
    prompt_tokens: int
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict; "not_measured" is never the model's failure: it is not stored, or the sandbox failed."""

    status: Status
    error: str = ""  # a name of execution/errors.py
    detail: str = ""  # the traceback's last line, the failing assertion
    seconds: float = 0.0  # wall time

    @classmethod
    def of(cls, row: dict[str, Any]) -> Outcome:
        """The outcome in a stored row, whatever else the row holds."""
        return cls(**{k: row[k] for k in cls.__slots__ if k in row})
