"""RQ3 (Section 5): which unit of retrieval helps most, a row, a function or a block? Columns against each other, in pairs.

A contrast holds the retriever fixed and changes the unit, on the same tasks. Differences are pass@1 of the finer unit minus
that of the coarser one, so a positive one speaks for the finer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import ALPHA, BASELINE, compare, holm, not_measured, pass_at_1, wilson
from pkg_lib.analysis.tables import (
    DASH,
    TITLES,
    complete,
    interval,
    kind,
    percent,
    points,
    probability,
)
from pkg_lib.core.types import Context
from pkg_lib.papers.pkg.pass_tables import PUBLISHED, published_rates

UNITS = {"BM25": "row", "Dense": "row", "Func-BM25": "function", "Func-PKG": "function", "Block-PKG": "block"}
UNITS |= {"JSON-PKG": "path-value"}


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two columns that differ in the unit alone; the last one sets selection against the finest unit."""

    name: str
    finer: str
    coarser: str

    @property
    def columns(self) -> str:
        return f"{self.finer} against {self.coarser}"


CONTRASTS = {
    "code": (
        Contrast("function against row, BM25", "Func-BM25", "BM25"),
        Contrast("function against row, dense", "Func-PKG", "Dense"),
        Contrast("block against row, dense", "Block-PKG", "Dense"),
        Contrast("block against function, dense", "Block-PKG", "Func-PKG"),
        Contrast("selection against block", "Reranked", "Block-PKG"),
    ),
    "text": (
        Contrast("path-value against row, BM25", "JSON-PKG", "BM25"),
        Contrast("path-value against row, dense", "JSON-PKG", "Dense"),
        Contrast("selection against path-value", "Reranked", "JSON-PKG"),
    ),
}


def units_of(verdicts: pd.DataFrame) -> list[str]:
    """The measured retrieval columns in their order."""
    return [c for c in UNITS if c in verdicts and verdicts[c].notna().any()]


def paired(verdicts: pd.DataFrame, among: Mapping[str, pd.Series] | None = None) -> pd.DataFrame:
    """One row a contrast, over the tasks measured in both: n, difference, low, high (fractions), helped, hurt, p, p_holm.

    `among`: column -> tasks that count (boolean by task id); None takes all. Holm's correction is over the contrasts.
    """
    frame = complete(verdicts)
    rows = {}
    for contrast in CONTRASTS[kind(frame)]:
        pair = frame.reindex(columns=[contrast.coarser, contrast.finer])
        for column in {*pair} & {*(among or {})}:
            pair = pair[(among or {})[column].reindex(pair.index, fill_value=False)]
        rows[contrast.name] = compare(pair, baseline=contrast.coarser).loc[contrast.finer]
    found = pd.DataFrame.from_dict(rows, orient="index")
    found = found.assign(p_holm=holm(found["p"].astype(float).tolist()))
    return found.astype({"n": int, "helped": int, "hurt": int})


def published_differences(benchmark: str, verdicts: pd.DataFrame) -> pd.DataFrame:
    """contrast x published model: the paper's differences (Tables 1 to 4) as fractions; no columns without a table."""
    which = kind(verdicts)
    if (benchmark, which) not in PUBLISHED:
        return pd.DataFrame(index=[c.name for c in CONTRASTS[which]])
    wanted = dict.fromkeys(c for k in CONTRASTS[which] for c in (k.finer, k.coarser))
    rates = published_rates(benchmark, list(wanted))
    return pd.DataFrame({k.name: (rates[k.finer] - rates[k.coarser]) / 100 for k in CONTRASTS[which]}).T


def without_the_answer(contexts: Mapping[str, Sequence[Context]]) -> dict[str, pd.Series]:
    """column -> whether a task's context was looked at and does not define the very function that is asked for."""
    return {
        column: pd.Series({c.task_id: c.defines_task is False for c in found}, dtype=bool)
        for column, found in contexts.items()
    }


def contrast_grid(verdicts: pd.DataFrame, benchmark: str, among: Mapping[str, pd.Series]) -> Grid:
    """The paired differences beside the paper's, and again over the tasks whose two contexts hold no answer."""
    frame, found, clean = complete(verdicts), paired(verdicts), paired(verdicts, among)
    theirs = published_differences(benchmark, frame)
    rows = {}
    for contrast in CONTRASTS[kind(frame)]:
        row, rest = found.loc[contrast.name], clean.loc[contrast.name]
        counts = [f"{row[k]:.0f}" if row["n"] else DASH for k in ("n", "helped", "hurt")]
        ours = [counts[0], points(row["difference"]), interval(row["low"], row["high"]), *counts[1:]]
        ours += [
            probability(row["p"]),
            probability(row["p_holm"]),
            *(_clean(rest) if contrast.finer in UNITS else [DASH, DASH]),
        ]
        rows[contrast.columns] = [*ours, *_theirs(theirs.loc[contrast.name])]
    columns = [
        "tasks",
        "difference",
        "95 % interval",
        "only the first",
        "only the second",
        "McNemar p",
        "p (Holm)",
        "tasks without the answer",
        "difference there",
        "published average",
        "published models above 0",
    ]
    grid = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("contrast")
    notes = (
        "Points of pass@1, first column minus second, on the tasks measured in both; interval by paired bootstrap over tasks. "
        "Only the first: tasks that only the first column solves.",
        "Without the answer: neither context defines the very function asked for; Reranked has no context of its own.",
        f"{DASH} not measured, or not published.",
    )
    return Grid(f"Units of retrieval against each other on {TITLES.get(benchmark, benchmark)}", grid, notes)


def _clean(row: pd.Series) -> list[str]:
    return [f"{row['n']:.0f}", _with_interval(row)] if row["n"] else [DASH, DASH]


def _with_interval(row: pd.Series) -> str:
    return f"{points(row['difference'])} ({interval(row['low'], row['high'])})"


def _theirs(differences: pd.Series) -> list[str]:
    known = differences.dropna()
    return [points(known.mean()), f"{(known > 0).sum()} of {len(known)}"] if len(known) else [DASH, DASH]


def unit_grid(verdicts: pd.DataFrame, contexts: Mapping[str, Sequence[Context]], added: pd.DataFrame) -> Grid:
    """What each column retrieves: unit, pass@1, tokens its context adds (`added`: task x column), cut, with the answer."""
    frame, rows = complete(verdicts), {}
    for column in (c for c in UNITS if c in frame):
        rate, known = pass_at_1(frame[column]), contexts.get(column, ())
        low, high = wilson(rate.passed, rate.measured) or (None, None)
        tokens = added[column].mean() if column in added else float("nan")
        looked = [c.defines_task for c in known if c.defines_task is not None]
        bounds = f"{percent(low)} to {percent(high)}" if rate.measured else DASH
        cut = str(sum(c.truncated for c in known)) if known else DASH
        answer = f"{sum(looked)} of {len(looked)}" if looked else DASH
        rows[column] = [
            UNITS[column],
            percent(rate.value),
            bounds,
            DASH if pd.isna(tokens) else f"{tokens:.0f}",
            cut,
            answer,
        ]
    columns = [
        "unit",
        "pass@1, %",
        "95 % interval",
        "mean tokens added",
        "contexts cut",
        "contexts with the answer",
    ]
    grid = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("column")
    note = (
        "Tokens: of the prompt with the context minus the prompt without. Cut: at the budget of characters. "
    )
    return Grid("What the units bring", grid, (note + f"{DASH} not measured.",))


@styled
def forest(verdicts: pd.DataFrame, benchmark: str, title: str) -> Figure:
    """Paired differences with 95 % intervals, one row a contrast; the published models beneath as small open markers."""
    frame, found = complete(verdicts), paired(verdicts)
    theirs, contrasts = published_differences(benchmark, frame), CONTRASTS[kind(frame)]
    figure, axes = row_axes(len(contrasts), 0.42, legend=0.2, left=0.98, top=title_room(title), right=0.5)
    names, known = [c.name for c in contrasts], found["n"].to_numpy() > 0
    ours, places = (
        100 * found.loc[names, ["difference", "low", "high"]].astype(float),
        np.arange(len(names)) - 0.1,
    )
    axes.hlines(places, ours["low"], ours["high"], color="#0072B2", linewidth=1.2)
    axes.plot(
        ours["difference"][known],
        places[known],
        "o",
        color="#0072B2",
        markersize=4.5,
        label="here, 95 % interval",
    )
    for place, name in enumerate(names):
        beside(axes, place, points(found.at[name, "difference"]))
        models = 100 * theirs.loc[name].dropna().astype(float)
        if not known[place]:
            axes.annotate(
                "not measured",
                (1, place - 0.1),
                (-2, 0),
                color=QUIET,
                ha="right",
                va="center_baseline",
                xycoords=axes.get_yaxis_transform(),
                textcoords="offset points",
            )
        if len(models):
            look = {"mec": QUIET, "mfc": "white", "mew": 0.6, "markersize": 2.6, "linestyle": "none"}
            axes.plot(models, [place + 0.24] * len(models), "s", label="published model", **look)
            axes.plot(models.mean(), place + 0.24, "D", color="#D55E00", markersize=4, label="their average")
    axes.axvline(0, color=INK, linewidth=0.6)
    axes.grid(axis="x")
    axes.margins(x=0.06)
    if not known.any() and theirs.isna().all(axis=None):
        axes.set_xlim(-10, 10)
    ticks_inside(axes.xaxis)
    axes.set_xlabel("difference in pass@1 (points)")
    axes.set_yticks(range(len(names)), [f"{c.finer}\n\N{MINUS SIGN} {c.coarser}" for c in contrasts])
    figure.text(0.02, 1 - 0.06 / figure.get_figheight(), title, fontsize=8, va="top")
    legend_below(axes, ncols=3)
    return figure


def findings(verdicts: pd.DataFrame, benchmark: str, among: Mapping[str, pd.Series]) -> list[str]:
    """What the contrasts say, decided by the corrected p; then beside the paper, and over tasks without the answer."""
    frame, found = complete(verdicts), paired(verdicts)
    contrasts = {c.name: c for c in CONTRASTS[kind(frame)]}
    absent = [contrasts[n].columns for n in found.index[found["n"] == 0]]
    known = found[found["n"] > 0]
    said = [*_decided(known, contrasts), *_lowest(frame), *_selected(frame)]
    said += _beside(known, published_differences(benchmark, frame), contrasts)
    said += _answers(known, paired(verdicts, among), contrasts)
    return [*said, *([f"Not measured: {'; '.join(absent)}."] if absent else [])]


def _decided(known: pd.DataFrame, contrasts: Mapping[str, Contrast]) -> list[str]:
    clear = known["p_holm"] < ALPHA
    groups = {
        "The first is better beyond chance": known[clear & (known["difference"] > 0)],
        "The first is worse beyond chance": known[clear & (known["difference"] < 0)],
        "No difference shown": known[~clear],
    }
    said = {
        what: "; ".join(_one(r, contrasts[str(n)]) for n, r in rows.iterrows())
        for what, rows in groups.items()
    }
    return [f"{what}: {text}." for what, text in said.items() if text]


def _one(row: pd.Series, contrast: Contrast) -> str:
    p = probability(row["p_holm"])
    sign = "" if p.startswith("<") else "= "
    return f"{contrast.columns} {points(row['difference'])} points ({interval(row['low'], row['high'])}; corrected p {sign}{p})"


def _lowest(frame: pd.DataFrame) -> list[str]:
    """Whether rows are the least reliable unit, as the paper says, on the tasks measured in all columns."""
    names = units_of(frame)
    common = frame[names].dropna()
    if len({UNITS[c] for c in names}) < 2 or common.empty:
        return []
    rates = common.mean().astype(float)
    worst = [c for c in names if rates[c] == rates.min()]
    order = ", ".join(
        f"{c} ({UNITS[c]}) {percent(rates[c])} %"
        for c in rates.sort_values(ascending=False, kind="stable").index
    )
    return [
        f"From highest to lowest: {order}. Lowest is a {' and a '.join(dict.fromkeys(UNITS[c] for c in worst))}."
    ]


def _selected(frame: pd.DataFrame) -> list[str]:
    """Selection against the best unit in hindsight, and against None, which retrieval has to beat in the first place."""
    names = units_of(frame)
    if "Reranked" not in frame or "Reranked" in not_measured(["Reranked"], frame) or not names:
        return []
    common = frame.loc[frame["Reranked"].notna(), [*names, BASELINE, "Reranked"]]
    best = str(common[names].mean().astype(float).idxmax())
    rows = {c: compare(common[[c, "Reranked"]], baseline=c).loc["Reranked"] for c in (best, BASELINE)}
    parts = [f"{_with_interval(r)} points against {c}" for c, r in rows.items()]
    return [f"Selection: Reranked is at {parts[0]}, the best unit in hindsight, and at {parts[1]}."]


def _beside(known: pd.DataFrame, theirs: pd.DataFrame, contrasts: Mapping[str, Contrast]) -> list[str]:
    average = theirs.mean(axis=1).dropna()
    both = [n for n in known.index if n in average.index]
    if not both:
        return []
    same = sum(known.at[n, "difference"] * average[n] > 0 for n in both)
    pairs = [
        f"{contrasts[n].columns} {points(known.at[n, 'difference'])} here, {points(average[n])} there"
        for n in both
    ]
    return [
        f"{same} of {len(both)} contrasts have the sign of the paper's average over its models: {'; '.join(pairs)}."
    ]


def _answers(known: pd.DataFrame, clean: pd.DataFrame, contrasts: Mapping[str, Contrast]) -> list[str]:
    """What remains of the differences between units where no context holds the function that the task asks for."""
    rows = [n for n in known.index if clean.at[n, "n"] and contrasts[n].finer in UNITS]
    parts = [f"{contrasts[n].columns} {_with_interval(clean.loc[n])} on {clean.at[n, 'n']}" for n in rows]
    return (
        [f"On tasks for which neither context defines the function asked for: {'; '.join(parts)}."]
        if parts
        else []
    )
