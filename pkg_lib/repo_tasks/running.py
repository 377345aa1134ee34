"""The steps of the study of repository tasks (`python -m pkg_lib repo-tasks`); each keeps what it makes (store.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pkg_lib.repo_tasks import store
from pkg_lib.repo_tasks.building import build
from pkg_lib.repo_tasks.columns import COLUMNS
from pkg_lib.repo_tasks.packages import PACKAGES

LIMIT = 24  # tasks of a package
Say = Callable[[str], None]


def make_tasks(results: Path, say: Say, limit: int = LIMIT) -> None:
    """Chooses the tasks of every package by the controls."""
    built = []
    for package in PACKAGES.values():
        built.append(build(package, limit))
        counts = ", ".join(f"{k}: {v}" for k, v in built[-1].counts.items())
        say(f"{package.label}: {counts}")
    store.save_tasks(results, built, limit)


def complete(results: Path, say: Say, model: str, columns: Sequence[str] = ()) -> None:
    """Lets the model complete the tasks in every column that lacks completions."""
    from pkg_lib.repo_tasks.completing import Completing

    study = Completing(results, model)
    for name in columns or COLUMNS:
        say(f"{name}: {study.run([name])} completions generated")
