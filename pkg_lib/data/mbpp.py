"""MBPP (Austin et al., 2021), from the directory that PKG_MBPP_DIR names, else from the hub.

Protocol pkg-paper: each assertion in a fresh process, on the generation and that assertion alone, without
setup code. Protocol standard: setup code, then all assertions together in one process. 20 s a process.
"""

import ast
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from pkg_lib.core.reading import Kinds
from pkg_lib.core.types import Outcome, ProgramTests, Task
from pkg_lib.data.benchmark import Benchmark, without_copies
from pkg_lib.data.records import DataSet
from pkg_lib.execution.sandbox import Job

HUB = ("google-research-datasets/mbpp", "full")
DATA = DataSet(
    "MBPP", "PKG_MBPP_DIR", "mbpp.jsonl of github.com/google-research/google-research", HUB
)
FIELDS: Kinds = {
    "task_id": int,
    "test_list": list,
    **dict.fromkeys(("text", "code", "test_setup_code"), str),
}
TEST_SPLIT = range(11, 511)
SEPARATOR = "\n# ---\n"  # a comment, so that the joined tests are a program

# Their tests need the solution's own classes, or hand it a type, which is no plain data.
OWN_CLASSES = ("MBPP/367", "MBPP/533", "MBPP/601", "MBPP/927")


@dataclass(frozen=True, slots=True)
class AssertionTests:
    """MBPP's hidden tests: code that prepares them, and assertions.

    Attributes:
        setup: Code that protocol "standard" runs before the assertions; mostly "".
        assertions: One statement each.
    """

    setup: str
    assertions: tuple[str, ...]

    @property
    def text(self) -> str:
        """Setup code and assertions as one program."""
        return SEPARATOR.join([self.setup, *self.assertions])


@dataclass(frozen=True)
class MBPP(Benchmark):
    """A completion is the whole program; `hint` is added, since a task's text does not name its function.

    The paper does not print its MBPP prompt. The authors' runner for closed models shows all tests: then a
    verdict is on what was shown, and no test is left that a choice may not see. By default the first is
    shown and the others are held back; `signature` shows the function's head instead.
    """

    name: str
    title: str
    prompts: str = "mbpp"
    ids: range | None = TEST_SPLIT
    hint: str = "first test"
    seconds: float = 20.0
    home: str = DATA.home
    starts_program = True
    given = staticmethod(lambda task: None if task.id in OWN_CLASSES else "")

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        return DATA.asks_hub

    def tasks(self) -> list[Task]:
        tasks = sorted(DATA.records(("mbpp.jsonl",), self._numbered, FIELDS), key=itemgetter(0))
        return [task for number, task in tasks if self.ids is None or number in self.ids]

    def _numbered(self, row: dict[str, Any]) -> tuple[int, Task]:
        code = row["code"].replace("\r\n", "\n")
        setup, *tests = (
            text.replace("\r\n", "\n") for text in (row["test_setup_code"], *row["test_list"])
        )
        function, head = _tested_function(tests[0], code)
        shown = {"first test": f"Test: {tests[0]}", "signature": f"Function: {head}"}
        shown["all tests"] = "\n".join(("\nYour code should pass these tests:", *tests))
        texts = (
            f"{row['text']}\n{shown[self.hint]}",
            function,
            AssertionTests(setup, tuple(tests)),
            code,
        )
        return row["task_id"], Task(f"MBPP/{row['task_id']}", self.name, *texts)

    def program(self, task: Task, solution: str) -> str:
        return solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        if isinstance(task.hidden_tests, ProgramTests):  # MBPP+'s, which are the same for both
            return super().tests(task, protocol)
        hidden = task.tests_as(AssertionTests)
        if protocol == "pkg-paper":
            return hidden.assertions
        setup = [hidden.setup] if hidden.setup else []
        return ("\n".join([*setup, *hidden.assertions]),)

    def control_job(self, task: Task, solution: str, protocol: str) -> Job | Outcome:
        """With setup code where the tests need it: not even the reference could pass without."""
        needs_setup = task.tests_as(AssertionTests).setup.strip()
        return self.job(task, solution, "standard" if needs_setup else protocol)

    def untested(self, task: Task, solution: str) -> str:
        return without_copies(solution, task.hidden_tests.text)


def _tested_function(assertion: str, code: str) -> tuple[str, str]:
    """The name and head of the first function that an assertion calls and the reference solution defines."""
    defined = [n for n in ast.parse(code).body if isinstance(n, ast.FunctionDef)]
    names = [n.name for n in defined]
    nodes = ast.walk(ast.parse(assertion))
    calls = [n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    name = next((c for c in calls if c in names), calls[0] if calls else names[-1])
    heads = (f"def {name}({ast.unparse(n.args)})" for n in defined if n.name == name)
    return name, next(heads, f"def {name}(*args)")
