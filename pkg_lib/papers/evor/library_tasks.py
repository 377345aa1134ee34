"""EVOR's benchmarks on libraries that no model knows (make_library.py), and on the libraries as they are.

A task's statement has two wordings: `named` in the field's terms, `plain` without them. Its expected values
are the original library's (tests/benchmarks/fill_library_tasks.py), its solution goes through the rewriter.
A solution passes when its output is right and it called one of the functions that the task accepts.
"""

import ast
import doctest
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pkg_lib.core.models import cache_dir
from pkg_lib.core.store import read_json, read_rows, write_json
from pkg_lib.core.types import BenchmarkMissing, Outcome, Task, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.sandbox import Job, Limits, run_jobs
from pkg_lib.papers.evor import make_library
from pkg_lib.papers.evor.make_library import PROGRAMS
from pkg_lib.papers.evor.unfamiliar import Unfamiliar

FIELDS = "id apis made_apis named plain signature inputs expected solution made_solution".split()
NOT_CALLED = "right output, but no accepted function was called"  # in the detail of such a failure
SECONDS, MEMORY_MB = 10.0, 2048


def built(name: str, public: bool) -> Path:
    """The directory of a library with documents.json, made once. BenchmarkMissing where it cannot be had."""
    module = make_library.SPECS[name]["module"]
    sources = [make_library.HERE / file for file in ("make_library.py", "libraries.toml", "programs.toml")]
    key = digest(make_library.LIBRARIES[name].sha256, *(p.read_text("utf8") for p in sources))
    folder = cache_dir() / "libraries" / f"{name if public else module}-{key[:12]}"
    if (folder / ".complete").exists():
        return folder
    try:
        tree = make_library.LIBRARIES[name].tree
    except UserError as e:
        raise BenchmarkMissing(str(e)) from e
    partly = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(partly, ignore_errors=True)
    if public:
        module = make_library.LIBRARIES[name].sources[0]
        shutil.copytree(tree / module, partly / module)
    else:
        make_library.make(name, partly)
    alias = next(iter(make_library.SPECS[name]["alias"].items()))[0 if public else 1]
    command = [sys.executable, "-c", PROGRAMS["documents"], module, alias]
    documents = subprocess.run(command, cwd=partly, capture_output=True, check=True, text=True).stdout
    write_json(partly / "documents.json", json.loads(documents))
    (partly / ".complete").write_text(key)
    shutil.rmtree(folder, ignore_errors=True)
    partly.rename(folder)
    return folder


@cache
def _documents(folder: Path) -> dict[str, str]:
    return read_json(folder / "documents.json")


@dataclass(frozen=True)
class LibraryTasks(Unfamiliar):
    """Tasks on a library; `public`: under its own names, to see whether the model knows it."""

    name: str
    title: str
    library: str
    wording: str = "named"
    public: bool = False
    seconds: float = SECONDS
    copyable: bool = True
    home: str = "made from a source archive of PyPI; the tasks lie beside papers/evor/library_tasks.py"

    @property
    def controls(self) -> dict[str, bool]:  # type: ignore[override]
        controls = {"canonical solution": True, "return None": False}
        return controls if self.public else controls | {"public API": False}

    @property
    def prompts(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        return not make_library.LIBRARIES[self.library].at_hand

    @property
    def subject(self) -> str:  # type: ignore[override]
        return make_library.LIBRARIES[self.library].sources[0] if self.public else self._spec["module"]

    @property
    def folder(self) -> Path:
        return built(self.library, self.public)

    @property
    def _spec(self) -> dict[str, Any]:
        return make_library.SPECS[self.library]

    def rows(self) -> dict[str, dict[str, Any]]:
        """Task id -> the task as it is stored."""
        return {row["id"]: row for row in read_rows(make_library.HERE / f"{self.library}.jsonl", FIELDS)}

    def tasks(self) -> list[Task]:
        return [self._task(row) for row in self.rows().values()]

    def _task(self, row: dict[str, Any]) -> Task:
        kind = "" if self.public else "made_"
        head = f"{self._spec[kind + 'imports']}\n\n\ndef {row['signature']}:\n"
        about = f"{row[self.wording]}\n\nUse the library {self.subject}."
        lines = "\n".join(f"    {line}".rstrip() for line in about.split("\n"))
        cases = zip(row["inputs"], row["expected"], strict=True)
        calls = "\n".join(f"assert _same(solve({given}), {wanted})" for given, wanted in cases)
        apis = row[kind + "apis"]  # they decide, too, and a verdict is known by its test
        test = PROGRAMS["test"].format(cases=calls, not_called=NOT_CALLED, apis=", ".join(apis))
        prompt = f'{head}    """{lines.strip()}\n    """\n'
        return Task(row["id"], self.name, prompt, "solve", test, row[kind + "solution"])

    def program(self, task: Task, solution: str) -> str:
        return task.prompt + solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        return (task.test,)

    def limits(self, task: Task) -> Limits:
        brought = (self.subject,)
        return Limits(SECONDS, MEMORY_MB, "stdlib", brought, brought, str(self.folder))

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        apis = self.rows()[task.id]["apis" if self.public else "made_apis"]
        program = PROGRAMS["watch"].format(module=self.subject, apis=apis) + self.program(task, solution)
        return Job(task.id, program, self.tests(task, protocol), task.entry_point, self.seconds)

    def control(self, task: Task, name: str) -> str:
        if name != "public API":
            return super().control(task, name)
        row = self.rows()[task.id]
        imports = "\n".join(f"    {line}" for line in self._spec["imports"].split("\n") if "*" not in line)
        return self.solution(task, f"```python\n{imports}\n{row['solution']}```")

    def documents(self) -> dict[str, str]:
        return _documents(self.folder)

    def needed(self, task: Task) -> frozenset[str]:
        """Those of the names in the solution; not the graph classes, which keep their names."""
        documents, alias = self.documents(), self._alias
        nodes = list(ast.walk(ast.parse("def solve():\n" + task.solution)))
        used = {ast.unparse(n) for n in nodes if isinstance(n, ast.Attribute | ast.Name)}
        used |= {f"{alias}.{name}" for name in used}
        classes = {u for u in used if any(d.startswith(f"{u}.") for d in documents)}
        attributes = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        used |= {f"{c}.{a}" for c in classes for a in attributes}
        return frozenset(used & documents.keys() - {f"{alias}.{name}" for name in self._spec["keep"]})

    @property
    def _alias(self) -> str:
        old, new = next(iter(self._spec["alias"].items()))
        return old if self.public else new

    def examples(self) -> Iterable[str]:
        """The doctests of the documents, a program each, that run here without an error."""
        stored = self.folder / "examples.json"
        if not stored.exists():
            imports = self._spec["imports" if self.public else "made_imports"]
            parsed = map(doctest.DocTestParser().get_examples, self.documents().values())
            programs = ["\n".join([imports, *(e.source for e in found)]) for found in parsed if found]
            jobs = [Job(str(i), program, seconds=5.0) for i, program in enumerate(programs)]
            outcomes = run_jobs(jobs, self.limits(self.tasks()[0]))
            ran = [p for p, o in zip(programs, outcomes, strict=True) if o.status == "passed"]
            write_json(stored, {"programs": ran})
        return read_json(stored)["programs"]


BENCHMARKS.register(LibraryTasks("networkx-m", "networkx-M", "networkx"))
BENCHMARKS.register(LibraryTasks("networkx-m-plain", "networkx-M (described)", "networkx", "plain"))
BENCHMARKS.register(LibraryTasks("networkx-public", "networkx", "networkx", public=True))
BENCHMARKS.register(LibraryTasks("more-itertools-m", "more-itertools-M", "more-itertools"))
BENCHMARKS.register(LibraryTasks("more-itertools-public", "more-itertools", "more-itertools", public=True))
