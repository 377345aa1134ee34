"""Two models on the same tasks with the same contexts: which one gains more by a method?"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import BASELINE, ORACLE, bootstrap_of_steps, holm
from pkg_lib.analysis.tables import DASH, interval, percent, points, probability
from pkg_lib.papers.claims.claim_tests import Measured

# How two changes of one task can differ, each of which is -1, 0 or +1.
STEPS = np.arange(-2, 3)
COLUMNS = [
    "models",
    "where",
    "column",
    "n",
    "none",
    "gains",
    "difference",
    "low",
    "high",
    "p",
]


def sign_test(counts: np.ndarray) -> float:
    """Return the exact two-sided p of a sum of changes, were each as likely of the other sign.

    Args:
        counts: How many tasks have each of STEPS. With steps of one size this is McNemar's exact test.

    Returns:
        The chance of a sum that is as far from 0.
    """
    twice = int(counts[0] + counts[4])
    once = int(counts[1] + counts[3])
    positive_once = np.arange(once + 1)
    positive_twice = np.arange(twice + 1)
    sums_once = 2 * positive_once - once
    sums_twice = 2 * (2 * positive_twice - twice)
    sums = np.add.outer(sums_once, sums_twice)
    chances_once = binom.pmf(positive_once, once, 0.5)
    chances_twice = binom.pmf(positive_twice, twice, 0.5)
    chances = np.outer(chances_once, chances_twice)
    observed = counts @ STEPS
    as_far = np.abs(sums) >= abs(observed)
    return min(1.0, float(chances[as_far].sum()))


def model_pairs(runs: Sequence[Measured]) -> pd.DataFrame:
    """Compare every two models that are measured on the same benchmark and corpus.

    Args:
        runs: The stored runs.

    Returns:
        One row for every two models, benchmark, corpus and method. The ideal reranker is left out, since
        it cannot lose. ``none`` and ``gains`` are pairs: the rate without retrieval and the gain by the
        method, of the first model and of the second. ``difference`` is the second's gain minus the
        first's; ``low``, ``high``, ``p`` and ``p_corrected`` belong to it.
    """
    rows: list[dict[str, Any]] = []
    for first, second in combinations(runs, 2):
        same_place = first.where == second.where
        if same_place and first.subject != second.subject:
            rows += _compared_methods(first, second)
    table = pd.DataFrame(rows, columns=COLUMNS)
    p_corrected = holm(table["p"].tolist())
    return table.assign(p_corrected=p_corrected)


def _compared_methods(first: Measured, second: Measured) -> Iterator[dict[str, Any]]:
    """Compare two models by each method that both were measured with."""
    shared = [str(name) for name in first.verdicts if name in second.verdicts]
    if BASELINE not in shared:
        return
    for method in shared:
        if method not in (BASELINE, ORACLE):
            yield from _compared(first, second, method)


def _compared(first: Measured, second: Measured, method: str) -> Iterator[dict[str, Any]]:
    """Compare two models by a method, on the tasks that both were measured on with and without it."""
    pair = [BASELINE, method]
    verdicts = [first.verdicts[pair], second.verdicts[pair]]
    tasks = pd.concat(verdicts, axis=1).dropna()
    if tasks.empty:
        return
    verdicts_by_column = tasks.to_numpy(int).T
    none_first, with_first, none_second, with_second = verdicts_by_column
    change_first = with_first - none_first
    change_second = with_second - none_second
    steps = change_second - change_first
    counts = np.bincount(steps - STEPS[0], minlength=len(STEPS))
    low, high = bootstrap_of_steps(STEPS, counts)
    yield {
        "models": (first.subject, second.subject),
        "where": first.where,
        "column": method,
        "n": len(tasks),
        "none": (none_first.mean(), none_second.mean()),
        "gains": (change_first.mean(), change_second.mean()),
        "difference": counts @ STEPS / len(tasks),
        "low": low,
        "high": high,
        "p": sign_test(counts),
    }


def model_pairs_table(pairs: pd.DataFrame) -> ResultTable:
    """Tabulate what two models gain by the same contexts.

    Args:
        pairs: What `model_pairs` returns.

    Returns:
        The table, one row per comparison.
    """
    names = [
        "tasks",
        "NoRAG, first",
        "NoRAG, second",
        "change from NoRAG, first",
        "change from NoRAG, second",
        "change of the second minus change of the first",
        "95 % interval",
        "p (Holm)",
    ]
    models = pairs["models"].unique()
    rows = {}
    pair: Any
    for pair in pairs.itertuples():
        name = f"{pair.where}: {pair.column}"
        if len(models) > 1:
            name += f" ({' / '.join(pair.models)})"
        rows[name] = [
            f"{pair.n}",
            *map(percent, pair.none),
            *map(points, pair.gains),
            points(pair.difference),
            interval(pair.low, pair.high),
            probability(pair.p_corrected),
        ]
    notes = [
        "Tasks that both models answered with NoRAG and with the method. Changes are in percentage points. "
        "p is that of the exact sign-flip test, corrected by Holm over the rows."
    ]
    if len(models) == 1:
        first, second = models[0]
        notes.append(f"First: {first}; second: {second}.")
    if not rows:
        rows["no two models are measured on the same"] = [DASH] * len(names)
    return ResultTable.of("Two models, the same contexts", rows, names, "method", *notes)
