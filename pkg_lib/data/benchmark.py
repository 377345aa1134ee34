"""What a benchmark is: tasks, prompts, how a model is asked, the solution in its text, and what judges it."""

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from pkg_lib.core.registry import unknown
from pkg_lib.core.types import Outcome, Task, digest
from pkg_lib.data.corpora import UNICODE
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.extraction import extract
from pkg_lib.generation.generator import Decoding, Generator
from pkg_lib.generation.prompts import TEMPLATES
from pkg_lib.graph.code import UNPARSABLE, syntax_tree

# How a solution is judged: as the paper's authors published it, and the benchmark's own way.
PROTOCOLS = ("pkg-paper", "standard")
# Section 4: greedy, 512 new tokens. "settled" stops where extraction can no longer change.
DECODING: dict[str, Any] = {
    "max_new_tokens": 512,
    "do_sample": False,
    "dtype": "bfloat16",
    "stop": "settled",
}
RUNTIME_SECONDS = (
    5.0  # that the authors' code lets a solution run without tests before it embeds it
)


class Benchmark(ABC):
    """Tasks that ask for Python code; a new one is a subclass in a file of its own, registered in BENCHMARKS.

    Where `program` puts a solution after the prompt, the prompt must be Python by itself, since a model may
    answer with the whole function.
    """

    name: str
    title: str
    prompts = (
        ""  # benchmarks of the same prompts give the same one to a task id, and share completions
    )
    stored_with = (
        ""  # the benchmark whose contexts and completions it judges by other tests; "": its own
    )
    seconds: float  # of one test process; stored verdicts stay when it changes
    given: Callable[[Task], str | None] = staticmethod(
        lambda task: None
    )  # what a Job's tests are given
    copyable = False  # whether its tasks may stand in results/
    home = ""  # where the tasks come from, in words for `doctor`
    asks_hub = False  # whether `tasks` would ask the hub or another registry here
    corpus = ""  # the only one that it goes with; "": any
    tokenizer = UNICODE  # of BM25 over that corpus; benchmarks of the committed study keep ASCII
    columns: tuple[
        str, ...
    ] = ()  # those completed where none is named; (): all that the corpus offers
    in_tokens = False  # whether prompts are cut to `budgets` in the model's tokens: contexts are one model's
    budgets: Mapping[str, int] = {}
    starts_program = (
        False  # whether a judged program begins with the solution: it may import __future__
    )
    selects = True  # whether Reranked and Ideal choose among its solutions
    # Rows of solutions that must pass every task, or none: else the harness is broken.
    controls: Mapping[str, bool] = {"return None": False, "canonical solution": True}

    @abstractmethod
    def tasks(self) -> list[Task]:
        """All tasks in the benchmark's own order. BenchmarkMissing where they cannot be had here."""

    @abstractmethod
    def program(self, task: Task, solution: str) -> str:
        """What stands before the tests."""

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        """Return the test programs of a task, one per process.

        Args:
            task: A task of this benchmark.
            protocol: One of PROTOCOLS.

        Returns:
            Programs that are executed after the solution, each in a process of its own.
        """
        return (task.hidden_tests.text,)

    def first(self, tasks: list[Task], limit: int) -> list[Task]:
        return tasks[:limit]

    def knowledge(self, generator: Generator) -> Any:
        """What the columns of its own corpus retrieve from."""
        raise NotImplementedError

    def decoding(self, style: str) -> Decoding:
        return Decoding(DECODING | {"style": style})

    def prompt(
        self, task: Task, context: str, style: str, measure: Callable[[str], int] = len
    ) -> str:
        """Format(q, C(q)), Equation 10, before the model's chat template; `measure` counts tokens."""
        return TEMPLATES.get_or_fail(style)(task.prompt, context)

    def solution(self, task: Task, raw: str) -> str:
        """Extract the solution from a model's text, by the rule of docs/extraction.md."""
        return extract(raw, task.entry_point, self.starts_program)

    def limits(self, task: Task) -> Limits:
        return Limits()

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        """The job that judges, or the verdict if there is none. UserError for an unknown protocol."""
        if protocol not in PROTOCOLS:
            raise unknown("protocol", protocol, PROTOCOLS)
        about = task.entry_point, self.seconds, None, self.given(task)
        return Job(task.id, self.program(task, solution), self.tests(task, protocol), *about)

    def measures(self, task: Task, solution: str) -> dict[str, float]:
        """How far a solution is the reference's; nothing where only verdicts count."""
        return {}

    def control(self, task: Task, name: str) -> str:
        """The solution of a control row, through the same extraction as a model's text."""
        code = "    return None" if name == "return None" else task.solution.rstrip()
        return self.solution(task, f"```python\n{code}\n```")

    def control_job(self, task: Task, solution: str, protocol: str) -> Job | Outcome:
        """The job of a control row; a benchmark may need another protocol than for a model's solution."""
        return self.job(task, solution, protocol)

    def untested(self, task: Task, solution: str) -> str:
        """The program for the re-ranker's runtime check (Section 3.3), without any test of the task.

        What chooses among solutions may see no test; a model that is shown one copies it, so copies go too.
        """
        return self.program(task, solution)

    def sanity_job(self, task: Task, solution: str) -> Job:
        """The re-ranker's runtime check: the program alone, within the authors' time limit."""
        return Job(task.id, self.untested(task, solution), (), task.entry_point, RUNTIME_SECONDS)

    def mark(self, task: Task, solution: str) -> str:
        """Identifies what is executed: the solution with all tests."""
        return "\n".join([self.program(task, solution), *self.tests(task, "standard")])


def tasks_digest(tasks: list[Task]) -> str:
    """Identifies the exact tasks that a result was measured on."""
    return digest(
        *(part for t in tasks for part in (t.id, t.prompt, t.hidden_tests.text, t.solution))
    )


def without_copies(program: str, tests: str) -> str:
    """A program less the assertions that stand in `tests`; as it is without any, or where it is no Python."""
    if "assert" not in program:  # parsing takes longer than all else here
        return program
    try:
        tree, known = syntax_tree(program), syntax_tree(tests)
    except UNPARSABLE:
        return program
    copies = {ast.dump(n.test) for n in known.body if isinstance(n, ast.Assert)}

    def is_copy(node: ast.AST) -> bool:
        return isinstance(node, ast.Assert) and ast.dump(node.test) in copies

    class Removal(ast.NodeTransformer):
        def visit_Assert(self, node: ast.Assert) -> ast.stmt:
            return ast.Pass() if is_copy(node) else node

    return ast.unparse(Removal().visit(tree)) if any(map(is_copy, ast.walk(tree))) else program
