"""Where the study of repository tasks keeps what it made, below results/repo_tasks; sources are not among it.

tasks.jsonl                        which functions, which tests decide, digest of the prompt; tasks.meta.json: how chosen
retrieval.csv                      the retrieval measures of every task (retrieving.py)
contexts/COLUMN.jsonl              which chunks stood in the prompt
generations/MODEL/COLUMN.jsonl     completions (the cache)
evaluations/MODEL/COLUMN.jsonl     verdicts; evaluations/controls/CONTROL.jsonl those of the control rows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pkg_lib.core.store import read_json, read_rows, slug, versions, write_json, write_jsonl
from pkg_lib.core.types import Outcome, UserError, digest
from pkg_lib.data.functions import as_task, functions, read_package
from pkg_lib.data.packages import PACKAGES, Package, named
from pkg_lib.data.repoeval import RepoTask
from pkg_lib.papers.cast.task_building import Built

FIELDS = ("id", "package", "path", "qualified", "lines", "tests", "prompt_sha256")


def home(results: Path) -> Path:
    return results / "repo_tasks"


def save_tasks(results: Path, built: Iterable[Built], limit: int) -> None:
    """tasks.jsonl and what it was made from; the verdicts of the control rows that chose them."""
    built = list(built)
    rows = [_row(b.package, t) for b in built for t in b.tasks]
    write_jsonl(home(results) / "tasks.jsonl", rows)
    packages = {
        b.package.name: {
            "version": b.package.version,
            "sha256": b.package.sha256,
            "licence": b.package.licence,
            **b.counts,
        }
        for b in built
    }
    write_json(
        home(results) / "tasks.meta.json", {"packages": packages, "limit": limit, "versions": versions()}
    )
    by_control: dict[str, dict[str, Outcome]] = {}
    for b in built:
        for task, own in b.outcomes.items():
            for control, outcome in own.items():
                by_control.setdefault(control, {})[task] = outcome
    for control, outcomes in by_control.items():
        save_outcomes(results, "controls", control, dict(sorted(outcomes.items())))


def _row(package: Package, task: RepoTask) -> dict[str, Any]:
    qualified = task.id.rpartition(":")[2]
    about = {
        "id": task.id,
        "package": package.name,
        "path": task.path,
        "qualified": qualified,
        "lines": list(task.gold),
    }
    return about | {"tests": list(task.tests), "prompt_sha256": digest(task.prompt)}


def stored_rows(results: Path) -> list[dict[str, Any]]:
    """The rows of tasks.jsonl. UserError where there are none yet."""
    path = home(results) / "tasks.jsonl"
    if not path.exists():
        raise missing("repository tasks", "tasks")
    return read_rows(path, FIELDS)


def missing(what: str, step: str) -> UserError:
    """The error that says what is not stored and which step makes it."""
    return UserError(f"no {what} are stored: run python -m pkg_lib repo-tasks {step}")


def load_tasks(results: Path) -> dict[str, list[RepoTask]]:
    """Package -> its stored tasks, read from its source archive. UserError where that is not at hand or another one."""
    rows = stored_rows(results)
    return {name: _of_package(named(name), [r for r in rows if r["package"] == name]) for name in PACKAGES}


def _of_package(package: Package, rows: list[dict[str, Any]]) -> list[RepoTask]:
    files = read_package(package) if rows else {}
    tasks = []
    for row in rows:
        text = files.get(row["path"], "")
        found = [
            f
            for f in functions(row["path"], text)
            if f.qualified == row["qualified"] and list(f.body) == row["lines"]
        ]
        task = as_task(package, found[0], text, tuple(row["tests"])) if found else None
        if task is None or digest(task.prompt) != row["prompt_sha256"]:
            raise UserError(
                f"task {row['id']} is not in {package.label} as it was: run python -m pkg_lib repo-tasks tasks"
            )
        tasks.append(task)
    return tasks


def context_file(results: Path, column: str) -> Path:
    return home(results) / "contexts" / f"{slug_of(column)}.jsonl"


def slug_of(name: str) -> str:
    """A column's or control's name as part of a file name."""
    return slug(name.replace(", ", ".").replace(" ", "-"))


def outcome_file(results: Path, model: str, column: str) -> Path:
    return home(results) / "evaluations" / model / f"{slug_of(column)}.jsonl"


def save_outcomes(results: Path, model: str, column: str, outcomes: Mapping[str, Outcome]) -> None:
    """One row a task; without seconds, which differ at every run."""
    rows = [
        {"task_id": i} | {k: v for k, v in asdict(o).items() if k != "seconds"} for i, o in outcomes.items()
    ]
    save_rows(outcome_file(results, model, column), rows)


def save_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Writes the rows, and beside them what they were made with."""
    write_jsonl(path, rows)
    write_json(path.with_suffix(".meta.json"), {"rows": len(rows), "versions": versions()})


def load_outcomes(results: Path, model: str, column: str) -> dict[str, Outcome]:
    """Task -> stored outcome; empty where the column was not judged."""
    path = outcome_file(results, model, column)
    rows = read_rows(path, ("task_id", "status", "error", "detail")) if path.exists() else []
    return {r["task_id"]: Outcome(r["status"], r["error"], r["detail"]) for r in rows}


def load_meta(results: Path, name: str) -> dict[str, Any]:
    """The JSON beside a stored file; empty where it is not there."""
    path = home(results) / name
    return read_json(path) if path.exists() else {}
