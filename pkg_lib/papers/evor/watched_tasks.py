"""The base class of benchmarks whose tasks accept certain functions of a library.

A solution passes if its output is right and it called a function that the task accepts.
"""

import ast
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import indent
from typing import Any, ClassVar

from pkg_lib.core.types import Outcome, ProgramTests, Task
from pkg_lib.data.corpora import ASCII
from pkg_lib.execution.sandbox import Job
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark
from pkg_lib.papers.evor.templates import PROGRAMS

NOT_CALLED = "right output, but no accepted function was called"  # in the detail of such a failure
INDENT = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedTask(Task):
    """A task that accepts certain functions of a library.

    Attributes:
        accepted: Dotted names of functions, classes and methods. One of them must be called.
    """

    accepted: tuple[str, ...]


class WatchedTasks(EvorBenchmark):
    """Tasks that ask for the body of a function which calls a library.

    Attributes:
        module: The library's top-level module.
        imports: The first lines of each prompt, which import the library.
        never_needed: The documents that no task counts as needed.
        before_cases: The program that runs before the assertions of a task's test.
        case: The assertion of a test case, with the fields "given" and "expected".
    """

    seconds = 10.0
    copyable = True
    tokenizer = ASCII
    module: str
    imports: str
    never_needed: frozenset[str] = frozenset()
    before_cases: ClassVar[str] = ""
    case: ClassVar[str] = "assert _same(solve({given}), {expected})"

    @abstractmethod
    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the stored fields of each task by its id."""

    def watched_task(
        self,
        row: dict[str, Any],
        statement: str,
        accepted: Iterable[str],
        solution: str,
    ) -> WatchedTask:
        """Return the task of a stored row.

        Args:
            row: Its stored fields, of which id, signature, inputs and expected are used.
            statement: What the function does.
            accepted: Dotted names of the accepted functions.
            solution: The body of the reference solution.
        """
        complete = f"{statement}\n\nUse the library {self.module}."
        docstring = indent(complete, INDENT).strip()
        beginning = f"{self.imports}\n\n\ndef {row['signature']}:\n"
        names = tuple(accepted)
        return WatchedTask(
            id=row["id"],
            benchmark=self.name,
            prompt=f'{beginning}    """{docstring}\n    """\n',
            entry_point="solve",
            hidden_tests=ProgramTests(self._test(row, names)),
            solution=solution,
            accepted=names,
        )

    def _test(self, row: dict[str, Any], accepted: tuple[str, ...]) -> str:
        """The test program. It names the accepted functions, since a verdict is known by its test."""
        assertions = []
        for given, expected in zip(row["inputs"], row["expected"], strict=True):
            assertions.append(self.case.format(given=given, expected=expected))
        return PROGRAMS["test"].format(
            cases=self.before_cases + "\n".join(assertions),
            not_called=NOT_CALLED,
            apis=", ".join(accepted),
        )

    def needed(self, task: Task) -> frozenset[str]:
        """Return the documents of the names in the reference solution.

        Args:
            task: A task of this benchmark.
        """
        names = set()
        tree = ast.parse(f"def solve():\n{task.solution}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
        needed = set()
        for document in self.documents().keys() - self.never_needed:
            _, *parts = document.split(".")
            if names.issuperset(parts):
                needed.add(document)
        return frozenset(needed)

    def program(self, task: Task, solution: str) -> str:
        """Return the function with its body.

        Args:
            task: A task of this benchmark.
            solution: The extracted body.
        """
        return task.prompt + solution

    def job(
        self,
        task: Task,
        solution: str,
        protocol: str = "pkg-paper",
    ) -> Job | Outcome:
        """Return the job that tests a solution and watches which functions it calls.

        Args:
            task: A task of this benchmark.
            solution: The extracted body.
            protocol: One of PROTOCOLS.
        """
        assert isinstance(task, WatchedTask), f"task {task.id} is of another benchmark"
        watch = PROGRAMS["watch"].format(module=self.module, apis=list(task.accepted))
        return Job(
            task.id,
            self.preparation() + watch + self.program(task, solution),
            self.tests(task, protocol),
            task.entry_point,
            self.seconds,
        )
