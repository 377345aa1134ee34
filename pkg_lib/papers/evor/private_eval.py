"""MonkeyEval, BeatNumEval and others of their form (Zan et al., 2022): a public library under new names.

Read from PKG_PRIVATE_EVAL_DIR: NAME.jsonl with the tasks, NAME.names.json with public name -> new name.
A completion is judged by the authors' rule: a name that was renamed away is wrong, whatever it means there (a
list's `append`, a variable `df`); else every new name becomes the public one, as a plain substring, and the
public program runs with its tests. Beside it the same completion is judged against the renamed library itself
(private_library.py), which is where a draft's feedback comes from.
"""

import importlib
import json
import os
import re
import tokenize
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

from pkg_lib.core.types import Outcome, Task
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.records import DataSet
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.papers.evor import renaming
from pkg_lib.papers.evor.private_library import as_public
from pkg_lib.papers.evor.unfamiliar import Unfamiliar, looking

DATA = DataSet(
    "PrivateEval", "PKG_PRIVATE_EVAL_DIR", "monkey.jsonl, beatnum.jsonl and their names of Zan et al. (2022)"
)
INSIDE = Path(__file__).with_name("private_library.py")
ABOUT = tomllib.loads(Path(__file__).with_name("private_eval.toml").read_text("utf8"))
CODE = (tokenize.NAME, tokenize.OP)
WAYS = ("authors' rule", "renamed library", "public")


@dataclass(frozen=True, slots=True)
class PrivateTask(Task):
    """`prompt` is the program that `completion` continues; the tests know its function as `called`."""

    called: str
    completion: str
    oracle: str


class PrivateEval(Unfamiliar):
    """A benchmark of the form; `way` says what judges, and "public" asks on the public library."""

    copyable, seconds = False, 20.0
    home = DATA.home

    def __init__(self, library: str, way: str = WAYS[0]) -> None:
        self.library, self.way, about = library, way, ABOUT[library]
        self.public, self.modules, self.left_out = about["public"], about["documented"], about["left_out"]
        suffix = {WAYS[0]: "", WAYS[1]: "-module", WAYS[2]: "-public"}[way]
        self.name, self.title = library + suffix, f"{about['title']} ({way})"
        self.prompts = f"{library}-public" if way == "public" else library
        self.stored_with = library if way == "renamed library" else ""
        self.controls = {"canonical solution": True, "return None": False}
        self.controls |= {} if way == "public" else {"public names": False}
        like = f", which is {self.public} with other names of functions, methods, arguments and classes"
        self.subject = f"the library {self.public}" if way == "public" else f"the library {library}{like}"

    def tasks(self) -> list[Task]:
        """Without those whose own solutions do not pass with the installed packages."""
        records = DATA.records((f"{self.library}.jsonl",), self._task)
        return [t for t in records if int(t.id.partition("/")[2]) not in self.left_out]

    def _task(self, row: dict[str, Any]) -> PrivateTask:
        of = "public_" if self.way == "public" else ""
        prompt, solution = row[f"{of}prompt"], row["public_solution" if of else "canonical_solution"][0]
        called = "" if row["entry_point"] == "none" else row["entry_point"]
        # A new name within a name changed that, too; the tests call it by the public program's.
        defined = re.findall(r"^def\s+(\w+)", prompt, re.M) if called else [called]
        name = called if called in defined else defined[-1]
        texts = (prompt.rstrip("\n") + "\n", name, f"{row['test']}\ncheck({called})\n", prompt + solution)
        return PrivateTask(row["task_id"], self.name, *texts, called, solution, "\n".join(row["oracle_docs"]))

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Public name -> new name."""
        return json.loads(Path(os.environ[DATA.variable], f"{self.library}.names.json").read_bytes())

    @cached_property
    def _documents(self) -> Mapping[str, str]:
        owners = {name: _owner(name) for name in self.modules}
        names = {} if self.way == "public" else self.names
        return renaming.documents(owners, names)

    def documents(self) -> Mapping[str, str]:
        return self._documents

    def needed(self, task: Task) -> frozenset[str]:
        """The documents of those names in the reference solution that were renamed."""
        return frozenset().union(*self.alternatives(task))

    def alternatives(self, task: Task) -> list[frozenset[str]]:
        """A set for each name, since methods of several classes share one."""
        words = sorted(_names(task.completion) & set(self.names.values()))
        sets = (frozenset(i for i in self.documents() if i.rpartition(".")[2] == w) for w in words)
        return [found for found in sets if found]

    def examples(self) -> Iterable[str]:
        short = {"pandas": "pd", "numpy": "np"}.get(self.public, self.public)
        first = f"import {self.library} as {self.names.get(short, short)}\nimport numpy as np\n"
        programs = map(renaming.session, self.documents().values())
        return (first + program for program in programs if program)

    def oracle(self, task: Task) -> str:
        """The lines that the authors put before a prompt."""
        return task.oracle

    def asked(self, task: Task) -> str:
        said = "Go on with this program. Answer with the complete program, in one code block."
        return f"{said}\n{self.fenced(task.prompt)}"

    # A program

    def solution(self, task: Task, raw: str) -> str:
        return whole_program(task.prompt, super().solution(task, raw), task.entry_point)

    def program(self, task: Task, solution: str) -> str:
        return solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        return (task.test,)

    def limits(self, task: Task) -> Limits:
        return Limits(self.seconds, 4096, "all", (), ("numpy", "pandas"))

    def control(self, task: Task, name: str) -> str:
        if name == "canonical solution":
            return task.solution
        if name == "public names":
            return self._as_public(task, task.solution)
        body = "    return None" if task.entry_point else "None"
        return task.prompt.rstrip() + f"\n{body}\n"

    def gone(self, task: Task, solution: str) -> list[str]:
        """The names in a completion's code that were renamed away, by the authors' rule.

        Not those of the prompt, and not numpy's in a program for another library: the authors' own solutions
        have them.
        """
        away, foreign = self.names.keys() - self.names.values(), {"np", "numpy"} - {*self.names}
        return sorted((_names(solution, foreign) - _names(task.prompt, foreign)) & away)

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        imports = "import numpy as np\nimport pandas as pd\n"
        if self.way == WAYS[1]:
            # The tests speak of the public program's variables.
            public = f"{{as_public(n, {dict(self.names)!r}): v for n, v in _space.items() if n[0] != '_'}}"
            load = f"{self._loaded(solution)}\nglobals().update({public})\n"
            load += f"{task.called} = _space[{task.entry_point!r}]\n" if task.called else ""
            return Job(task.id, f"{load}\n{imports}", (task.test,), task.called)
        if self.way == WAYS[0]:
            if names := self.gone(task, solution):
                return Outcome("failed", "NameError", f"renamed away: {', '.join(names)}")
            solution = self._as_public(task, solution)
        return Job(task.id, imports + solution, (task.test,), task.called)

    def _loaded(self, program: str, calls: tuple[str, ...] = ()) -> str:
        """A text that runs a program, and calls after it, against the library under its new names."""
        about = f"{dict(self.names)!r}, {self.public!r}, {self.library!r}"
        return f"{INSIDE.read_text('utf8')}\n_space = load({program!r}, {calls!r}, {about})"

    def look(self, task: Task, solution: str, calls: tuple[str, ...]) -> Job:
        if self.way == "public":
            return super().look(task, solution, calls)
        return Job(task.id, "", (looking(solution, self._loaded(solution, calls)),), "", self.seconds)

    def _as_public(self, task: Task, text: str) -> str:
        """Every new name as the public one, wherever it stands, but in the function's own name."""
        plain = as_public(text, self.names)
        return plain.replace(as_public(task.entry_point, self.names), task.called) if task.called else plain


def _owner(name: str) -> Any:
    """A module or class by its dotted name."""
    module, *rest = name.split(".")
    thing = importlib.import_module(module)
    for part in rest:
        thing = getattr(thing, part)
    return thing


def _names(program: str, foreign: Collection[str] = ()) -> set[str]:
    """The names in a program's code but those that are reached by a dot from a foreign one."""
    try:
        tokens = [t.string for t in tokenize.generate_tokens(StringIO(program).readline) if t.type in CODE]
    except (tokenize.TokenError, SyntaxError):
        tokens = re.findall(r"\w+|\S", program)
    triples = zip(["", "", *tokens], ["", *tokens], tokens, strict=False)
    return {name for before, dot, name in triples if not (dot == "." and before in foreign)}


def whole_program(prompt: str, code: str, entry_point: str) -> str:
    """The program that a model's code means: it may repeat the prompt or a part, or go on from its end."""
    lines = [line for line in prompt.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    if entry_point and re.search(rf"^def {entry_point}\b", code, re.M):
        head = prompt[: prompt.find(f"def {entry_point}")]
        return code if all(line in code for line in head.splitlines()) else head + code
    unfinished = bool(last) and not last.startswith("#") and last.endswith(("=", "(", "[", ","))
    if unfinished:
        at = re.search(rf"^[ \t]*{re.escape(last)}", code, re.M)
        before = prompt[: prompt.rindex(last)]
        if at is None:  # it goes on in the middle of the line
            return prompt.rstrip("\n") + " " + code.lstrip()
        repeated = all(
            line.strip() in code for line in before.splitlines() if not line.strip().startswith("#")
        )
        return code if repeated else before + code[at.start() :]
    repeated = all(line.strip() in code for line in lines if not line.strip().startswith("#"))
    return code if repeated else prompt + code


for _library in ABOUT:
    for _way in WAYS:
        BENCHMARKS.register(PrivateEval(_library, _way))
