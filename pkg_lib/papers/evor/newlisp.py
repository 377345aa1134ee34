"""newLISP, a language that few models know, with its manual: for Ring and Pony (Appendices A.2 and A.3).

What a pass promises: the program ran confined as every sample (execution/sandbox.py) and printed for each
call, in order and once, the expected value. Expected values never enter the sandbox, and what is printed is
compared as data, never evaluated: who prints a right answer has computed it, or guessed all of a task's. Not
promised: that the function which was asked for gave it, since a program may redefine the language.
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
from pkg_lib.core.types import BenchmarkMissing, Outcome, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import ASCII
from pkg_lib.data.records import read_records
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.extraction import blocks
from pkg_lib.papers.evor.unfamiliar import LONGEST, SAID, Unfamiliar

# Made as tests/papers/evor/newlisp_recipe.py says.
PROBLEMS = Path(__file__).with_name("newlisp_problems.jsonl")
MANUAL = "share/doc/newlisp/newlisp_manual.html"  # beside bin/newlisp
ADVICE = "install Debian's package newlisp, or unpack it and set PKG_NEWLISP to its usr/bin/newlisp"
FETCH = "timeout 300 apt-get download newlisp && dpkg-deb -x *.deb new && mv -T new ../newlisp"
# Characters around what the judge reads; a program that prints them itself spoils the order.
BEGIN, END = "\2", "\3"
MAIN = f'(begin (print "{BEGIN}{END}") (eval-string (env "SOLUTION")) (eval-string (env "TEST") MAIN) (exit))'
TOKEN = re.compile(r'[()\']|;.*|"(?:\\.|[^"\\])*"|[^\s()"\';]+|"')
NUMBERS = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)? -?\d+\.\d+(e[+-]?\d+)?")  # any, and a float
ERROR = re.compile(r"^ERR: (.*?)(?: in function (\S+))?(?: : (?:\((\S+?)[)\s])?.*)?$", re.M)


def same(printed: str, expected: str) -> bool:
    """Whether two texts are the same data: equal tokens, a float that is expected equal to six digits."""
    pairs = zip_longest(TOKEN.findall(printed), TOKEN.findall(expected), fillvalue="")
    return all(
        a == b or (NUMBERS.fullmatch(f"{a} {b}") and math.isclose(float(a), float(b), rel_tol=1e-6))
        for a, b in pairs
    )


def sections(manual: str) -> dict[str, tuple[str, frozenset[str]]]:
    """A section's id -> its text with code as it stands, and the functions that it documents."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for name, html in re.findall(r'<a name="([^"]+)"></a>(.*?)(?=<a name="|\Z)', manual, re.S):
        parts = re.split(
            r"<pre>(.*?)</pre>", re.sub(r"<!--.*?-->", "", html, flags=re.S), flags=re.S
        )
        ends = re.compile(r" ?<(?:br|p|/h\d|/tr|/li)\b[^>]*> ?")
        parts[::2] = [ends.sub("\n", " ".join(p.replace("</td>", " ").split())) for p in parts[::2]]
        plain = unescape(re.sub(r"</?[a-zA-Z][^>]*>", "", "\n".join(parts))).replace("\xa0", " ")
        text = re.sub(r"\n{3,}", "\n\n", re.sub(r" *\n", "\n", plain)).strip()
        titles = unescape(" ".join(re.findall(r'<span class="function">(.*?)</span>', html)))
        if text:  # an anchor without any is another name of the next one
            found[name] = text, frozenset(re.split(r"[,\s]+", titles)) - {""}
    return found


def judged(solution: str, calls: tuple[str, ...], expected: Sequence[str], printed: str) -> Outcome:
    """The verdict on what was printed; a draft's calls, of which no values are expected, need only end."""
    if not printed.startswith(BEGIN + END):
        return Outcome("not_measured", "", f"newLISP did not start: {printed[:LONGEST]}")
    found = re.findall(rf"{BEGIN}(\d+) (.*?){END}", printed, re.S)
    if [number for number, _ in found] != [str(i) for i in range(len(calls))]:
        message, line = "the program ended, or printed marks, before its calls", ""
        if error := ERROR.search(printed):
            message = re.sub(
                r"(?<=invalid function) in function \S+", "", error[0]
            )  # the judge's own call
            line = calling_line(solution, error, printed)
        return Outcome("failed", "Others", SAID + json.dumps([message[:LONGEST], line]))
    for call, (_, text), want in zip(calls, found, expected, strict=False):
        if not same(text, f"({want})"):
            return Outcome("failed", "AssertionError", f"{call} is {text[1:-1][:LONGEST]}")
    return Outcome("passed")


def calling_line(solution: str, error: re.Match[str], printed: str) -> str:
    """The draft's first line that calls what failed, in the function that newLISP names as the caller.

    newLISP gives functions and no lines: where several lines call the same, it is a guess.
    """
    caller = re.match(r"\ncalled from user function \((\S+?)[\s)]", printed[error.end() :])
    body = solution[max(solution.find(f"(define ({caller[1]}"), 0) :] if caller else solution
    names = [rf"^.*\(\s*{re.escape(name)}(?![^\s()]).*" for name in (error[3], error[2]) if name]
    lines = (re.search(name, text, re.M) for text in (body, solution) for name in names)
    return next((line[0].strip()[:120] for line in lines if line), "")


def interpreter() -> Path:
    """PKG_NEWLISP, an installed one with its manual, or where `fetched` puts Debian's package."""
    own = os.environ.get("PKG_NEWLISP")
    program = Path(own or shutil.which("newlisp") or "newlisp").absolute()
    if program.is_file() and (program.parents[1] / MANUAL).is_file():
        return program
    if own:
        raise UserError(f"PKG_NEWLISP names {own}, which is not newLISP with its manual; {ADVICE}")
    return cache_dir() / "newlisp/usr/bin/newlisp"


def fetched() -> Path:
    """The interpreter, from Debian's archive where none is here. BenchmarkMissing where none can be had."""
    if not (program := interpreter()).is_file():
        cache_dir().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
            done = subprocess.run(FETCH, shell=True, cwd=folder, stderr=subprocess.PIPE, text=True)
        if not program.is_file():
            raise BenchmarkMissing(
                f"newLISP is not available ({done.stderr.strip()[-LONGEST:]}); {ADVICE}"
            )
    return program


@dataclass(frozen=True, slots=True)
class CallTests:
    """Hidden tests of a newLISP task: calls, and the value of each as newLISP prints it."""

    calls: tuple[str, ...]
    expected: tuple[str, ...]

    @property
    def text(self) -> str:
        """Both as JSON, which identifies them in stored digests."""
        return json.dumps([self.calls, self.expected])


class NewLisp(Unfamiliar):
    """Problems of our own; their inputs are generated, mutated and reduced as in Appendix A.3."""

    name = prompts = "newlisp"
    title = "newLISP"
    subject, language = "the programming language newLISP", "newlisp"
    home = "pkg_lib/papers/evor; the interpreter: Debian's package newlisp, or PKG_NEWLISP"
    copyable, seconds = True, 3.0
    tokenizer = ASCII

    @cached_property
    def manual(self) -> dict[str, tuple[str, frozenset[str]]]:
        return sections((fetched().parents[1] / MANUAL).read_text("utf8"))

    def tasks(self) -> list[Task]:
        return read_records(PROBLEMS, self.title, self._task)

    def _task(self, row: dict[str, Any]) -> Task:
        name, tests = row["name"], CallTests(tuple(row["calls"]), tuple(row["expected"]))
        return Task(f"newLISP/{name}", self.name, row["statement"], name, tests, row["newlisp"])

    def documents(self) -> Mapping[str, str]:
        return {name: text for name, (text, _) in self.manual.items()}

    def needed(self, task: Task) -> frozenset[str]:
        words = set(TOKEN.findall(task.solution))
        return frozenset(name for name, (_, functions) in self.manual.items() if words & functions)

    def solution(self, task: Task, raw: str) -> str:
        codes = [b.code for b in blocks(raw)]
        defines = re.compile(rf"\(define\s+\(\s*{re.escape(task.entry_point)}(?![^\s()])")
        return next(filter(defines.search, codes), codes[0] if codes else raw)

    def program(self, task: Task, solution: str) -> str:
        return solution

    def limits(self, task: Task) -> Limits:
        return Limits(packages="stdlib", command=(str(interpreter()), "-n", "-e", MAIN))

    def asked(self, task: Task) -> str:
        return f"{task.prompt}\n\nAnswer with the complete program, in one code block."

    def calls(self, raw: str, task: Task) -> tuple[str, ...]:
        lines = dict.fromkeys(line.strip() for line in raw.splitlines())
        tokens = {c: TOKEN.findall(c) for c in lines if c.startswith(f"({task.entry_point} ")}
        return tuple(c for c, t in tokens.items() if t.count("(") == t.count(")") and '"' not in t)[
            :5
        ]

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        hidden = task.tests_as(CallTests)
        draft = self.look(task, solution, hidden.calls)
        judge = partial(judged, solution, hidden.calls, hidden.expected)
        return replace(super().job(task, solution, protocol), tests=draft.tests, judge=judge)

    def look(self, task: Task, solution: str, calls: tuple[str, ...]) -> Job:
        fetched()
        lines = [
            f'(set \'_v (list {c})) (print "{BEGIN}{i} " _v "{END}")' for i, c in enumerate(calls)
        ]
        judge = partial(judged, solution, calls, ())
        return Job(task.id, solution, ("\n".join(lines),), task.entry_point, self.seconds, judge)

    def control(self, task: Task, name: str) -> str:
        return f"(define ({task.entry_point}) nil)" if name == "return None" else task.solution


BENCHMARKS.register(NewLisp())
