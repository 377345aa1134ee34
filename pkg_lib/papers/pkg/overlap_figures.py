"""Figure 6 drawn: a Venn diagram of two or three columns (8.5 cm) and an UpSet plot of all (17 cm)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
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
WIDTH, LEFT, TOTALS = 6.69, 0.95, 1.55  # inches: the page; where the totals begin and end


@styled
def venn(passed: pd.DataFrame, title: str) -> Figure:
    """Circles of one size, so that every region has room for its count; areas do not show the counts."""
    figure = Figure(figsize=(3.35, 3.0))
    axes = figure.add_axes((0, 0, 1, 0.92), xlim=(-2.2, 2.2), ylim=(-2.0, 1.9), aspect="equal")
    axes.set_axis_off()
    figure.text(0.02, 0.985, title, va="top", fontsize=8)
    columns, middle = list(passed), {"ha": "center", "va": "center"}
    if passed.empty or len(columns) not in CENTRES:
        axes.text(0, 0, "fewer than two columns are measured", ha="center", color=QUIET)
        return figure
    places = zip(columns, *(kind[len(columns)] for kind in (LOOKS, CENTRES, LABELS)), strict=True)
    for column, (colour, line), centre, label in places:
        axes.add_patch(Circle(centre, RADIUS, facecolor=colour, alpha=0.35, linewidth=0))
        axes.add_patch(Circle(centre, RADIUS, fill=False, edgecolor=INK, linestyle=line, linewidth=1.0))
        axes.text(*label, f"{column} ({int(passed[column].sum())})", fontsize=8, **middle)
    for region, tasks in regions(passed).items():
        axes.text(*place(columns, region), str(len(tasks)), fontsize=9 if region else 8, **middle)
    axes.text(2.05, -1.7, "none of them", ha="right", va="center", fontsize=7, color=QUIET)
    return figure


def place(columns: Sequence[str], region: Region) -> tuple[float, float]:
    """Where a region's count stands: the mean of the points in exactly its circles; lower right for none."""
    if not region:
        return 1.9, -1.45
    points = np.stack(np.meshgrid(np.linspace(-2, 2, 201), np.linspace(-2, 2, 201)), axis=-1)
    circles = zip(columns, CENTRES[len(columns)], strict=True)
    exactly = [(np.linalg.norm(points - centre, axis=-1) < RADIUS) == (c in region) for c, centre in circles]
    x, y = points[np.logical_and.reduce(exactly)].mean(axis=0)
    return float(x), float(y)


@styled
def upset(passed: pd.DataFrame, title: str) -> Figure:
    """The LARGEST intersections by size above a matrix of dots, each column's total on the left."""
    columns, sizes = list(passed), {r: len(tasks) for r, tasks in intersections(passed).items()}
    shown, rows = list(sizes)[:LARGEST], max(2, len(columns))
    low, tall = 0.2 * rows, 0.2 * rows + 1.97
    figure, (left, right) = Figure(figsize=(WIDTH, tall)), (1.7 / WIDTH, 1 - 1.7 / WIDTH - 0.01)
    bars = figure.add_axes((left, (0.12 + low) / tall + 0.02, right, 1.35 / tall - 0.02))
    dots = figure.add_axes((left, 0.12 / tall, right, low / tall))
    totals = figure.add_axes((LEFT / WIDTH, 0.12 / tall, (TOTALS - LEFT) / WIDTH, low / tall))
    figure.text(0.01, 1 - 0.2 / tall, title, fontsize=8)
    figure.text(0.01, 1 - 0.36 / tall, _left_out(passed, list(sizes.values())), fontsize=7, color=QUIET)

    counts, width = [sizes[r] for r in shown], (-0.6, max(len(shown), FEWEST) - 0.4)
    bars.bar_label(bars.bar(range(len(shown)), counts, width=0.62, color=INK), padding=1.5, fontsize=7)
    bars.set(xlim=width, ylim=(0, 1.18 * max(counts, default=1)), ylabel="tasks", xticks=[])
    bars.spines["bottom"].set_visible(False)
    bars.yaxis.get_major_locator().set_params(integer=True, nbins=4)
    ticks_inside(bars.yaxis)

    for row in range(0, len(columns), 2):
        dots.axhspan(row - 0.5, row + 0.5, color="#F3F4F5", linewidth=0)
    for x, region in enumerate(shown):
        inside = [i for i, c in enumerate(columns) if c in region]
        dots.plot([x] * len(columns), range(len(columns)), "o", color="#D5D8DB", markersize=3.6)
        dots.plot([x] * len(inside), inside, "o-", color=INK, markersize=4.4, linewidth=1.0)
    dots.set(xlim=width, ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])

    solved = [int(passed[c].sum()) for c in columns]
    totals.barh(
        range(len(columns)), solved, height=0.6, color=[BASE if c == BASELINE else BAR for c in columns]
    )
    for row, total in enumerate(solved):
        look = {"textcoords": "offset points", "ha": "right", "va": "center_baseline", "fontsize": 7}
        totals.annotate(str(total), (0, row), (-2, 0), **look)
    totals.set(xlim=(1.02 * max([1, *solved]), 0), ylim=(rows - 0.5, -0.5), xticks=[])
    totals.set_yticks(range(len(columns)), columns)
    for axes in (dots, totals):
        axes.spines[:].set_visible(False)
    return figure


def _left_out(passed: pd.DataFrame, sizes: list[int]) -> str:
    """What the bars leave out, in words."""
    if not len(passed):
        return "no task is measured in all columns"
    rest = sizes[LARGEST:]
    smaller = f"; {len(rest)} smaller intersections with {sum(rest)} tasks are not drawn" if rest else ""
    return f"{len(passed)} tasks, {len(passed) - sum(sizes)} solved by no column{smaller}"
