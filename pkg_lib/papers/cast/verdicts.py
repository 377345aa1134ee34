"""Verdicts on the completions of repository tasks: the body is extracted, measured against the reference, and executed.

A stored row is an outcome with what the notebook needs beside it, so that it can be shown without the packages' sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pkg_lib.core.models import model_spec
from pkg_lib.core.store import read_rows
from pkg_lib.core.types import Generation, Outcome, digest
from pkg_lib.data.code_match import match
from pkg_lib.data.functions import read_package
from pkg_lib.data.packages import named
from pkg_lib.data.repoeval import RepoTask
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.papers.cast import cast_store as store
from pkg_lib.papers.cast.cast_columns import COLUMNS, column
from pkg_lib.papers.cast.cast_prompts import continued_body, extract_body
from pkg_lib.papers.cast.judging import judge

NO_BODY = Outcome("failed", "ExtractionFailure", "the answer holds no body")
FIELDS = ("task_id", "status", "error", "detail", "finish", "body_sha256")


def completions(results: Path, model: str, name: str) -> dict[str, Generation]:
    """Task -> the stored completion of the very prompt that the column's context gave."""
    path = store.context_file(results, name)
    if not path.exists():
        return {}
    cache = GenerationCache(store.home(results) / "generations" / model)
    by_prompt = {g.meta.get("prompt_sha256"): g for g in cache.rows.values()}
    rows = read_rows(path, ("task_id", "prompt_sha256"))
    return {r["task_id"]: by_prompt[r["prompt_sha256"]] for r in rows if r["prompt_sha256"] in by_prompt}


def judge_column(results: Path, model: str, name: str, fresh: bool = False) -> int:
    """Judges those completions of a column whose verdict is not stored; returns how many that was.

    The file is replaced whole; a task without a completion is not in it (not measured). A stored verdict keeps its execution,
    and its measures against the reference are made anew: they cost nothing, and follow code_match.
    """
    made = completions(results, model, name)
    known = {} if fresh else {r["task_id"]: r for r in stored(results, model, name)}
    rows: dict[str, dict[str, Any]] = {}
    judged = 0
    for package, tasks in store.load_tasks(results).items():
        read = extract_body if column(name).chat else continued_body
        bodies = {t.id: read(made[t.id].raw, t) for t in tasks if t.id in made}
        new = [t for t in tasks if t.id in bodies and not _same(known.get(t.id), bodies[t.id])]
        outcomes = _outcomes(package, new, bodies)
        judged += len(new)
        for task in (t for t in tasks if t.id in bodies):
            body, outcome = bodies[task.id], outcomes.get(task.id)
            own = _row(task, body, made[task.id], outcome) if outcome else known[task.id]
            rows[task.id] = own | _measures(task, body)
    if rows:
        store.save_rows(store.outcome_file(results, model, name), list(rows.values()))
    return judged


def _same(row: dict[str, Any] | None, body: str) -> bool:
    return row is not None and row["body_sha256"] == digest(body) and row["status"] != "not_measured"


def _outcomes(package: str, tasks: list[RepoTask], bodies: Mapping[str, str]) -> dict[str, Outcome]:
    found = {t.id: NO_BODY for t in tasks if not bodies[t.id]}
    samples = [(t, bodies[t.id]) for t in tasks if bodies[t.id]]
    if samples:
        about = named(package)
        outcomes = judge(about, read_package(about), samples)
        found |= {t.id: o for (t, _), o in zip(samples, outcomes, strict=True)}
    return found


def _row(task: RepoTask, body: str, made: Generation, outcome: Outcome) -> dict[str, Any]:
    said = {k: v for k, v in asdict(outcome).items() if k != "seconds"}
    about = {"finish": made.finish, "tokens": len(made.tokens), "prompt_tokens": made.prompt_tokens}
    return {"task_id": task.id, **said, **about, "body_sha256": digest(body)}


def _measures(task: RepoTask, body: str) -> dict[str, float]:
    return {k: round(v, 6) for k, v in asdict(match(body, task.ground_truth)).items()}


def stored(results: Path, model: str, name: str) -> list[dict[str, Any]]:
    """The rows of a judged column; empty where it was not judged."""
    path = store.outcome_file(results, model, name)
    return read_rows(path, FIELDS) if path.exists() else []


def judge_all(results: Path, model: str, say: Callable[[str], None], fresh: bool = False) -> None:
    """Judges every column that has completions. UserError for an unknown model."""
    model_spec(model)
    for name in COLUMNS:
        say(f"{name}: {judge_column(results, model, name, fresh)} completions judged")
