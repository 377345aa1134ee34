"""Figures for a column of 8.5 cm in one style (style.mplstyle), saved as PDF and PNG.

The same figure always gives the same bytes.
"""

import io
import math
from collections.abc import (
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from functools import wraps
from itertools import cycle
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib.style
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from PIL import Image

from pkg_lib.analysis.stats import BASELINE, bootstrap_mean, wilson
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.core.store import write_bytes
from pkg_lib.evaluation.results import LEAST

P = ParamSpec("P")
STYLE = Path(__file__).parent / "style.mplstyle"
BAR, BASE, INK, QUIET = "#9CC3D5", "#C9CDD2", "#222222", "#6B6B6B"
# Okabe and Ito's colours stay apart for the common colour deficiencies; markers are for print.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DPI = 300
WIDTH = 3.35  # inches
LEGEND: dict[str, Any] = {
    "loc": "lower left",
    "ncols": 2,
    "borderaxespad": 0.2,
    "handlelength": 1.0,
}
# Without these a file would hold the time it was made or the program's version.
PDF_METADATA = {
    "CreationDate": None,
    "Producer": None,
    "Creator": None,
}
PNG_METADATA = {"Software": None}


def distinct_styles(
    names: Iterable[str],
    colours: Iterable[str] = COLOURS,
) -> dict[str, tuple[str, str]]:
    """Choose a colour and a marker for each of some names, as `interval_points` takes them.

    Args:
        names: What is told apart.
        colours: Colours in order. They are used again where there are more names.

    Returns:
        Name -> colour and marker.
    """
    styles = zip(cycle(colours), cycle(MARKERS), strict=False)
    return dict(zip(names, styles, strict=False))


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw a figure in the house style, whatever the user's settings are.

    Args:
        draw: A function that returns a figure.

    Returns:
        The function in the house style.
    """

    @wraps(draw)
    def inside(
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Figure:
        with matplotlib.style.context(STYLE, after_reset=True):
            return draw(*args, **kwargs)

    return inside


def save_figure(
    figure: Figure,
    stem: Path,
) -> dict[str, Path]:
    """Write STEM.pdf and STEM.png. The same figure gives the same bytes.

    Args:
        figure: The figure.
        stem: Path of the files without their suffix.

    Returns:
        "pdf" and "png" -> path.

    Raises:
        UserError: A file cannot be written.
    """
    pdf, png, small_png = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with matplotlib.style.context(STYLE, after_reset=True):
        figure.savefig(pdf, format="pdf", metadata=PDF_METADATA, dpi=DPI)
        figure.savefig(png, format="png", metadata=PNG_METADATA, dpi=DPI)
    # 256 colours look the same in a drawing and take a third of the bytes.
    picture = Image.open(png).convert("RGB").quantize(256)
    picture.save(small_png, "png", optimize=True, dpi=(DPI, DPI))
    paths = {}
    for kind, data in {
        "pdf": pdf,
        "png": small_png,
    }.items():
        paths[kind] = stem.with_name(f"{stem.name}.{kind}")
        write_bytes(paths[kind], data.getvalue())
    return paths


def row_axes(
    count: int,
    height: float,
    legend: float,
    left: float = 0.94,
    title: str = "",
    right: float = 0.36,
) -> tuple[Figure, Axes]:
    """Make a figure with one horizontal row per method, the first on top.

    Args:
        count: Number of rows.
        height: Height of a row in inches.
        legend: Height of the legend in inches.
        left: Left margin in inches.
        title: The title, for which lines are kept free.
        right: Right margin in inches.

    Returns:
        The figure and its axes.
    """
    bottom = 0.42 + legend
    top = 0.24 + 0.14 * title.count("\n")
    rows = count * height
    total = rows + top + bottom
    figure = Figure(figsize=(WIDTH, total))
    axes = figure.add_axes((left / WIDTH, bottom / total, 1 - (left + right) / WIDTH, rows / total))
    axes.set_ylim(count - 0.5, -0.5)
    return figure, axes


def write_title(
    figure: Figure,
    title: str,
) -> None:
    """Write the title of a figure of `row_axes` at the left edge of the figure.

    It suits rows with long names, whose axes begin far to the right of that edge.

    Args:
        figure: The figure.
        title: The title.
    """
    top = 1 - 0.06 / figure.get_figheight()
    figure.text(0.02, top, title, fontsize=8, va="top")


def beside(
    axes: Axes,
    place: float,
    text: str,
) -> Annotation:
    """Print a number at the right edge outside the plot, where nothing can cover it.

    Args:
        axes: The axes.
        place: The row.
        text: The number.

    Returns:
        The annotation.
    """
    return axes.annotate(
        text,
        (1, place),
        (4, 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        annotation_clip=False,
        va="center_baseline",
    )


def ticks_inside(axis: Axis) -> None:
    """Keep the current limits of an axis and the ticks within them.

    Args:
        axis: The axis.
    """
    low, high = axis.get_view_interval()
    axis.set_ticks([tick for tick in axis.get_ticklocs() if low <= tick <= high])
    axis.set_view_interval(low, high, ignore=True)


def legend_below(
    axes: Axes,
    **options: Any,
) -> None:
    """Place one legend below the axes at the left, in place of seaborn's own.

    Args:
        axes: The axes, whose labels appear once each.
        **options: Options of `matplotlib.figure.Figure.legend`.
    """
    own_legend = axes.get_legend()
    if own_legend:
        own_legend.remove()
    handles, labels = axes.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    if named:
        options = LEGEND | options
        axes.figure.legend(list(named.values()), list(named), **options)


def rate_bars(
    axes: Axes,
    verdicts: pd.DataFrame,
) -> Axes:
    """Draw pass@1 of every method as a bar with its Wilson interval and its number.

    A method measured on too few tasks (`LEAST`) has no bar.

    Args:
        axes: Axes of `row_axes`.
        verdicts: Verdicts [task, method].

    Returns:
        The axes.
    """
    measured = verdicts.notna().sum()
    total = len(verdicts)
    enough = list(measured.index[measured >= max(1, LEAST * total)])
    sns.barplot(
        percents(verdicts[enough]),
        x="value",
        y="column",
        order=list(verdicts),
        hue="column",
        palette={m: BASE if m == BASELINE else BAR for m in verdicts},
        legend=False,
        ax=axes,
        saturation=1,
        width=0.5,
        capsize=0.3,
        errorbar=wilson_bar,
        err_kws={
            "color": INK,
            "linewidth": 0.9,
        },
    )
    labels = []
    for place, (method, n) in enumerate(measured.items()):
        label = str(method)
        rate = DASH
        if method in enough:
            rate = percent(verdicts[method].mean())
            label += f"\n(n={n})" if n < total else ""
        else:
            text = f"{n} of {total} tasks" if n else "not measured"
            axes.text(
                1,
                place,
                text,
                va="center_baseline",
                color=QUIET,
            )
        beside(axes, place, rate)
        labels.append(label.replace(", body in corpus", ",\nbody in corpus"))
    axes.set_yticks(range(len(labels)), labels)
    axes.set(xlim=(0, 100), ylim=(len(labels) - 0.5, -0.5), ylabel="")
    axes.grid(axis="x")
    return axes


def percents(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Convert verdicts to the long form that seaborn expects.

    Args:
        verdicts: Verdicts [task, method].

    Returns:
        One row per measured task and method: ``column`` (the method) and ``value``, 0 or 100.
    """
    measured = verdicts.melt(var_name="column").dropna()
    return measured.assign(value=100 * measured["value"].astype(float))


def wilson_bar(values: pd.Series) -> tuple[float, float]:
    """Compute the 95 % Wilson interval for seaborn's `errorbar`.

    Args:
        values: Values that are 0 or 100.

    Returns:
        Both ends in percent; NaN without values.
    """
    low, high = wilson(int((values > 0).sum()), len(values)) or (math.nan, math.nan)
    return 100 * low, 100 * high


def bootstrap_bar(
    values: pd.Series,
    least: int = 1,
) -> tuple[float, float]:
    """Compute the 95 % bootstrap interval of a mean for seaborn's `errorbar`.

    Args:
        values: The values.
        least: Number of values below which no interval is drawn.

    Returns:
        Both ends; NaN for too few values.
    """
    mean = bootstrap_mean(values)
    if mean is None or mean.n < least:
        return math.nan, math.nan
    return mean.low, mean.high


def interval_points(
    axes: Axes,
    frame: pd.DataFrame,
    rows: Sequence[str],
    hue: str,
    styles: Mapping[str, tuple[str, str]],
    **options: Any,
) -> Axes:
    """Draw means with their intervals as points.

    Args:
        axes: Axes of `row_axes`.
        frame: Columns ``value``, ``row`` and `hue`.
        rows: Values of ``row`` in order.
        hue: Column that tells the points of a row apart.
        styles: Value of `hue` -> colour and marker.
        **options: Options of `seaborn.pointplot`.

    Returns:
        The axes.
    """
    colours = [colour for colour, _ in styles.values()]
    markers = [marker for _, marker in styles.values()]
    defaults: dict[str, Any] = {
        "dodge": 0.26 * (len(styles) - 1) or False,
        "markersize": 4,
        "mew": 0,
        "linestyle": "none",
        "err_kws": {"linewidth": 1.0},
    }
    sns.pointplot(
        frame,
        x="value",
        y="row",
        order=rows,
        hue=hue,
        hue_order=list(styles),
        palette=colours,
        markers=markers,
        orient="y",
        ax=axes,
        **(defaults | options),
    )
    axes.set(ylim=(len(rows) - 0.5, -0.5), ylabel="")
    axes.grid(axis="x")
    return axes
