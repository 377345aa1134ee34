"""What EVOR asks of a benchmark beside its tasks: a library or language that no model knows, its documents,
and a way to run a draft that sees no hidden test (Section 2 of seed 002)."""

import ast
import builtins
import json
import re
import tomllib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pkg_lib.core.data_folders import data_folder
from pkg_lib.core.source_tree import ends_with, find, read_each
from pkg_lib.core.types import Outcome, Task, Unavailable
from pkg_lib.data import corpora
from pkg_lib.data.benchmark import DECODING, Benchmark
from pkg_lib.execution.sandbox import Job
from pkg_lib.generation.extraction import blocks
from pkg_lib.generation.generator import Decoding, Generator
from pkg_lib.papers.evor.renaming import PROGRAMS, first_paragraph

PROMPTS = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text("utf8"))
LONGEST = 240  # characters of an error that are kept: a program may raise a megabyte
WEB = "PKG_EVOR_WEB_DIR"  # a directory with pages (.md, .txt) in a folder for each benchmark
SAID = "ValueError: draft: "


def looking(program: str, run: str) -> str:
    """A test that runs a draft by the text `run`, where its lines are of the file "<draft>"."""
    return PROGRAMS["look"].format(program=program, run=run, longest=LONGEST)


def head(document: str) -> str:
    """A document's signature and the first paragraph below it."""
    first, _, rest = document.partition("\n")
    return f"{first}\n    {first_paragraph(rest)}"


@dataclass(frozen=True, slots=True)
class Feedback:
    """F of Algorithm 1: how a draft ran on the inputs; `line` is the draft's line that leads to the error."""

    ok: bool
    error: str = ""
    line: str = ""

    @property
    def said(self) -> str:
        """As the soup and prompts have it (Appendix F): the line that leads to the error, and the error."""
        return (
            "no error" if self.ok else f"`{self.line}`: {self.error}" if self.line else self.error
        )


def parsed(text: str) -> ast.Module | None:
    """A text's tree; None where it is no Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def closed(text: str) -> bool:
    """Whether the first code block with text in it is closed."""
    return any(b.closed and b.code.strip() for b in blocks(text))


class Unfamiliar(Benchmark):
    """Tasks on a library or language that the model does not know."""

    corpus = corpora.LIBRARY
    in_tokens, selects = True, False
    methods = ("NoRAG", "DocPrompting", "RK", "Oracle", *(f"EVOR@{n}" for n in range(5)))
    budgets: Mapping[str, int] = MappingProxyType(
        {"context": 1000, "snippets": 300, "feedback": 150, "answer": 400}
    )
    subject: str  # the library or language, as prompts name it
    language = "python"  # of the fence around a program

    @abstractmethod
    def documents(self) -> Mapping[str, str]:
        """id -> text: a function, method or section of the documentation each, in a fixed order."""

    @abstractmethod
    def needed(self, task: Task) -> frozenset[str]:
        """The documents that the reference solution needs (the oracle documentation)."""

    def alternatives(self, task: Task) -> list[frozenset[str]]:
        """The needed documents; of each set one will do."""
        return [frozenset((i,)) for i in sorted(self.needed(task))]

    def oracle(self, task: Task) -> str:
        """The needed documentation as a prompt shows it."""
        return "\n".join(head(self.documents()[min(found)]) for found in self.alternatives(task))

    def recall(self, task: Task, names: Iterable[str]) -> float | None:
        """The share of the needed documentation that is among the names; None where none is known."""
        wanted = self.alternatives(task)
        return sum(bool(found & {*names}) for found in wanted) / len(wanted) if wanted else None

    def measures(self, task: Task, solution: str) -> dict[str, float]:
        """The share of what is needed that the solution names."""
        words = {*re.findall(r"[^\s()\[\]{}.,;:'\"=]+", solution)}
        used = [
            i for found in self.alternatives(task) for i in found if i.rpartition(".")[2] in words
        ]
        share = self.recall(task, used)
        return {} if share is None else {"used": share}

    def examples(self) -> Iterable[str]:
        """Programs of the documentation; those that run are the first code snippets of the soup."""
        return ()

    def pages(self) -> list[str]:
        """The web pages. Unavailable without a directory: the web cannot be asked here."""
        folder = Path(data_folder(WEB) or "", self.name)
        if not data_folder(WEB) or not folder.is_dir():
            raise Unavailable(
                f"no web pages for {self.name}: set {WEB} to a directory with a folder {self.name}"
            )
        tree = find(folder, ends_with(".md", ".txt"))
        pages = [data.decode("utf-8-sig", "replace") for _, data in read_each(tree)]
        tree.skipped.warn(f"web pages for {self.name}")
        return pages

    def knowledge(self, generator: Generator) -> Any:
        return import_module("pkg_lib.papers.evor.rounds").Evolution(self, generator)

    def decoding(self, style: str) -> Decoding:
        about = {
            "max_new_tokens": self.budgets["answer"],
            "stop": "first block closed",
            "style": style,
        }
        return Decoding(DECODING | about, closed, 16)

    def fenced(self, program: str) -> str:
        return f"```{self.language}\n{program.strip()}\n```"

    def prompt(
        self, task: Task, context: str, style: str, measure: Callable[[str], int] = len
    ) -> str:
        """The task with what was retrieved before it."""
        about = f"You write {self.language} with {self.subject}."
        about += f"\n\n{context}\n\n" if context else " "
        return f"{about}{self.asked(task)}"

    def asked(self, task: Task) -> str:
        """The task as a prompt words it."""
        said = "Solve this task. Answer with the complete program, in one code block."
        return f"{said}\n{self.fenced(task.prompt)}"

    def calls(self, raw: str, task: Task) -> tuple[str, ...]:
        """The inputs of a model's answer to the question for test inputs, as calls of the entry point.

        A call that needs a variable of the answer is none; an answer that was cut off counts up to there.
        """
        lines, name = (
            "\n".join(b.code for b in blocks(raw)).splitlines() or raw.splitlines(),
            task.entry_point,
        )
        tree = next(filter(None, (parsed("\n".join(lines[:n])) for n in range(len(lines), -1, -1))))
        outside = (s for s in tree.body if not isinstance(s, ast.FunctionDef | ast.ClassDef))
        calls = [n for s in outside for n in ast.walk(s) if isinstance(n, ast.Call)]
        known = {
            name,
            *dir(builtins),
            *re.findall(r"^(?:import|from)\b.*?(\w+)$", task.prompt, re.M),
        }
        used = [(c, {n.id for n in ast.walk(c) if isinstance(n, ast.Name)}) for c in calls]
        own = [
            c
            for c, names in used
            if isinstance(c.func, ast.Name) and c.func.id == name and names <= known
        ]
        return tuple(dict.fromkeys(map(ast.unparse, own)))[:5]

    def look(self, task: Task, solution: str, calls: tuple[str, ...]) -> Job:
        """The job that runs a draft on generated inputs alone; the task's hidden tests are no part of it."""
        program = self.program(task, solution)
        run = PROGRAMS["run"].format(program=program, calls=calls)
        return Job(task.id, "", (looking(program, run),), "", self.seconds)

    def feedback(self, outcome: Outcome) -> Feedback | None:
        """What the outcome of `look` says; None where the sandbox had a fault."""
        if outcome.status == "not_measured":
            return None
        if outcome.status == "passed":
            return Feedback(True)
        _, _, said = outcome.detail.partition(SAID)
        try:
            (error, line), _ = json.JSONDecoder().raw_decode(said)
        except ValueError:
            error, line = f"{outcome.error} {outcome.detail}".strip()[:LONGEST], ""
        # Half a character, which an error may hold, is no text for a tokenizer or a file.
        return Feedback(
            False, *(str(t).encode("utf8", "backslashreplace").decode() for t in (error, line))
        )
