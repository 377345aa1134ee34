"""Benchmarks on libraries under new names (make_library.py), and on the same libraries as they are.

They follow the construction of Scipy-M and Tensorflow-M (Section 2.4, Appendix A). The statement of a
task has two variants: "named" uses the field's terms, "plain" does not. The expected values come from
the original library (tests/benchmarks/fill_library_tasks.py), and the reference solution from the
rewriter. A solution passes if its output is right and it called a function that the task accepts.
"""

import doctest
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pkg_lib.core.models import cache_dir
from pkg_lib.core.store import read_json, read_rows
from pkg_lib.core.types import BenchmarkMissingError, Task, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.sandbox import Limits
from pkg_lib.papers.evor.make_library import LIBRARIES, SPECS, make
from pkg_lib.papers.evor.templates import HERE, PROGRAMS
from pkg_lib.papers.evor.watched_tasks import INDENT, WatchedTask, WatchedTasks

FIELDS = (
    "id",
    "apis",
    "made_apis",
    "named",
    "plain",
    "signature",
    "inputs",
    "expected",
    "solution",
    "made_solution",
)
# Files on which a library under new names depends.
SOURCES = ("make_library.py", "renaming.py", "libraries.toml", "programs.toml")
MEMORY_MB = 2048
_read_documents = cache(read_json)


class LibraryTasks(WatchedTasks):
    """Tasks on a library under new names, or under its own names.

    The latter show whether the model knows the library.

    Args:
        library: A library of libraries.toml.
        kind: "m" for new names, "m-plain" for new names and plain statements, "public" for its own.
        title: What tables call the benchmark.
    """

    home = "made from a source archive of PyPI; the tasks are in papers/evor"

    def __init__(
        self,
        library: str,
        kind: str,
        title: str,
    ) -> None:
        self.name = f"{library}-{kind}"
        self.prompts = self.name
        self.title = title
        self.library = library
        self.public = kind == "public"
        self.statement = "plain" if kind == "m-plain" else "named"
        self.package = LIBRARIES[library]
        self.spec = SPECS[library]
        public_alias, new_alias = next(iter(self.spec["alias"].items()))
        self.controls = dict(self.controls)
        if self.public:
            self.subject = self.package.sources[0]
            self.alias = public_alias
        else:
            self.subject = self.spec["module"]
            self.alias = new_alias
            self.controls["public API"] = False
        self.module = self.subject
        self.imports = self.spec[self._field("imports")]
        # The graph classes keep their names.
        self.never_needed = frozenset(f"{self.alias}.{name}" for name in self.spec["keep"])

    def _field(self, name: str) -> str:
        """The name of a field of tasks and of libraries.toml, by the names that the library has."""
        return name if self.public else f"made_{name}"

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        """Whether the library's archive would be downloaded."""
        return not self.package.available

    @cached_property
    def folder(self) -> Path:
        """The directory of the library and of documents.json, made the first time.

        Raises:
            BenchmarkMissingError: The library's archive is not available.
        """
        sources = [(HERE / file).read_text("utf8") for file in SOURCES]
        version = digest(self.package.sha256, *sources)[:12]
        folder = cache_dir() / "libraries" / f"{self.subject}-{version}"
        if folder.exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as place:
            unfinished = Path(place, folder.name)
            try:
                make(self.library, unfinished, self.public)
            except UserError as e:
                raise BenchmarkMissingError(str(e)) from e
            command = [
                sys.executable,
                "-c",
                PROGRAMS["documents"],
                self.subject,
                self.alias,
            ]
            subprocess.run(command, cwd=unfinished, capture_output=True, check=True)
            with suppress(OSError):  # another process may have been first
                unfinished.rename(folder)
        return folder

    def documents(self) -> dict[str, str]:
        """Return the library's documents by dotted name."""
        documents: dict[str, str] = _read_documents(self.folder / "documents.json")
        return documents

    def examples(self) -> Iterable[str]:
        """Return the doctests of the documents, one program per document."""
        parser = doctest.DocTestParser()
        programs = []
        for text in self.documents().values():
            examples = parser.get_examples(text)
            if examples:
                sources = [example.source for example in examples]
                programs.append("\n".join([self.imports, *sources]))
        return programs

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the stored fields of each task by its id."""
        rows = read_rows(HERE / f"{self.library}.jsonl", FIELDS)
        return {row["id"]: row for row in rows}

    def tasks(self) -> list[Task]:
        """Return the tasks in the order of their file."""
        return [self._task(row) for row in self.rows().values()]

    def _task(self, row: dict[str, Any]) -> WatchedTask:
        return self.watched_task(
            row,
            statement=row[self.statement],
            accepted=row[self._field("apis")],
            solution=row[self._field("solution")],
        )

    def limits(self, task: Task) -> Limits:
        """Return the limits of a test process, which may import the library.

        Args:
            task: A task of this benchmark.
        """
        return Limits(
            seconds=self.seconds,
            memory_mb=MEMORY_MB,
            packages="stdlib",
            brought=(self.subject,),
            preload=(self.subject,),
            folder=str(self.folder),
        )

    def control(self, task: Task, name: str) -> str:
        """Return the solution of a control row.

        Args:
            task: A task of this benchmark.
            name: A key of `controls`; "public API" uses the library's own names, which must fail.
        """
        if name != "public API":
            return super().control(task, name)
        row = self.rows()[task.id]
        first_import = self.spec["imports"].partition("\n")[0]
        body = f"{INDENT}{first_import}\n{row['solution']}"
        return self.solution(task, f"```python\n{body}```")


BENCHMARKS.register(LibraryTasks("networkx", "m", "networkx-M"))
BENCHMARKS.register(LibraryTasks("networkx", "m-plain", "networkx-M (described)"))
BENCHMARKS.register(LibraryTasks("networkx", "public", "networkx"))
BENCHMARKS.register(LibraryTasks("more-itertools", "m", "more-itertools-M"))
BENCHMARKS.register(LibraryTasks("more-itertools", "public", "more-itertools"))
