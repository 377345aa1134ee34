"""Figures for a column of 8.5 cm, in one style (style.mplstyle), as PDF and PNG with the same bytes on every run."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import matplotlib.style
import matplotlib.ticker
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from pkg_lib.analysis.metrics import BASELINE, LEAST, compare, pass_at_1, wilson
from pkg_lib.analysis.tables import DASH, HIGHER, LOWER, MINUS, TITLES, complete, percent, published_rates
from pkg_lib.types import UserError

P = ParamSpec("P")
STYLE = Path(__file__).parent / "style.mplstyle"
BAR, BASE, INK, QUIET = "#9CC3D5", "#C9CDD2", "#222222", "#6B6B6B"
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
    """Writes STEM.pdf and STEM.png (300 dpi); same figure, same bytes. UserError where they cannot be written."""
    paths = {}
    for kind, metadata in METADATA.items():
        data = io.BytesIO()
        with matplotlib.style.context(STYLE, after_reset=True):
            figure.savefig(data, format=kind, metadata=metadata, dpi=300)
        paths[kind] = stem.with_name(f"{stem.name}.{kind}")
        _replace(paths[kind], data.getvalue())
    return paths


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
    theirs, columns = published_rates(benchmark, list(verdicts)), list(verdicts)
    height, legend = (0.34, 0.52) if len(theirs) else (0.27, 0.0)
    figure, axes = row_axes(len(columns), height, legend, top=title_room(title))
    for place, name in enumerate(columns):
        _rate(axes, place, name, verdicts[name])
    beneath, open_ = [place + 0.36 for place in range(len(columns))], {"mfc": "white", "mec": QUIET, "mew": 0.6}
    for marker, (name, row) in zip(MARKERS, theirs.iterrows(), strict=False):
        axes.plot(row, beneath, marker, label=name, zorder=3, **open_)
    axes.set(xlim=(0, 100), xlabel=f"pass@1 on {TITLES.get(benchmark, benchmark)} (%), 95 % Wilson interval")
    axes.grid(axis="x")
    axes.set_yticks(range(len(columns)), columns)
    axes.set_title(title, loc="left")
    if len(theirs):
        look = {"title": "Published (other models, the paper's corpus):", "alignment": "left", "title_fontsize": 7}
        figure.legend(loc="lower left", ncols=3, borderaxespad=0.2, handlelength=1.0, **look)
    return figure


def _rate(axes: Axes, place: int, name: str, verdicts: pd.Series) -> None:
    rate = pass_at_1(verdicts)
    bounds = wilson(rate.passed, rate.measured)
    if rate.value is None or bounds is None or rate.measured < LEAST * rate.total:
        axes.text(1, place, _few(rate.measured, rate.total), va="center_baseline", color=QUIET)
        beside(axes, place, DASH)
        return
    low, high = (100 * b for b in bounds)
    axes.barh(place, 100 * rate.value, height=0.44, color=BASE if name == BASELINE else BAR)
    axes.plot([low, high], [place, place], color=INK, linewidth=0.9, solid_capstyle="butt", zorder=4)
    if rate.measured < rate.total:
        axes.text(1, place, f"n={rate.measured}", va="center_baseline", fontsize=7)
    for end in (low, high):
        axes.plot([end, end], [place - 0.1, place + 0.1], color=INK, linewidth=0.9, zorder=4)
    beside(axes, place, percent(rate.value))


def _few(measured: int, total: int) -> str:
    return f"{measured} of {total} tasks" if measured else "not measured"


def title_room(title: str) -> float:
    """Inches above the axes that the lines of a title take."""
    return 0.24 + 0.14 * title.count("\n")


@styled
def helped_and_hurt_bars(verdicts: pd.DataFrame, title: str, benchmark: str) -> Figure:
    """Tasks each column solved and None did not (right, teal), and the reverse (left, orange-red); net beside them."""
    found = compare(complete(verdicts))
    figure, axes = row_axes(len(found), 0.26, legend=0.0, top=title_room(title))
    widest = max(5, found["helped"].max(), found["hurt"].max())
    for place, (_, row) in enumerate(found.iterrows()):
        _diverge(axes, place, row, 0.02 * widest, len(verdicts))
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=INK, linewidth=0.6)
    axes.set(xlim=(-1.25 * widest, 1.25 * widest))
    axes.set_xlabel(f"tasks of {TITLES.get(benchmark, benchmark)}: hurt | helped, against None")
    ticks = matplotlib.ticker.MaxNLocator(nbins=6, integer=True).tick_values(-widest, widest)
    axes.set_xticks([t for t in ticks if abs(t) <= 1.25 * widest])
    axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
    axes.set_yticks(range(len(found)), list(found.index))
    axes.set_title(title, loc="left")
    axes.annotate("net", (1, 1), (4, 3), xycoords="axes fraction", textcoords="offset points", fontsize=7, color=QUIET)
    return figure


def _diverge(axes: Axes, place: int, row: pd.Series, gap: float, total: int) -> None:
    if row["n"] < max(1, LEAST * total):
        axes.text(gap, place, _few(int(row["n"]), total), va="center_baseline", color=QUIET)
        beside(axes, place, DASH)
        return
    helped, hurt = int(row["helped"]), int(row["hurt"])
    axes.barh(place, helped, height=0.6, color=hex_colour(HIGHER))
    axes.barh(place, -hurt, height=0.6, color=hex_colour(LOWER))
    axes.text(helped + gap, place, str(helped), va="center_baseline")
    axes.text(-hurt - gap, place, str(hurt), va="center_baseline", ha="right")
    beside(axes, place, f"{helped - hurt:+d}".replace("-", MINUS) if helped != hurt else "0")


def row_axes(count: int, height: float, legend: float, left: float = 0.78, top: float = 0.24) -> tuple[Figure, Axes]:
    """A figure with one horizontal row a column, the first on top; `height`, `legend`, `left` (for names) and `top` in inches."""
    bottom, right = 0.42 + legend, 0.36
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
ERROR_LOOK = {
    "AssertionError": ("#0072B2", ""), "NameError": ("#E69F00", "///"), "TypeError": ("#009E73", "..."),
    "SyntaxError": ("#CC79A7", "xxx"), "IndentationError": ("#56B4E9", "\\\\\\"), "Others": ("#C9CDD2", ""),
}  # fmt: skip


@styled
def error_bars(counts: pd.DataFrame, title: str) -> Figure:
    """Stacked bars of failed solutions: settings (rows of `counts`, named by its index) x error types (columns)."""
    figure, axes = row_axes(len(counts), 0.28, legend=0.5, left=1.1)
    widest = max(1, int(counts.sum(axis=1).max()))
    for place, (_, row) in enumerate(counts.iterrows()):
        start = 0
        for error, (colour, hatch) in ERROR_LOOK.items():
            n = int(row[error])
            label = error if place == 0 else None
            axes.barh(place, n, 0.66, start, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4, label=label)
            if n > 0.07 * widest:
                box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
                axes.text(start + n / 2, place, str(n), ha="center", va="center_baseline", fontsize=7, bbox=box)
            start += n
        beside(axes, place, str(start))
    axes.set(xlim=(0, widest), xlabel="failed solutions")
    axes.set_yticks(range(len(counts)), [_two_lines(str(n)) for n in counts.index])
    axes.set_title(title, loc="left")
    figure.legend(loc="lower left", ncols=3, borderaxespad=0.2, handlelength=1.4)
    return figure


def _two_lines(name: str) -> str:
    """A long name broken after a hyphen near its middle."""
    places = [i + 1 for i, c in enumerate(name) if c == "-" and i + 1 < len(name)]
    if len(name) <= 18 or not places:
        return name
    at = min(places, key=lambda i: abs(i - len(name) / 2))
    return f"{name[:at]}\n{name[at:]}"


@styled
def method_points(frames: Mapping[str, pd.DataFrame], columns: Sequence[str], title: str) -> Figure:
    """pass@1 with its 95 % Wilson interval of each column, one marker a model."""
    figure, axes = row_axes(len(columns), 0.34, legend=0.2)
    step = 0.26
    for number, (name, frame) in enumerate(frames.items()):
        colour, marker = list(ERROR_LOOK.values())[number % 4][0], MARKERS[number % len(MARKERS)]
        shift = step * (number - (len(frames) - 1) / 2)
        for place, column in enumerate(columns):
            rate = pass_at_1(frame[column])
            bounds = wilson(rate.passed, rate.measured)
            if rate.value is not None and bounds is not None:
                label = name if place == 0 else None
                axes.plot([100 * b for b in bounds], [place + shift] * 2, color=colour, linewidth=1.0)
                axes.plot(100 * rate.value, place + shift, marker, color=colour, markersize=4, label=label)
    axes.set(xlabel="pass@1 (%), 95 % Wilson interval")
    axes.grid(axis="x")
    axes.set_yticks(range(len(columns)), list(columns))
    axes.set_title(title, loc="left")
    figure.legend(loc="lower left", ncols=3, borderaxespad=0.2, handlelength=1.0)
    return figure
