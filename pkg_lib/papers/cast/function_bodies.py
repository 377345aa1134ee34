"""The benchmarks and methods of cAST (Sections 3 and 4): functions of packages, and of RepoEval.

Both are loaded with the plug-ins (core/registry.py). A package is sent with each job, so nothing is
read from the disk. A sample could alter unittest as it could alter math; the sandbox does not
prevent that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from operator import methodcaller
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pkg_lib.core.store import read_rows, results_path
from pkg_lib.core.types import BenchmarkMissingError, Outcome, Task, UserError, digest
from pkg_lib.data import corpora
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.code_match import match
from pkg_lib.data.functions import (
    DATA,
    NAME,
    RepoTask,
    as_task,
    below,
    functions,
    load_repoeval,
    replaced,
)
from pkg_lib.data.packages import PACKAGES, Package
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.generator import Decoding, Generator
from pkg_lib.papers.cast import body_prompts
from pkg_lib.papers.cast.body_prompts import (
    CHUNK_SIZES,
    LONGER_CONTEXTS,
)
from pkg_lib.retrieval.methods import METHODS, Method

if TYPE_CHECKING:
    from pkg_lib.papers.cast.chunk_retrieval import Repositories

SAMPLE = 100  # of RepoEval's 455 tasks, these are completed
FIELDS = ("id", "package", "path", "qualified", "lines", "tests", "prompt_sha256")
# Greedy decoding. The paper samples once at temperature 0.2 (Section 4).
DECODING = {
    "max_new_tokens": body_prompts.MAX_NEW_TOKENS,
    "do_sample": False,
    "dtype": "bfloat16",
}
SLOTS = 16  # prompts that are decoded together
CHOOSE = "run `pkg-lib cast prepare tasks`"
INSIDE = Path(__file__).with_name("inside.py")
SECONDS = 20.0
MEMORY_MB = 4096
# Control row -> whether it must pass. If an empty body passes, the tests do not examine what the
# function does.
CONTROLS = {"canonical body": True, "pass": False, "raise NotImplementedError": False}
# Names of chunk_retrieval.MORE_CHUNKERS, whose module is slow to import.
MORE_CHUNKINGS = ("cast+expansion", "cast+overlap", "sliding-window")
# RepoEval's benchmarks share completions, because a task has one prompt in both.
REPOEVAL_PROMPTS = "repoeval"
REPOEVAL_METHODS = ("NoRAG", "fixed-size, BM25", "cast, BM25")
NO_BODY = Outcome("failed", "ExtractionFailure", "the answer holds no body")


class FunctionBodies(Benchmark):
    """Functions of repositories whose bodies a model completes."""

    corpus = corpora.REPOSITORY
    in_tokens = True
    selects = False
    chat = False
    tokenizer = corpora.ASCII
    budgets = body_prompts.BUDGETS

    def files(self, repository: str) -> dict[str, str]:
        """Return the Python files of a repository.

        Args:
            repository: Name of the repository.

        Returns:
            Text of each file by path.

        Raises:
            NotImplementedError: A subclass does not define it.
        """
        raise NotImplementedError

    def first(self, tasks: list[Task], limit: int) -> list[Task]:
        """Choose tasks from all repositories; a larger limit adds to the choice of a smaller one.

        Args:
            tasks: All tasks.
            limit: How many to choose.

        Returns:
            The tasks whose ids have the lowest digests, in the order of `tasks`.
        """
        ids = [task.id for task in tasks]
        by_digest = sorted(ids, key=digest)
        chosen = by_digest[:limit]
        return [task for task in tasks if task.id in chosen]

    def knowledge(self, generator: Generator) -> "Repositories":
        """Return the repositories that the methods retrieve from.

        Args:
            generator: Counts the tokens of a context.

        Returns:
            The repositories of this benchmark.
        """
        from pkg_lib.papers.cast.chunk_retrieval import Repositories  # slow to import

        return Repositories(
            self.files,
            generator.measure,
            self.budgets,
            self.tokenizer,
        )

    def decoding(self, style: str) -> Decoding:
        """Return how a model decodes.

        Args:
            style: Prompt style of the model.

        Returns:
            Greedy decoding, which stops at the end of the body.

        Raises:
            UserError: The benchmark needs a chat model.
        """
        if self.chat and style != "chat":
            raise UserError(
                f"benchmark {self.name} is for chat models, and this one is prompted as {style}"
            )
        rule = "body ended"
        stop = body_prompts.ended
        if self.chat:
            rule = "first block closed"
            stop = body_prompts.settled
        parameters = {
            **DECODING,
            "stop": rule,
            "style": "chat" if self.chat else "plain",
        }
        return Decoding(parameters, stop, SLOTS, self.chat)

    def prompt(
        self,
        task: Task,
        context: str,
        style: str,
        measure: Callable[[str], int] = len,
    ) -> str:
        """Return the prompt of a task.

        Args:
            task: The function to complete.
            context: Retrieved chunks as comments; "" without retrieval.
            style: Prompt style of the model, which is not used.
            measure: Counts the tokens of a text.

        Returns:
            The text that is sent.
        """
        assert isinstance(task, RepoTask)
        left = body_prompts.left_context(task, measure)
        return body_prompts.prompt(task, left, context, self.chat)

    def solution(self, task: Task, raw: str) -> str:
        """Extract the body from a completion.

        Args:
            task: The function to complete.
            raw: The completion.

        Returns:
            The body; "" if there is none.
        """
        assert isinstance(task, RepoTask)
        if self.chat:
            return body_prompts.extract_body(raw, task)
        return body_prompts.continued_body(raw, task)

    def program(self, task: Task, solution: str) -> str:
        """Return the code of a solution.

        Args:
            task: The function to complete.
            solution: Its body.

        Returns:
            The prompt's code with the body.
        """
        return task.prompt + solution

    def measures(self, task: Task, solution: str) -> dict[str, float]:
        """Compare a body with the reference (Appendix A.3).

        Args:
            task: The function to complete.
            solution: The body.

        Returns:
            Exact match, edit similarity and identifier matches, from 0 to 1.
        """
        return match(solution, task.solution)


class TestedBodies(FunctionBodies):
    """Functions whose bodies the tests of their packages judge."""

    seconds = SECONDS
    has_limits_by_task = True

    def package(self, task: RepoTask) -> Package:
        """Return the package that a function belongs to.

        Args:
            task: The function to complete.

        Raises:
            NotImplementedError: A subclass does not define it.
        """
        raise NotImplementedError

    def limits(self, task: Task) -> Limits:
        """Return what the tests of a task may use.

        Args:
            task: The function to complete.

        Returns:
            The limits of its package.
        """
        assert isinstance(task, RepoTask)
        return limits_of(self.package(task))

    def job(
        self,
        task: Task,
        solution: str,
        protocol: str = "pkg-paper",
    ) -> Job | Outcome:
        """Return what the sandbox runs for a solution.

        Args:
            task: The function to complete.
            solution: Its body.
            protocol: Not used.

        Returns:
            The job; a failure if the answer holds no body.
        """
        assert isinstance(task, RepoTask)
        if not solution:
            return NO_BODY
        return job_of(task, self.package(task), self.files(task.repository), solution)

    def control(self, task: Task, name: str) -> str:
        """Return the body of a control row.

        Args:
            task: The function to complete.
            name: A name in CONTROLS.

        Returns:
            The body.
        """
        assert isinstance(task, RepoTask)
        return control_body(task, name)


@dataclass(frozen=True)
class PackageFunctions(TestedBodies):
    """Functions of PACKAGES that `cast prepare tasks` has chosen, judged by the packages' tests.

    Attributes:
        name: Name of the benchmark.
        title: Its title in tables.
        chat: Whether bodies are requested in a chat turn.
        methods: Methods that its tables show.
        seconds: Time limit of the tests.
        home: Where its data come from.
    """

    name: str
    title: str
    chat: bool = False
    methods: tuple[str, ...] = ()
    seconds: float = SECONDS
    home: str = "source archives of PyPI, chosen functions in results/repo_tasks"

    @property
    def controls(self) -> dict[str, bool]:  # type: ignore[override]
        """Control row -> whether it must pass; none for the chat prompt, whose tests are the same."""
        return {} if self.chat else CONTROLS

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        """Whether a package must be downloaded first."""
        return not all(package.available for package in PACKAGES.values())

    def tasks(self) -> list[Task]:
        """Load the chosen functions.

        Returns:
            The tasks, in stored order.

        Raises:
            BenchmarkMissingError: No tasks are stored, or a package is not available.
            UserError: A stored task is not in its package.
        """
        path = results_path() / "repo_tasks" / "tasks.jsonl"
        if not path.exists():
            raise BenchmarkMissingError(f"no repository tasks are stored: {CHOOSE}")
        files_of = cache(self.files)
        tasks: list[Task] = []
        for row in read_rows(path, FIELDS):
            files = files_of(row["package"])
            tasks.append(self._task(row, files))
        return tasks

    def _task(self, row: dict[str, Any], files: dict[str, str]) -> RepoTask:
        """Make the task of a stored row."""
        path = row["path"]
        text = files.get(path, "")
        package = PACKAGES[row["package"]]
        tests = tuple(row["tests"])
        for function in functions(path, text):
            same_name = function.qualified == row["qualified"]
            same_lines = list(function.body) == row["lines"]
            if not (same_name and same_lines):
                continue
            task = as_task(package, function, text, tests)
            if digest(task.prompt) == row["prompt_sha256"]:
                return replace(task, benchmark=self.name)
        raise UserError(f"task {row['id']} is not in {package.label} as it was: {CHOOSE}")

    def package(self, task: RepoTask) -> Package:
        """Return one of PACKAGES.

        Args:
            task: The function to complete.
        """
        return PACKAGES[task.repository]

    def files(self, repository: str) -> dict[str, str]:
        """Return the files of a package.

        Args:
            repository: Name of the package.

        Returns:
            Text of each file by path.

        Raises:
            BenchmarkMissingError: The package is not available.
        """
        try:
            return PACKAGES.get_or_fail(repository).files()
        except UserError as e:
            raise BenchmarkMissingError(str(e)) from e


def control_body(task: RepoTask, control: str) -> str:
    """Return the body of a control row.

    Args:
        task: The function to complete.
        control: A name in CONTROLS.

    Returns:
        The reference body, or one statement.
    """
    if control == "canonical body":
        return task.solution
    return task.indent + control


def limits_of(package: Package) -> Limits:
    """Return what a package's tests may use.

    Args:
        package: The package.

    Returns:
        The limits. Libraries are loaded first; otherwise their classes would pass for the sample's.
    """
    brought = set()
    for path in (*package.sources, *package.tests):
        top_level, _, _ = path.partition("/")
        brought.add(top_level.removesuffix(".py"))
    return Limits(
        seconds=SECONDS,
        memory_mb=MEMORY_MB,
        packages="all" if package.libraries else "stdlib",
        brought=tuple(sorted(brought)),
        preload=package.libraries,
    )


def job_of(
    task: RepoTask,
    package: Package,
    files: Mapping[str, str],
    body: str,
) -> Job:
    """Return a job that runs a task's tests on a body.

    The solution imports the package from memory, with the body in its function. Then the tests run.

    Args:
        task: The function to complete.
        package: Its package.
        files: Text of each file of the package by path.
        body: The body to test.

    Returns:
        The job.
    """
    paths = [path for path in files if below(path, package.sources)]
    code = {path: files[path] for path in paths if not below(path, package.tests)}
    code[task.path] = replaced(task, files[task.path], body)
    tests = _test_files(task, files, exclude=set(code))
    module = task.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    inside = INSIDE.read_text("utf8")
    solution = f"{inside}\n_modules = install({code!r})\nimportlib.import_module({module!r})\n"
    # The assertion is the last line: for other lines the sandbox searches the whole text for the
    # statement that failed.
    names = list(task.test_names)
    test = f"_tests = install({tests!r})\n_names = {names!r}\nassert run_all(_names)\n"
    return Job(task.id, solution, (test,), task.entry_point)


def _test_files(task: RepoTask, files: Mapping[str, str], exclude: set[str]) -> dict[str, str]:
    """Return the modules of a task's tests, then the packages around them."""
    modules = set()
    packages: set[str] = set()
    for test in task.test_names:
        module, _, _ = test.partition(":")
        path = Path(module.replace(".", "/"))
        modules.add(f"{path}.py")
        packages.update(f"{parent}/__init__.py" for parent in path.parents)
    packages -= exclude
    found = {path: text for path, text in files.items() if path in modules}
    found |= {path: text for path, text in files.items() if path in packages}
    return found


class RepoEval(FunctionBodies):
    """A fixed sample of RepoEval's function level (Section 3.1).

    RepoEval names no tests, so bodies are compared with the reference but not executed. The benchmark of
    `repoeval_tests` executes those that tests of their repositories judge.
    """

    name = NAME
    title = "RepoEval, function level"
    prompts = REPOEVAL_PROMPTS
    home = DATA.home
    methods = REPOEVAL_METHODS
    controls = MappingProxyType({})

    def tasks(self) -> list[Task]:
        """Load the sample.

        Returns:
            SAMPLE tasks from all repositories.
        """
        return self.first([*load_repoeval()], SAMPLE)

    def files(self, repository: str) -> dict[str, str]:
        """Return the files of a repository.

        Args:
            repository: Name of the repository.

        Returns:
            Text of each file by path.
        """
        return DATA.repository(repository)

    def job(
        self,
        task: Task,
        solution: str,
        protocol: str = "pkg-paper",
    ) -> Outcome:
        """Return that nothing is executed.

        Args:
            task: The function to complete.
            solution: Its body.
            protocol: Not used.

        Returns:
            The outcome "not_measured".
        """
        return Outcome("not_measured", detail="RepoEval names no tests")


def _register_benchmarks() -> None:
    measured = ["NoRAG"]
    for ranker in ("BM25", "MiniLM"):
        measured += [f"fixed-size, {ranker}", f"cast, {ranker}"]
    plain = PackageFunctions(
        name="packages",
        title="Functions of packages",
        methods=tuple(measured),
    )
    chat = PackageFunctions(
        name="packages-chat",
        title="Functions of packages (chat prompt)",
        chat=True,
        methods=("NoRAG",),
    )
    for benchmark in (plain, chat, RepoEval()):
        BENCHMARKS.register(benchmark)


def sized(size: int, ranker: str) -> str:
    """Name cAST's method with another maximum chunk size (Table 4).

    Args:
        size: The maximum, in characters.
        ranker: The way to rank, such as "BM25".

    Returns:
        A name such as "cast 1000, BM25".
    """
    return f"cast {size}, {ranker}"


def longer(tokens: int, ranker: str) -> str:
    """Name cAST's method with a longer context (Table 3).

    Args:
        tokens: The tokens that the context may have.
        ranker: The way to rank, such as "BM25".

    Returns:
        A name such as "cast, BM25, 4000 tokens".
    """
    return f"cast, {ranker}, {tokens} tokens"


def table_variants(ranker: str) -> list[str]:
    """Name the methods that only Tables 2 to 4 compare with cAST.

    Args:
        ranker: The way to rank, such as "BM25".

    Returns:
        Split-only, each maximum chunk size, and each longer context.
    """
    sizes = [sized(size, ranker) for size in CHUNK_SIZES]
    lengths = [longer(tokens, ranker) for tokens in LONGER_CONTEXTS]
    return [f"split-only, {ranker}", *sizes, *lengths]


def _register(
    name: str,
    chunking: str,
    ranker: str,
    masked: bool = True,
    limit: int = 0,
) -> None:
    """Register a method; the parameters are those of `Repositories.retriever`."""
    retriever = methodcaller("retriever", name, chunking, ranker, masked=masked, limit=limit)
    METHODS.register(Method(name, retriever, (corpora.REPOSITORY,), "chunk"))


def _register_methods() -> None:
    """Register the methods of every chunking and way to rank."""
    for ranker in ("BM25", "MiniLM"):
        for chunking in ("fixed-size", "cast", "split-only", *MORE_CHUNKINGS):
            _register(f"{chunking}, {ranker}", chunking, ranker)
        for size in CHUNK_SIZES:
            _register(sized(size, ranker), f"cast {size}", ranker)
        for tokens in LONGER_CONTEXTS:
            _register(longer(tokens, ranker), "cast", ranker, limit=tokens)
    for chunking in ("fixed-size", "cast"):
        name = f"{chunking}, MiniLM, body in corpus"
        _register(name, chunking, "MiniLM", masked=False)


_register_benchmarks()
_register_methods()
