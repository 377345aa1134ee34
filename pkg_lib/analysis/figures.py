"""Figures for a column of 8.5 cm, in one style (style.mplstyle), as PDF and PNG, each run the same bytes."""

import io
import math
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib.style
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from PIL import Image

from pkg_lib.analysis.stats import BASELINE, wilson
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.core.store import write_bytes
from pkg_lib.evaluation.results import LEAST

P = ParamSpec("P")
STYLE = Path(__file__).parent / "style.mplstyle"
BAR, BASE, INK, QUIET = "#9CC3D5", "#C9CDD2", "#222222", "#6B6B6B"
# Okabe and Ito's colours, which stay apart for the common colour deficiencies; markers are for print.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DPI = 300
# Without these a file would hold the time it was made or the program's version.
METADATA = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "png": {"Software": None},
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draws under the one style, whatever the user's own settings are."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with matplotlib.style.context(STYLE, after_reset=True):
            return draw(*args, **kwargs)

    return inside


def save_figure(figure: Figure, stem: Path) -> dict[str, Path]:
    """Writes STEM.pdf and STEM.png; same figure, same bytes. UserError where they cannot be written."""
    paths = {}
    for kind, metadata in METADATA.items():
        data = io.BytesIO()
        with matplotlib.style.context(STYLE, after_reset=True):
            figure.savefig(data, format=kind, metadata=metadata, dpi=DPI)
        if (
            kind == "png"
        ):  # in 256 colours, which drawings do not exceed to the eye: a third of the bytes
            small = Image.open(data).convert("RGB").quantize(256)
            small.save(data := io.BytesIO(), "png", optimize=True, dpi=(DPI, DPI))
        paths[kind] = stem.with_name(f"{stem.name}.{kind}")
        write_bytes(paths[kind], data.getvalue())
    return paths


def row_axes(
    count: int,
    height: float,
    legend: float,
    left: float = 0.78,
    title: str = "",
    right: float = 0.36,
) -> tuple[Figure, Axes]:
    """One row a column, the first on top; inches: `height` of a row, `legend`, margins `left` and `right`."""
    bottom, top = 0.42 + legend, 0.24 + 0.14 * title.count("\n")
    width, tall = 3.35, count * height + top + bottom
    figure = Figure(figsize=(width, tall))
    axes = figure.add_axes(
        (left / width, bottom / tall, 1 - (left + right) / width, count * height / tall)
    )
    axes.set_ylim(count - 0.5, -0.5)
    return figure, axes


def beside(axes: Axes, place: int, text: str) -> None:
    """The number at the right edge, outside the plot, where nothing can cover it."""
    edge = {
        "xycoords": axes.get_yaxis_transform(),
        "textcoords": "offset points",
        "annotation_clip": False,
    }
    axes.annotate(text, (1, place), (4, 0), va="center_baseline", **edge)


def ticks_inside(axis: Axis) -> None:
    """Keeps the ticks that lie within the limits as they are now, and the limits."""
    low, high = axis.get_view_interval()
    axis.set_ticks([t for t in axis.get_ticklocs() if low <= t <= high])
    axis.set_view_interval(low, high, ignore=True)


def legend_below(axes: Axes, **look: Any) -> None:
    """What is labelled on the axes, each name once, below them at the left; seaborn's own legend goes."""
    if axes.get_legend():
        axes.get_legend().remove()
    named = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if named:
        look = {"loc": "lower left", "ncols": 2, "borderaxespad": 0.2, "handlelength": 1.0} | look
        axes.figure.legend(list(named.values()), list(named), **look)


def rate_bars(axes: Axes, verdicts: pd.DataFrame) -> None:
    """A bar a column with its Wilson interval, its number beside; none below LEAST of the tasks."""
    known, total = verdicts.notna().sum(), len(verdicts)
    enough = list(known.index[known >= max(1, LEAST * total)])
    look: dict[str, Any] = {"saturation": 1, "width": 0.5, "capsize": 0.3, "errorbar": wilson_bar}
    look["palette"] = {c: BASE if c == BASELINE else BAR for c in verdicts}
    look["err_kws"] = {"color": INK, "linewidth": 0.9}
    rates, order = percents(verdicts[enough]), list(verdicts)
    sns.barplot(
        rates, x="value", y="column", order=order, hue="column", legend=False, ax=axes, **look
    )
    for place, (column, n) in enumerate(known.items()):
        if column not in enough:
            text = f"{n} of {total} tasks" if n else "not measured"
            axes.text(1, place, text, va="center_baseline", color=QUIET)
        beside(axes, place, percent(verdicts[column].mean()) if column in enough else DASH)
    names = [f"{c}\n(n={n})" if c in enough and n < total else str(c) for c, n in known.items()]
    axes.set_yticks(
        range(len(names)), [n.replace(", body in corpus", ",\nbody in corpus") for n in names]
    )
    axes.set(xlim=(0, 100), ylim=(len(names) - 0.5, -0.5), ylabel="")
    axes.grid(axis="x")


def percents(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Verdicts as seaborn takes them: one row a measured task and column, `value` 0 or 100."""
    known = verdicts.melt(var_name="column").dropna()
    return known.assign(value=100 * known["value"].astype(float))


def wilson_bar(values: pd.Series) -> tuple[float, float]:
    """The 95 % Wilson interval of values that are 0 or 100, in percent; for seaborn's `errorbar`."""
    low, high = wilson(int((values > 0).sum()), len(values)) or (math.nan, math.nan)
    return 100 * low, 100 * high


def interval_points(
    axes: Axes,
    frame: pd.DataFrame,
    rows: Sequence[str],
    hue: str,
    looks: dict[str, Any],
    **how: Any,
) -> None:
    """The mean of `value` by row and `hue`, columns of `frame`; `looks`: hue -> colour, marker."""
    colours, markers = ([look[i] for look in looks.values()] for i in (0, 1))
    dodge = 0.26 * (len(looks) - 1) if len(looks) > 1 else False
    look = {
        "dodge": dodge,
        "markersize": 4,
        "mew": 0,
        "linestyle": "none",
        "err_kws": {"linewidth": 1.0},
    }
    look |= {"palette": colours, "markers": markers, "order": rows, "hue_order": list(looks)}
    sns.pointplot(frame, x="value", y="row", hue=hue, orient="y", ax=axes, **look | how)
    axes.set(ylim=(len(rows) - 0.5, -0.5), ylabel="")
    axes.grid(axis="x")
