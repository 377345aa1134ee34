"""Execution feedback F of Algorithm 1: how a draft program ran on generated inputs."""

import json
from dataclasses import dataclass

from pkg_lib.core.types import Outcome, Task
from pkg_lib.papers.evor.templates import PROGRAMS

MAX_ERROR = 240  # characters of an error that are kept: a program may raise a megabyte
REPORT_MARK = "ValueError: draft: "  # in a sandbox's detail, before the JSON of error and line


@dataclass(frozen=True, slots=True)
class Feedback:
    """F of Algorithm 1 for one draft.

    Attributes:
        ok: Whether the draft ran on all inputs without an error.
        error: The error as the interpreter reports it; "" without one.
        line: The line of the draft that leads to the error; "" if it is not known.
    """

    ok: bool
    error: str = ""
    line: str = ""

    @property
    def text(self) -> str:
        """The error with its line, as the knowledge base and prompts show it (Appendix F)."""
        if self.ok:
            return "no error"
        if self.line:
            return f"`{self.line}`: {self.error}"
        return self.error


def draft_test(program: str, run: str) -> str:
    """Return a sandbox test that runs a draft and reports its first error.

    Args:
        program: The draft. Its lines must belong to the file "<draft>" in tracebacks.
        run: A program that executes the draft.

    Returns:
        A test program that fails with the report if the draft fails.
    """
    return PROGRAMS["look"].format(program=program, run=run, longest=MAX_ERROR)


def failure_detail(error: str, line: str) -> str:
    """Return the detail of a failed outcome, in the form that `read_feedback` reads.

    Args:
        error: What the interpreter reports.
        line: The line of the draft that leads to the error.
    """
    return REPORT_MARK + json.dumps([error[:MAX_ERROR], line])


def read_feedback(outcome: Outcome) -> Feedback | None:
    """Read the feedback from the outcome of a draft's job.

    Args:
        outcome: What the sandbox returned for `EvorBenchmark.draft_job`.

    Returns:
        The feedback; None if the sandbox had a fault.
    """
    if outcome.status == "not_measured":
        return None
    if outcome.status == "passed":
        return Feedback(True)
    report = outcome.detail.partition(REPORT_MARK)[2]
    try:
        (error, line), _ = json.JSONDecoder().raw_decode(report)
    except ValueError:  # the draft was ended from outside, or printed something else
        error = f"{outcome.error} {outcome.detail}".strip()[:MAX_ERROR]
        line = ""
    return Feedback(False, _encodable(error), _encodable(line))


def _encodable(value: object) -> str:
    """Escape half characters, which neither a tokenizer nor a file takes."""
    return str(value).encode("utf8", "backslashreplace").decode()


@dataclass(frozen=True)
class Draft:
    """A draft p^i of a task with its execution feedback F^i.

    Attributes:
        task: The problem n.
        program: The draft p^i.
        feedback: How it ran, F^i.
    """

    task: Task
    program: str
    feedback: Feedback
