"""Figure 6: which tasks each approach solves, alone and together, and what each adds to the Ideal reranker.

A region is a set of columns: the tasks that exactly these solve, of those measured in all the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from pkg_lib.analysis.tables import complete, kind, single
from pkg_lib.core.types import UserError

FIGURE6 = {"code": ("None", "Func-BM25", "Block-PKG"), "text": ("None", "BM25", "JSON-PKG")}
Region = frozenset[str]


def measured(verdicts: pd.DataFrame) -> list[str]:
    """The columns with a prompt of their own that have a verdict, in the order of the tables."""
    frame = complete(verdicts)
    return [c for c in single(frame) if frame[c].notna().any()]


def chosen(verdicts: pd.DataFrame, sets: str) -> list[str]:
    """The measured ones of two or three columns joined by "+"; "" takes those of Figure 6."""
    frame = complete(verdicts)
    wanted = sets.split("+") if sets else list(FIGURE6[kind(frame)])
    unknown = [c for c in wanted if c not in single(frame)]
    if sets and unknown:
        raise UserError(
            f"no column '{unknown[0]}' here; sets takes two or three of: {', '.join(single(frame))}"
        )
    if len(set(wanted)) != len(wanted) or not 2 <= len(wanted) <= 3:
        raise UserError(f"sets must name two or three different columns joined by '+', not '{sets}'")
    return [c for c in wanted if c in measured(frame)]


def solved(verdicts: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """bool [task, column], over the tasks that are measured in all the columns."""
    return complete(verdicts)[list(columns)].dropna().astype(bool)


def regions(passed: pd.DataFrame) -> dict[Region, list[str]]:
    """Every set of columns -> ids of the tasks that exactly these solve; empty regions too."""

    def region(row: Sequence[bool]) -> Region:
        return frozenset(c for c, inside in zip(passed.columns, row, strict=True) if inside)

    tasks: dict[Region, list[str]] = {
        region(row): [] for row in product([True, False], repeat=passed.shape[1])
    }
    for task, row in zip(passed.index, passed.to_numpy(), strict=True):
        tasks[region(row)].append(str(task))
    return tasks


def by_chance(passed: pd.DataFrame, region: Region) -> float:
    """Tasks expected in the region if each column solved as many as it does, independently of the others."""
    rates = passed.mean()
    return float(len(passed) * np.prod([rates[c] if c in region else 1 - rates[c] for c in passed]))


def named(region: Region, columns: Sequence[str]) -> str:
    """A region in words, its columns in their order."""
    return " + ".join(c for c in columns if c in region) or "no column"


def intersections(passed: pd.DataFrame) -> dict[Region, list[str]]:
    """The regions that some column solves a task of, largest first; then fewer columns, then their order."""
    order = {c: i for i, c in enumerate(passed)}
    filled = [(region, tasks) for region, tasks in regions(passed).items() if region and tasks]
    return dict(sorted(filled, key=lambda f: (-len(f[1]), len(f[0]), sorted(order[c] for c in f[0]))))


def greedy(passed: pd.DataFrame) -> list[tuple[str, int, int]]:
    """(column, tasks it adds, solved so far): at each step the column that adds most, the first of equals."""
    steps, done, left = [], np.zeros(len(passed), bool), list(passed)
    while left:
        added = {c: int((passed[c] & ~done).sum()) for c in left}
        best = max(left, key=added.__getitem__)
        done |= passed[best].to_numpy()
        steps.append((best, added[best], int(done.sum())))
        left.remove(best)
    return steps
