"""MonkeyEval, BeatNumEval and others of their form (Zan et al., 2022; Table 5): a renamed public library.

PKG_PRIVATE_EVAL_DIR holds NAME.jsonl with the tasks and NAME.names.json (public name -> new name). If it
is needed, NAME.toml has the fields of private_eval.toml. A solution is judged in one of three ways:

- The authors' rule. A name that was renamed is wrong, whatever it means in the program (a list's
  `append`, a variable `df`). Otherwise every new name is replaced by the public one, as a plain
  substring, and the result runs.
- The program runs against the renamed library itself (private_library.py), as drafts do.
- The public library is requested: there each name is its own new name.
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
from typing import Any

from pkg_lib.core import reading
from pkg_lib.core.data_folders import data_folder
from pkg_lib.core.python_syntax import parsed_or_none
from pkg_lib.core.reading import Kinds
from pkg_lib.core.types import Outcome, ProgramTests, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import ASCII, UNICODE
from pkg_lib.data.records import DataSet
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.papers.evor import renaming
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark, last_name
from pkg_lib.papers.evor.private_library import as_public
from pkg_lib.papers.evor.templates import HERE, read_toml

SOURCE = "monkey.jsonl, beatnum.jsonl and their names of Zan et al. (2022)"
DATA = DataSet("PrivateEval", "PKG_PRIVATE_EVAL_DIR", SOURCE)
NAMES_SUFFIX = ".names.json"
SANDBOX_PROGRAM = HERE / "private_library.py"
# What the data of the authors' two libraries do not tell.
KNOWN_LIBRARIES = read_toml("private_eval.toml")
IMPORTS = "import numpy as np\nimport pandas as pd\n"  # the tests use them
# The end of a benchmark's name -> how a solution is judged.
PUBLIC, MODULE = "-public", "-module"
WAYS = {"": "authors' rule", MODULE: "renamed library", PUBLIC: "public"}
FIELDS: Kinds = {"task_id": str, "entry_point": str, "test": str, "oracle_docs": list}
MEMORY_MB = 4096
NO_CODE = re.compile(r"""#[^\n]*|('{3}|"{3}|'|")(?:\\.|.)*?\1""", re.S)  # comments and strings
NUMPY_NAME = re.compile(r"\b(np|numpy)\.\w+")
DEFINED_FUNCTION = re.compile(r"^def\s+(\w+)", re.M)
NEVER = r"(?!)"  # matches nothing
# What may end the last line of a prompt so that an empty solution is a program.
EMPTY_ENDINGS = ("\nNone", " None", "None)", "None]")
UNUSABLE = (UserError, ValueError, TypeError, ImportError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateTask(Task):
    """A task of the form, whose `prompt` is the beginning of a program.

    Attributes:
        called: The name by which the tests know its function.
        completion: The rest of the reference program.
        oracle: The documentation that the authors put before a prompt.
    """

    called: str
    completion: str
    oracle: str


@dataclass
class RenamedLibrary:
    """A public library with its new names.

    Attributes:
        names: Public name -> name in this benchmark.
        public: The library's public name.
        private: Its name in this benchmark.
        alias: The name by which its documentation imports it.
        documented: The modules and classes whose members are documents.
        left_out: Numbers of the tasks that cannot be judged.
    """

    names: Mapping[str, str]
    public: str
    private: str
    alias: str
    documented: list[str]
    left_out: list[Any]


class PrivateEval(EvorBenchmark):
    """A benchmark of the form, judged in one of WAYS. Data are read when they are needed.

    Args:
        library: NAME of the files.
        way: A key of WAYS.
    """

    seconds = 20.0
    request = "Go on with this program. Answer with the complete program, in one code block."
    home = DATA.home

    def __init__(self, library: str, way: str = "") -> None:
        self.library = library
        self.way = way
        self.name = library + way
        title = KNOWN_LIBRARIES.get(library, {}).get("title", library)
        self.title = f"{title} ({WAYS[way]})"
        self.prompts = self.name if way == PUBLIC else library
        self.stored_with = library if way == MODULE else ""

    @cached_property
    def about(self) -> RenamedLibrary:
        """The library with its names.

        Raises:
            UserError: A file is damaged, or the library is not installed.
        """
        path = Path(data_folder(DATA.variable) or "", self.library + NAMES_SUFFIX)
        settings = path.with_name(f"{self.library}.toml")
        try:
            new_names = reading.read_object(path, advice="")
            names = {old: str(new) for old, new in new_names.items()}
            fields = KNOWN_LIBRARIES.get(self.library, {})
            if settings.exists():
                path = settings
                fields = tomllib.loads(reading.read_text(settings, ""))
            return self._renamed_library(names, fields)
        except UNUSABLE as e:
            other = f"{self.library}{NAMES_SUFFIX} (public name -> new one)"
            advice = f"mend it, or {other}, or install the library"
            raise UserError(f"{path}: {e}; {advice}") from e

    def _renamed_library(self, names: dict[str, str], fields: dict[str, Any]) -> RenamedLibrary:
        renamed_to_it = [old for old, new in names.items() if new == self.library]
        public = next(iter(renamed_to_it), self.library)
        public = fields.get("public", public)
        documented = fields.get("documented", [public])
        for name in documented:
            resolve_name(name)  # raises if it does not exist
        if self.way == PUBLIC:
            names = {name: name for name in names}
        return RenamedLibrary(
            names=names,
            public=public,
            private=names.get(public, public),
            alias=fields.get("alias", public),
            documented=documented,
            left_out=fields.get("left_out", []),
        )

    @property
    def tokenizer(self) -> str:  # type: ignore[override]
        """ASCII for the libraries of the committed study; a user's library gets the general one."""
        return ASCII if self.library in KNOWN_LIBRARIES else UNICODE

    @property
    def public(self) -> str:
        """The library's public name. For the authors' two libraries it needs no data."""
        if self.library in KNOWN_LIBRARIES:
            return str(KNOWN_LIBRARIES[self.library]["public"])
        return self.about.public

    @property
    def subject(self) -> str:  # type: ignore[override]
        """The library, as prompts name it."""
        about = self.about
        if about.private == about.public:
            return f"the library {about.private}"
        renamed = "other names of functions, methods, arguments and classes"
        return f"the library {about.private}, which is {about.public} with {renamed}"

    @property
    def controls(self) -> Mapping[str, bool]:  # type: ignore[override]
        """The control rows. A program with public names must fail where names are new."""
        controls = dict(super().controls)
        if self.way != PUBLIC and self.public != self.library:
            controls["public names"] = False
        return controls

    # Tasks

    def tasks(self) -> list[Task]:
        """Return the tasks that can be judged with the installed packages."""
        left_out = self.left_out()
        return [task for task in self._all if task.id not in left_out]

    @cached_property
    def _all(self) -> list[PrivateTask]:
        return DATA.records((f"{self.library}.jsonl",), self._task, FIELDS)

    def left_out(self) -> dict[str, str]:
        """Return the tasks that cannot be judged.

        Returns:
            Task id -> reason: nothing passes its test, or everything does.
        """
        reasons = {}
        for task in self._all:
            reason = self._fault(task)
            if reason:
                reasons[task.id] = reason
        return reasons

    def _fault(self, task: Task) -> str:
        """Why a task cannot be judged; "" if it can."""
        number = task.id.rpartition("/")[2]
        if number in map(str, self.about.left_out):
            return "its own solution fails with the installed packages"
        tree = parsed_or_none(task.hidden_tests.text)
        if tree is None:
            return ""
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert | ast.Raise):
                return ""
        return "its test asserts nothing"

    def _task(self, row: dict[str, Any]) -> PrivateTask:
        if self.way == PUBLIC:
            prompt = row["public_prompt"]
            completion = row["public_solution"][0]
        else:
            prompt = row["prompt"]
            completion = row["canonical_solution"][0]
        called = "" if row["entry_point"] == "none" else row["entry_point"]
        # A new name within a function's name changed that name as well. The tests call the function
        # by the public program's name.
        name = DEFINED_FUNCTION.findall(prompt)[-1] if called else ""
        return PrivateTask(
            id=row["task_id"],
            benchmark=self.name,
            prompt=prompt.rstrip("\n") + "\n",
            entry_point=name,
            hidden_tests=ProgramTests(f"{row['test']}\ncheck({called})\n"),
            solution=prompt + completion,
            called=called,
            completion=completion,
            oracle="\n".join(row["oracle_docs"]),
        )

    # Documentation

    @cached_property
    def _documents(self) -> Mapping[str, str]:
        return renaming.documents_apart(self.about.documented, self.about.names)

    def documents(self) -> Mapping[str, str]:
        """Return the library's documents by dotted new name."""
        return self._documents

    def needed(self, task: Task) -> frozenset[str]:
        """Return the documents of the renamed names in the reference solution.

        Args:
            task: A task of this benchmark.
        """
        return frozenset().union(*self.alternatives(task))

    def alternatives(self, task: Task) -> list[frozenset[str]]:
        """Return a set of documents for each renamed name, since classes share names of methods.

        Args:
            task: A task of this benchmark.
        """
        words = _names_in(_private(task).completion)
        new_names = words.intersection(self.about.names.values())
        sets = []
        for new_name in sorted(new_names):
            found = {name for name in self.documents() if last_name(name) == new_name}
            if found:
                sets.append(frozenset(found))
        return sets

    def examples(self) -> Iterable[str]:
        """Return the interactive sessions of the documents, one program per document."""
        about = self.about
        alias = about.names.get(about.alias, about.alias)
        imports = f"import {about.private} as {alias}\n"
        if about.public != "numpy":
            imports += "import numpy as np\n"
        programs = []
        for text in self.documents().values():
            code = renaming.session(text)
            if code:
                programs.append(imports + code)
        return programs

    def oracle(self, task: Task) -> str:
        """Return the documentation that the authors put before a prompt.

        Args:
            task: A task of this benchmark.
        """
        return _private(task).oracle

    # Prompts, programs and tests

    def solution(self, task: Task, raw: str) -> str:
        """Extract the whole program that a completion means.

        Args:
            task: The problem n.
            raw: The completion.

        Returns:
            The whole program.
        """
        code = super().solution(task, raw)
        return whole_program(task.prompt, code, task.entry_point)

    def beginning(self, task: Task) -> str:
        """Return the lines of a prompt before its unfinished end: as many as are valid Python.

        Args:
            task: The problem n.
        """
        lines = task.prompt.splitlines()
        for length in range(len(lines), 0, -1):
            program = "\n".join(lines[:length])
            if parsed_or_none(program) is not None:
                return program
        return ""

    def limits(self, task: Task) -> Limits:
        """Return the limits of a test process, which may import every installed package.

        Args:
            task: A task of this benchmark.
        """
        packages = dict.fromkeys(("numpy", "pandas", self.public))
        return Limits(
            seconds=self.seconds,
            memory_mb=MEMORY_MB,
            packages="all",
            preload=tuple(packages),
        )

    def control(self, task: Task, name: str) -> str:
        """Return the solution of a control row.

        Args:
            task: A task of this benchmark.
            name: A key of `controls`.
        """
        if name == "public names":
            return as_public(task.solution, self.about.names)
        if name == "return None" and not task.entry_point:
            # The last line of the prompt may be unfinished.
            for ending in EMPTY_ENDINGS:
                program = f"{task.prompt.rstrip()}{ending}\n"
                if parsed_or_none(program):
                    return program
            return task.prompt
        return super().control(task, name)

    def job(
        self,
        task: Task,
        solution: str,
        protocol: str = "pkg-paper",
    ) -> Job | Outcome:
        """Return the job that tests a solution, in one of WAYS.

        Args:
            task: A task of this benchmark.
            solution: The extracted solution.
            protocol: One of PROTOCOLS.

        Returns:
            The job, or the verdict if the authors' rule refuses a name.
        """
        job = super().job(task, solution, protocol)
        if isinstance(job, Outcome):
            return job
        names = self.about.names
        if self.way == MODULE:
            run = self.run_of_draft(solution, ())
            text = f"{run}\nglobals().update(_space)\n{IMPORTS}"
        else:
            gone = self._renamed_away(solution)
            if gone:
                detail = f"renamed away: {', '.join(sorted(gone))}"
                return Outcome("failed", "NameError", detail)
            text = IMPORTS + as_public(solution, names)
        called = _private(task).called
        if called:
            text += f"\n{called} = {as_public(task.entry_point, names)}\n"
        return replace(job, solution=text, entry_point=called)

    def _renamed_away(self, solution: str) -> set[str]:
        """The names in a program that were renamed, the authors' rule."""
        names = self.about.names
        if "numpy" not in names:
            # The authors' own solutions have numpy's names in programs for another library.
            solution = NUMPY_NAME.sub("", solution)
        gone = names.keys() - names.values()
        return _names_in(solution) & gone

    def run_of_draft(self, program: str, calls: tuple[str, ...]) -> str:
        """Return a program that runs a draft, and calls after it, against the renamed library.

        Args:
            program: The draft p.
            calls: The test inputs I.
        """
        library = self.about
        arguments = (
            program,
            calls,
            library.names,
            library.public,
            library.private,
        )
        listed = ", ".join(map(repr, arguments))
        definitions = SANDBOX_PROGRAM.read_text("utf8")
        return f"{definitions}\n_space = load({listed})"


def _private(task: Task) -> PrivateTask:
    assert isinstance(task, PrivateTask), f"task {task.id} is of another benchmark"
    return task


def _names_in(program: str) -> set[str]:
    """The names in a program's code."""
    code = NO_CODE.sub(" ", program)
    return set(renaming.WORD.findall(code))


def whole_program(
    prompt: str,
    code: str,
    entry_point: str,
) -> str:
    """Return the program that a model's code means.

    The code may repeat the prompt or a part of it, or continue from its end.

    Args:
        prompt: The beginning of the program.
        code: The model's code.
        entry_point: The function that the code completes; "" for none.
    """
    last = prompt.strip().rpartition("\n")[2].strip()
    is_comment = last.startswith("#")
    unfinished = last.endswith(("=", "(", "[", ",")) and not is_comment
    wanted = NEVER
    if entry_point:
        wanted = rf"def\s+{entry_point}\b"
    elif unfinished:
        wanted = re.escape(last)
    beginning = re.compile(rf"^[ \t]*{wanted}", re.M)
    repeated = beginning.search(code)
    if repeated:
        *_, place = beginning.finditer(prompt)
        prompt = prompt[: place.start()]
    elif unfinished and re.match(r"\s*(import|from)\s", code):  # the code starts again
        prompt = prompt.rstrip().rpartition("\n")[0] + "\n"
    elif unfinished:  # the code continues in the middle of the line
        return prompt.rstrip("\n") + " " + code.lstrip()
    lines = [line.strip() for line in prompt.splitlines()]
    if all(line in code or line.startswith("#") for line in lines):
        return code
    if repeated and not entry_point:
        code = code[repeated.start() :]
    return prompt + code


def _user_libraries() -> list[str]:
    """The names of the libraries in the user's directory."""
    folder = data_folder(DATA.variable) or Path(os.devnull)
    files = sorted(folder.glob(f"*{NAMES_SUFFIX}"))
    return [file.name.removesuffix(NAMES_SUFFIX) for file in files]


for _library in dict.fromkeys([*KNOWN_LIBRARIES, *_user_libraries()]):
    for _way in WAYS:
        BENCHMARKS.register(PrivateEval(_library, _way))
