"""The one grammar of computed sentences: a head with its parts, lists, counts, and differences."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import pandas as pd

from pkg_lib.analysis.stats import ALPHA, Difference
from pkg_lib.analysis.tables import interval, points, probability


def finding(head: str, parts: Iterable[str]) -> list[str]:
    """ "Head: part; part." as a list of one sentence; empty without parts."""
    text = "; ".join(parts)
    return [f"{head}: {text}."] if text else []


def listed(names: Iterable[object]) -> str:
    """ "a", "a and b", "a, b and c"."""
    *rest, last = map(str, names)
    return f"{', '.join(rest)} and {last}" if rest else last


def counted(number: int, noun: str) -> str:
    """ "1 task", "1,200 tasks"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def chance(p: float, name: str = "p") -> str:
    """ "p = 0.031", "p < 0.001"; empty where nothing was tested."""
    return "" if math.isnan(p) else f"{name} {'' if p < 0.001 else '= '}{probability(p)}"


def difference(value: float, low: float = math.nan, high: float = math.nan, *more: str) -> str:
    """ "−5.1 points (−8.9 to −1.4, p = 0.010)" of fractions; `more` follows the interval."""
    beside = ", ".join(filter(None, ["" if math.isnan(low) else interval(low, high), *more]))
    return f"{points(value)} points" + (f" ({beside})" if beside else "")


def compared(
    subject: object, result: Difference | pd.Series, versus: str = "", sized: bool = False
) -> str:
    """ "Block-PKG −5.1 points against None (−8.9 to −1.4, p = 0.010)"; `sized` adds the number of tasks."""
    row = (
        asdict(result) | {"difference": result.value} if isinstance(result, Difference) else result
    )
    p = chance(row["p_holm"], "corrected p") if "p_holm" in row else chance(row["p"])
    text = difference(
        row["difference"], row["low"], row["high"], f"n = {row['n']:.0f}" if sized else "", p
    )
    return f"{subject} " + (
        text.replace(" points", f" points against {versus}", 1) if versus else text
    )


def decided(rows: pd.DataFrame, heads: Sequence[str]) -> list[str]:
    """The tested rows of `stats.compare` in three sentences, by corrected p; `heads`: above, below, none."""
    tested = rows[rows["p_holm"].notna()]
    clear, above = tested["p_holm"] < ALPHA, tested["difference"] > 0
    groups = (tested[clear & above], tested[clear & ~above], tested[~clear])
    ends = (" beyond chance", " beyond chance", " shown")
    return [
        sentence
        for head, end, group in zip(heads, ends, groups, strict=True)
        for sentence in finding(head + end, (compared(name, row) for name, row in group.iterrows()))
    ]
