"""Whether two models gain or lose the same by a column: the difference of their differences to None, on the same tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binom

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import ALPHA, BASELINE, ORACLE, bootstrap_of_steps, holm
from pkg_lib.analysis.tables import DASH, interval, percent, points, probability
from pkg_lib.papers.claims.claim_study import Run

STEPS = np.arange(-2, 3)  # how two changes of one task can differ, each of them -1, 0 or +1


@dataclass(frozen=True, slots=True)
class Pair:
    """A column's pass@1 minus None's, with two models, on the `n` tasks measured in all four; fractions.

    `value` is the second model's difference minus the first's, `p` how often random signs give one as large.
    """

    models: tuple[str, str]
    where: str
    column: str
    n: int
    none: tuple[float, float]
    gains: tuple[float, float]
    value: float
    low: float
    high: float
    p: float


def pairs(runs: Sequence[Run]) -> list[Pair]:
    """Every two models on every benchmark, corpus and column that both are measured on; the ideal cannot lose."""
    found = []
    for first, second in combinations(runs, 2):
        if first.where == second.where and first.experiment.model != second.experiment.model:
            columns = [c for c in first.verdicts if c in second.verdicts and c not in (BASELINE, ORACLE)]
            found += [p for c in columns if (p := _pair(first, second, c)) is not None]
    return found


def _pair(first: Run, second: Run, column: str) -> Pair | None:
    if any(BASELINE not in run.verdicts for run in (first, second)):
        return None
    frame = pd.concat([run.verdicts[[BASELINE, column]] for run in (first, second)], axis=1).dropna()
    if frame.empty:
        return None
    none_a, a, none_b, b = frame.to_numpy(dtype=int).T
    counts = change_counts((b - none_b) - (a - none_a))
    low, high = bootstrap_of_steps(STEPS, counts)
    rates = (float(none_a.mean()), float(none_b.mean()))
    gains = (float((a - none_a).mean()), float((b - none_b).mean()))
    models = (first.experiment.model, second.experiment.model)
    value = float(counts @ STEPS) / len(frame)
    return Pair(models, first.where, column, len(frame), rates, gains, value, low, high, sign_test(counts))


def change_counts(changes: np.ndarray) -> np.ndarray:
    """How many tasks have each of STEPS; `changes` int [tasks]."""
    return np.array([(changes == step).sum() for step in STEPS])


def sign_test(counts: np.ndarray) -> float:
    """Exact two-sided p: were each task's change as likely to have the other sign, how often is the sum so far from 0?

    With changes of one step alone this is McNemar's exact test.
    """
    twice, once = int(counts[0] + counts[4]), int(counts[1] + counts[3])
    a, b = np.arange(once + 1), np.arange(twice + 1)
    sums = np.add.outer(2 * a - once, 2 * (2 * b - twice))
    chances = np.outer(binom.pmf(a, once, 0.5), binom.pmf(b, twice, 0.5))
    return min(1.0, float(chances[np.abs(sums) >= abs(counts @ STEPS)].sum()))


def corrected(found: Sequence[Pair]) -> list[float]:
    """Holm's p over all pairs."""
    return holm([p.p for p in found])


def table(found: Sequence[Pair]) -> Grid:
    """One row a benchmark, corpus, column and two models; the models are named in the rows where there are more than two."""
    rows = [
        (
            f"{p.n}",
            *map(percent, p.none),
            *map(points, p.gains),
            points(p.value),
            interval(p.low, p.high),
            probability(q),
        )
        for p, q in zip(found, corrected(found), strict=True)
    ]
    columns = [
        "tasks",
        "None, first",
        "None, second",
        "to None, first",
        "to None, second",
        "second to first",
        "95 % interval",
        "p (Holm)",
    ]
    several = len({p.models for p in found}) > 1
    names = [f"{p.where}: {p.column}" + (f" ({' / '.join(p.models)})" if several else "") for p in found]
    frame = pd.DataFrame(
        rows or [[DASH] * len(columns)], names or ["no two models are measured on the same"], columns
    )
    notes = [
        "Tasks measured in both columns with both models; points of pass@1; exact test of random signs, Holm over the rows."
    ]
    notes += [] if several or not found else [f"First: {found[0].models[0]}; second: {found[0].models[1]}."]
    return Grid("Two models, the same contexts", frame.rename_axis("column"), tuple(notes))


def findings(found: Sequence[Pair]) -> list[str]:
    """Which model loses more, where that is beyond chance; how many comparisons show nothing."""
    tested = list(zip(found, corrected(found), strict=True))
    clear = [p for p, q in tested if q < ALPHA]
    said = []
    for p in clear:
        both = " and ".join(f"{points(g)} points with {m}" for g, m in zip(p.gains, p.models, strict=True))
        apart = f"{points(p.value)} between them ({interval(p.low, p.high)})"
        said.append(f"{p.where}, {p.column}: to None {both}, {apart}, beyond chance.")
    rest = [f"{p.where}, {p.column} ({points(p.value)})" for p, q in tested if q >= ALPHA]
    if rest:
        said.append(
            f"Whether one model gains or loses more than the other is not shown for {'; '.join(rest)}."
        )
    return said
