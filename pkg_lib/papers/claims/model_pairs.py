"""Whether two models gain or lose the same by a column: the difference of their differences to None."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binom

from pkg_lib.analysis.stats import BASELINE, ORACLE, bootstrap_of_steps, holm
from pkg_lib.papers.claims.stored_runs import Measured

STEPS = np.arange(-2, 3)  # how two changes of one task can differ, each of them -1, 0 or +1
FIELDS = "models where column n none gains difference low high p"


def pairs(runs: Sequence[Measured]) -> pd.DataFrame:
    """One row for every two models on a benchmark, a corpus and a column (the ideal cannot lose), on the same tasks.

    models, none (pass@1 without context) and gains (to None) hold the first model's and the second's; difference is
    the second's gain minus the first's, p how often random signs give one as large, p_holm corrected over the rows.
    """
    rows = []
    for runs_of_two in combinations(runs, 2):
        first, second = (run.verdicts for run in runs_of_two)
        if (
            len({r.where for r in runs_of_two}) == 1
            and len(models := {r.subject: r for r in runs_of_two}) == 2
        ):
            shared = [c for c in first if c in second and c != ORACLE] if BASELINE in first else []
            for column in shared if BASELINE in shared else []:
                frame = pd.concat([v[[BASELINE, column]] for v in (first, second)], axis=1).dropna()
                if column != BASELINE and len(frame):
                    place = runs_of_two[0].where
                    rows.append((tuple(models), place, column, len(frame), *_numbers(*frame.to_numpy(int).T)))
    table = pd.DataFrame(rows, columns=FIELDS.split())
    return table.assign(p_holm=holm(table["p"].tolist()))


def _numbers(none_a: np.ndarray, a: np.ndarray, none_b: np.ndarray, b: np.ndarray) -> tuple:
    counts = change_counts((b - none_b) - (a - none_a))
    gains = (float((a - none_a).mean()), float((b - none_b).mean()))
    bounds = bootstrap_of_steps(STEPS, counts)
    rates = (float(none_a.mean()), float(none_b.mean()))
    return rates, gains, float(counts @ STEPS) / len(a), *bounds, sign_test(counts)


def change_counts(changes: np.ndarray) -> np.ndarray:
    """How many tasks have each of STEPS; `changes` int [tasks]."""
    return np.array([(changes == step).sum() for step in STEPS])


def sign_test(counts: np.ndarray) -> float:
    """Exact two-sided p: were each task's change as likely of the other sign, how often is the sum so far from 0?

    With changes of one step alone this is McNemar's exact test.
    """
    twice, once = int(counts[0] + counts[4]), int(counts[1] + counts[3])
    a, b = np.arange(once + 1), np.arange(twice + 1)
    sums = np.add.outer(2 * a - once, 2 * (2 * b - twice))
    chances = np.outer(binom.pmf(a, once, 0.5), binom.pmf(b, twice, 0.5))
    return min(1.0, float(chances[np.abs(sums) >= abs(counts @ STEPS)].sum()))
