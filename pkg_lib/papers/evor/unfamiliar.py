"""What EVOR asks of a benchmark beside its tasks: a library or language that the model does not know, with its
documentation, and a way to run a draft that sees no hidden test (Section 2 of seed 002)."""

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pkg_lib.core.types import Outcome, Task
from pkg_lib.data import corpora
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.execution.sandbox import Job

LONGEST = 300  # characters of an error that are kept: a program may raise a megabyte
SAID = "ValueError: draft: "
# Runs a draft and then each call, and says where it failed: the error and the draft's own line.
LOOK = """\
import json as _json, traceback as _traceback
_program = {program!r}
_space = {{"__name__": "__main__"}}
try:
    exec(compile(_program, "<draft>", "exec"), _space)
    for _call in {calls!r}:
        eval(compile(_call, "<call>", "eval"), _space)
except Exception as _error:
    _lines = [s.lineno for s in _traceback.extract_tb(_error.__traceback__) if s.filename == "<draft>"]
    if isinstance(_error, SyntaxError):
        _lines = [_error.lineno]
    _line = (_program.splitlines()[_lines[-1] - 1 : _lines[-1]] if _lines and _lines[-1] else [""]) or [""]
    _said = [(type(_error).__name__ + ": " + str(_error))[:{longest}], _line[0].strip()[:120]]
    raise ValueError("draft: " + _json.dumps(_said)) from None
"""


@dataclass(frozen=True, slots=True)
class Feedback:
    """F of Algorithm 1: how a draft ran on the inputs; `line` is the draft's line that leads to the error."""

    ok: bool
    error: str = ""
    line: str = ""


class Unfamiliar(Benchmark):
    """Tasks on a library or language that the model does not know."""

    corpus = corpora.LIBRARY
    in_tokens, selects = True, False
    budgets: Mapping[str, int] = MappingProxyType({"context": 1000, "snippets": 300, "answer": 400})
    subject: str  # the library or language, as prompts name it
    language = "python"  # of the fence around a program

    @abstractmethod
    def documents(self) -> Mapping[str, str]:
        """id -> text: a function, method or section of the documentation each, in a fixed order."""

    @abstractmethod
    def needed(self, task: Task) -> frozenset[str]:
        """The documents that the reference solution needs (the oracle documentation)."""

    def examples(self) -> Iterable[str]:
        """Programs of the documentation that run without an error: the first code snippets of the soup."""
        return ()

    def calls(self, raw: str, task: Task) -> tuple[str, ...]:
        """The inputs of a model's answer to the question for test inputs, as calls of the entry point."""
        found = (line.strip().removeprefix(">>>").strip() for line in raw.splitlines())
        return tuple(dict.fromkeys(c for c in found if c.startswith(f"{task.entry_point}(")))[:5]

    def look(self, task: Task, solution: str, calls: tuple[str, ...]) -> Job:
        """The job that runs a draft on generated inputs alone; `task.test` is no part of it."""
        text = LOOK.format(program=self.program(task, solution), calls=calls, longest=LONGEST)
        return Job(task.id, "", (text,), "", self.seconds)

    def feedback(self, outcome: Outcome) -> Feedback | None:
        """What the outcome of `look` says; None where the sandbox had a fault."""
        if outcome.status == "not_measured":
            return None
        _, _, said = outcome.detail.partition(SAID)
        try:
            (error, line), _ = json.JSONDecoder().raw_decode(said)
        except ValueError:
            error, line = f"{outcome.error} {outcome.detail}".strip()[:LONGEST], ""
        return Feedback(outcome.status == "passed", error, line)
