"""Figures for a column of 8.5 cm in one style (style.mplstyle), saved as PDF and PNG.

The same figure always gives the same bytes.
"""

import io
import math
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import wraps
from itertools import cycle
from pathlib import Path
from typing import Any, ParamSpec, cast

import matplotlib.style
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
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
LIGHT_BAR = "#DCEBF1"
# Okabe and Ito's colours stay apart for the common colour deficiencies; markers are for print.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DPI = 300
DISPLAY_DPI = 150  # in a notebook
PNG_COLOURS = 32
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


class HouseFigure(Figure):
    """A figure in the house style, which a notebook displays without pyplot."""

    def _repr_png_(self) -> bytes:
        """Return the picture that a notebook displays."""
        picture = io.BytesIO()
        with matplotlib.style.context(STYLE, after_reset=True):
            self.savefig(picture, format="png", dpi=DISPLAY_DPI)
        return picture.getvalue()


def use_style() -> None:
    """Use the house style for everything that is drawn from now on.

    Figures of this package have the style without it. What a user adds to one of them, such as
    another title, has the style only after this call.
    """
    matplotlib.style.use(STYLE)


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


@dataclass(frozen=True, slots=True)
class RateLook:
    """How a rate, or a difference of rates, looks in a figure.

    Attributes:
        name: Its name in the legend; "" for none.
        colour: Its colour.
        marker: Its marker.
        filled: Whether the marker is filled. Open markers are without retrieval.
    """

    name: str
    colour: str
    marker: str = "o"
    filled: bool = True


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
    # A drawing looks the same with few colours, and takes a quarter of the bytes.
    picture = Image.open(png).convert("RGB").quantize(PNG_COLOURS)
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
    above: float = 0.0,
    ax: Axes | None = None,
) -> tuple[Figure, Axes]:
    """Make a figure with one horizontal row per method, the first on top.

    Args:
        count: Number of rows.
        height: Height of a row in inches.
        legend: Height of the legend in inches.
        left: Left margin in inches.
        title: The title, which is written at the left edge of the figure.
        right: Right margin in inches.
        above: Free height between the title and the first row in inches.
        ax: Axes of another figure to draw into. The sizes are that figure's own then.

    Returns:
        The figure and its axes.
    """
    bottom = 0.42 + legend
    top = 0.24 + 0.14 * title.count("\n") + above
    rows = count * height
    total = rows + top + bottom
    place = (left / WIDTH, bottom / total, 1 - (left + right) / WIDTH, rows / total)
    figure, axes = column_axes(total, place, ax)
    axes.set_ylim(count - 0.5, -0.5)
    if title:
        write_title(axes, title)
    return figure, axes


def column_axes(
    height: float,
    place: tuple[float, float, float, float],
    ax: Axes | None = None,
    projection: str | None = None,
) -> tuple[Figure, Axes]:
    """Make a figure of one text column with one axes.

    Args:
        height: Height of the figure in inches.
        place: Left and lower end, width and height of the axes as shares of the figure.
        ax: Axes of another figure to draw into; then no figure is made.
        projection: Projection of new axes, such as "polar".

    Returns:
        The figure and its axes.
    """
    if ax is not None:
        return cast("Figure", ax.get_figure(root=True)), ax
    figure = HouseFigure(figsize=(WIDTH, height))
    return figure, figure.add_axes(place, projection=projection)


def panel_axes(
    titles: Sequence[str],
    title: str,
    across: str,
    upwards: str,
    height: float = 1.3,
) -> tuple[Figure, list[Axes]]:
    """Make a figure of two panels in a row that share their axes.

    Args:
        titles: Title of each panel.
        title: Title of the figure.
        across: Name of the horizontal axis.
        upwards: Name of the vertical axis.
        height: Height of a panel in inches.

    Returns:
        The figure and the axes of the panels.
    """
    rows = math.ceil(len(titles) / 2)
    if rows == 1:
        height = max(height, 1.6)  # the name of the vertical axis needs as much
    # Below an odd number of panels, the legend is in the free place.
    legend = 0.0 if len(titles) % 2 else 0.2
    size = (WIDTH, rows * height + 0.34 + 0.14 * title.count("\n") + legend)
    figure = HouseFigure(figsize=size, layout="constrained")
    figure.suptitle(title, x=0.02, ha="left", fontsize=8)
    grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
    panels = list(grid.flat)
    for panel, name in zip(panels, titles, strict=False):
        panel.set_title(name, loc="left", fontsize=7.5)
        panel.grid(axis="y")
    lowest = panels[-2:]
    if len(titles) % 2:
        panels.pop().set_axis_off()
        # The panel above the free place is the lowest of its column.
        lowest = panels[-2:]
    for panel in lowest:
        panel.tick_params(labelbottom=True)
    for panel in panels[-2:] if legend else panels[-1:]:
        panel.set_xlabel(across)
    figure.supylabel(upwards, fontsize=7.5)
    return figure, panels


def panel_legend(
    figure: Figure,
    panels: Sequence[Axes],
) -> None:
    """Place one legend for all panels of `panel_axes`: in the free place, or else below them.

    Args:
        figure: The figure.
        panels: Its panels.
    """
    named: dict[str, Artist] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    free = [axes for axes in figure.axes if axes not in panels]
    if free:
        free[0].legend(list(named.values()), list(named), loc="center left")
        return
    figure.legend(list(named.values()), list(named), loc="outside lower left", ncols=2)


def write_title(
    axes: Axes,
    title: str,
) -> None:
    """Write the title of a figure of one axes at the left edge of the figure.

    It suits rows with long names, whose axes begin far to the right of that edge. Axes that a user
    has given have their title above them. `axes.set_title` replaces the title.

    Args:
        axes: The axes of the figure, at their final place.
        title: The title.
    """
    figure = cast("Figure", axes.get_figure(root=True))
    if not isinstance(figure, HouseFigure):
        axes.set_title(title, loc="left")
        return
    axes.apply_aspect()
    place = axes.get_position()
    top = 1 - 0.06 / figure.get_figheight()
    axes.set_title(
        title,
        loc="left",
        x=(0.02 - place.x0) / place.width,
        y=(top - place.y0) / place.height,
        va="top",
        pad=0,
        fontsize=8,
    )


def label_rows(
    axes: Axes,
    labels: Sequence[str],
    headings: Collection[int] = (),
) -> None:
    """Name the rows of `row_axes`.

    Args:
        axes: The axes.
        labels: Names of the rows.
        headings: Rows that hold the heading of a group, in bold, and no value.
    """
    axes.set_yticks(range(len(labels)), labels)
    for row in headings:
        axes.get_yticklabels()[row].set_fontweight("bold")


def rate_point(
    axes: Axes,
    passed: float,
    tasks: int,
    row: float,
    look: RateLook,
) -> None:
    """Draw a rate with its 95 % Wilson interval.

    Args:
        axes: Axes of `row_axes`, in percent.
        passed: Number of solved tasks.
        tasks: Number of tasks, at least 1.
        row: Height in the axes.
        look: How it looks.
    """
    low, high = wilson(int(passed), tasks)
    point_with_interval(axes, passed / tasks, low, high, row, look)


def point_with_interval(
    axes: Axes,
    value: float,
    low: float,
    high: float,
    row: float,
    look: RateLook,
) -> None:
    """Draw a value with its interval.

    Args:
        axes: Axes of `row_axes`, in percent or percentage points.
        value: The value as a fraction.
        low: Lower end of its interval.
        high: Upper end of its interval.
        row: Height in the axes.
        look: How it looks.
    """
    axes.plot([100 * low, 100 * high], [row, row], color=look.colour, linewidth=0.9)
    axes.plot(
        100 * value,
        row,
        look.marker,
        markersize=3.4,
        mfc=look.colour if look.filled else "white",
        mec=look.colour,
        mew=0.8,
        label=look.name,
        clip_on=False,
    )


def curve_with_intervals(
    axes: Axes,
    places: Iterable[float],
    values: pd.DataFrame,
    look: RateLook,
    line: str = "-",
) -> None:
    """Draw a curve of rates with a 95 % interval at each point.

    Args:
        axes: The axes, in percent.
        places: Horizontal places of the points.
        values: ``value``, ``low`` and ``high`` of each point in percent.
        look: How it looks.
        line: Style of the line.
    """
    axes.errorbar(
        list(places),
        values["value"],
        # A bound may pass the value by a rounding error.
        [
            (values["value"] - values["low"]).clip(lower=0),
            (values["high"] - values["value"]).clip(lower=0),
        ],
        color=look.colour,
        marker=look.marker,
        markersize=3.4,
        mfc=look.colour if look.filled else "white",
        mew=0.8,
        linestyle=line,
        linewidth=0.9,
        elinewidth=0.7,
        label=look.name,
        clip_on=False,
    )


def wilson_points(
    passed: Sequence[float],
    tasks: int,
) -> pd.DataFrame:
    """Compute rates with their 95 % Wilson intervals for `curve_with_intervals`.

    Args:
        passed: Numbers of solved tasks.
        tasks: Number of tasks, at least 1.

    Returns:
        ``value``, ``low`` and ``high`` of each number in percent.
    """
    rows = []
    for count in passed:
        low, high = wilson(int(count), tasks)
        rows.append((100 * count / tasks, 100 * low, 100 * high))
    return pd.DataFrame(rows, columns=["value", "low", "high"], dtype=float)


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


def mean_points(series: Iterable[pd.Series]) -> pd.DataFrame:
    """Compute means with their 95 % bootstrap intervals for `curve_with_intervals`.

    Args:
        series: The values of each point.

    Returns:
        ``value``, ``low`` and ``high`` of each point; NaN without values.
    """
    rows = []
    for values in series:
        low, high = bootstrap_bar(values)
        rows.append((values.mean(), low, high))
    return pd.DataFrame(rows, columns=["value", "low", "high"], dtype=float)


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

    The legend is at the lower edge of the figure, or right below axes that a user has given.

    Args:
        axes: The axes, whose labels appear once each.
        **options: Options of `matplotlib.figure.Figure.legend`.
    """
    own_legend = axes.get_legend()
    if own_legend:
        own_legend.remove()
    handles, labels = axes.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    if not named:
        return
    options = LEGEND | options
    if isinstance(axes.get_figure(root=True), HouseFigure):
        axes.figure.legend(list(named.values()), list(named), **options)
        return
    options |= {"loc": "upper left", "bbox_to_anchor": (0, -0.25), "bbox_transform": axes.transAxes}
    axes.legend(list(named.values()), list(named), **options)


def rate_bars(
    axes: Axes,
    verdicts: pd.DataFrame,
    lighter: Collection[str] = (),
) -> Axes:
    """Draw pass@1 of every method as a bar with its Wilson interval and its number.

    A method measured on too few tasks (`LEAST`) has no bar.

    Args:
        axes: Axes of `row_axes`.
        verdicts: Verdicts [task, method].
        lighter: Methods whose bars have a lighter colour.

    Returns:
        The axes.
    """
    colours = {m: LIGHT_BAR if m in lighter else BASE if m == BASELINE else BAR for m in verdicts}
    measured = verdicts.notna().sum()
    total = len(verdicts)
    enough = list(measured.index[measured >= max(1, LEAST * total)])
    sns.barplot(
        percents(verdicts[enough]),
        x="value",
        y="column",
        order=list(verdicts),
        hue="column",
        palette=colours,
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
    low, high = wilson(int((values > 0).sum()), len(values))
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
