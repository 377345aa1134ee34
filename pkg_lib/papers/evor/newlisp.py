"""newLISP, a language that few models know, with its manual: for Ring and Pony (Appendices A.2 and A.3).

What a pass promises: the program ran as confined as every sample (execution/sandbox.py). For each call
it printed the expected value, in order and once. Expected values never enter the sandbox, and what is
printed is compared as data and never evaluated. So a program that prints a right answer has computed
it, or guessed all answers of the task. A pass does not promise that the requested function returned
the value, since a program may redefine the language.
"""

import json
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import unescape
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pkg_lib.core.models import cache_dir
from pkg_lib.core.types import BenchmarkMissingError, Outcome, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import ASCII
from pkg_lib.data.records import read_records
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.extraction import blocks
from pkg_lib.papers.evor.evor_benchmark import MAX_INPUTS, EvorBenchmark
from pkg_lib.papers.evor.execution_feedback import MAX_ERROR, failure_detail
from pkg_lib.papers.evor.templates import HERE

# tests/papers/evor/newlisp_recipe.py made its calls and expected values.
PROBLEMS = HERE / "newlisp_problems.jsonl"
MANUAL = "share/doc/newlisp/newlisp_manual.html"  # beside bin/newlisp
ADVICE = "install Debian's package newlisp, or unpack it and set PKG_NEWLISP to its usr/bin/newlisp"
FETCH = "timeout 300 apt-get download newlisp && dpkg-deb -x *.deb new && mv -T new ../newlisp"
# Characters around what the judge reads. A program that prints them itself spoils the order.
BEGIN, END = "\2", "\3"
MAIN = f'(begin (print "{BEGIN}{END}") (eval-string (env "SOLUTION")) (eval-string (env "TEST") MAIN) (exit))'
TOLERANCE = 1e-6  # relative, of an expected float
LINE_CHARACTERS = 120  # of a draft's line that are kept
TOKEN = re.compile(r'[()\']|;.*|"(?:\\.|[^"\\])*"|[^\s()"\';]+|"')
# A number, and a float.
NUMBERS = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)? -?\d+\.\d+(e[+-]?\d+)?")
# An error with the function and what follows it, such as the name of a call.
ERROR = re.compile(r"^ERR: (.*?)(?: in function (\S+))?(?: : (?:\((\S+?)[)\s])?.*)?$", re.M)
CALLER = re.compile(r"\ncalled from user function \((\S+?)[\s)]")
# The judge's own call, which is no part of the draft's error.
JUDGE_CALL = re.compile(r"(?<=invalid function) in function \S+")

# The HTML of the manual
ANCHOR = re.compile(r'<a name="([^"]+)"></a>(.*?)(?=<a name="|\Z)', re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
PREFORMATTED = re.compile(r"<pre>(.*?)</pre>", re.S)
END_OF_LINE = re.compile(r" ?<(?:br|p|/h\d|/tr|/li)\b[^>]*> ?")
TAG = re.compile(r"</?[a-zA-Z][^>]*>")
FUNCTION_TITLE = re.compile(r'<span class="function">(.*?)</span>')


def same(printed: str, expected: str) -> bool:
    """Tell whether two texts are the same data.

    Args:
        printed: What the program printed.
        expected: The expected value. A float in it may differ by TOLERANCE.

    Returns:
        Whether all tokens are equal.
    """
    tokens = TOKEN.findall(printed)
    wanted_tokens = TOKEN.findall(expected)
    for token, wanted in zip_longest(tokens, wanted_tokens, fillvalue=""):
        if token == wanted:
            continue
        if not NUMBERS.fullmatch(f"{token} {wanted}"):
            return False
        if not math.isclose(float(token), float(wanted), rel_tol=TOLERANCE):
            return False
    return True


@dataclass(frozen=True, slots=True)
class ManualSection:
    """A section of the manual.

    Attributes:
        text: Its text, with code unchanged.
        functions: The functions that it documents.
    """

    text: str
    functions: frozenset[str]


def sections(manual: str) -> dict[str, ManualSection]:
    """Cut the manual into its sections.

    Args:
        manual: The HTML.

    Returns:
        Section by id.
    """
    found = {}
    for name, html in ANCHOR.findall(manual):
        text = _plain_text(html)
        if not text:  # the anchor is another name of the next one
            continue
        titles = " ".join(FUNCTION_TITLE.findall(html))
        functions = re.split(r"[,\s]+", unescape(titles))
        found[name] = ManualSection(text, frozenset(filter(None, functions)))
    return found


def _plain_text(html: str) -> str:
    """The text of a section. Lines of preformatted code are kept; other lines are joined."""
    parts = PREFORMATTED.split(COMMENT.sub("", html))
    for number in range(0, len(parts), 2):  # between are the preformatted parts
        words = parts[number].replace("</td>", " ").split()
        parts[number] = END_OF_LINE.sub("\n", " ".join(words))
    joined = "\n".join(parts)
    plain = unescape(TAG.sub("", joined))
    plain = plain.replace("\xa0", " ")
    plain = re.sub(r" *\n", "\n", plain)
    plain = re.sub(r"\n{3,}", "\n\n", plain)
    return plain.strip()


def judged(
    solution: str,
    calls: tuple[str, ...],
    expected: Sequence[str],
    printed: str,
) -> Outcome:
    """Return the verdict on what a program printed.

    Args:
        solution: The program.
        calls: The calls that were made after it.
        expected: The value of each call; empty for a draft, whose calls only need to end.
        printed: What newLISP printed.

    Returns:
        Passed if every call printed its expected value; not measured if newLISP did not start.
    """
    if not printed.startswith(BEGIN + END):
        detail = f"newLISP did not start: {printed[:MAX_ERROR]}"
        return Outcome("not_measured", detail=detail)
    numbers = []
    values = []
    for number, value in re.findall(rf"{BEGIN}(\d+) (.*?){END}", printed, re.S):
        numbers.append(number)
        values.append(value)
    if numbers != list(map(str, range(len(calls)))):
        return _failure(solution, printed)
    for call, value, wanted in zip(calls, values, expected, strict=False):
        if not same(value, f"({wanted})"):
            without_brackets = value[1:-1]
            detail = f"{call} is {without_brackets[:MAX_ERROR]}"
            return Outcome("failed", "AssertionError", detail)
    return Outcome("passed")


def _failure(solution: str, printed: str) -> Outcome:
    """The outcome of a program that did not reach its last call."""
    message = "the program ended, or printed marks, before its calls"
    line = ""
    error = ERROR.search(printed)
    if error:
        message = JUDGE_CALL.sub("", error[0])
        line = calling_line(solution, error, printed)
    return Outcome("failed", "Others", failure_detail(message, line))


def calling_line(
    solution: str,
    error: re.Match[str],
    printed: str,
) -> str:
    """Guess the line of a draft that leads to its error.

    newLISP reports functions and no lines. If several lines call the same function, the first one in
    the function that newLISP reports as the caller is returned.

    Args:
        solution: The draft.
        error: The match of ERROR.
        printed: What newLISP printed.

    Returns:
        The line; "" if none calls what failed.
    """
    body = solution
    caller = CALLER.match(printed[error.end() :])
    if caller:
        start = solution.find(f"(define ({caller[1]}")
        body = solution[max(start, 0) :]
    failed_names = [name for name in (error[3], error[2]) if name]
    for text in (body, solution):
        for name in failed_names:
            call = re.search(rf"^.*\(\s*{re.escape(name)}(?![^\s()]).*", text, re.M)
            if call:
                line = call[0].strip()
                return line[:LINE_CHARACTERS]
    return ""


def interpreter() -> Path:
    """Return the path of newLISP: PKG_NEWLISP, an installed one, or where `fetched` puts it.

    Raises:
        UserError: PKG_NEWLISP names something else than newLISP with its manual.
    """
    given = os.environ.get("PKG_NEWLISP")
    found = given or shutil.which("newlisp") or "newlisp"
    program = Path(found).absolute()
    manual = program.parents[1] / MANUAL
    if program.is_file() and manual.is_file():
        return program
    if given:
        raise UserError(
            f"PKG_NEWLISP names {given}, which is not newLISP with its manual; {ADVICE}",
        )
    return cache_dir() / "newlisp/usr/bin/newlisp"


def fetched() -> Path:
    """Return the interpreter, which is downloaded from Debian's archive if it is not available.

    Raises:
        BenchmarkMissingError: The download fails.
    """
    program = interpreter()
    if program.is_file():
        return program
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        done = subprocess.run(
            FETCH,
            shell=True,
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
        )
    if not program.is_file():
        reason = done.stderr.strip()[-MAX_ERROR:]
        raise BenchmarkMissingError(f"newLISP is not available ({reason}); {ADVICE}")
    return program


@dataclass(frozen=True, slots=True)
class CallTests:
    """Hidden tests of a newLISP task.

    Attributes:
        calls: Calls of the requested function.
        expected: The value of each call, as newLISP prints it.
    """

    calls: tuple[str, ...]
    expected: tuple[str, ...]

    @property
    def text(self) -> str:
        """Both as JSON, which identifies them in stored digests."""
        return json.dumps([self.calls, self.expected])


class NewLisp(EvorBenchmark):
    """Problems of this project, with test inputs made as in Appendix A.3."""

    name = "newlisp"
    prompts = "newlisp"
    title = "newLISP"
    subject = "the programming language newLISP"
    language = "newlisp"
    home = "pkg_lib/papers/evor; the interpreter: Debian's package newlisp, or PKG_NEWLISP"
    copyable = True
    seconds = 3.0
    tokenizer = ASCII

    @cached_property
    def manual(self) -> dict[str, ManualSection]:
        """The sections of the manual by id."""
        manual = fetched().parents[1] / MANUAL
        return sections(manual.read_text("utf8"))

    def tasks(self) -> list[Task]:
        """Return the tasks in the order of their file."""
        return read_records(PROBLEMS, self.title, self._task)

    def _task(self, row: dict[str, Any]) -> Task:
        name = row["name"]
        hidden_tests = CallTests(
            calls=tuple(row["calls"]),
            expected=tuple(row["expected"]),
        )
        return Task(
            id=f"newLISP/{name}",
            benchmark=self.name,
            prompt=row["statement"],
            entry_point=name,
            hidden_tests=hidden_tests,
            solution=row["newlisp"],
        )

    def documents(self) -> Mapping[str, str]:
        """Return the sections of the manual by id."""
        return {name: section.text for name, section in self.manual.items()}

    def needed(self, task: Task) -> frozenset[str]:
        """Return the sections of the functions in the reference solution.

        Args:
            task: A task of this benchmark.
        """
        words = set(TOKEN.findall(task.solution))
        needed = {name for name, section in self.manual.items() if words & section.functions}
        return frozenset(needed)

    def solution(self, task: Task, raw: str) -> str:
        """Extract the first code block that defines the requested function.

        Args:
            task: The problem n.
            raw: The completion.

        Returns:
            That block; without one the first block, or else the whole completion.
        """
        definition = re.compile(rf"\(define\s+\(\s*{re.escape(task.entry_point)}(?![^\s()])")
        codes = [block.code for block in blocks(raw)]
        for code in codes:
            if definition.search(code):
                return code
        return next(iter(codes), raw)

    def limits(self, task: Task) -> Limits:
        """Return the limits of a test process, which is newLISP.

        Args:
            task: A task of this benchmark.
        """
        command = (str(interpreter()), "-n", "-e", MAIN)
        return Limits(packages="stdlib", command=command)

    def question(self, task: Task) -> str:
        """Return the request to write the program.

        Args:
            task: The problem n.
        """
        return f"{task.prompt}\n\nAnswer with the complete program, in one code block."

    def input_calls(self, raw: str, task: Task) -> tuple[str, ...]:
        """Read the test inputs I: complete calls of the function without strings, one per line.

        Args:
            raw: The model's answer to the request for test inputs.
            task: The problem n.

        Returns:
            At most MAX_INPUTS calls.
        """
        beginning = f"({task.entry_point} "
        calls: dict[str, None] = {}
        for line in raw.splitlines():
            call = line.strip()
            tokens = TOKEN.findall(call)
            if not call.startswith(beginning) or '"' in tokens:
                continue
            if tokens.count("(") == tokens.count(")"):
                calls[call] = None
        return tuple(calls)[:MAX_INPUTS]

    def job(
        self,
        task: Task,
        solution: str,
        protocol: str = "pkg-paper",
    ) -> Job | Outcome:
        """Return the job that tests a solution.

        Args:
            task: A task of this benchmark.
            solution: The extracted solution.
            protocol: One of PROTOCOLS.
        """
        job = super().job(task, solution, protocol)
        if isinstance(job, Outcome):
            return job
        hidden = task.tests_as(CallTests)
        draft = self.draft_job(task, solution, hidden.calls)
        judge = partial(judged, solution, hidden.calls, hidden.expected)
        return replace(job, tests=draft.tests, judge=judge)

    def draft_job(
        self,
        task: Task,
        solution: str,
        calls: tuple[str, ...],
    ) -> Job:
        """Return the job that executes a draft, E(p, I).

        Args:
            task: The problem n.
            solution: The draft p.
            calls: The test inputs I.

        Raises:
            BenchmarkMissingError: newLISP is not available.
        """
        fetched()
        lines = []
        for number, call in enumerate(calls):
            lines.append(f'(set \'_v (list {call})) (print "{BEGIN}{number} " _v "{END}")')
        return Job(
            id=task.id,
            solution=solution,
            tests=("\n".join(lines),),
            entry_point=task.entry_point,
            seconds=self.seconds,
            judge=partial(judged, solution, calls, ()),
        )

    def script_job(self, task: Task, script: str) -> Job:
        """Return the job that executes a script of sample usage.

        Args:
            task: Any task of this benchmark.
            script: The script.
        """
        return self.draft_job(task, script, ())

    def control(self, task: Task, name: str) -> str:
        """Return the solution of a control row.

        Args:
            task: A task of this benchmark.
            name: A key of `controls`.
        """
        if name == "return None":
            return f"(define ({task.entry_point}) nil)"
        return task.solution


BENCHMARKS.register(NewLisp())
