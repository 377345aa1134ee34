"""MBPP (Austin et al., 2021), from the directory that PKG_MBPP_DIR names, else from the hub.

Protocol "pkg-paper" runs each assertion in a fresh process, after the solution and without setup
code. Protocol "standard" runs setup code and all assertions in one process. Each process has 20 s.
"""

import ast
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from pkg_lib.core.reading import Kinds
from pkg_lib.core.types import Outcome, ProgramTests, Task
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.records import DataSet
from pkg_lib.execution.sandbox import Job

HUB = ("google-research-datasets/mbpp", "full")
DATA = DataSet(
    "MBPP", "PKG_MBPP_DIR", "mbpp.jsonl of github.com/google-research/google-research", HUB
)
FIELDS: Kinds = {
    "task_id": int,
    "test_list": list,
    "text": str,
    "code": str,
    "test_setup_code": str,
}
TEST_SPLIT = range(11, 511)
# Their tests need classes of the solution, or pass it a type. Neither is plain data.
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
        """Setup code and assertions as one program, with a comment between them."""
        return "\n# ---\n".join([self.setup, *self.assertions])


@dataclass(frozen=True)
class MBPP(Benchmark):
    """MBPP: a completion is a whole program.

    A task's text does not name its function, so the prompt adds a hint. The paper does not print
    its MBPP prompt. The authors' runner for closed models shows all tests: a verdict then tests
    what was shown, and no test remains that a selection must not see. By default the first test is
    shown and the others are hidden.

    Attributes:
        ids: Task numbers to include; None for all.
        hint: "first test", "all tests", or "signature" for the function's head.
    """

    name: str
    title: str
    prompts: str = "mbpp"
    ids: range | None = TEST_SPLIT
    hint: str = "first test"
    seconds: float = 20.0
    home: str = DATA.home
    starts_program = True

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]  # a property may replace the attribute
        """Whether the tasks would be downloaded."""
        return DATA.asks_hub

    def tasks(self) -> list[Task]:
        """Return the tasks in the order of their numbers."""
        numbered = DATA.records(("mbpp.jsonl",), self._numbered_task, FIELDS)
        numbered.sort(key=itemgetter(0))
        return [task for number, task in numbered if self.ids is None or number in self.ids]

    def _numbered_task(self, row: dict[str, Any]) -> tuple[int, Task]:
        code = _unix_lines(row["code"])
        setup = _unix_lines(row["test_setup_code"])
        assertions = tuple(map(_unix_lines, row["test_list"]))
        function = _tested_function(assertions[0], code)
        if self.hint == "all tests":
            shown = "\n".join(["\nYour code should pass these tests:", *assertions])
        elif self.hint == "signature":
            shown = f"Function: {_head_of(function, code)}"
        else:
            shown = f"Test: {assertions[0]}"
        prompt = f"{row['text']}\n{shown}"
        tests = AssertionTests(setup, assertions)
        task = Task(f"MBPP/{row['task_id']}", self.name, prompt, function, tests, code)
        return row["task_id"], task

    def given(self, task: Task) -> str | None:
        """Return nothing, or None where the tests must share the solution's process."""
        return None if task.id in OWN_CLASSES else ""

    def reranking_query(self, task: Task) -> str:
        """Return the text that Equation 11 compares solutions with.

        Args:
            task: A task.

        Returns:
            The task's text without the test or the signature that the prompt shows, as in the authors'
            script; the whole prompt where it shows all tests, as in their runner for closed models.
        """
        if self.hint == "all tests":
            return task.prompt
        return task.prompt.partition("\n")[0]

    def program(self, task: Task, solution: str) -> str:
        """Return the solution."""
        return solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        """Return the assertions, each for a process of its own, or all as one program."""
        if isinstance(task.hidden_tests, ProgramTests):  # of MBPP+
            return super().tests(task, protocol)
        hidden = task.tests_as(AssertionTests)
        if protocol == "pkg-paper":
            return hidden.assertions
        setup = [hidden.setup] if hidden.setup else []
        return ("\n".join([*setup, *hidden.assertions]),)

    def control_job(
        self,
        task: Task,
        solution: str,
        protocol: str,
    ) -> Job | Outcome:
        """Return the job with setup code where tests need it: without it the reference fails."""
        needs_setup = task.tests_as(AssertionTests).setup.strip()
        return self.job(task, solution, "standard" if needs_setup else protocol)


def _unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n")


@lru_cache(maxsize=2048)  # all 974 tasks; a study loads them for several benchmarks and experiments
def _tested_function(assertion: str, code: str) -> str:
    """Return the first function that an assertion calls and the reference solution defines."""
    nodes = list(ast.walk(ast.parse(assertion)))
    functions = [node.func for node in nodes if isinstance(node, ast.Call)]
    called = [function.id for function in functions if isinstance(function, ast.Name)]
    defined = [node.name for node in _functions(code)]
    for name in called:
        if name in defined:
            return name
    return called[0] if called else defined[-1]


def _head_of(function: str, code: str) -> str:
    """Return the head of a function of the reference solution, without its return type."""
    for node in _functions(code):
        if node.name == function:
            return f"def {function}({ast.unparse(node.args)})"
    return f"def {function}(*args)"


def _functions(code: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
