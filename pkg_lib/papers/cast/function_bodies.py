"""cAST's tasks as benchmarks, with the columns of their corpus: functions of packages, and RepoEval's.

Loaded with the plug-ins (core/registry.py), so that they stand in the same lists as HumanEval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from operator import methodcaller
from types import MappingProxyType
from typing import Any

from pkg_lib.core.store import read_rows, results_path
from pkg_lib.core.types import BenchmarkMissing, Outcome, Task, UserError, digest
from pkg_lib.data import corpora
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.code_match import match
from pkg_lib.data.functions import as_task, functions
from pkg_lib.data.packages import PACKAGES
from pkg_lib.data.repoeval import DATA, NAME, RepoTask, load_repoeval
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.generator import Decoding, Generator
from pkg_lib.papers.cast import body_prompts, repository_functions
from pkg_lib.papers.cast.body_prompts import CONTEXT_TOKENS, LEFT_TOKENS
from pkg_lib.retrieval.columns import COLUMNS, Column

SAMPLE = 100  # of RepoEval's 455 tasks, which are completed
FIELDS = ("id", "package", "path", "qualified", "lines", "tests", "prompt_sha256")
DECODING = {"max_new_tokens": body_prompts.MAX_NEW_TOKENS, "do_sample": False, "dtype": "bfloat16"}
PLAIN = ({"stop": "body ended", "style": "plain"}, body_prompts.ended)
CHAT = ({"stop": "first block closed", "style": "chat"}, body_prompts.settled)
CHOOSE = "run python -m pkg_lib repo-tasks tasks"
NO_BODY = Outcome("failed", "ExtractionFailure", "the answer holds no body")


class FunctionBodies(Benchmark):
    """Functions of repositories without their bodies; greedy decoding (the paper samples once at 0.2)."""

    corpus = corpora.REPOSITORY
    in_tokens, selects, chat = True, False, False
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

        return Repositories(self.files, generator.measure)

    def decoding(self, style: str) -> Decoding:
        """UserError for a chat prompt where the model is not prompted so."""
        if self.chat and style != "chat":
            raise UserError(f"benchmark {self.name} is for chat models, and this one is prompted as {style}")
        how, ended = CHAT if self.chat else PLAIN
        return Decoding(DECODING | how, ended, 16, chat=self.chat)

    def prompt(self, task: Task, context: str, style: str, measure: Callable[[str], int] = len) -> str:
        left = body_prompts.left_context(task, measure)
        return body_prompts.prompt(task, left, context, self.chat)

    def solution(self, task: Task, raw: str) -> str:
        return (body_prompts.extract_body if self.chat else body_prompts.continued_body)(raw, task)

    def program(self, task: Task, solution: str) -> str:
        return task.prompt + solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        return (task.test,)

    def measures(self, task: Task, solution: str) -> dict[str, float]:
        return match(solution, task.solution)


@dataclass(frozen=True)
class PackageFunctions(FunctionBodies):
    """Functions of PACKAGES, chosen by their tests (`repo-tasks tasks`), which judge them."""

    name: str
    title: str
    chat: bool = False
    columns: tuple[str, ...] = ()
    seconds: float = repository_functions.SECONDS
    home: str = "source archives of PyPI, chosen functions in results/repo_tasks"

    @property
    def controls(self) -> dict[str, bool]:  # type: ignore[override]
        return {} if self.chat else repository_functions.CONTROLS  # the tests are the same

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        return not all(p.at_hand for p in PACKAGES.values())

    def tasks(self) -> list[Task]:
        path = results_path() / "repo_tasks" / "tasks.jsonl"
        if not path.exists():
            raise BenchmarkMissing(f"no repository tasks are stored: {CHOOSE}")
        files = cache(self.files)
        return [self._task(row, files(row["package"])) for row in read_rows(path, FIELDS)]

    def _task(self, row: dict[str, Any], files: dict[str, str]) -> RepoTask:
        text, package = files.get(row["path"], ""), PACKAGES[row["package"]]
        by_place = {(f.qualified, f.body): f for f in functions(row["path"], text)}
        function = by_place.get((row["qualified"], tuple(row["lines"])))
        task = as_task(package, function, text, tuple(row["tests"])) if function else None
        if task is None or digest(task.prompt) != row["prompt_sha256"]:
            raise UserError(f"task {row['id']} is not in {package.label} as it was: {CHOOSE}")
        return replace(task, benchmark=self.name)

    def files(self, repository: str) -> dict[str, str]:
        try:
            return PACKAGES.get_or_fail(repository).files()
        except UserError as e:
            raise BenchmarkMissing(str(e)) from e

    def limits(self, task: Task) -> Limits:
        return repository_functions.limits(PACKAGES[task.id.partition("/")[0]])

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        if not solution:
            return NO_BODY
        package = PACKAGES[task.repository]
        return repository_functions.job(task, package, self.files(package.name), solution)

    def control(self, task: Task, name: str) -> str:
        return repository_functions.control_body(task, name)


class RepoEval(FunctionBodies):
    """A fixed sample of RepoEval's function level; it names no tests, so that bodies are only measured."""

    name = NAME
    title = "RepoEval, function level"
    home = DATA.home
    columns = ("None", "fixed-size, BM25", "cast, BM25")
    controls = MappingProxyType({})

    def tasks(self) -> list[Task]:
        return self.first(load_repoeval(), SAMPLE)

    def files(self, repository: str) -> dict[str, str]:
        return DATA.repository(repository)

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        return Outcome("not_measured", detail="RepoEval names no tests")


BENCHMARKS.register(PackageFunctions("packages", "Functions of packages"))
BENCHMARKS.register(PackageFunctions("packages-chat", "Functions of packages (chat prompt)", True, ("None",)))
BENCHMARKS.register(RepoEval())


for chunking, ranker, about in (
    ("fixed-size", "BM25", ""),
    ("cast", "BM25", ""),
    ("fixed-size", "MiniLM", ""),
    ("cast", "MiniLM", ""),
    ("fixed-size", "MiniLM", ", body in corpus"),
    ("cast", "MiniLM", ", body in corpus"),
    ("split-only", "MiniLM", ""),
):
    column = f"{chunking}, {ranker}{about}"
    retriever = methodcaller("column", column, chunking, ranker, not about)  # of Repositories
    COLUMNS.register(Column(column, retriever, (corpora.REPOSITORY,), "chunk"))
