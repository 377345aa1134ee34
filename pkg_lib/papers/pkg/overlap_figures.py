"""Figure 6: a Venn diagram of two or three methods, and an UpSet plot of all of them."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from pkg_lib.analysis.figures import (
    BAR,
    BASE,
    INK,
    QUIET,
    WIDTH,
    HouseFigure,
    column_axes,
    styled,
    ticks_inside,
    write_title,
)
from pkg_lib.analysis.sentences import counted
from pkg_lib.analysis.stats import BASELINE
from pkg_lib.papers.pkg.overlap import (
    Region,
    exact_regions,
    intersections,
)

# Okabe and Ito's colours; the line style tells the circles apart in print.
GREY, ORANGE, BLUE = ("#C9CDD2", "-"), ("#E69F00", "--"), ("#0072B2", ":")
RADIUS = 1.0
# By number of methods: looks, centres of the circles and places of their labels.
LOOKS = {
    2: (GREY, BLUE),
    3: (GREY, ORANGE, BLUE),
}
CENTRES = {
    2: ((-0.55, 0.0), (0.55, 0.0)),
    3: ((-0.55, 0.42), (0.55, 0.42), (0.0, -0.52)),
}
LABELS = {
    2: ((-0.75, 1.12), (0.75, 1.12)),
    3: ((-0.95, 1.5), (0.95, 1.5), (0.0, -1.72)),
}
OUTSIDE = (1.9, -1.45)  # Place of the count of tasks that no method solves.
LARGEST = 12  # Intersections that fit into a column of text with readable counts.
FEWEST = 8  # Places for bars, so that three of them do not fill the column.
LINE = 0.14  # inches: a line of the title


@styled
def draw_venn(
    solved: pd.DataFrame,
    title: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw two or three circles of one size with the number of tasks in each region.

    Args:
        solved: Whether a method solves a task, [task, method].
        title: The title.
        ax: Axes to draw into; None makes a figure.

    Returns:
        A figure of one text column; without two methods it says that they are not measured.
    """
    lines = title.count("\n")
    height = 3.2 + 0.14 * lines
    figure, axes = column_axes(height, (0, 0, 1, 2.75 / height), ax)
    axes.set(
        xlim=(-2.2, 2.2),
        ylim=(-2.0, 1.9),
        aspect="equal",
    )
    axes.set_axis_off()
    if solved.empty or solved.shape[1] not in CENTRES:
        write_title(axes, title)
        axes.text(
            0,
            0,
            "fewer than two methods are measured",
            ha="center",
            color=QUIET,
        )
        return figure
    write_title(axes, f"{title}\n{_measured_tasks(solved)}")
    _draw_circles(axes, solved)
    for region, tasks in exact_regions(solved).items():
        x, y = place_of_count(list(solved.columns), region)
        size = 9 if region else 8
        axes.text(
            x,
            y,
            str(len(tasks)),
            fontsize=size,
            ha="center",
            va="center",
        )
    axes.text(
        2.05,
        -1.7,
        "none of them",
        ha="right",
        va="center",
        fontsize=7,
        color=QUIET,
    )
    return figure


def _draw_circles(
    axes: Axes,
    solved: pd.DataFrame,
) -> None:
    """Draw the circles with the names of the methods and the numbers of their tasks."""
    count = solved.shape[1]
    for number, method in enumerate(solved):
        colour, line = LOOKS[count][number]
        centre = CENTRES[count][number]
        circle = Circle(
            centre,
            RADIUS,
            facecolor=(colour, 0.35),
            edgecolor=INK,
            linestyle=line,
            linewidth=1.0,
        )
        axes.add_patch(circle)
        x, y = LABELS[count][number]
        label = f"{method} ({solved[method].sum()})"
        axes.text(
            x,
            y,
            label,
            fontsize=8,
            ha="center",
            va="center",
        )


def place_of_count(
    methods: list[str],
    region: Region,
) -> tuple[float, float]:
    """Find the middle of a region of the Venn diagram.

    Args:
        methods: The methods in the order of the circles.
        region: The methods whose circles hold the region.

    Returns:
        The mean of the grid points that are in exactly these circles; a place outside for no method.
    """
    if not region:
        return OUTSIDE
    steps = np.linspace(-2, 2, 201)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1)
    inside = np.ones(grid.shape[:2], bool)
    for method, centre in zip(
        methods,
        CENTRES[len(methods)],
        strict=True,
    ):
        in_circle = np.linalg.norm(grid - centre, axis=-1) < RADIUS
        inside &= in_circle == (method in region)
    x, y = grid[inside].mean(axis=0)
    return float(x), float(y)


@styled
def draw_intersections(
    solved: pd.DataFrame,
    title: str,
) -> Figure:
    """Draw the largest intersections as bars above a matrix of dots (an UpSet plot).

    The dots below a bar name the methods that solve its tasks. On the left is the number of tasks that
    each method solves.

    Args:
        solved: Whether a method solves a task, [task, method].
        title: The title.

    Returns:
        A figure of one text column.
    """
    regions = intersections(solved)
    shown = list(regions)[:LARGEST]
    rows = max(2, solved.shape[1])
    matrix = 0.2 * rows
    about = _about_bars(solved)
    lines = 2 + title.count("\n") + about.count("\n")
    height = matrix + 1.5 + LINE * lines
    left = 1.22 / WIDTH
    right = 1 - left - 0.01
    bottom = 0.06 / height
    figure = HouseFigure(figsize=(WIDTH, height))
    bars = figure.add_axes((left, bottom + (matrix + 0.06) / height, right, 1.2 / height))
    dots = figure.add_axes((left, bottom, right, matrix / height))
    totals = figure.add_axes((0.78 / WIDTH, bottom, 0.4 / WIDTH, matrix / height))
    _draw_sizes(bars, [len(regions[region]) for region in shown])
    _draw_dots(dots, list(solved.columns), shown)
    _draw_totals(totals, solved)
    for axes in (bars, dots):
        axes.set_xlim(-0.6, max(len(shown), FEWEST) - 0.4)
    for axes in (dots, totals):
        axes.set_ylim(rows - 0.5, -0.5)
    top = 1 - 0.06 / height
    figure.text(0.02, top, title, va="top", fontsize=8)
    below = top - LINE * (1 + title.count("\n")) / height
    figure.text(0.02, below, about, va="top", fontsize=7, color=QUIET)
    return figure


def _draw_sizes(
    axes: Axes,
    sizes: list[int],
) -> None:
    """Draw the sizes of the intersections as bars."""
    bars = axes.bar(
        range(len(sizes)),
        sizes,
        width=0.62,
        color=INK,
    )
    axes.bar_label(bars, padding=1.5, fontsize=7)
    axes.set(
        ylim=(0, 1.18 * max(sizes, default=1)),
        ylabel="tasks",
        xticks=[],
    )
    axes.spines["bottom"].set_visible(False)
    axes.locator_params(axis="y", integer=True, nbins=4)
    ticks_inside(axes.yaxis)


def _draw_dots(
    axes: Axes,
    methods: list[str],
    shown: list[Region],
) -> None:
    """Draw a dot per method below each bar, dark and joined for those that solve its tasks."""
    for row in range(0, len(methods), 2):
        axes.axhspan(
            row - 0.5,
            row + 0.5,
            color="#F3F4F5",
            linewidth=0,
        )
    every_row = range(len(methods))
    for x, region in enumerate(shown):
        axes.plot(
            [x] * len(methods),
            every_row,
            "o",
            color="#D5D8DB",
            markersize=3.6,
        )
        inside = [row for row in every_row if methods[row] in region]
        axes.plot(
            [x] * len(inside),
            inside,
            "o-",
            color=INK,
            markersize=4.4,
            linewidth=1.0,
        )
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _draw_totals(
    axes: Axes,
    solved: pd.DataFrame,
) -> None:
    """Draw how many tasks each method solves, left of its name."""
    totals = solved.sum()
    rows = range(len(totals))
    colours = [BASE if method == BASELINE else BAR for method in solved]
    axes.barh(rows, totals, height=0.6, color=colours)
    for row, total in enumerate(totals):
        axes.annotate(
            str(total),
            (0, row),
            (-2, 0),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            fontsize=7,
        )
    axes.set(xlim=(1.02 * max([1, *totals]), 0), xticks=[])
    axes.set_yticks(rows, list(solved.columns))
    axes.spines[:].set_visible(False)


def _measured_tasks(solved: pd.DataFrame) -> str:
    """Say on which tasks the methods are compared."""
    count = solved.shape[1]
    methods = "both methods" if count == 2 else f"all {count} methods"
    return f"{len(solved)} tasks, measured with {methods}"


def _about_bars(solved: pd.DataFrame) -> str:
    """Say how many tasks are compared, and which of them have no bar."""
    if solved.empty:
        return "no task is measured by all methods"
    sizes = [len(tasks) for tasks in intersections(solved).values()]
    none = len(solved) - sum(sizes)
    lines = [_measured_tasks(solved), f"no bar: {counted(none, 'task')} that no method solves"]
    rest = sizes[LARGEST:]
    if rest:
        lines[-1] += ","
        combinations = counted(len(rest), "smaller combination")
        lines.append(f"{counted(sum(rest), 'task')} of {combinations} of methods")
    return "\n".join(lines)
