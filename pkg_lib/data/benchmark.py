"""The contract of a benchmark: tasks, prompts, extraction of the solution, and hidden tests.

A new benchmark is a subclass of `Benchmark` in a file of its own, registered in `BENCHMARKS`.
"""

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from pkg_lib.core.python_syntax import parsed_or_none
from pkg_lib.core.registry import unknown
from pkg_lib.core.types import Outcome, Task, digest
from pkg_lib.data.corpora import UNICODE
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.extraction import extract_solution
from pkg_lib.generation.generator import GREEDY, Decoding, Generator
from pkg_lib.generation.prompts import build_prompt

# How a solution is tested: as the paper's authors published it, and the benchmark's own way.
PROTOCOLS = ("pkg-paper", "standard")
# Section 4: greedy decoding of 512 new tokens. "settled" stops where extraction cannot change any
# more.
DECODING = GREEDY.parameters
# Time that the authors' code gives a solution to run without tests before it embeds the solution.
RUNTIME_SECONDS = 5.0


class Benchmark(ABC):
    """Tasks that ask for a program.

    Where `program` appends the solution to the prompt, the prompt must be a Python program by
    itself: a model may answer with the whole function.

    Attributes:
        name: What the command line and stored results call it.
        title: What tables and figures call it.
        seconds: Time limit of one test process. Stored verdicts stay valid when it changes.
        prompts: Benchmarks with the same value give each task the same prompt and share
            completions.
        stored_with: The benchmark whose contexts and completions this one tests again; "" for its
            own.
        copyable: Whether the licence allows tasks to be copied to ``results/``.
        home: Where the tasks come from, as ``doctor`` prints it.
        asks_hub: Whether `tasks` would download from a hub or a package registry.
        corpus: The only corpus that fits; "" for any.
        tokenizer: Tokenizer of BM25 over that corpus. Benchmarks of the committed study keep ASCII.
        methods: Methods that run by default; empty for all that the corpus offers.
        in_tokens: Whether contexts are cut to `budgets`, counted in the model's own tokens.
        budgets: Token budgets by name.
        starts_program: Whether a tested program starts with the solution, so that the solution may
            import from ``__future__``.
        has_limits_by_task: Whether the limits of a task depend on more than the benchmark, so that they are
            unknown while the tasks are not available.
        selects: Whether Reranked and Ideal Reranker select among its solutions.
        controls: Control rows, with whether their solutions must pass every task or none. If they
            do not, the tests are broken and no table is made.
    """

    name: str
    title: str
    seconds: float
    prompts = ""
    stored_with = ""
    copyable = False
    home = ""
    asks_hub = False
    corpus = ""
    tokenizer = UNICODE
    methods: tuple[str, ...] = ()
    in_tokens = False
    budgets: Mapping[str, int] = {}
    starts_program = False
    has_limits_by_task = False
    selects = True
    controls: Mapping[str, bool] = {"return None": False, "canonical solution": True}

    @abstractmethod
    def tasks(self) -> list[Task]:
        """Return all tasks in the benchmark's own order.

        Raises:
            BenchmarkMissingError: The tasks are not available on this machine.
        """

    @abstractmethod
    def program(self, task: Task, solution: str) -> str:
        """Return the program that runs before the tests.

        Args:
            task: A task of this benchmark.
            solution: What `solution` extracted from a completion.
        """

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        """Return the test programs of a task, one per process.

        Args:
            task: A task of this benchmark.
            protocol: One of PROTOCOLS.

        Returns:
            Programs that are executed after the solution, each in a process of its own.
        """
        return (task.hidden_tests.text,)

    def given(self, task: Task) -> str | None:
        """Return what the tests may use beside the solution's functions; see `Job.given`.

        Args:
            task: A task of this benchmark.
        """
        return None

    def limits(self, task: Task) -> Limits:
        """Return the limits of a test process.

        Args:
            task: A task of this benchmark.
        """
        return Limits()

    def first(self, tasks: list[Task], limit: int) -> list[Task]:
        """Return the part of the tasks that a limited run uses.

        Args:
            tasks: All tasks.
            limit: How many to return.

        Returns:
            Tasks in the given order. A higher limit only adds tasks.
        """
        return tasks[:limit]

    def knowledge(self, generator: Generator) -> Any:
        """Return what the methods of the benchmark's own corpus retrieve from.

        Args:
            generator: The model that will complete the prompts.

        Raises:
            NotImplementedError: Nothing is registered for the benchmark's corpus.
        """
        make_knowledge = KNOWLEDGE_MAKERS.get(self.corpus)
        if make_knowledge is None:
            raise NotImplementedError
        return make_knowledge(self, generator)

    def decoding(self, style: str) -> Decoding:
        """Return how a model decodes its answers.

        Args:
            style: The model's prompt style.
        """
        return Decoding(DECODING | {"style": style})

    def prompt(
        self,
        task: Task,
        context: str,
        style: str,
        measure: Callable[[str], int] = len,
    ) -> str:
        """Return the prompt with its context, Format(q, C(q)) of Equation 10.

        Args:
            task: A task of this benchmark.
            context: The retrieved text; "" for none.
            style: The model's prompt style.
            measure: Counts the tokens of a text.

        Returns:
            The prompt, to which the model's chat template is not applied yet.
        """
        return build_prompt(task, context, style).text

    def solution(self, task: Task, raw: str) -> str:
        """Extract the solution from a completion, by the rule of docs/extraction.md.

        Args:
            task: The task that the model was prompted with.
            raw: The completion.
        """
        return extract_solution(raw, task, self.starts_program)

    def reranking_query(self, task: Task) -> str:
        """Return the text that the reranker compares solutions with (Equation 11).

        Args:
            task: A task of this benchmark.

        Returns:
            The task's own text, without hints that this project adds to the prompt.
        """
        return task.prompt

    def job(
        self,
        task: Task,
        solution: str,
        protocol: str = "pkg-paper",
    ) -> Job | Outcome:
        """Return the sandbox job that tests a solution.

        Args:
            task: A task of this benchmark.
            solution: The extracted solution.
            protocol: One of PROTOCOLS.

        Returns:
            The job, or the verdict where nothing needs to be executed.

        Raises:
            UserError: The protocol is unknown.
        """
        if protocol not in PROTOCOLS:
            raise unknown("protocol", protocol, PROTOCOLS)
        return Job(
            task.id,
            self.program(task, solution),
            self.tests(task, protocol),
            task.entry_point,
            self.seconds,
            given=self.given(task),
        )

    def measures(self, task: Task, solution: str) -> dict[str, float]:
        """Return similarity measures of a solution and the reference.

        Args:
            task: A task of this benchmark.
            solution: The extracted solution.

        Returns:
            Value by measure; empty where only verdicts count.
        """
        return {}

    def control(self, task: Task, name: str) -> str:
        """Return the solution of a control row, extracted as a model's answer is.

        Args:
            task: A task of this benchmark.
            name: A key of `controls`.
        """
        code = "    return None" if name == "return None" else task.solution.rstrip()
        return self.solution(task, f"```python\n{code}\n```")

    def control_job(
        self,
        task: Task,
        solution: str,
        protocol: str,
    ) -> Job | Outcome:
        """Return the job of a control row, which may need another protocol than a model's solution.

        Args:
            task: A task of this benchmark.
            solution: What `control` returned.
            protocol: The protocol that models' solutions are tested by.
        """
        return self.job(task, solution, protocol)

    def fingerprint(self, task: Task, solution: str) -> str:
        """Return what identifies a stored verdict: the program with all its tests.

        Args:
            task: A task of this benchmark.
            solution: The extracted solution.
        """
        return "\n".join([self.program(task, solution), *self.tests(task, "standard")])


KnowledgeMaker = Callable[[Benchmark, Generator], Any]
# Corpus -> what makes the value that its methods retrieve from. It is registered by those methods,
# so that a benchmark does not import them.
KNOWLEDGE_MAKERS: dict[str, KnowledgeMaker] = {}


def tasks_digest(tasks: list[Task]) -> str:
    """Return a digest of the exact tasks that a result was measured on.

    Args:
        tasks: The tasks in order.

    Returns:
        SHA-256 in hexadecimal.
    """
    parts: list[str] = []
    for task in tasks:
        parts += [task.id, task.prompt, task.hidden_tests.text, task.solution]
    return digest(*parts)


def without_copies(program: str, tests: str) -> str:
    """Remove the assertions of a program that are copies of tests.

    Args:
        program: A Python program.
        tests: A Python program with assertions.

    Returns:
        The program with ``pass`` in place of each copy. It is unchanged if it has none, or if one
        of the two programs cannot be parsed.
    """
    if "assert" not in program:  # parsing takes longer than everything else here
        return program
    tree = parsed_or_none(program)
    test_tree = parsed_or_none(tests)
    if tree is None or test_tree is None:
        return program
    remover = _AssertionRemover(
        {ast.dump(n.test) for n in test_tree.body if isinstance(n, ast.Assert)}
    )
    cleaned = remover.visit(tree)
    return ast.unparse(cleaned) if remover.found else program


class _AssertionRemover(ast.NodeTransformer):
    """Replaces assertions of certain conditions by ``pass``."""

    def __init__(self, conditions: set[str]) -> None:
        self.conditions = conditions
        self.found = False

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        if ast.dump(node.test) not in self.conditions:
            return node
        self.found = True
        return ast.Pass()
