"""Figures 3 to 5: pass@1 by topic as a radar, and the differences to no retrieval with intervals."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from pkg_lib.analysis import figures
from pkg_lib.analysis.stats import BASELINE
from pkg_lib.papers.pkg.topic_rates import ALL_TASKS
from pkg_lib.papers.pkg.topics import topics

# Colour, marker and line of each method in order.
LOOKS = (
    (figures.INK, "o", "-"),
    ("#E69F00", "^", "--"),
    ("#0072B2", "s", "-."),
    ("#009E73", "D", ":"),
)
RING = 25  # percent between two rings
LETTERS = 7  # size in points
RIM = [withStroke(linewidth=2, foreground="white")]  # around the letters of a ring's name


def _task_count(
    rates: pd.DataFrame,
    topic: str,
) -> int:
    """Number of tasks of a topic."""
    return int(rates["total"][topic, BASELINE])


def _short_name(topic: str) -> str:
    """The name of a topic on an axis."""
    return topic if topic == ALL_TASKS else str(topics().at[topic, "short"])


def _name_rings(
    axes: Axes,
    highest: np.ndarray,
    largest: float,
) -> None:
    """Name the rings inside the outermost on the axis with the lowest rates.

    `highest` has the rate of the best method on each axis, and `largest` is the largest value that is
    drawn, in percent.
    """
    top = min(100, RING * (int(max(largest, highest.max()) // RING) + 1))
    angle = 2 * np.pi * highest.argmin() / len(highest)
    rings = range(RING, top + 1, RING)
    axes.set(
        ylim=(0, top),
        yticks=rings,
        yticklabels=[],
    )
    axes.yaxis.grid(color="#A8A8A8", linewidth=0.5)
    axes.xaxis.grid(color="#D5D5D5")
    axes.spines["polar"].set_visible(False)
    for ring in rings[:-1]:
        unit = " %" if ring == rings[-2] else ""  # on all rings, the names could touch
        axes.text(
            angle,
            ring,
            f"{ring}{unit}",
            ha="center",
            va="center",
            fontsize=LETTERS,
            path_effects=RIM,
            zorder=1.9,  # below the lines
        )


def _name_axes(
    axes: Axes,
    angles: np.ndarray,
    names: Sequence[str],
) -> None:
    """Put each name beside the end of its axis, away from the centre; the first axis points up."""
    axes.set(
        theta_offset=np.pi / 2,
        theta_direction=-1,
        xticks=angles,
        xticklabels=[],
    )
    end = axes.get_ylim()[1]
    for angle, name in zip(angles, names, strict=True):
        x = np.sin(angle)
        y = np.cos(angle)
        across = "center"
        if abs(x) > 0.1:
            across = "right" if x < 0 else "left"
        along = "center"
        if abs(y) > 0.9:
            along = "bottom" if y > 0 else "top"
        axes.annotate(
            name,
            (angle, end),
            (8 * x, 8 * y),
            textcoords="offset points",
            ha=across,
            va=along,
            fontsize=LETTERS,
            linespacing=1.0,
            annotation_clip=False,
        )


@figures.styled
def topic_radar(
    rates: pd.DataFrame,
    title: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw pass@1 of each method with one axis per topic, from 0 % in the centre outwards.

    Args:
        rates: The frame of `topic_rates.rates_by_topic`.
        title: The title.
        ax: Polar axes to draw into; None makes a figure.

    Returns:
        The figure. The band is the 95 % Wilson interval of no retrieval; `topic_differences` has the
        intervals of the other methods.
    """
    percentages = 100 * rates["rate"].unstack("method").loc[topics().index]
    height = 3.6
    place = (0.22, 0.22, 0.56, 0.56 * figures.WIDTH / height)
    figure, axes = figures.column_axes(height, place, ax, projection="polar")
    angles = 2 * np.pi * np.arange(len(percentages)) / len(percentages)
    ends = _draw_band(axes, angles, rates)
    methods = rates.index.unique("method")
    for method, (colour, marker, line) in zip(methods, LOOKS, strict=False):
        values = percentages[method]
        if values.isna().all():
            continue
        axes.plot(
            [*angles, 0],
            [*values, values.iloc[0]],
            clip_on=False,
            label=method,
            color=colour,
            marker=marker,
            linestyle=line,
            markersize=3,
            linewidth=1.1,
        )
    measured = np.nan_to_num(percentages.to_numpy())
    _name_rings(axes, measured.max(axis=1), np.nanmax([*ends, 0]))
    names = [f"{_short_name(t)}\nn={_task_count(rates, t)}" for t in percentages.index]
    _name_axes(axes, angles, names)
    figures.write_title(axes, f"pass@1 by topic\n{title}")
    figures.legend_below(axes, ncols=3, handlelength=2.2)
    return figure


def _draw_band(
    axes: Axes,
    angles: np.ndarray,
    rates: pd.DataFrame,
) -> np.ndarray:
    """Draw the interval of no retrieval as a band; return its upper ends in percent."""
    baseline = rates.xs(BASELINE, level="method").loc[topics().index]
    low, high = 100 * baseline[["low", "high"]].to_numpy(float).T
    if np.isnan(high).all():
        return high
    around = [*angles, 2 * np.pi]
    axes.fill_between(
        around,
        [*low, low[0]],
        [*high, high[0]],
        color=figures.BASE,
        alpha=0.6,
        linewidth=0,
        label=f"{BASELINE}, 95 %",
    )
    return high


def _draw_differences(
    axes: Axes,
    rates: pd.DataFrame,
    order: Sequence[str],
) -> None:
    """Draw one point with its interval per topic and method other than the baseline."""
    methods = [name for name in rates.index.unique("method") if name != BASELINE]
    steps = np.zeros(1)
    if len(methods) > 1:
        steps = np.linspace(-0.24, 0.24, len(methods))
    for step, method, (colour, marker, _) in zip(steps, methods, LOOKS[1:], strict=False):
        known = rates.xs(method, level="method").query("n > 0")
        bounds = 100 * known[["difference", "d_low", "d_high"]].to_numpy(float)
        value, low, high = bounds.T
        axes.errorbar(
            value,
            [order.index(topic) + step for topic in known.index],
            xerr=[value - low, high - value],
            label=method if len(known) else None,
            color=colour,
            marker=marker,
            markersize=4,
            mew=0,
            elinewidth=1.0,
            linestyle="none",
        )


@figures.styled
def topic_differences(
    rates: pd.DataFrame,
    title: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw the difference of each method to no retrieval by topic, with its 95 % score interval.

    Args:
        rates: The frame of `topic_rates.rates_by_topic`.
        title: The title.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure; numbers of tasks are in parentheses.
    """
    order = [*topics().index, ALL_TASKS]
    figure, axes = figures.row_axes(
        len(order),
        0.3,
        legend=0.2,
        left=1.34,
        title=title,
        ax=ax,
    )
    _draw_differences(axes, rates, order)
    axes.grid(axis="x")
    axes.axvline(0, color=figures.INK, linewidth=0.6)
    axes.axhline(len(order) - 1.5, color=figures.QUIET, linewidth=0.4)
    axes.set(
        ylim=(len(order) - 0.5, -0.5),
        xlabel=f"percentage points against {BASELINE}",
    )
    names = [f"{_short_name(topic)} ({_task_count(rates, topic)})" for topic in order]
    axes.set_yticks(range(len(order)), names)
    figures.ticks_inside(axes.xaxis)
    figures.legend_below(axes, ncols=3)
    return figure
