"""Figures of cast.ipynb: retrieval by chunking, and Pass@1 by context."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from pkg_lib.analysis.figures import (
    COLOURS,
    MARKERS,
    interval_points,
    legend_below,
    rate_bars,
    row_axes,
    styled,
)
from pkg_lib.papers.cast.cast_study import Study, mean_interval
from pkg_lib.papers.cast.retrieving import RANKERS, VARIANTS


@styled
def ranking(study: Study, metric: str = "nDCG@5") -> Figure:
    """A retrieval measure of each chunking with its bootstrap interval, one marker a retriever."""
    measured = {(r, v): study.measure(r, v, metric) for r in RANKERS for v in VARIANTS}
    long = [
        pd.DataFrame({"value": 100 * values, "row": v, "retriever": r})
        for (r, v), values in measured.items()
        if len(values)
    ]
    names = [v for v in VARIANTS if any(len(measured[r, v]) for r in RANKERS)]
    figure, axes = row_axes(len(names), 0.3, legend=0.16, left=0.95)
    looks = dict(zip(RANKERS, zip(COLOURS, MARKERS, strict=False), strict=False))
    if long:
        interval_points(axes, pd.concat(long), names, "retriever", looks, errorbar=_bounds)
    axes.set(xlabel=f"{metric} (%), 95 % bootstrap interval")
    axes.set_title(f"Retrieval on {len(study.ids)} tasks", loc="left")
    legend_below(axes)
    return figure


def _bounds(values: pd.Series) -> tuple[float, float]:
    """The interval of the tables: the same resamples in every cell."""
    found = mean_interval(values)
    return found.low, found.high


@styled
def pass_rates(study: Study) -> Figure:
    """Pass@1 of every judged column with its Wilson interval."""
    figure, axes = row_axes(max(study.verdicts.shape[1], 1), 0.29, legend=0.0, left=1.35)
    rate_bars(axes, study.verdicts)
    axes.set(xlabel="Pass@1 (%), 95 % Wilson interval")
    axes.set_title(study.model, loc="left")
    return figure
