"""Figures of topics: the radar of Figures 3 to 5, differences to None with intervals, and the maps of Figures 7 to 12."""

from __future__ import annotations

import math

import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pkg_lib.analysis.figures import INK, QUIET, hex_colour, row_axes, styled
from pkg_lib.analysis.metrics import BASELINE
from pkg_lib.analysis.tables import DASH, HIGHER, LOWER
from pkg_lib.analysis.topic_rates import ALL
from pkg_lib.analysis.topics import topics

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
            look = {"color": colour, "marker": marker, "linestyle": line, "markersize": 3, "linewidth": 1.1, "label": column}
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
    between, box = 2 * np.pi * (sector + 0.5) / len(highest), {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    for ring in (v for v in range(top, 0, -40) if v > beside[sector] or v == top):  # each second one: they could touch
        axes.text(between, ring, f"{ring} %", ha="center", va="center", fontsize=7, color=QUIET, bbox=box)
    axes.grid(color="#D5D5D5")
    axes.spines["polar"].set_visible(False)


def _axis_name(axes: Axes, angle: float, text: str) -> None:
    """Beside the end of its axis, away from the centre."""
    x, y = math.sin(angle), math.cos(angle)
    sides = ("right" if x < -0.1 else "left" if x > 0.1 else "center", "bottom" if y > 0.9 else "top" if y < -0.9 else "center")
    place = {"textcoords": "offset points", "xycoords": "data", "annotation_clip": False, "fontsize": 7, "linespacing": 1.0}
    axes.annotate(text, (angle, axes.get_ylim()[1]), (8 * x, 8 * y), ha=sides[0], va=sides[1], **place)


@styled
def topic_differences(found: pd.DataFrame, title: str) -> Figure:
    """Each column's difference to None by topic, in points, with the 95 % interval of a paired bootstrap."""
    names, columns = [*topics().index, ALL], [c for c in found.index.unique("column") if c != BASELINE]
    figure, axes = row_axes(len(names), 0.3, legend=0.2, left=1.34, top=0.38)
    shown = [c for c in columns if found.xs(c, level="column")["n"].any()]
    for number, column in enumerate(columns):
        colour, marker, _ = LOOKS[1 + number]
        for place, name in enumerate(names):
            row, at = found.loc[(name, column)], place + 0.24 * (columns.index(column) - (len(columns) - 1) / 2)
            if row["n"]:
                axes.plot([100 * row["d_low"], 100 * row["d_high"]], [at, at], color=colour, linewidth=1.0)
                axes.plot(100 * row["difference"], at, marker, color=colour, markersize=3.6)
    axes.axvline(0, color=INK, linewidth=0.6)
    axes.axhline(len(names) - 1.5, color=QUIET, linewidth=0.4)
    axes.grid(axis="x")
    low, high = (100 * np.nanmin([found["d_low"].min(), -0.1]), 100 * np.nanmax([found["d_high"].max(), 0.1]))
    axes.set(xlim=(low - 4, high + 4), xlabel="points against None, 95 % interval")
    axes.set_xticks([t for t in matplotlib.ticker.MaxNLocator(nbins=5).tick_values(low, high) if low - 4 <= t <= high + 4])
    axes.set_yticks(range(len(names)), [_row_name(found, n) for n in names])
    figure.text(0.02, 0.99, title, va="top", fontsize=8)
    handles = [_handle(c, *LOOKS[1 + columns.index(c)][:2]) for c in shown]
    figure.legend(handles=handles, loc="lower left", ncols=3, borderaxespad=0.2, handlelength=1.4)
    return figure


def _row_name(found: pd.DataFrame, name: str) -> str:
    short = name if name == ALL else topics().at[name, "short"]
    return f"{short} ({found.at[(name, BASELINE), 'total']:.0f})"


def _handle(label: str, colour: str, marker: str, fill: str = "full") -> Line2D:
    return Line2D([], [], color=colour, marker=marker, linestyle="-" if fill == "full" else "", markersize=3.6, label=label)


@styled
def outcome_maps(points: pd.DataFrame, verdicts: pd.DataFrame, topic: pd.Series, title: str) -> Figure:
    """One panel a column of `verdicts` on the same points: marker by topic, teal and filled where solved, orange-red and open
    where not, a grey cross where not measured. `points`: x, y by task id. The legends count solved/measured tasks by topic."""
    figure = Figure(figsize=(6.7, 4.1))
    width = 0.47
    for number, column in enumerate(verdicts):
        left = 0.02 + number * (width + 0.02)
        axes = figure.add_axes((left, 0.235, width, 0.655))
        _panel(axes, points, verdicts[column], topic)
        axes.set_title(_panel_title(verdicts[column], str(column)), loc="left")
        axes.legend(handles=_counted(verdicts[column], topic), loc="upper left", bbox_to_anchor=(0, -0.02), ncols=2,
                    borderaxespad=0, handlelength=0.8, columnspacing=2.5, handletextpad=0.6)  # fmt: skip
    figure.text(0.02, 0.985, title, va="top", fontsize=8)
    figure.legend(handles=_outcome_handles(verdicts), loc="upper right", ncols=3, borderaxespad=0.4, handlelength=0.8)
    return figure


def _panel(axes: Axes, points: pd.DataFrame, verdicts: pd.Series, topic: pd.Series) -> None:
    here = points.loc[verdicts.index]
    unknown = verdicts.isna()
    axes.plot(here["x"][unknown], here["y"][unknown], "x", color=NO_VERDICT, markersize=2.5, markeredgewidth=0.6, zorder=1)
    for name, marker in SHAPES.items():
        mine = (topic.reindex(verdicts.index) == name) & ~unknown
        solved = verdicts[mine].astype(bool)
        for passed, colour in ((False, hex_colour(LOWER)), (True, hex_colour(HIGHER))):
            at = here.loc[solved.index[solved == passed]]
            face = colour if passed else "none"
            axes.plot(at["x"], at["y"], marker, mec=colour, mfc=face, markersize=3.6, markeredgewidth=0.7, zorder=2 + passed)
    axes.set(xticks=[], yticks=[])
    axes.margins(0.04)
    axes.spines[["top", "right"]].set_visible(True)


def _panel_title(verdicts: pd.Series, column: str) -> str:
    known = verdicts.dropna()
    return f"{column}: {int(known.sum())}/{len(known)} solved"


def _counted(verdicts: pd.Series, topic: pd.Series) -> list[Line2D]:
    known = verdicts.dropna().astype(bool)
    mine = topic.reindex(known.index)
    counts = {name: known[mine == name] for name in SHAPES}
    shares = {n: f"{int(c.sum())}/{len(c)}" if len(c) else DASH for n, c in counts.items()}
    labels = {n: f"{topics().at[n, 'short']} {share}" for n, share in shares.items()}
    look = {"linestyle": "", "color": INK, "mfc": "none", "mew": 0.7, "markersize": 3.8}
    return [Line2D([], [], marker=SHAPES[n], label=label, **look) for n, label in labels.items()]


def _outcome_handles(verdicts: pd.DataFrame) -> list[Line2D]:
    look = {"linestyle": "", "marker": "o", "markersize": 3.8, "mew": 0.7}
    solved, failed = hex_colour(HIGHER), hex_colour(LOWER)
    handles = [Line2D([], [], color=solved, mfc=solved, label="solved", **look)]
    handles.append(Line2D([], [], color=failed, mfc="none", label="not solved", **look))
    if verdicts.isna().to_numpy().any():
        handles.append(Line2D([], [], color=NO_VERDICT, label="not measured", **look | {"marker": "x"}))
    return handles
