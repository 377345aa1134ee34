"""Cells of tables: rates with their intervals, and paired differences."""

import pandas as pd

from pkg_lib.analysis.stats import Difference, bootstrap_mean, wilson
from pkg_lib.analysis.tables import DASH, interval, percent, points, probability

# Headings of the cells of `difference_cells`, and of those of `paired_cells`.
DIFFERENCE_COLUMNS = ("difference", "95 % interval", "helped", "hurt", "McNemar p")
PAIRED_COLUMNS = ("tasks", *DIFFERENCE_COLUMNS, "p (Holm)")


def rate_of_counts(
    passed: int,
    measured: int,
) -> str:
    """Print a rate with its 95 % Wilson interval.

    Args:
        passed: Number of tasks that passed.
        measured: Number of tasks with a verdict.

    Returns:
        Text such as "61.6 (54.0–68.7)", in percent; an en dash without tasks.
    """
    if not measured:
        return DASH
    low, high = wilson(passed, measured)
    return bracketed_rate(passed / measured, low, high)


def rate_cell(verdicts: pd.Series) -> str:
    """Print pass@1 of a method with its 95 % Wilson interval.

    Args:
        verdicts: Verdicts of the method.

    Returns:
        Text of `rate_of_counts` over the measured tasks.
    """
    measured = verdicts.dropna()
    return rate_of_counts(int(measured.sum()), len(measured))


def mean_cell(values: pd.Series) -> str:
    """Print a mean over tasks with its 95 % bootstrap interval.

    Args:
        values: Fraction by task.

    Returns:
        Text such as "61.6 (54.0–68.7)", in percent; an en dash without values.
    """
    mean = bootstrap_mean(values)
    if mean is None:
        return DASH
    return bracketed_rate(mean.value, mean.low, mean.high)


def bracketed_rate(
    value: float,
    low: float,
    high: float,
) -> str:
    """Print a rate with its interval in parentheses.

    Args:
        value: The rate as a fraction.
        low: Lower end of its interval.
        high: Upper end of its interval.

    Returns:
        Text such as "61.6 (54.0–68.7)", in percent.
    """
    return f"{percent(value)} ({percent(low)}–{percent(high)})"


def difference_cell(difference: Difference | None) -> str:
    """Print a paired difference with its interval.

    Args:
        difference: The difference; None if no task was measured with both.

    Returns:
        Text of `bracketed_difference`; an en dash without a difference.
    """
    if difference is None:
        return DASH
    return bracketed_difference(difference.value, difference.low, difference.high)


def bracketed_difference(
    value: float,
    low: float,
    high: float,
) -> str:
    """Print a difference with its interval in parentheses.

    Args:
        value: The difference as a fraction.
        low: Lower end of its interval.
        high: Upper end of its interval.

    Returns:
        Text such as "−5.1 (−8.9 to −1.4)", in percentage points; the difference alone if there is no
        interval.
    """
    bounds = interval(low, high)
    return points(value) if bounds == DASH else f"{points(value)} ({bounds})"


def wilson_range(
    passed: int,
    measured: int,
) -> str:
    """Print the 95 % Wilson interval of a rate.

    Args:
        passed: Number of tasks that passed.
        measured: Number of tasks with a verdict.

    Returns:
        Text such as "54.0 to 68.7", in percent; an en dash without tasks.
    """
    if not measured:
        return DASH
    low, high = wilson(passed, measured)
    return f"{percent(low)} to {percent(high)}"


def difference_cells(difference: Difference | None) -> list[str]:
    """Print a paired difference in five cells.

    Args:
        difference: The difference; None if no task was measured with both.

    Returns:
        The difference in percentage points, its interval, the tasks helped and hurt, and p.
    """
    if difference is None:
        return [DASH] * 5
    return [
        points(difference.value),
        interval(difference.low, difference.high),
        str(difference.helped),
        str(difference.hurt),
        probability(difference.p),
    ]


def paired_cells(row: pd.Series) -> list[str]:
    """Print a row of `stats.paired_differences` in seven cells.

    Args:
        row: The row of a method.

    Returns:
        The number of tasks, the difference in percentage points, its interval, the tasks helped and
        hurt, p and the corrected p. Dashes stand for what was not measured or not tested.
    """
    counts = [DASH] * 3
    if row["n"]:
        counts = [f"{row[name]:.0f}" for name in ("n", "helped", "hurt")]
    tasks, helped, hurt = counts
    return [
        tasks,
        points(row["difference"]),
        interval(row["low"], row["high"]),
        helped,
        hurt,
        probability(row["p"]),
        probability(row["p_corrected"]),
    ]
