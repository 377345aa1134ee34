"""The contracts of the pipeline: what each stage takes and gives.

    corpus -> graph -> index -> retriever -> prompt -> generator -> sandbox -> selection -> tables

docs/architecture.md says which folder may import which.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Status = Literal["passed", "failed", "not_measured"]


class UserError(Exception):
    """A mistake that the user can mend: one line that says what is wrong and what to do (exit code 2).

    Of several mistakes at once each is an argument, and a line of its own.
    """

    label = "error"

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it: the line, and no traceback."""
        return [f"{self.label}: {' '.join(str(self).split())}"]


class NotAtHand(UserError):
    """What a notebook or an experiment needs is not here: stored results, a corpus, a benchmark. A run leaves
    it out by name."""

    label = "not at hand"


class BenchmarkMissing(NotAtHand):
    """A benchmark's tasks cannot be had here: neither its directory is given nor the hub answers."""


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
    """One row of a corpus (Section 4): an answer of PythonAlpaca, a source file, a section of a tutorial, a
    docstring.

    `kind` says how to read `text`. Code: "python" is a module, "answer" has fenced code blocks. Text: a
    section in reStructuredText, HTML, Markdown or plain "text", or a "docstring" below its signature. `unit`
    is what the row is to the row-level columns: "row" documents are indexed by BM25 and Dense, "function"
    documents only feed the graph.
    """

    id: str
    text: str
    kind: Literal["python", "answer", "rst", "html", "markdown", "text", "docstring"] = "python"
    unit: Literal["row", "function"] = "row"


@dataclass(frozen=True, slots=True)
class Task:
    """One benchmark problem. `prompt` is what the model is asked, `test` what decides (never shown to the
    model)."""

    id: str
    benchmark: str
    prompt: str
    entry_point: str
    test: str
    solution: str


@dataclass(frozen=True, slots=True)
class Context:
    """What a retriever found for a task: C(q) of Equations 8 and 9. `text` is empty when nothing was found.

    `source` names the document and its lines; `score` is the retriever's own (cosine or BM25); `pruned` names
    the removed branch's lines; `truncated` says that the budget cut the text; `defines_task` that the text
    defines the very function that the task asks for (None: not looked at). A stored context of a corpus that
    may not be copied has `text` None; `sha256` still identifies it.
    Where prompts are measured in the model's tokens, `tokens` is the text's length in them and
    `prompt_sha256` names the very prompt that it stood in.
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

    def __post_init__(self) -> None:
        if self.text is not None:
            object.__setattr__(self, "sha256", digest(self.text))


class Retriever(Protocol):
    """One column of Table 1."""

    column: str

    def retrieve(self, tasks: list[Task]) -> list[Context]: ...


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to complete. `text` goes into the model's own chat template where it has one; `sample`
    numbers the completions of one prompt where several are drawn."""

    task_id: str
    text: str
    entry_point: str
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Generation:
    """One completion as the cache holds it. `raw` is the model's text; `tokens` its token ids without the end
    token."""

    key: str
    task_id: str
    raw: str
    tokens: list[int]
    finish: Literal["end", "settled", "length"]
    prompt_tokens: int
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict. "not_measured" is never the model's failure: there is no completion, no published context,
    no stored verdict on this very solution, or the sandbox had a fault.

    `error` is a name of the taxonomy in execution/errors.py ("" when passed), `detail` the last line of the
    traceback, `seconds` the wall time in the sandbox.
    """

    status: Status
    error: str = ""
    detail: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, row: dict[str, Any]) -> Outcome:
        """The outcome in a stored row, whatever else the row holds."""
        return cls(**{k: row[k] for k in cls.__slots__ if k in row})
