"""Sentences computed from numbers: headings with parts, lists, counts and differences."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import pandas as pd

from pkg_lib.analysis.stats import ALPHA, Difference
from pkg_lib.analysis.tables import (
    interval,
    points,
    probability,
)


def finding(
    head: str,
    parts: Iterable[str],
) -> list[str]:
    """Join parts to one sentence.

    Args:
        head: Beginning of the sentence.
        parts: Its parts.

    Returns:
        ["Head: part; part."], or an empty list without parts.
    """
    text = "; ".join(parts)
    return [f"{head}: {text}."] if text else []


def listed(names: Iterable[object]) -> str:
    """Join names as in prose.

    Args:
        names: At least one name.

    Returns:
        "a", "a and b", or "a, b and c".
    """
    *rest, last = map(str, names)
    return f"{', '.join(rest)} and {last}" if rest else last


def counted(
    number: int,
    noun: str,
) -> str:
    """Print a number with its noun.

    Args:
        number: The number.
        noun: The noun in the singular.

    Returns:
        Text such as "1 task" or "1,200 tasks".
    """
    plural = "" if number == 1 else "s"
    return f"{number:,} {noun}{plural}"


def how_many(
    count: int,
    total: int,
    noun: str,
    verb: str,
) -> str:
    """Begin a clause with how many of some things do something.

    Args:
        count: How many do it.
        total: How many there are, at least 1.
        noun: Their name in the singular.
        verb: The verb in the plural, to which the singular adds an "s".

    Returns:
        Text such as "no method wins", "1 of 3 methods wins", "2 of 3 methods win" or "every method wins".
    """
    if count == 0:
        return f"no {noun} {verb}s"
    if count == total:
        return f"every {noun} {verb}s"
    ending = "s" if count == 1 else ""
    return f"{count} of {total} {noun}s {verb}{ending}"


def counted_values(values: pd.Series) -> list[str]:
    """Count the distinct values of a column.

    Args:
        values: The values, none of them missing.

    Returns:
        Texts such as "NameError 12", the most common first; equally common ones follow by name.
    """
    counts = values.value_counts().sort_index()
    ranked = counts.sort_values(ascending=False, kind="stable")
    return [f"{value} {count}" for value, count in ranked.items()]


def chance(
    p: float,
    name: str = "p",
) -> str:
    """Print a p-value with its name.

    Args:
        p: The p-value; NaN means that nothing was tested.
        name: Its name.

    Returns:
        "p = 0.031", "p < 0.001", or "" if nothing was tested.
    """
    if math.isnan(p):
        return ""
    sign = "" if p < 0.001 else "= "
    return f"{name} {sign}{probability(p)}"


def difference(
    value: float,
    low: float = math.nan,
    high: float = math.nan,
    *more: str,
) -> str:
    """Print a difference with its interval.

    Args:
        value: The difference as a fraction.
        low: Lower end of its interval; NaN for none.
        high: Upper end of its interval.
        *more: What follows the interval in the parentheses.

    Returns:
        Text such as "−5.1 percentage points (−8.9 to −1.4, p = 0.010)".
    """
    details = [] if math.isnan(low) else [interval(low, high)]
    details += filter(None, more)
    text = f"{points(value)} percentage points"
    return f"{text} ({', '.join(details)})" if details else text


def compared(
    subject: object,
    result: Difference | pd.Series,
    versus: str = "",
    sized: bool = False,
) -> str:
    """Print a comparison of a method with another.

    Args:
        subject: The method.
        result: The difference, or a row of `stats.paired_differences`.
        versus: The other method; "" leaves it out.
        sized: Whether the number of tasks is printed.

    Returns:
        Text such as "Block-PKG −5.1 percentage points against NoRAG (−8.9 to −1.4, p = 0.010)".
    """
    if isinstance(result, Difference):
        result = pd.Series(asdict(result)).rename({"value": "difference"})
    size = f"n = {result['n']:.0f}" if sized else ""
    key, name = ("p_corrected", "corrected p") if "p_corrected" in result else ("p", "p")
    p = chance(result[key], name)
    text = difference(
        result["difference"],
        result["low"],
        result["high"],
        size,
        p,
    )
    if versus:
        text = text.replace(" percentage points", f" percentage points against {versus}", 1)
    return f"{subject} {text}"


def decided(
    rows: pd.DataFrame,
    heads: Sequence[str],
) -> list[str]:
    """Group tested comparisons by their corrected p-value.

    Args:
        rows: Rows of `stats.paired_differences`.
        heads: Beginnings of the sentences on methods significantly above, significantly below, and neither.

    Returns:
        At most three sentences.
    """
    tested = rows[rows["p_corrected"].notna()]
    significant = tested["p_corrected"] < ALPHA
    above = tested["difference"] > 0
    groups = [
        (heads[0], significant & above),
        (heads[1], significant & ~above),
        (heads[2], ~significant),
    ]
    sentences = []
    for head, members in groups:
        parts = [compared(name, row) for name, row in tested[members].iterrows()]
        sentences += finding(head, parts)
    return sentences
