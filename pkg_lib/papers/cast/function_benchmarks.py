"""Benchmarks of functions to complete: of packages, judged by their tests, and RepoEval's, which names none.

What is made of one lies in its folder of results/repo_tasks; sources are not among it:

tasks.jsonl, tasks.meta.json     which functions, which tests decide, digest of the prompt; how chosen
retrieval.csv                    the retrieval measures of every task (retrieval_quality.py)
contexts/COLUMN.jsonl            which chunks stood in the prompt
generations/MODEL/COLUMN.jsonl   completions (the cache)
evaluations/MODEL/COLUMN.jsonl   verdicts and measures; evaluations/controls/CONTROL.jsonl of the control rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.core.store import read_json, read_rows, slug, versions, write_json, write_jsonl
from pkg_lib.core.types import NotAtHand, Outcome, UserError, digest
from pkg_lib.data.functions import as_task, functions
from pkg_lib.data.packages import PACKAGES, Package
from pkg_lib.data.records import read_repository
from pkg_lib.data.repoeval import VARIABLE, RepoTask, load_repoeval
from pkg_lib.papers.cast.repository_functions import build, judge

LIMIT = 24  # tasks of a package
SAMPLE = 100  # of RepoEval's 455 tasks, which are completed
FIELDS = ("id", "package", "path", "qualified", "lines", "tests", "prompt_sha256")


@dataclass(frozen=True)
class FunctionBenchmark:
    """Where results of a benchmark lie. Beside this, each has:

    state           changes when the tasks do
    ids(limit)      the tasks to complete; the first `limit` are a spread part, which a greater one continues
    tasks()         repository -> its tasks. UserError where its sources are not at hand
    files(name)     path -> text of a repository's Python files
    outcomes(name, samples)  one Outcome a (task, body)
    """

    results: Path

    @property
    def home(self) -> Path:
        return self.results / "repo_tasks"

    def contexts(self, column: str) -> list[dict[str, Any]]:
        """What stood in the prompts of a column; empty where none were made."""
        path, fields = (
            self.context_file(column),
            ("task_id", "chunks", "tokens", "holds_body", "prompt_sha256"),
        )
        return read_rows(path, fields) if path.exists() else []

    def verdicts(self, model: str, column: str) -> dict[str, dict[str, Any]]:
        """Task -> its row in a column; empty where it was not judged."""
        path = self.outcome_file(model, column)
        rows = read_rows(path, ("task_id", "status", "error", "detail")) if path.exists() else []
        return {row["task_id"]: row for row in rows}

    def context_file(self, column: str) -> Path:
        return self.home / "contexts" / f"{slug_of(column)}.jsonl"

    def outcome_file(self, model: str, column: str) -> Path:
        return self.home / "evaluations" / model / f"{slug_of(column)}.jsonl"

    def save_verdicts(self, model: str, column: str, rows: Iterable[dict[str, Any]]) -> None:
        """Writes the rows, and beside them what they were made with."""
        rows, path = list(rows), self.outcome_file(model, column)
        write_jsonl(path, rows)
        write_json(path.with_suffix(".meta.json"), {"rows": len(rows), "versions": versions()})

    def meta(self, name: str) -> dict[str, Any]:
        """The JSON beside a stored file; empty where it is not there."""
        path = self.home / f"{name}.meta.json"
        return read_json(path) if path.exists() else {}


class PackageFunctions(FunctionBenchmark):
    """Functions of PACKAGES, chosen by their tests."""

    @property
    def path(self) -> Path:
        return self.home / "tasks.jsonl"

    @property
    def state(self) -> str:
        return digest(self.path.read_text("utf8"))

    def rows(self) -> list[dict[str, Any]]:
        """The rows of tasks.jsonl. NotAtHand where there are none yet."""
        if not self.path.exists():
            raise not_stored("repository tasks", "tasks")
        return read_rows(self.path, FIELDS)

    def ids(self, limit: int | None = None) -> set[str]:
        by_package: dict[str, list[str]] = {}
        for row in self.rows():
            by_package.setdefault(row["package"], []).append(row["id"])
        return {i for ids in by_package.values() for i in sorted(ids, key=digest)[:limit]}

    def tasks(self) -> dict[str, list[RepoTask]]:
        rows = self.rows()
        return {n: self._of_package(p, [r for r in rows if r["package"] == n]) for n, p in PACKAGES.items()}

    def _of_package(self, package: Package, rows: list[dict[str, Any]]) -> list[RepoTask]:
        files = package.files() if rows else {}
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

    def outcomes(self, repository: str, samples: Sequence[tuple[RepoTask, str]]) -> list[Outcome]:
        return judge(PACKAGES[repository], self.files(repository), samples)

    def choose(self, say: Callable[[str], None]) -> None:
        """Stores the tasks of every package, how they were chosen, and the verdicts of the control rows."""
        rows, packages, verdicts = [], {}, {}
        for package in PACKAGES.values():
            tasks, controls, counts = build(package, LIMIT)
            say(f"{package.label}: {', '.join(f'{k}: {v}' for k, v in counts.items())}")
            about = {"version": package.version, "sha256": package.sha256, "licence": package.licence}
            packages[package.name] = about | counts
            rows += [_row(package, t) for t in tasks]
            for task, outcomes in controls.items():
                for control, outcome in outcomes.items():
                    verdicts.setdefault(control, {})[task] = {"task_id": task} | without_seconds(outcome)
        write_jsonl(self.path, rows)
        about = {"packages": packages, "limit": LIMIT, "versions": versions()}
        write_json(self.home / "tasks.meta.json", about)
        for control, by_task in verdicts.items():
            self.save_verdicts("controls", control, [by_task[i] for i in sorted(by_task)])


class RepoEvalFunctions(FunctionBenchmark):
    """A fixed sample of RepoEval's function level, from PKG_REPOEVAL_DIR."""

    @property
    def home(self) -> Path:
        return super().home / "repoeval"

    @property
    def state(self) -> str:
        return digest(*sorted(self.ids()))

    def ids(self, limit: int | None = None) -> set[str]:
        return set(sorted((t.id for t in load_repoeval()), key=digest)[:SAMPLE][:limit])

    def tasks(self) -> dict[str, list[RepoTask]]:
        ids, by_repository = self.ids(), {}
        for task in load_repoeval():
            by_repository.setdefault(task.repository, []).extend([task] if task.id in ids else [])
        return by_repository

    def files(self, repository: str) -> dict[str, str]:
        return read_repository(VARIABLE, repository)

    def outcomes(self, repository: str, samples: Sequence[tuple[RepoTask, str]]) -> list[Outcome]:
        return [Outcome("not_measured", detail="RepoEval names no tests")] * len(samples)


BENCHMARKS: dict[str, type[FunctionBenchmark]] = {"packages": PackageFunctions, "repoeval": RepoEvalFunctions}


def _row(package: Package, task: RepoTask) -> dict[str, Any]:
    place = task.path, task.id.rpartition(":")[2], task.gold
    return dict(zip(FIELDS, (task.id, package.name, *place, task.tests, digest(task.prompt)), strict=True))


def without_seconds(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a row; its seconds differ at every run."""
    return {k: v for k, v in asdict(outcome).items() if k != "seconds"}


def stored_table(path: Path, what: str, step: str) -> pd.DataFrame:
    """A CSV file that a step makes. NotAtHand where it is not there."""
    if not path.exists():
        raise not_stored(what, step)
    return pd.read_csv(path)


def not_stored(what: str, step: str) -> UserError:
    """The error that says which step makes what is not stored."""
    return NotAtHand(f"no {what} are stored: run python -m pkg_lib repo-tasks {step}")


def slug_of(name: str) -> str:
    """A column's or control's name as part of a file name."""
    return slug(name.replace(", ", ".").replace(" ", "-"))
