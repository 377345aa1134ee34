"""cAST's tasks as benchmarks, with the columns of their corpus: functions of packages, and RepoEval's.

Loaded with the plug-ins (core/registry.py), so that they stand in the same lists as HumanEval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pkg_lib.core.store import read_rows, results_path
from pkg_lib.core.types import BenchmarkMissing, Outcome, Retriever, Task, UserError, digest
from pkg_lib.data import corpora
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.code_match import match
from pkg_lib.data.functions import as_task, functions
from pkg_lib.data.packages import PACKAGES, Package
from pkg_lib.data.records import read_repository
from pkg_lib.data.repoeval import NAME, VARIABLE, RepoTask, load_repoeval
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.generator import Decoding
from pkg_lib.papers.cast import body_prompts, repository_functions
from pkg_lib.retrieval.columns import COLUMNS, Column

SAMPLE = 100  # of RepoEval's 455 tasks, which are completed
FIELDS = ("id", "package", "path", "qualified", "lines", "tests", "prompt_sha256")
DECODING = {"max_new_tokens": body_prompts.MAX_NEW_TOKENS, "do_sample": False, "dtype": "bfloat16"}
NO_BODY = Outcome("failed", "ExtractionFailure", "the answer holds no body")


class FunctionBodies(Benchmark):
    """Functions of repositories without their bodies; greedy decoding (the paper samples once at 0.2)."""

    corpus = corpora.REPOSITORY
    notebook = "cast"
    in_tokens, selects, chat = True, False, False
    budgets = MappingProxyType(
        {"context_tokens": body_prompts.CONTEXT_TOKENS, "left_tokens": body_prompts.LEFT_TOKENS}
    )

    def files(self, repository: str) -> dict[str, str]:
        """path -> text of a repository's Python files."""
        raise NotImplementedError

    def first(self, tasks: list[Task], limit: int) -> list[Task]:
        """A part spread over the repositories, which a greater one continues."""
        chosen = set(sorted((t.id for t in tasks), key=digest)[:limit])
        return [t for t in tasks if t.id in chosen]

    def knowledge(self, measure: Callable[[str], int]) -> Any:
        from pkg_lib.papers.cast.context_columns import Repositories

        return Repositories(self.files, measure)

    def decoding(self, style: str) -> Decoding:
        """UserError for a chat prompt where the model is not prompted so."""
        if not self.chat:
            how = DECODING | {"stop": "body ended", "style": "plain"}
            return Decoding(how, body_prompts.ended, 16, chat=False)
        if style != "chat":
            raise UserError(f"benchmark {self.name} is for chat models, and this one is prompted as {style}")
        return Decoding(
            DECODING | {"stop": "first block closed", "style": "chat"}, body_prompts.settled, 16, chat=True
        )

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
        return asdict(match(solution, task.solution))


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
    def prompts(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def controls(self) -> dict[str, bool]:  # type: ignore[override]
        return {} if self.chat else repository_functions.CONTROLS  # the tests are the same

    @property
    def asks_hub(self) -> bool:  # type: ignore[override]
        return not all(p.at_hand for p in PACKAGES.values())

    @property
    def path(self) -> Path:
        return results_path() / "repo_tasks" / "tasks.jsonl"

    def tasks(self) -> list[Task]:
        if not self.path.exists():
            raise BenchmarkMissing("no repository tasks are stored: run python -m pkg_lib repo-tasks tasks")
        rows = read_rows(self.path, FIELDS)
        by_package = {
            n: [r for r in rows if r["package"] == n] for n in dict.fromkeys(r["package"] for r in rows)
        }
        tasks = [t for n, of in by_package.items() for t in self._of_package(PACKAGES.get_or_fail(n), of)]
        return [replace(t, benchmark=self.name) for t in tasks]

    def _of_package(self, package: Package, rows: list[dict[str, Any]]) -> list[RepoTask]:
        try:
            files = package.files()
        except UserError as e:
            raise BenchmarkMissing(str(e)) from e
        tasks = []
        for row in rows:
            text = files.get(row["path"], "")
            by_place = {(f.qualified, f.body): f for f in functions(row["path"], text)}
            function = by_place.get((row["qualified"], tuple(row["lines"])))
            task = as_task(package, function, text, tuple(row["tests"])) if function else None
            if task is None or digest(task.prompt) != row["prompt_sha256"]:
                advice = "run python -m pkg_lib repo-tasks tasks"
                raise UserError(f"task {row['id']} is not in {package.label} as it was: {advice}")
            tasks.append(task)
        return tasks

    def files(self, repository: str) -> dict[str, str]:
        return PACKAGES[repository].files()

    def limits(self, task: Task) -> Limits:
        return repository_functions.limits(PACKAGES[task.id.partition("/")[0]])

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        if not solution:
            return NO_BODY
        package = PACKAGES[task.repository]
        return repository_functions.job(task, package, package.files(), solution)

    def control(self, task: Task, name: str) -> str:
        return repository_functions.control_body(task, name)


class RepoEval(FunctionBodies):
    """A fixed sample of RepoEval's function level; it names no tests, so that bodies are only measured."""

    name = prompts = NAME
    title = "RepoEval, function level"
    home = f"directory in {VARIABLE}"
    columns = ("None", "fixed-size, BM25", "cast, BM25")
    controls = MappingProxyType({})

    def tasks(self) -> list[Task]:
        return self.first(load_repoeval(), SAMPLE)

    def files(self, repository: str) -> dict[str, str]:
        return read_repository(VARIABLE, repository)

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        return Outcome("not_measured", detail="RepoEval names no tests")


BENCHMARKS.register(PackageFunctions("packages", "Functions of packages"))
BENCHMARKS.register(PackageFunctions("packages-chat", "Functions of packages (chat prompt)", True, ("None",)))
BENCHMARKS.register(RepoEval())


def _chunks(knowledge: Any, **how: Any) -> Retriever:
    from pkg_lib.papers.cast.context_columns import Chunks

    return Chunks(knowledge, **how)


def _column(chunking: str, ranker: str, masked: bool = True) -> Column:
    name = f"{chunking}, {ranker}" + ("" if masked else ", body in corpus")
    make = partial(_chunks, column=name, chunking=chunking, ranker=ranker, masked=masked)
    return Column(name, make, (corpora.REPOSITORY,), "chunk")


for _column_of_chunks in (
    _column("fixed-size", "BM25"),
    _column("cast", "BM25"),
    _column("fixed-size", "MiniLM"),
    _column("cast", "MiniLM"),
    _column("fixed-size", "MiniLM", masked=False),
    _column("cast", "MiniLM", masked=False),
    _column("split-only", "MiniLM"),
):
    COLUMNS.register(_column_of_chunks)
