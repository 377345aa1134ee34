"""newLISP, a language that few models know, with its manual: the place of Ring and Pony (Appendices A.2, A.3).

What a pass promises: the program ran confined as every sample (execution/sandbox.py), and for each call, in
order and once, it printed a value that equals the expected one. Expected values never enter the sandbox, and
what is printed is read as data, never evaluated: who prints has computed, or guessed all calls of a task. Not
promised: that the value came from the function that was asked for, since a program may redefine the language.
"""

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from html import unescape
from pathlib import Path
from typing import Any

from pkg_lib.core.models import cache_dir
from pkg_lib.core.types import BenchmarkMissing, Outcome, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.records import read_records
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.extraction import blocks
from pkg_lib.papers.evor.unfamiliar import LONGEST, SAID, Unfamiliar

PROBLEMS = Path(__file__).with_name("newlisp_problems.jsonl")
MANUAL = "share/doc/newlisp/newlisp_manual.html"
ADVICE = "install Debian's package newlisp, or set PKG_NEWLISP to its usr/bin/newlisp, unpacked by dpkg-deb -x"
# Marks of what the judge reads; a program that prints them itself spoils its own order.
HELLO, BEGIN, END = "\2newLISP\n", "\2=", "\3"
MAIN = f'(print "{HELLO}") (eval-string (env "SOLUTION")) (eval-string (env "TEST") MAIN) (exit)'
TOKEN = re.compile(r'\s+|;[^\n]*|[()\']|"(?:\\.|[^"\\])*"|\[text\].*?\[/text\]|[^\s()"\';]+', re.S)
NUMBER = re.compile(r"-?\d+(L|(\.\d+)?(e[+-]?\d+)?)")
ESCAPE = re.compile(r"\\(\d{3}|.)", re.S)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
ERROR = re.compile(r"^ERR: (.*?)(?: in function (\S+))?(?: : (.*))?$", re.M)
KINDS = {"parenthesis": "SyntaxError", "token": "SyntaxError", "invalid function": "NameError"}
KINDS |= {"expected": "TypeError"}


class Symbol(str):
    """A bare word in what newLISP prints; equals no text."""

    __slots__ = ()


def read_values(text: str) -> list[Any]:
    """The expressions in a text of newLISP as plain data, nothing evaluated; ValueError where it is none."""
    stack: list[list[Any]] = [[]]
    place = 0
    while place < len(text):
        if not (match := TOKEN.match(text, place)):
            raise ValueError("a string does not end")
        token, place = match[0], match.end()
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise ValueError("a parenthesis too many")
            stack[-2].append(stack.pop())
        elif not token.isspace() and token[0] not in ";'":
            stack[-1].append(_atom(token))
    if len(stack) > 1:
        raise ValueError("missing parenthesis")
    return stack[0]


def _atom(token: str) -> Any:
    if token[0] == '"':
        return ESCAPE.sub(lambda m: ESCAPED.get(m[1]) or (chr(int(m[1])) if m[1][1:] else m[1]), token[1:-1])
    if token.startswith("[text]"):
        return token[6:-7]
    if NUMBER.fullmatch(token):
        return int(token.rstrip("L")) if token.rstrip("L").lstrip("-").isdigit() else float(token)
    return {"nil": None, "true": True}.get(token, Symbol(token))


def literal(value: Any) -> str:
    """Plain data as newLISP reads it."""
    if isinstance(value, list):
        return f"({' '.join(map(literal, value))})"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return "nil" if value is None or value is False else "true" if value is True else repr(value)


def same(value: Any, expected: Any) -> bool:
    """Whether a printed value is the expected one: false is nil, floats agree to six digits."""
    if isinstance(expected, list):
        pairs = isinstance(value, list) and len(value) == len(expected)
        return pairs and all(map(same, value, expected))
    if expected is None or isinstance(expected, bool) or value is None or isinstance(value, bool | Symbol):
        return value is (expected or None)
    if isinstance(expected, float) and isinstance(value, int | float):
        return math.isclose(value, expected, rel_tol=1e-6, abs_tol=1e-9)
    return type(value) is type(expected) and value == expected


def sections(manual: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """A section's id -> its text with code as it stands, and the functions that it documents."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for name, html in re.findall(r'<a name="([^"]+)"></a>(.*?)(?=<a name="|\Z)', manual, re.S):
        parts = re.split(r"<pre>(.*?)</pre>", re.sub(r"<!--.*?-->", "", html, flags=re.S), flags=re.S)
        for i, part in enumerate(parts):
            flat = re.sub(r"<(?:br|p|/h\d|/tr|/li)\b[^>]*>", "\n", re.sub(r"\s+", " ", part))
            parts[i] = unescape(re.sub(r"</?[a-zA-Z][^>]*>", "", part if i % 2 else flat))
        lines = "\n".join(parts).replace("\xa0", " ").splitlines()
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip()
        titles = re.findall(r'<span class="function">(.*?)</span>', html)
        # An anchor without text is another name of the next one.
        if text:
            found[name] = text, tuple(w for t in titles for w in re.split(r"[,\s]+", unescape(t)) if w)
    return found


def judged(solution: str, calls: list[str], expected: list[Any] | None, printed: str) -> Outcome:
    """The verdict on what was printed; without `expected` a draft's, which passes where each call ends."""
    if not printed.startswith(HELLO):
        return Outcome("not_measured", "", f"newLISP did not start: {printed[:LONGEST]}")
    found = re.findall(rf"{BEGIN}(\d+) (.*?){END}", printed, re.S)
    if [number for number, _ in found] != [str(i) for i in range(len(calls))]:
        error = next(ERROR.finditer(printed, len(HELLO)), None)
        message = error[0] if error else "the program ended, or printed marks, before its calls"
        kind = next((k for word, k in KINDS.items() if error and word in error[1]), "Others")
        detail = SAID + json.dumps([message[:LONGEST], calling_line(solution, error, printed)])
        return Outcome("failed", kind, detail)
    for call, (_, text), want in zip(calls, found, expected or [], strict=expected is not None):
        try:
            right = same(read_values(text), [[want]])
        except ValueError:
            right = False
        if not right:
            return Outcome("failed", "AssertionError", f"{call} is {text[1:-1][:LONGEST]}")
    return Outcome("passed")


def calling_line(solution: str, error: re.Match[str] | None, printed: str) -> str:
    """The draft's first line that calls what failed, if possible in the function that called it.

    newLISP names the function and the expression, no line: where several call the same, it is a guess.
    """
    if not error:
        return ""
    caller = re.match(r"\n(?:called from user function \((\S+?)[\s)])?", printed[error.end() :] or "\n")
    names = [(error[3] or "")[1:].split(" ")[0].rstrip(")") if (error[3] or "").startswith("(") else "", error[2]]
    start = solution.find(f"(define ({caller[1]}") if caller and caller[1] else -1
    for text in (solution[max(start, 0) :], solution):
        for name in filter(None, names):
            for line in text.splitlines():
                if re.search(rf"\(\s*{re.escape(name)}(?![^\s()])", line):
                    return line.strip()[:120]
    return ""


def interpreter() -> Path:
    """PKG_NEWLISP, an installed one whose manual is there, or Debian's package unpacked in the cache."""
    if own := os.environ.get("PKG_NEWLISP"):
        if not Path(own).is_file() or not manual_of(Path(own)).is_file():
            raise UserError(f"PKG_NEWLISP names {own}, which is not there or has no ../{MANUAL}; {ADVICE}")
        return Path(own).absolute()
    installed, folder = shutil.which("newlisp"), cache_dir() / "newlisp"
    if installed and manual_of(Path(installed)).is_file():
        return Path(installed)
    if not manual_of(folder / "usr/bin/newlisp").is_file():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for command in (["apt-get", "download", "newlisp"], ["dpkg-deb", "-x", "", "."]):
                command = [c or next(map(str, folder.glob("newlisp_*.deb"))) for c in command]
                subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
            subprocess.run([folder / "usr/bin/newlisp", "-v"], check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError, StopIteration) as e:
            shutil.rmtree(folder, ignore_errors=True)
            raise BenchmarkMissing(f"newLISP is not at hand ({e}); {ADVICE}") from e
    return folder / "usr/bin/newlisp"


def manual_of(program: Path) -> Path:
    return program.parent.parent / MANUAL


class NewLisp(Unfamiliar):
    """Problems of our own; inputs generated, mutated and reduced as in Appendix A.3."""

    name = prompts = "newlisp"
    title = "newLISP"
    subject, language = "the programming language newLISP", "newlisp"
    home = "pkg_lib/papers/evor; the interpreter is Debian's package newlisp"
    seconds = 3.0
    copyable = True

    @cached_property
    def _manual(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        return sections(manual_of(interpreter()).read_text("utf8"))

    def tasks(self) -> list[Task]:
        def task(row: dict[str, Any]) -> Task:
            test = json.dumps([row["inputs"], row["expected"]])
            return Task(f"newLISP/{row['name']}", self.name, row["statement"], row["name"], test, row["newlisp"])

        return read_records(PROBLEMS, self.title, task)

    def documents(self) -> Mapping[str, str]:
        return {name: text for name, (text, _) in self._manual.items()}

    def needed(self, task: Task) -> frozenset[str]:
        words = {t for t in TOKEN.findall(task.solution) if t[0] not in '";'}
        return frozenset(name for name, (_, functions) in self._manual.items() if words & {*functions})

    def solution(self, task: Task, raw: str) -> str:
        codes = [b.code for b in blocks(raw)]
        defines = re.compile(rf"\(define\s+\(\s*{re.escape(task.entry_point)}(?![^\s()])")
        return next(filter(defines.search, codes), codes[0] if codes else raw)

    def program(self, task: Task, solution: str) -> str:
        return solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        return (task.test,)

    def limits(self, task: Task) -> Limits:
        return Limits(packages="stdlib", command=(str(interpreter()), "-n", "-e", f"(begin {MAIN})"))

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        inputs, expected = json.loads(task.test)
        quoted = [[f"'{literal(v)}" if isinstance(v, list) else literal(v) for v in row] for row in inputs]
        calls = [f"({' '.join([task.entry_point, *row])})" for row in quoted]
        return self._printing(super().job(task, solution, protocol), calls, expected)

    def look(self, task: Task, solution: str, calls: tuple[str, ...]) -> Job:
        return self._printing(Job(task.id, solution, (), task.entry_point, self.seconds), list(calls), None)

    def _printing(self, job: Job, calls: list[str], expected: list[Any] | None) -> Job:
        lines = [f'(set \'_v (list {c})) (print "{BEGIN}{i} " _v "{END}")' for i, c in enumerate(calls)]
        judge = partial(judged, job.solution, calls, expected)
        return replace(job, tests=("\n".join(lines),), judge=judge)

    def calls(self, raw: str, task: Task) -> tuple[str, ...]:
        return ()

    def control(self, task: Task, name: str) -> str:
        return f"(define ({task.entry_point}) nil)" if name == "return None" else task.solution


BENCHMARKS.register(NewLisp())
