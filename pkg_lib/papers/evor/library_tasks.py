"""EVOR's benchmarks on libraries that no model knows (make_library.py), and on the libraries as they are.

A task's statement has two wordings: `named` in the field's terms, `plain` without them. Its expected values
are the original library's (tests/benchmarks/fill_library_tasks.py), its solution goes through the rewriter.
A solution passes when its output is right and it called one of the functions that the task accepts.
"""

import ast
import doctest
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

from pkg_lib.core.models import cache_dir
from pkg_lib.core.store import read_json, read_rows
from pkg_lib.core.types import BenchmarkMissing, Outcome, ProgramTests, Task, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import ASCII
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.papers.evor.make_library import HERE, LIBRARIES, SPECS, make
from pkg_lib.papers.evor.renaming import PROGRAMS
from pkg_lib.papers.evor.unfamiliar import Unfamiliar

FIELDS = "id apis made_apis named plain signature inputs expected solution made_solution".split()
NOT_CALLED = "right output, but no accepted function was called"  # in the detail of such a failure
_stored = cache(read_json)


class LibraryTasks(Unfamiliar):
    """Tasks on a library; `public`: under its own names, to see whether the model knows it."""

    seconds, copyable = 10.0, True
    tokenizer = ASCII
    home = "made from a source archive of PyPI; the tasks lie beside papers/evor/library_tasks.py"

    def __init__(self, library: str, kind: str, title: str) -> None:
        self.name = self.prompts = f"{library}-{kind}"
        self.library, self.title, self.public = library, title, kind == "public"
        self.wording = "plain" if kind == "m-plain" else "named"
        self.package, self.spec = LIBRARIES[library], SPECS[library]
        self.subject = self.package.sources[0] if self.public else self.spec["module"]
        self.alias = next(iter(self.spec["alias"].items()))[0 if self.public else 1]
        self.of = "" if self.public else "made_"  # begins the fields of tasks under new names
        self.controls = (
            dict(self.controls) if self.public else {**self.controls, "public API": False}
        )

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        return not self.package.available

    @cached_property
    def folder(self) -> Path:
        """The library with documents.json; made once. BenchmarkMissing where it cannot be had."""
        sources = ("make_library.py", "renaming.py", "libraries.toml", "programs.toml")
        texts = [(HERE / file).read_text("utf8") for file in sources]
        folder = (
            cache_dir() / "libraries" / f"{self.subject}-{digest(self.package.sha256, *texts)[:12]}"
        )
        if folder.exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as place:
            partly = Path(place, folder.name)
            try:
                make(self.library, partly, self.public)
            except UserError as e:
                raise BenchmarkMissing(str(e)) from e
            command = [sys.executable, "-c", PROGRAMS["documents"], self.subject, self.alias]
            subprocess.run(command, cwd=partly, capture_output=True, check=True)
            with suppress(OSError):  # another process may have been first
                partly.rename(folder)
        return folder

    def documents(self) -> dict[str, str]:
        return _stored(self.folder / "documents.json")

    def needed(self, task: Task) -> frozenset[str]:
        """Those of the names in the solution; not the graph classes, which keep their names."""
        nodes = ast.walk(ast.parse("def solve():\n" + task.solution))
        named = [n for n in nodes if isinstance(n, ast.Name | ast.Attribute)]
        names = {n.id if isinstance(n, ast.Name) else n.attr for n in named}
        used = {d for d in self.documents() if names.issuperset(d.split(".")[1:])}
        return frozenset(used - {f"{self.alias}.{name}" for name in self.spec["keep"]})

    def examples(self) -> Iterable[str]:
        """The doctests of the documents, a program each."""
        parsed = map(doctest.DocTestParser().get_examples, self.documents().values())
        imports = self.spec[self.of + "imports"]
        return ["\n".join([imports, *(e.source for e in found)]) for found in parsed if found]

    def rows(self) -> dict[str, dict[str, Any]]:
        """Task id -> the task as it is stored."""
        return {row["id"]: row for row in read_rows(HERE / f"{self.library}.jsonl", FIELDS)}

    def tasks(self) -> list[Task]:
        return [self._task(row) for row in self.rows().values()]

    def _task(self, row: dict[str, Any]) -> Task:
        about = indent(f"{row[self.wording]}\n\nUse the library {self.subject}.", "    ").strip()
        head = f"{self.spec[self.of + 'imports']}\n\n\ndef {row['signature']}:\n"
        cases = zip(row["inputs"], row["expected"], strict=True)
        calls = "\n".join(f"assert _same(solve({given}), {wanted})" for given, wanted in cases)
        apis = row[self.of + "apis"]  # they decide, too, and a verdict is known by its test
        test = PROGRAMS["test"].format(cases=calls, not_called=NOT_CALLED, apis=", ".join(apis))
        prompt = f'{head}    """{about}\n    """\n'
        return Task(
            row["id"], self.name, prompt, "solve", ProgramTests(test), row[self.of + "solution"]
        )

    def program(self, task: Task, solution: str) -> str:
        return task.prompt + solution

    def limits(self, task: Task) -> Limits:
        return Limits(
            self.seconds, 2048, "stdlib", (self.subject,), (self.subject,), str(self.folder)
        )

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        apis = self.rows()[task.id][self.of + "apis"]
        program = PROGRAMS["watch"].format(module=self.subject, apis=apis) + self.program(
            task, solution
        )
        return Job(task.id, program, self.tests(task, protocol), task.entry_point, self.seconds)

    def control(self, task: Task, name: str) -> str:
        if name != "public API":
            return super().control(task, name)
        imports = indent(self.spec["imports"].partition("\n")[0], "    ")
        return self.solution(task, f"```python\n{imports}\n{self.rows()[task.id]['solution']}```")


BENCHMARKS.register(LibraryTasks("networkx", "m", "networkx-M"))
BENCHMARKS.register(LibraryTasks("networkx", "m-plain", "networkx-M (described)"))
BENCHMARKS.register(LibraryTasks("networkx", "public", "networkx"))
BENCHMARKS.register(LibraryTasks("more-itertools", "m", "more-itertools-M"))
BENCHMARKS.register(LibraryTasks("more-itertools", "public", "more-itertools"))
