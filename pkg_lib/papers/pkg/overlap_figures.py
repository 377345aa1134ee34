"""Figure 6 drawn: a Venn diagram of two or three columns (8.5 cm) and an UpSet plot of all of them (17 cm)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from pkg_lib.analysis.figures import BAR, BASE, INK, QUIET, styled, ticks_inside
from pkg_lib.analysis.stats import BASELINE
from pkg_lib.papers.pkg.overlap import Region, intersections, regions

# Okabe and Ito's colours; the line style tells the circles apart in print.
GREY, ORANGE, BLUE = ("#C9CDD2", "-"), ("#E69F00", "--"), ("#0072B2", ":")
LOOKS = {2: (GREY, BLUE), 3: (GREY, ORANGE, BLUE)}
RADIUS = 1.0
CENTRES = {2: ((-0.55, 0.0), (0.55, 0.0)), 3: ((-0.55, 0.42), (0.55, 0.42), (0.0, -0.52))}
LABELS = {2: ((-0.75, 1.12), (0.75, 1.12)), 3: ((-0.95, 1.5), (0.95, 1.5), (0.0, -1.72))}
LARGEST = 24  # intersections that 17 cm hold with readable counts
FEWEST = 12  # places for bars, so that three of them are not as wide as a page
WIDTH, COLUMN_NAME, SIZES = 6.69, 0.95, 0.75  # inches


@styled
def venn(passed: pd.DataFrame, title: str) -> Figure:
    """Circles of one size, so that every region has room for its count; areas do not show the counts."""
    figure = Figure(figsize=(3.35, 3.0))
    axes = figure.add_axes((0, 0, 1, 0.92))
    axes.set(xlim=(-2.2, 2.2), ylim=(-2.0, 1.9), aspect="equal")
    axes.axis("off")
    figure.text(0.02, 0.985, title, va="top", fontsize=8)
    columns = list(passed)
    if passed.empty or len(columns) not in CENTRES:
        axes.text(0, 0, "fewer than two columns are measured", ha="center", color=QUIET)
        return figure
    _circles(axes, passed)
    for region, tasks in regions(passed).items():
        x, y = middle(columns, region)
        axes.text(x, y, str(len(tasks)), ha="center", va="center", fontsize=9 if region else 8)
    axes.text(
        *_beneath(middle(columns, frozenset())),
        "none of them",
        ha="right",
        va="center",
        fontsize=7,
        color=QUIET,
    )
    return figure


def _circles(axes: Axes, passed: pd.DataFrame) -> None:
    number = passed.shape[1]
    places = zip(passed, LOOKS[number], CENTRES[number], LABELS[number], strict=True)
    for column, (colour, line), centre, label in places:
        axes.add_patch(Circle(centre, RADIUS, facecolor=colour, alpha=0.35, linewidth=0))
        axes.add_patch(Circle(centre, RADIUS, fill=False, edgecolor=INK, linestyle=line, linewidth=1.0))
        axes.text(*label, f"{column} ({int(passed[column].sum())})", ha="center", va="center", fontsize=8)


def middle(columns: Sequence[str], region: Region) -> tuple[float, float]:
    """The middle of a region: the mean of the points that lie in exactly its circles; the lower right corner for none."""
    if not region:
        return 1.9, -1.45
    centres = CENTRES[len(columns)]
    grid = np.stack(np.meshgrid(np.linspace(-2, 2, 201), np.linspace(-2, 2, 201)), axis=-1)
    inside = [np.hypot(*np.moveaxis(grid - c, -1, 0)) < RADIUS for c in centres]
    exactly = np.logical_and.reduce([i == (c in region) for c, i in zip(columns, inside, strict=True)])
    x, y = grid[exactly].mean(axis=0)
    return float(x), float(y)


def _beneath(place: tuple[float, float]) -> tuple[float, float]:
    return place[0] + 0.15, place[1] - 0.25


@styled
def upset(passed: pd.DataFrame, title: str) -> Figure:
    """Intersections by size above a matrix of dots, with each column's total on the left; the largest LARGEST are drawn."""
    found = intersections(passed) if len(passed) else []
    shown, columns = found[:LARGEST], list(passed)
    tall = 1.35 + 0.2 * max(2, len(columns)) + 0.62
    figure = Figure(figsize=(WIDTH, tall))
    left, low, high = (COLUMN_NAME + SIZES) / WIDTH, 0.2 * max(2, len(columns)) / tall, 1.35 / tall
    bottom = 0.12 / tall
    bars = figure.add_axes((left, bottom + low + 0.02, 1 - left - 0.01, high - 0.02))
    dots = figure.add_axes((left, bottom, 1 - left - 0.01, low))
    sizes = figure.add_axes((COLUMN_NAME / WIDTH, bottom, (SIZES - 0.15) / WIDTH, low))
    figure.text(0.01, 1 - 0.2 / tall, title, fontsize=8)
    figure.text(0.01, 1 - 0.36 / tall, _rest(passed, found), fontsize=7, color=QUIET)
    _bars(bars, [len(tasks) for _, tasks in shown])
    _dots(dots, columns, [region for region, _ in shown])
    _sizes(sizes, passed)
    return figure


def _rest(passed: pd.DataFrame, found: list[tuple[Region, list[str]]]) -> str:
    """What the bars leave out, in words."""
    if not len(passed):
        return "no task is measured in all columns"
    nobody = len(regions(passed)[frozenset()])
    said = f"{len(passed)} tasks, {nobody} solved by no column"
    left = found[LARGEST:]
    tasks = sum(len(t) for _, t in left)
    return said + (f"; {len(left)} smaller intersections with {tasks} tasks are not drawn" if left else "")


def _bars(axes: Axes, counts: list[int]) -> None:
    axes.bar_label(axes.bar(range(len(counts)), counts, width=0.62, color=INK), padding=1.5, fontsize=7)
    axes.set(
        xlim=(-0.6, max(len(counts), FEWEST) - 0.4),
        ylim=(0, 1.18 * max(counts, default=1)),
        ylabel="tasks",
        xticks=[],
    )
    axes.spines["bottom"].set_visible(False)
    axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
    ticks_inside(axes.yaxis)


def _dots(axes: Axes, columns: Sequence[str], shown: Sequence[Region]) -> None:
    width = max(len(shown), FEWEST)
    for place in range(0, len(columns), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#F3F4F5", linewidth=0)
    for x, region in enumerate(shown):
        inside = [i for i, c in enumerate(columns) if c in region]
        axes.plot([x] * len(columns), range(len(columns)), "o", color="#D5D8DB", markersize=3.6)
        axes.plot([x] * len(inside), inside, "o-", color=INK, markersize=4.4, linewidth=1.0)
    axes.set(xlim=(-0.6, width - 0.4), ylim=(max(2, len(columns)) - 0.5, -0.5), xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_visible(False)


def _sizes(axes: Axes, passed: pd.DataFrame) -> None:
    """Tasks solved by each column, growing to the left, with the column's name beside."""
    totals = [int(passed[c].sum()) for c in passed]
    widest = max([1, *totals])
    axes.barh(range(len(totals)), totals, height=0.6, color=[BASE if c == BASELINE else BAR for c in passed])
    for place, total in enumerate(totals):
        axes.annotate(
            str(total),
            (0, place),
            (-2, 0),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            fontsize=7,
        )
    axes.set(xlim=(1.02 * widest, 0), ylim=(max(2, len(totals)) - 0.5, -0.5), xticks=[])
    axes.set_yticks(range(len(totals)), list(passed))
    for side in axes.spines.values():
        side.set_visible(False)
