"""Figures for a column of 8.5 cm, in one style (style.mplstyle), as PDF and PNG with the same bytes on every run."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib.style
import matplotlib.ticker
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from PIL import Image

from pkg_lib.analysis.stats import BASELINE, LEAST, compare, wilson
from pkg_lib.analysis.tables import DASH, HIGHER, LOWER, MINUS, TITLES, complete, percent, published_rates
from pkg_lib.core.types import UserError

P = ParamSpec("P")
STYLE = Path(__file__).parent / "style.mplstyle"
BAR, BASE, INK, QUIET = "#9CC3D5", "#C9CDD2", "#222222", "#6B6B6B"
DPI = 300
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# Without these a file would hold the time it was made or the program's version.
METADATA = {"pdf": {"CreationDate": None, "Producer": None, "Creator": None}, "png": {"Software": None}}


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
        paths[kind] = stem.with_name(f"{stem.name}.{kind}")
        _replace(paths[kind], data.getvalue() if kind == "pdf" else _palette(data))
    return paths


def _palette(png: io.BytesIO) -> bytes:
    """The picture in 256 colours, which drawings do not exceed to the eye: a third of the bytes."""
    small = io.BytesIO()
    Image.open(png).convert("RGB").quantize(256).save(small, "png", optimize=True, dpi=(DPI, DPI))
    return small.getvalue()


def _replace(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as e:
        raise UserError(f"cannot write {path}: {e.strerror}; free space or set PKG_RESULTS to another") from e


@styled
def pass_rates(verdicts: pd.DataFrame, title: str, benchmark: str) -> Figure:
    """pass@1 of each column with its 95 % Wilson interval; below each bar the published models as small markers."""
    verdicts = complete(verdicts)
    theirs = published_rates(benchmark, list(verdicts))
    height, legend = (0.34, 0.52) if len(theirs) else (0.29, 0.0)
    figure, axes = row_axes(verdicts.shape[1], height, legend, top=title_room(title))
    rate_bars(axes, verdicts)
    for marker, (name, row) in zip(MARKERS, theirs.iterrows(), strict=False):
        beneath = [place + 0.36 for place in range(len(row))]
        axes.plot(row, beneath, marker, label=name, zorder=3, mfc="white", mec=QUIET, mew=0.6)
    axes.set(xlabel=f"pass@1 on {TITLES.get(benchmark, benchmark)} (%), 95 % Wilson interval")
    axes.set_title(title, loc="left")
    if len(theirs):
        legend_below(
            axes,
            ncols=3,
            title="Published (other models, the paper's corpus):",
            alignment="left",
            title_fontsize=7,
        )
    return figure


def rate_bars(axes: Axes, verdicts: pd.DataFrame) -> None:
    """A bar a column with its Wilson interval and its number beside; none where less than LEAST of the tasks are measured."""
    known, total = verdicts.notna().sum(), len(verdicts)
    enough = list(known.index[known >= max(1, LEAST * total)])
    colours = {c: BASE if c == BASELINE else BAR for c in verdicts}
    look = {
        "palette": colours,
        "saturation": 1,
        "width": 0.5,
        "capsize": 0.3,
        "err_kws": {"color": INK, "linewidth": 0.9},
    }
    sns.barplot(
        percents(verdicts[enough]),
        x="value",
        y="column",
        order=list(verdicts),
        hue="column",
        errorbar=wilson_bar,
        legend=False,
        ax=axes,
        **look,
    )
    for place, (column, n) in enumerate(known.items()):
        if column not in enough:
            axes.text(
                1, place, f"{n} of {total} tasks" if n else "not measured", va="center_baseline", color=QUIET
            )
        beside(axes, place, percent(verdicts[column].mean()) if column in enough else DASH)
    names = [f"{c}\n(n={n})" if c in enough and n < total else str(c) for c, n in known.items()]
    axes.set_yticks(range(len(names)), [n.replace(", body in corpus", ",\nbody in corpus") for n in names])
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
    looks: Mapping[str, tuple[str, str]],
    **how: Any,
) -> None:
    """The mean of `value` in each row, one marker a `hue`, with `errorbar` of seaborn (`how`).

    `frame`: one row a value, with the columns value, row and `hue`; `looks`: hue -> colour, marker.
    """
    colours, markers = ([look[i] for look in looks.values()] for i in (0, 1))
    how = {
        "dodge": 0.26 * (len(looks) - 1) if len(looks) > 1 else False,
        "markersize": 4,
        "mew": 0,
        "linestyle": "none",
    } | how
    sns.pointplot(
        frame,
        x="value",
        y="row",
        order=rows,
        hue=hue,
        hue_order=list(looks),
        palette=colours,
        markers=markers,
        orient="y",
        err_kws={"linewidth": 1.0},
        ax=axes,
        **how,
    )
    axes.set(ylim=(len(rows) - 0.5, -0.5), ylabel="")
    axes.grid(axis="x")


def legend_below(axes: Axes, **look: Any) -> None:
    """What is labelled on the axes, each name once, below them at the left; in the place of seaborn's own legend."""
    if axes.get_legend():
        axes.get_legend().remove()
    named = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if named:
        look = {"loc": "lower left", "ncols": 2, "borderaxespad": 0.2, "handlelength": 1.0} | look
        axes.figure.legend(list(named.values()), list(named), **look)


def title_room(title: str) -> float:
    """Inches above the axes that the lines of a title take."""
    return 0.24 + 0.14 * title.count("\n")


@styled
def helped_and_hurt_bars(verdicts: pd.DataFrame, title: str, benchmark: str) -> Figure:
    """Tasks each column solved and None did not (right, teal), and the reverse (left, orange-red); net beside them."""
    found = compare(complete(verdicts))
    figure, axes = row_axes(len(found), 0.26, legend=0.0, top=title_room(title))
    measured = found["n"] >= max(1, LEAST * len(verdicts))
    counts = found[["helped", "hurt"]].where(measured)
    widest = max(5, *counts.max().fillna(0))
    for (side, sign), colour in zip({"helped": 1, "hurt": -1}.items(), (HIGHER, LOWER), strict=True):
        axes.barh(range(len(found)), sign * counts[side], height=0.6, color=hex_colour(colour))
        for place, n in enumerate(counts[side].fillna(-1)):
            at = {"va": "center_baseline", "ha": "left" if sign > 0 else "right"}
            axes.text(sign * (n + 0.02 * widest), place, f"{n:.0f}" if n >= 0 else "", **at)
    for place, (helped, hurt) in enumerate(counts.to_numpy()):
        net = (
            DASH
            if math.isnan(helped)
            else f"{helped - hurt:+.0f}".replace("-", MINUS)
            if helped != hurt
            else "0"
        )
        beside(axes, place, net)
        if net == DASH:
            n = found["n"].iloc[place]
            text = f"{n} of {len(verdicts)} tasks" if n else "not measured"
            axes.text(0.02 * widest, place, text, va="center_baseline", color=QUIET)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=INK, linewidth=0.6)
    axes.set(xlim=(-1.25 * widest, 1.25 * widest))
    axes.set_xlabel(f"tasks of {TITLES.get(benchmark, benchmark)}: hurt | helped, against None")
    ticks = matplotlib.ticker.MaxNLocator(nbins=6, integer=True).tick_values(-widest, widest)
    axes.set_xticks([t for t in ticks if abs(t) <= 1.25 * widest])
    axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
    axes.set_yticks(range(len(found)), list(found.index))
    axes.set_title(title, loc="left")
    axes.annotate(
        "net", (1, 1), (4, 3), xycoords="axes fraction", textcoords="offset points", fontsize=7, color=QUIET
    )
    return figure


def row_axes(
    count: int, height: float, legend: float, left: float = 0.78, top: float = 0.24, right: float = 0.36
) -> tuple[Figure, Axes]:
    """A figure with one horizontal row a column, the first on top; `height`, `legend`, `left` (for names), `top` and `right` (for
    numbers) in inches."""
    bottom = 0.42 + legend
    width, tall = 3.35, count * height + top + bottom
    figure = Figure(figsize=(width, tall))
    axes = figure.add_axes((left / width, bottom / tall, 1 - (left + right) / width, count * height / tall))
    axes.set_ylim(count - 0.5, -0.5)
    return figure, axes


def beside(axes: Axes, place: int, text: str) -> None:
    """The number at the right edge, outside the plot, where nothing can cover it."""
    edge = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(text, (1, place), (4, 0), va="center_baseline", **edge)


def ticks_inside(axis: Axis) -> None:
    """Keeps the ticks that lie within the limits as they are now, and the limits."""
    low, high = axis.get_view_interval()
    axis.set_ticks([t for t in axis.get_ticklocs() if low <= t <= high])
    axis.set_view_interval(low, high, ignore=True)


def hex_colour(rgb: tuple[int, int, int]) -> str:
    return "#" + "".join(f"{c:02X}" for c in rgb)


# Okabe and Ito's colours, which stay apart for the common colour deficiencies; hatches keep them apart in print.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
ERROR_LOOK = {
    "AssertionError": ("#0072B2", ""),
    "NameError": ("#E69F00", "///"),
    "TypeError": ("#009E73", "..."),
    "SyntaxError": ("#CC79A7", "xxx"),
    "IndentationError": ("#56B4E9", "\\\\\\"),
    "Others": ("#C9CDD2", ""),
}


@styled
def error_bars(counts: pd.DataFrame, title: str) -> Figure:
    """Stacked bars of failed solutions: settings (rows of `counts`, named by its index) x error types (columns).

    A row of <NA> is not measured.
    """
    counts = counts.astype(float)
    figure, axes = row_axes(len(counts), 0.28, legend=0.38, left=1.1)
    totals, places = counts.sum(axis=1, min_count=1), range(len(counts))
    widest = max(1.0, totals.max()) if totals.notna().any() else 1.0
    ends = counts.cumsum(axis=1)
    for error, (colour, hatch) in ERROR_LOOK.items():
        look = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4, "label": error}
        bars = axes.barh(places, counts[error], 0.66, ends[error] - counts[error], **look)
        labels = [f"{n:.0f}" if n > 0.07 * widest else "" for n in counts[error]]
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
        for text in axes.bar_label(bars, labels, label_type="center", fontsize=7):
            text.set_bbox(box if text.get_text() else None)
    for place, total in enumerate(totals):
        beside(axes, place, DASH if math.isnan(total) else f"{total:.0f}")
        if math.isnan(total):
            axes.text(0.01 * widest, place, "not measured", va="center_baseline", color=QUIET)
    axes.set(xlim=(0, widest), ylim=(len(counts) - 0.5, -0.5), xlabel="failed solutions")
    axes.set_yticks(places, [_two_lines(str(n)) for n in counts.index])
    axes.set_title(title, loc="left")
    legend_below(axes, ncols=3, handlelength=1.4)
    return figure


def _two_lines(name: str) -> str:
    """A long name broken before its n, or after a hyphen near its middle."""
    if " (n=" in name:
        return name.replace(" (n=", "\n(n=")
    places = [i + 1 for i, c in enumerate(name) if c == "-" and i + 1 < len(name)]
    if len(name) <= 18 or not places:
        return name
    at = min(places, key=lambda i: abs(i - len(name) / 2))
    return f"{name[:at]}\n{name[at:]}"


@styled
def method_points(frames: Mapping[str, pd.DataFrame], columns: Sequence[str], title: str) -> Figure:
    """pass@1 with its 95 % Wilson interval of each column, one marker a model."""
    figure, axes = row_axes(len(columns), 0.34, legend=0.2)
    long = [
        percents(frame[list(columns)]).rename(columns={"column": "row"}).assign(model=m)
        for m, frame in frames.items()
    ]
    looks = {m: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, m in enumerate(frames)}
    if long:
        interval_points(axes, pd.concat(long), list(columns), "model", looks, errorbar=wilson_bar)
    axes.set(xlabel="pass@1 (%), 95 % Wilson interval")
    axes.set_title(title, loc="left")
    legend_below(axes, ncols=3)
    return figure
