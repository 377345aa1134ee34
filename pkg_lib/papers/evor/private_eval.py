"""MonkeyEval, BeatNumEval and others of their form (Zan et al., 2022): a public library under new names.

PKG_PRIVATE_EVAL_DIR holds NAME.jsonl with the tasks, NAME.names.json with public name -> new name and, where
it is needed, NAME.toml with what private_eval.toml says of the authors' two. There are three ways to judge:
- The authors' rule. A name that was renamed away is wrong, whatever it means there (a list's `append`, a
  variable `df`); else every new name becomes the public one, as a plain substring, and the result runs.
- The program runs against the renamed library itself (private_library.py), as drafts do for their feedback.
- The public library is asked for: there each name is its own new one.
"""

import ast
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

from pkg_lib.core import reading
from pkg_lib.core.data_folders import data_folder
from pkg_lib.core.reading import Kinds
from pkg_lib.core.types import Outcome, ProgramTests, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import ASCII, UNICODE
from pkg_lib.data.records import DataSet
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.papers.evor import renaming
from pkg_lib.papers.evor.private_library import as_public
from pkg_lib.papers.evor.unfamiliar import Unfamiliar, looking, parsed

DATA = DataSet(
    "PrivateEval",
    "PKG_PRIVATE_EVAL_DIR",
    "monkey.jsonl, beatnum.jsonl and their names of Zan et al. (2022)",
)
INSIDE = Path(__file__).with_name("private_library.py")
ABOUT = tomllib.loads(Path(__file__).with_name("private_eval.toml").read_text("utf8"))
NO_CODE = re.compile(r"""#[^\n]*|('{3}|"{3}|'|")(?:\\.|.)*?\1""", re.S)  # comments and strings
IMPORTS = "import numpy as np\nimport pandas as pd\n"  # the tests use them
# The end of a benchmark's name -> what judges.
WAYS = {"": "authors' rule", "-module": "renamed library", "-public": "public"}


FIELDS: Kinds = {**dict.fromkeys(("task_id", "entry_point", "test"), str), "oracle_docs": list}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateTask(Task):
    """`prompt` is the program that `completion` continues; the tests know its function as `called`."""

    called: str
    completion: str
    oracle: str


class PrivateEval(Unfamiliar):
    """A benchmark of the form in one of WAYS; nothing is read before it is asked for."""

    copyable, seconds = False, 20.0
    home = DATA.home

    def __init__(self, library: str, way: str = "") -> None:
        self.library, self.way, self.name = library, way, library + way
        self.title = f"{ABOUT.get(library, {}).get('title', library)} ({WAYS[way]})"
        self.prompts = self.name if way == "-public" else library
        self.stored_with = library if way == "-module" else ""

    @cached_property
    def about(self) -> SimpleNamespace:
        """As in private_eval.toml, with `names` (public -> here) and the library's: `public`, `private`."""
        path = Path(data_folder(DATA.variable) or "", f"{self.library}.names.json")
        try:
            names = {old: str(new) for old, new in reading.read_object(path, advice="").items()}
            public = next((old for old, new in names.items() if new == self.library), self.library)
            toml = path.with_name(f"{self.library}.toml")
            path = toml if toml.exists() else path
            own = (
                tomllib.loads(reading.read_text(path, ""))
                if path == toml
                else ABOUT.get(self.library, {})
            )
            public = own.get("public", public)
            about = {
                "public": public,
                "alias": public,
                "documented": [public],
                "left_out": [],
            } | own
            [resolve_name(name) for name in about["documented"]]  # they are there
        except (UserError, ValueError, TypeError, ImportError, AttributeError, RecursionError) as e:
            about = f"mend it, or {self.library}.names.json (public name -> new one), or install the library"
            raise UserError(f"{path}: {e}; {about}") from e
        names = {name: name for name in names} if self.way == "-public" else names
        return SimpleNamespace(**about | {"names": names, "private": names.get(public, public)})

    @property
    def tokenizer(self) -> str:  # type: ignore[override]
        """ASCII for the libraries of the committed study; a library of the user's gets the general one."""
        return ASCII if self.library in ABOUT else UNICODE

    @property
    def public(self) -> str:
        """The library's public name; the data are not needed for the authors' two."""
        return ABOUT[self.library]["public"] if self.library in ABOUT else self.about.public

    @property
    def subject(self) -> str:  # type: ignore[override]
        about = self.about
        like = f", which is {about.public} with other names of functions, methods, arguments and classes"
        return f"the library {about.private}{like if about.private != about.public else ''}"

    @property
    def controls(self) -> Mapping[str, bool]:  # type: ignore[override]
        renamed = self.way != "-public" and self.public != self.library
        return super().controls | ({"public names": False} if renamed else {})

    def tasks(self) -> list[Task]:
        """Those that can be judged here."""
        left_out = self.left_out()
        return [t for t in self._all if t.id not in left_out]

    @cached_property
    def _all(self) -> list[Task]:
        return DATA.records((f"{self.library}.jsonl",), self._task, FIELDS)

    def left_out(self) -> dict[str, str]:
        """Task id -> why it is left out: nothing passes its test, or everything does."""
        return {t.id: why for t in self._all if (why := self._fault(t))}

    def _fault(self, task: Task) -> str:
        if task.id.rpartition("/")[2] in map(str, self.about.left_out):
            return "its own solution fails with the installed packages"
        tree = parsed(task.hidden_tests.text)
        empty = tree and not any(isinstance(n, ast.Assert | ast.Raise) for n in ast.walk(tree))
        return "its test asserts nothing" if empty else ""

    def _task(self, row: dict[str, Any]) -> PrivateTask:
        public = self.way == "-public"
        prompt = row["public_prompt" if public else "prompt"]
        completion = row["public_solution" if public else "canonical_solution"][0]
        called = "" if row["entry_point"] == "none" else row["entry_point"]
        # A new name within a name changed that, too; the tests call it by the public program's.
        name = re.findall(r"^def\s+(\w+)", prompt, re.M)[-1] if called else ""
        test, oracle = f"{row['test']}\ncheck({called})\n", "\n".join(row["oracle_docs"])
        return PrivateTask(
            id=row["task_id"],
            benchmark=self.name,
            prompt=prompt.rstrip("\n") + "\n",
            entry_point=name,
            hidden_tests=ProgramTests(test),
            solution=prompt + completion,
            called=called,
            completion=completion,
            oracle=oracle,
        )

    @cached_property
    def _documents(self) -> Mapping[str, str]:
        return renaming.documents_apart(self.about.documented, self.about.names)

    def documents(self) -> Mapping[str, str]:
        return self._documents

    def needed(self, task: Task) -> frozenset[str]:
        """The documents of those names in the reference solution that were renamed."""
        return frozenset().union(*self.alternatives(task))

    def alternatives(self, task: Task) -> list[frozenset[str]]:
        """A set for each name, since methods of several classes share one."""
        words = sorted(_names(task.completion) & set(self.about.names.values()))
        sets = (frozenset(i for i in self.documents() if i.rpartition(".")[2] == w) for w in words)
        return [found for found in sets if found]

    def examples(self) -> Iterable[str]:
        about = self.about
        first = f"import {about.private} as {about.names.get(about.alias, about.alias)}\n"
        first += "" if about.public == "numpy" else "import numpy as np\n"
        return (
            first + code for text in self.documents().values() if (code := renaming.session(text))
        )

    def oracle(self, task: Task) -> str:
        """The lines that the authors put before a prompt."""
        return task.oracle

    def asked(self, task: Task) -> str:
        said = "Go on with this program. Answer with the complete program, in one code block."
        return f"{said}\n{self.fenced(task.prompt)}"

    def solution(self, task: Task, raw: str) -> str:
        return whole_program(task.prompt, super().solution(task, raw), task.entry_point)

    def program(self, task: Task, solution: str) -> str:
        return solution

    def limits(self, task: Task) -> Limits:
        packages = dict.fromkeys(("numpy", "pandas", self.public))
        return Limits(self.seconds, 4096, "all", (), tuple(packages))

    def control(self, task: Task, name: str) -> str:
        if name == "return None" and not task.entry_point:
            texts = (
                f"{task.prompt.rstrip()}{end}\n" for end in ("\nNone", " None", "None)", "None]")
            )
            return next(filter(parsed, texts), task.prompt)  # the last line may be unfinished
        public = as_public(task.solution, self.about.names)
        return public if name == "public names" else super().control(task, name)

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        job, names = super().job(task, solution, protocol), self.about.names
        if self.way == "-module":
            text = f"{self._loaded(solution)}\nglobals().update(_space)\n{IMPORTS}"
        else:
            # The authors' own solutions have numpy's names in programs for another library.
            own = solution if "numpy" in names else re.sub(r"\b(np|numpy)\.\w+", "", solution)
            if gone := _names(own) & (names.keys() - names.values()):
                return Outcome("failed", "NameError", f"renamed away: {', '.join(sorted(gone))}")
            text = IMPORTS + as_public(solution, names)
        alias = f"\n{task.called} = {as_public(task.entry_point, names)}\n" if task.called else ""
        return replace(job, solution=text + alias, entry_point=task.called)

    def look(self, task: Task, solution: str, calls: tuple[str, ...]) -> Job:
        return Job(
            task.id, "", (looking(solution, self._loaded(solution, calls)),), "", self.seconds
        )

    def _loaded(self, program: str, calls: tuple[str, ...] = ()) -> str:
        """A text that runs a program, and calls after it, against the library under its names here."""
        about = f"{self.about.names!r}, {self.about.public!r}, {self.about.private!r}"
        return f"{INSIDE.read_text('utf8')}\n_space = load({program!r}, {calls!r}, {about})"


def _names(program: str) -> set[str]:
    """The names in a program's code."""
    return set(renaming.WORD.findall(NO_CODE.sub(" ", program)))


def whole_program(prompt: str, code: str, entry_point: str) -> str:
    """The program that a model's code means: it may repeat the prompt or a part, or go on from its end."""
    last = prompt.strip().rpartition("\n")[2].strip()
    unfinished = last.endswith(("=", "(", "[", ",")) and not last.startswith("#")
    wanted = (
        rf"def\s+{entry_point}\b" if entry_point else re.escape(last) if unfinished else r"(?!)"
    )
    begins = re.compile(rf"^[ \t]*{wanted}", re.M)
    if again := begins.search(code):
        prompt = prompt[: [*begins.finditer(prompt)][-1].start()]
    elif unfinished and re.match(r"\s*(import|from)\s", code):  # it begins anew
        prompt = prompt.rstrip().rpartition("\n")[0] + "\n"
    elif unfinished:  # it goes on in the middle of the line
        return prompt.rstrip("\n") + " " + code.lstrip()
    lines = [line.strip() for line in prompt.splitlines()]
    if all(line in code or line.startswith("#") for line in lines):
        return code
    return prompt + (code[again.start() :] if again and not entry_point else code)


_there = sorted((data_folder(DATA.variable) or Path(os.devnull)).glob("*.names.json"))
for _library in dict.fromkeys(
    [*ABOUT, *(path.name.removesuffix(".names.json") for path in _there)]
):
    for _way in WAYS:
        BENCHMARKS.register(PrivateEval(_library, _way))
