"""RQ3 (Section 5): which unit of retrieval helps most, a row, a function or a block? Columns against each other, in pairs.

A contrast holds the retriever fixed and changes the unit, on the same tasks. Differences are pass@1 of the finer unit minus
that of the coarser one, so a positive one speaks for the finer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pkg_lib.analysis.figures import (
    INK,
    QUIET,
    beside,
    legend_below,
    row_axes,
    styled,
    ticks_inside,
    title_room,
)
from pkg_lib.analysis.stats import compare, holm
from pkg_lib.analysis.tables import MINUS, complete, kind, points
from pkg_lib.core.types import Context
from pkg_lib.papers.pkg.pass_tables import PUBLISHED, published_rates

UNITS = {"BM25": "row", "Dense": "row", "Func-BM25": "function", "Func-PKG": "function", "Block-PKG": "block"}
UNITS |= {"JSON-PKG": "path-value"}
BLUE = "#0072B2"


# The paper's kind of corpus -> contrast -> finer, coarser column; the last sets selection against the finest unit.
CONTRASTS = {
    "code": {
        "function against row, BM25": ("Func-BM25", "BM25"),
        "function against row, dense": ("Func-PKG", "Dense"),
        "block against row, dense": ("Block-PKG", "Dense"),
        "block against function, dense": ("Block-PKG", "Func-PKG"),
        "selection against block": ("Reranked", "Block-PKG"),
    },
    "text": {
        "path-value against row, BM25": ("JSON-PKG", "BM25"),
        "path-value against row, dense": ("JSON-PKG", "Dense"),
        "selection against path-value": ("Reranked", "JSON-PKG"),
    },
}


def paired(verdicts: pd.DataFrame, among: Mapping[str, pd.Series] | None = None) -> pd.DataFrame:
    """One row a contrast ("Func-PKG against Dense"), over the tasks measured in both, as of `stats.compare`.

    `among`: column -> tasks that count (boolean by task id); None takes all. Holm's correction is over the contrasts.
    """
    frame, rows = complete(verdicts), {}
    for finer, coarser in CONTRASTS[kind(frame)].values():
        pair = frame.reindex(columns=[coarser, finer])
        for column in {*pair} & {*(among or {})}:
            pair = pair[(among or {})[column].reindex(pair.index, fill_value=False)]
        rows[f"{finer} against {coarser}"] = compare(pair, baseline=coarser).loc[finer]
    table = pd.DataFrame.from_dict(rows, orient="index")
    table = table.assign(p_holm=holm(table["p"].astype(float).tolist()))
    return table.astype({"n": int, "helped": int, "hurt": int})


def published_differences(benchmark: str, verdicts: pd.DataFrame) -> pd.DataFrame:
    """contrast x published model: the paper's differences (Tables 1 to 4) as fractions; no columns without a table."""
    which = kind(verdicts)
    pairs = [*CONTRASTS[which].values()]
    names = [f"{finer} against {coarser}" for finer, coarser in pairs]
    if (benchmark, which) not in PUBLISHED:
        return pd.DataFrame(index=names)
    rates = published_rates(benchmark, [*dict.fromkeys(c for pair in pairs for c in pair)])
    gaps = [(rates[finer] - rates[coarser]) / 100 for finer, coarser in pairs]
    return pd.DataFrame(dict(zip(names, gaps, strict=True))).T


def without_the_answer(contexts: Mapping[str, Sequence[Context]]) -> dict[str, pd.Series]:
    """column -> whether a task's context was looked at and does not define the very function that is asked for."""
    return {
        column: pd.Series({c.task_id: c.defines_task is False for c in texts}, dtype=bool)
        for column, texts in contexts.items()
    }


@styled
def forest(verdicts: pd.DataFrame, benchmark: str, title: str) -> Figure:
    """Paired differences with 95 % intervals, one row a contrast; the published models beneath as small markers."""
    rows = paired(verdicts)
    published, known = 100 * published_differences(benchmark, complete(verdicts)), rows["n"].to_numpy() > 0
    figure, axes = row_axes(len(rows), 0.42, legend=0.2, left=0.98, top=title_room(title), right=0.5)
    ours, places = 100 * rows[["difference", "low", "high"]].astype(float), np.arange(len(rows)) - 0.1
    axes.hlines(places, ours["low"], ours["high"], color=BLUE, linewidth=1.2)
    look = {"color": BLUE, "markersize": 4.5, "label": "here, 95 % interval"}
    axes.plot(ours["difference"][known], places[known], "o", **look)
    for place, (name, row) in zip(places, rows.iterrows(), strict=True):
        beside(axes, place + 0.1, points(row["difference"]))
        models = published.loc[name].dropna().astype(float)
        if not row["n"]:
            where = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
            look = {"color": QUIET, "ha": "right", "va": "center_baseline"}
            axes.annotate("not measured", (1, place), (-2, 0), **look, **where)
        if len(models):
            look = {"mec": QUIET, "mfc": "white", "mew": 0.6, "markersize": 2.6, "linestyle": "none"}
            axes.plot(models, [place + 0.34] * len(models), "s", label="published model", **look)
            axes.plot(models.mean(), place + 0.34, "D", color="#D55E00", markersize=4, label="their average")
    axes.axvline(0, color=INK, linewidth=0.6)
    axes.grid(axis="x")
    axes.margins(x=0.06)
    if not known.any() and published.isna().all(axis=None):
        axes.set_xlim(-10, 10)
    ticks_inside(axes.xaxis)
    axes.set_xlabel("difference in pass@1 (points)")
    names = [str(name).replace(" against ", f"\n{MINUS} ") for name in rows.index]
    axes.set_yticks(range(len(names)), names)
    figure.text(0.02, 1 - 0.06 / figure.get_figheight(), title, fontsize=8, va="top")
    legend_below(axes, ncols=3)
    return figure
