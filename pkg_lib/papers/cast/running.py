"""The steps of the study of repository tasks (`python -m pkg_lib repo-tasks`); each keeps what it makes (store.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pkg_lib.core.models import model_spec
from pkg_lib.core.store import write_jsonl
from pkg_lib.core.types import UserError
from pkg_lib.data.packages import PACKAGES, Package
from pkg_lib.papers.cast import cast_store as store
from pkg_lib.papers.cast.cast_columns import COLUMNS, column
from pkg_lib.papers.cast.completing import Completing, check_limit
from pkg_lib.papers.cast.task_building import build

LIMIT = 24  # tasks of a package
STEPS = ("tasks", "chunks", "retrieval", "completions", "verdicts")
Say = Callable[[str], None]


def make_tasks(results: Path, say: Say, limit: int = LIMIT) -> None:
    """Chooses the tasks of every package by the controls."""
    built = []
    for package in PACKAGES.values():
        built.append(build(package, limit))
        counts = ", ".join(f"{k}: {v}" for k, v in built[-1].counts.items())
        say(f"{package.label}: {counts}")
    store.save_tasks(results, built, limit)


def write_tasks(package: Package, output: Path, say: Say, limit: int = LIMIT) -> None:
    """Writes the tasks of one package, with the tests that decide, in RepoEval's form. UserError where there are none."""
    built = build(package, limit)
    say(f"{package.label}: {', '.join(f'{k}: {v}' for k, v in built.counts.items())}")
    if not built.tasks:
        raise UserError(
            f"{package.label} gives no task: its tests tell no function of 3 to 30 lines from an empty one"
        )
    write_jsonl(output, [t.record() for t in built.tasks])
    say(f"written: {output}")


def complete(
    results: Path, say: Say, model: str, columns: Sequence[str] = (), limit: int | None = None
) -> None:
    """Lets the model complete the tasks (the first `limit` of each package) in every column that lacks completions."""
    study = Completing(results, model, limit)
    for name in columns or COLUMNS:
        say(f"{name}: {study.run([name])} completions generated")


def run(
    results: Path,
    say: Say,
    steps: Sequence[str],
    model: str,
    columns: Sequence[str] = (),
    limit: int | None = None,
    benchmark: str = "",
    rankers: Sequence[str] = (),
) -> None:
    """The named steps in order, all of them where none is named. UserError, before the first, for an unknown step, model or
    column or a limit below 1. `benchmark` and `rankers` are of the step retrieval (retrieving.py)."""
    unknown = [s for s in steps if s not in STEPS]
    if unknown:
        raise UserError(f"unknown step '{unknown[0]}'; choose from: {', '.join(STEPS)}")
    if (benchmark or rankers) and list(steps) != ["retrieval"]:
        raise UserError("--benchmark and --ranker are of the step retrieval; name it alone")
    model_spec(model)
    check_limit(limit)
    for name in columns:
        column(name)
    for step in (s for s in STEPS if s in steps or not steps):
        if step == "tasks" and (steps or not (store.home(results) / "tasks.jsonl").exists()):
            make_tasks(results, say)
        elif step == "chunks":
            from pkg_lib.papers.cast import source_trees as trees

            trees.measure(results, say)
        elif step == "retrieval":
            from pkg_lib.papers.cast.retrieving import RANKERS, measure

            measure(results, say, benchmark, rankers or RANKERS)
        elif step == "completions":
            complete(results, say, model, columns, limit)
        elif step == "verdicts":
            from pkg_lib.papers.cast.verdicts import judge_all

            judge_all(results, model, say)
