"""Figures of topics: the radar of Figures 3 to 5, differences to None with intervals, and the maps of Figures 7 to 12."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pkg_lib.analysis.figures import (
    INK,
    QUIET,
    hex_colour,
    interval_points,
    legend_below,
    row_axes,
    styled,
    ticks_inside,
)
from pkg_lib.analysis.stats import BASELINE, score_interval
from pkg_lib.analysis.tables import DASH, HIGHER, LOWER
from pkg_lib.papers.pkg.topic_rates import ALL
from pkg_lib.papers.pkg.topics import topics

# Colour, marker and line of the figure's columns, in their order: None, BM25, PKG, Reranked.
LOOKS = (("#222222", "o", "-"), ("#E69F00", "^", "--"), ("#0072B2", "s", "-."), ("#009E73", "D", ":"))
SHAPES = dict(zip(topics().index, ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*"), strict=True))
NO_VERDICT = "#B0B0B0"


@styled
def radar(found: pd.DataFrame, title: str) -> Figure:
    """pass@1 of each measured column on one axis a topic, from the centre (0 %) outwards; `found` of topic_rates.by_topic."""
    names, columns = list(topics().index), list(found.index.unique("column"))
    figure = Figure(figsize=(3.35, 3.2))
    axes = figure.add_axes((0.22, 0.186, 0.56, 0.56 * 3.35 / 3.2), projection="polar")
    angles = 2 * np.pi * np.arange(len(names)) / len(names)
    axes.set_theta_offset(np.pi / 2)
    axes.set_theta_direction(-1)
    rates_of = {c: [100 * found.at[(t, c), "rate"] for t in names] for c in columns}
    for (column, rates), (colour, marker, line) in zip(rates_of.items(), LOOKS, strict=False):
        if not all(map(math.isnan, rates)):
            look = {
                "color": colour,
                "marker": marker,
                "linestyle": line,
                "markersize": 3,
                "linewidth": 1.1,
                "label": column,
            }
            axes.plot([*angles, angles[0]], [*rates, rates[0]], clip_on=False, **look)
    _radial(axes, np.array(list(rates_of.values())))
    axes.set_xticks(angles, [])
    for angle, name in zip(angles, names, strict=True):
        _axis_name(axes, angle, f"{topics().at[name, 'short']}\nn={found.at[(name, BASELINE), 'total']:.0f}")
    figure.text(0.02, 0.985, title, va="top", fontsize=8)
    figure.legend(loc="lower center", ncols=4, borderaxespad=0.3, handlelength=2.2)
    return figure


def _radial(axes: Axes, rates: np.ndarray) -> None:
    """Rings in percent, labelled beyond the lines, between the two neighbouring axes with the lowest rates [columns, topics]."""
    highest = np.nan_to_num(rates).max(axis=0)
    top = min(100, 20 * (int(highest.max() // 20) + 1))
    axes.set_ylim(0, top)
    beside = np.maximum(highest, np.roll(highest, -1))
    sector = int(beside.argmin())
    rings = range(20, top + 1, 20)
    axes.set_yticks(rings, [])
    between, box = (
        2 * np.pi * (sector + 0.5) / len(highest),
        {"facecolor": "white", "edgecolor": "none", "pad": 0.8},
    )
    for ring in (
        v for v in range(top, 0, -40) if v > beside[sector] or v == top
    ):  # each second one: they could touch
        axes.text(between, ring, f"{ring} %", ha="center", va="center", fontsize=7, color=QUIET, bbox=box)
    axes.grid(color="#D5D5D5")
    axes.spines["polar"].set_visible(False)


def _axis_name(axes: Axes, angle: float, text: str) -> None:
    """Beside the end of its axis, away from the centre."""
    x, y = math.sin(angle), math.cos(angle)
    sides = (
        "right" if x < -0.1 else "left" if x > 0.1 else "center",
        "bottom" if y > 0.9 else "top" if y < -0.9 else "center",
    )
    place = {
        "textcoords": "offset points",
        "xycoords": "data",
        "annotation_clip": False,
        "fontsize": 7,
        "linespacing": 1.0,
    }
    axes.annotate(text, (angle, axes.get_ylim()[1]), (8 * x, 8 * y), ha=sides[0], va=sides[1], **place)


@styled
def topic_differences(found: pd.DataFrame, title: str) -> Figure:
    """Each measured column's difference to None by topic, in points, with Tango's 95 % score interval."""
    order = {name: _row_name(found, name) for name in (*topics().index, ALL)}
    figure, axes = row_axes(len(order), 0.3, legend=0.2, left=1.34, top=0.38)
    looks = {
        c: look[:2] for c, look in zip(found.index.unique("column"), LOOKS, strict=False) if c != BASELINE
    }
    known = found[found["n"] > 0].reset_index()
    if len(known):
        interval_points(
            axes, _steps(known, order), list(order.values()), "column", looks, errorbar=_score_bar, dodge=0.48
        )
    axes.axvline(0, color=INK, linewidth=0.6)
    axes.axhline(len(order) - 1.5, color=QUIET, linewidth=0.4)
    axes.set(ylim=(len(order) - 0.5, -0.5), xlabel="points against None, 95 % score interval")
    axes.set_yticks(range(len(order)), list(order.values()))
    ticks_inside(axes.xaxis)
    figure.text(0.02, 0.99, title, va="top", fontsize=8)
    legend_below(axes, ncols=3)
    return figure


def _row_name(found: pd.DataFrame, name: str) -> str:
    short = name if name == ALL else topics().at[name, "short"]
    return f"{short} ({found.at[(name, BASELINE), 'total']:.0f})"


def _steps(known: pd.DataFrame, order: Mapping[str, str]) -> pd.DataFrame:
    """One row a task measured in a column and in None: +100 solved by the column alone, -100 by None alone, else 0."""
    counts = [
        (100, known["helped"]),
        (-100, known["hurt"]),
        (0, known["n"] - known["helped"] - known["hurt"]),
    ]
    rows = pd.DataFrame({"column": known["column"], "row": known["topic"].map(order)})
    return pd.concat([rows.loc[rows.index.repeat(n.astype(int))].assign(value=step) for step, n in counts])


def _score_bar(steps: pd.Series) -> tuple[float, float]:
    low, high = score_interval(int((steps > 0).sum()), int((steps < 0).sum()), len(steps))
    return 100 * low, 100 * high


@styled
def outcome_maps(points: pd.DataFrame, verdicts: pd.DataFrame, topic: pd.Series, title: str) -> Figure:
    """One panel a column of `verdicts` on the same points: marker by topic, teal and filled where solved, orange-red and open
    where not, a grey cross where not measured. `points`: x, y by task id. The legend counts solved/measured tasks by topic, in
    the order of the panels."""
    figure = Figure(figsize=(6.7, 4.1))
    width = 0.96 / max(1, verdicts.shape[1])
    for number, column in enumerate(verdicts):
        axes = figure.add_axes((0.02 + number * width, 0.26, width - 0.02, 0.63))
        known = verdicts[column].dropna().astype(bool)
        tasks = points.assign(topic=topic, solved=known).loc[verdicts.index]
        _panel(axes, tasks)
        axes.set_title(f"{column}: {int(known.sum())}/{len(known)} solved", loc="left")
    figure.text(0.02, 0.985, title, va="top", fontsize=8)
    look = {
        "loc": "upper left",
        "borderaxespad": 0,
        "handlelength": 0.8,
        "columnspacing": 3,
        "alignment": "left",
    }
    look |= {"title_fontsize": 7}
    figure.legend(
        handles=_outcome_handles(verdicts), bbox_to_anchor=(0.02, 0.235), title="Colour: outcome", **look
    )
    title = f"Shape: topic; its solved/measured tasks: {', '.join(map(str, verdicts))}"
    handles = [_topic_handle(verdicts, topic, n) for n in SHAPES]
    figure.legend(handles=handles, bbox_to_anchor=(0.22, 0.235), title=title, ncols=2, **look)
    return figure


def _panel(axes: Axes, tasks: pd.DataFrame) -> None:
    """`tasks`: x, y, topic, and solved, which is neither True nor False where it was not measured."""
    unknown, solved = tasks[tasks["solved"].isna()], tasks[tasks["solved"] == True]  # noqa: E712
    axes.plot(
        unknown["x"], unknown["y"], "x", color=NO_VERDICT, markersize=2.5, markeredgewidth=0.6, zorder=1
    )
    look = {
        "x": "x",
        "y": "y",
        "style": "topic",
        "style_order": [*SHAPES],
        "markers": SHAPES,
        "legend": False,
        "s": 13,
    }
    failed = tasks[tasks["solved"] == False]  # noqa: E712
    sns.scatterplot(failed, fc="none", ec=hex_colour(LOWER), linewidth=0.7, zorder=2, ax=axes, **look)
    sns.scatterplot(
        solved, fc=hex_colour(HIGHER), ec=hex_colour(HIGHER), linewidth=0.7, zorder=3, ax=axes, **look
    )
    axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
    axes.margins(0.04)
    axes.spines[["top", "right"]].set_visible(True)


def _topic_handle(verdicts: pd.DataFrame, topic: pd.Series, name: str) -> Line2D:
    mine = verdicts[topic.reindex(verdicts.index) == name]
    shares = [f"{int(v.sum())}/{v.notna().sum()}" if v.notna().any() else DASH for _, v in mine.items()]
    label = f"{topics().at[name, 'short']} {', '.join(shares)}"
    return Line2D(
        [], [], linestyle="", color=INK, mfc="none", mew=0.7, markersize=3.8, marker=SHAPES[name], label=label
    )


def _outcome_handles(verdicts: pd.DataFrame) -> list[Line2D]:
    look = {"linestyle": "", "marker": "o", "markersize": 3.8, "mew": 0.7}
    solved, failed = hex_colour(HIGHER), hex_colour(LOWER)
    handles = [Line2D([], [], color=solved, mfc=solved, label="solved", **look)]
    handles.append(Line2D([], [], color=failed, mfc="none", label="not solved", **look))
    if verdicts.isna().to_numpy().any():
        handles.append(Line2D([], [], color=NO_VERDICT, label="not measured", **look | {"marker": "x"}))
    return handles
