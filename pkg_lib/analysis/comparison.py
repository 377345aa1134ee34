"""pass@k of every method and their paired comparison with a baseline, as data frames.

Both functions take verdicts: a frame [task, method] whose cells are True (passed), False (failed)
or <NA> (not measured). Several samples per task are columns of two levels, (method, sample).
"""

import math

import pandas as pd

from pkg_lib.analysis.stats import (
    BASELINE,
    mean_pass_at_k,
    paired_differences,
    wilson,
)
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.results import Results


def pass_at_k(results: Results | pd.DataFrame, k: int = 1) -> pd.DataFrame:
    """Estimate pass@k of every method.

    The estimate is unbiased (Chen et al., 2021, Equation 1). The 95 % interval is Wilson's for one
    sample per task, otherwise a bootstrap interval over tasks.

    Args:
        results: Results of `load_results` or `evaluate`, or verdicts [task, method] or
            [task, (method, sample)] on one benchmark.
        k: Number of samples that the estimate allows; at least 1.

    Returns:
        One row per method: ``tasks``, ``samples`` (per task), ``n`` (tasks with at least `k`
        measured samples), ``pass_at_k``, ``low``, ``high`` (fractions; NaN if `n` is 0).

    Raises:
        ValueError: `k` is below 1.
    """
    frame = _verdicts(results)
    methods = frame.columns.get_level_values(0).unique()
    rows = []
    for method in methods:
        verdicts = frame.loc[:, [method]]
        tasks, samples = verdicts.shape
        rate = mean_pass_at_k(verdicts, k)
        if rate is None:
            rows.append((tasks, samples, 0, math.nan, math.nan, math.nan))
            continue
        interval = (rate.low, rate.high)
        if samples == 1:
            passed = round(rate.value * rate.n)
            interval = wilson(passed, rate.n)
        rows.append((tasks, samples, rate.n, rate.value, *interval))
    columns = [
        "tasks",
        "samples",
        "n",
        "pass_at_k",
        "low",
        "high",
    ]
    return pd.DataFrame(rows, index=methods, columns=columns)


def compare(
    results: Results | pd.DataFrame, baseline: str = BASELINE, correction: str = "holm"
) -> pd.DataFrame:
    """Compare every method with a baseline on the tasks that both measured.

    Differences are paired by task. Intervals are 95 % bootstrap intervals over tasks. p-values come
    from the exact McNemar test and are corrected over methods. The Ideal Reranker (oracle) cannot
    lose, so it has no p-value.

    Args:
        results: Results of `load_results` or `evaluate`, or verdicts [task, method] of one model on
            one benchmark.
        baseline: Method that the others are compared with.
        correction: Any method of ``statsmodels.stats.multitest.multipletests``.

    Returns:
        One row per method: ``n``, ``difference`` (percentage points), ``low``, ``high``,
        ``helped``, ``hurt``, ``p``, ``p_corrected``. Without a task of both methods ``n`` is 0 and
        the other numbers are NaN.

    Raises:
        UserError: ``baseline`` was not measured.
    """
    frame = _verdicts(results)
    if baseline not in frame:
        measured = ", ".join(frame.columns)
        raise UserError(f"the baseline {baseline} was not measured; measured methods: {measured}")
    if frame[baseline].isna().all():
        place = "" if isinstance(results, pd.DataFrame) else f" in {results.results}"
        raise UserError(
            f"no result of {baseline} is stored{place}; compute it with pkg_lib.evaluate, or let PKG_RESULTS "
            "name a directory that has it"
        )
    table = paired_differences(frame, baseline, correction)
    table[["difference", "low", "high"]] *= 100
    return table


def _verdicts(results: Results | pd.DataFrame) -> pd.DataFrame:
    """The verdicts [task, method]."""
    return results if isinstance(results, pd.DataFrame) else results.verdicts(results.methods)
