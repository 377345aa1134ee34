"""What the wording of a prompt alone changes: pass@1 over all wordings of a column, on the same tasks."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from pkg_lib.analysis.stats import BASELINE, compare
from pkg_lib.experiment.run import Run
from pkg_lib.retrieval.columns import COLUMNS


@dataclass(frozen=True)
class Band:
    """pass@1 as fractions: in the paper's wording, the lowest and highest of all; `n` tasks have them all.

    `table` holds a row a wording: `compare` against None, Holm's correction over the wordings, and `rate`.
    """

    paper: float
    low: float
    high: float
    n: int
    table: pd.DataFrame


def wording_band(run: Run, column: str) -> Band | None:
    """The band of a column's wordings that are measured; None where the paper's or another is not."""
    names = [column, *(c.name for c in COLUMNS.values() if c.of == column and c.wording)]
    verdicts = run.verdicts(list(dict.fromkeys([BASELINE, *names]))).dropna(axis="columns", how="all")
    verdicts = verdicts.dropna()
    names = [name for name in names if name in verdicts]
    if column not in names or BASELINE not in verdicts or len(names) < 2 or verdicts.empty:
        return None
    rates = verdicts[names].astype(float).mean()
    table = compare(verdicts).assign(rate=rates)
    return Band(float(rates[column]), float(rates.min()), float(rates.max()), len(verdicts), table)
