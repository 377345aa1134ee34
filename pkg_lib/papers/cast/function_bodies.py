"""cAST's benchmarks and columns, loaded with the plug-ins: functions of packages, and RepoEval's.

A package travels with a job: nothing is read from the disk. Not covered, beyond what sandbox.py names: a
sample could alter unittest as it could alter math.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from operator import methodcaller
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pkg_lib.core.store import read_rows, results_path
from pkg_lib.core.types import BenchmarkMissing, Outcome, Task, UserError, digest
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
from pkg_lib.papers.cast.body_prompts import CONTEXT_TOKENS, LEFT_TOKENS
from pkg_lib.retrieval.methods import METHODS, Method

SAMPLE = 100  # of RepoEval's 455 tasks, which are completed
FIELDS = ("id", "package", "path", "qualified", "lines", "tests", "prompt_sha256")
DECODING = {"max_new_tokens": body_prompts.MAX_NEW_TOKENS, "do_sample": False, "dtype": "bfloat16"}
PLAIN = ({"stop": "body ended", "style": "plain"}, body_prompts.ended)
CHAT = ({"stop": "first block closed", "style": "chat"}, body_prompts.settled)
CHOOSE = "run python -m pkg_lib cast prepare tasks"
INSIDE = Path(__file__).with_name("inside.py")
SECONDS, MEMORY_MB = 20.0, 4096
# Control rows. Two must fail every task, or its tests do not look at what the function does.
CONTROLS = {"canonical body": True, "pass": False, "raise NotImplementedError": False}
NO_BODY = Outcome("failed", "ExtractionFailure", "the answer holds no body")


class FunctionBodies(Benchmark):
    """Functions of repositories without their bodies; greedy decoding (the paper samples once at 0.2)."""

    corpus = corpora.REPOSITORY
    in_tokens, selects, chat = True, False, False
    tokenizer = corpora.ASCII
    budgets = MappingProxyType({"context_tokens": CONTEXT_TOKENS, "left_tokens": LEFT_TOKENS})

    def files(self, repository: str) -> dict[str, str]:
        """path -> text of a repository's Python files."""
        raise NotImplementedError

    def first(self, tasks: list[Task], limit: int) -> list[Task]:
        """A part spread over the repositories, which a greater one continues."""
        chosen = set(sorted((t.id for t in tasks), key=digest)[:limit])
        return [t for t in tasks if t.id in chosen]

    def knowledge(self, generator: Generator) -> Any:
        from pkg_lib.papers.cast.context_columns import Repositories

        return Repositories(self.files, generator.measure, self.tokenizer)

    def decoding(self, style: str) -> Decoding:
        if self.chat and style != "chat":
            raise UserError(
                f"benchmark {self.name} is for chat models, and this one is prompted as {style}"
            )
        how, ended = CHAT if self.chat else PLAIN
        return Decoding(DECODING | how, ended, 16, chat=self.chat)

    def prompt(
        self, task: Task, context: str, style: str, measure: Callable[[str], int] = len
    ) -> str:
        left = body_prompts.left_context(task, measure)
        return body_prompts.prompt(task, left, context, self.chat)

    def solution(self, task: Task, raw: str) -> str:
        return (body_prompts.extract_body if self.chat else body_prompts.continued_body)(raw, task)

    def program(self, task: Task, solution: str) -> str:
        return task.prompt + solution

    def measures(self, task: Task, solution: str) -> dict[str, float]:
        return match(solution, task.solution)


@dataclass(frozen=True)
class PackageFunctions(FunctionBodies):
    """Functions of PACKAGES, chosen (`cast prepare tasks`) and judged by their tests."""

    name: str
    title: str
    chat: bool = False
    methods: tuple[str, ...] = ()
    seconds: float = SECONDS
    home: str = "source archives of PyPI, chosen functions in results/repo_tasks"

    @property
    def controls(self) -> dict[str, bool]:  # type: ignore[override]
        return {} if self.chat else CONTROLS  # the tests are the same

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        return not all(p.available for p in PACKAGES.values())

    def tasks(self) -> list[Task]:
        path = results_path() / "repo_tasks" / "tasks.jsonl"
        if not path.exists():
            raise BenchmarkMissing(f"no repository tasks are stored: {CHOOSE}")
        files = cache(self.files)
        return [self._task(row, files(row["package"])) for row in read_rows(path, FIELDS)]

    def _task(self, row: dict[str, Any], files: dict[str, str]) -> RepoTask:
        text, package = files.get(row["path"], ""), PACKAGES[row["package"]]
        for function in functions(row["path"], text):
            if (function.qualified, [*function.body]) == (row["qualified"], row["lines"]):
                task = as_task(package, function, text, tuple(row["tests"]))
                if digest(task.prompt) == row["prompt_sha256"]:
                    return replace(task, benchmark=self.name)
        raise UserError(f"task {row['id']} is not in {package.label} as it was: {CHOOSE}")

    def files(self, repository: str) -> dict[str, str]:
        try:
            return PACKAGES.get_or_fail(repository).files()
        except UserError as e:
            raise BenchmarkMissing(str(e)) from e

    def limits(self, task: Task) -> Limits:
        return limits_of(PACKAGES[task.id.partition("/")[0]])

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        if not solution:
            return NO_BODY
        package = PACKAGES[task.repository]
        return job_of(task, package, self.files(package.name), solution)

    def control(self, task: Task, name: str) -> str:
        return control_body(task, name)


def control_body(task: RepoTask, control: str) -> str:
    return task.solution if control == "canonical body" else task.indent + control


def limits_of(package: Package) -> Limits:
    """What the tests may use; libraries are loaded first, or their classes would pass for the sample's."""
    brought = {p.split("/")[0].removesuffix(".py") for p in (*package.sources, *package.tests)}
    allowed = "all" if package.libraries else "stdlib"
    return Limits(SECONDS, MEMORY_MB, allowed, tuple(sorted(brought)), package.libraries)


def job_of(task: RepoTask, package: Package, files: Mapping[str, str], body: str) -> Job:
    """The solution imports the package from memory, with `body` in the task's place; then its tests run."""
    code = {
        p: t for p, t in files.items() if below(p, package.sources) and not below(p, package.tests)
    }
    code[task.path] = replaced(task, files[task.path], body)
    modules = {test.partition(":")[0].replace(".", "/") + ".py" for test in task.test_names}
    parents = {f"{parent}/__init__.py" for m in modules for parent in Path(m).parents} - code.keys()
    tests = {p: t for wanted in (modules, parents) for p, t in files.items() if p in wanted}
    module = task.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    inside = INSIDE.read_text("utf8")
    solution = f"{inside}\n_modules = install({code!r})\nimportlib.import_module({module!r})\n"
    # An assertion last, since for others the sandbox searches the whole text for the statement that failed.
    test = (
        f"_tests = install({tests!r})\n_names = {list(task.test_names)!r}\nassert run_all(_names)\n"
    )
    return Job(task.id, solution, (test,), task.entry_point)


class RepoEval(FunctionBodies):
    """A fixed sample of RepoEval's function level; it names no tests, so that bodies are only measured."""

    name = NAME
    title = "RepoEval, function level"
    home = DATA.home
    methods = ("NoRAG", "fixed-size, BM25", "cast, BM25")
    controls = MappingProxyType({})

    def tasks(self) -> list[Task]:
        return self.first(load_repoeval(), SAMPLE)

    def files(self, repository: str) -> dict[str, str]:
        return DATA.repository(repository)

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        return Outcome("not_measured", detail="RepoEval names no tests")


OF_RANKER = (
    f"{chunking}, {ranker}" for ranker in ("BM25", "MiniLM") for chunking in ("fixed-size", "cast")
)
MEASURED = ("NoRAG", *OF_RANKER)
BENCHMARKS.register(PackageFunctions("packages", "Functions of packages", False, MEASURED))
BENCHMARKS.register(
    PackageFunctions("packages-chat", "Functions of packages (chat prompt)", True, ("NoRAG",))
)
BENCHMARKS.register(RepoEval())

PAIRS = product(("BM25", "MiniLM", "MiniLM, body in corpus"), ("fixed-size", "cast"))
for about, chunking in (*PAIRS, ("MiniLM", "split-only")):
    ranker, _, unmasked = about.partition(", ")
    column = f"{chunking}, {about}"
    retriever = methodcaller("column", column, chunking, ranker, not unmasked)  # of Repositories
    METHODS.register(Method(column, retriever, (corpora.REPOSITORY,), "chunk"))
