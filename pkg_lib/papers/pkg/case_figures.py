"""The figure of the case studies: the retrieval score of each task by what a method changed."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis.figures import (
    INK,
    QUIET,
    beside,
    legend_below,
    row_axes,
    styled,
    ticks_inside,
)
from pkg_lib.analysis.tables import (
    HIGHER,
    LOWER,
)
from pkg_lib.papers.pkg.case_studies import (
    HELPED,
    HURT,
)

COLOURS = {
    HELPED: HIGHER,
    HURT: LOWER,
    "both pass": QUIET,
    "both fail": QUIET,
}


@styled
def draw_scores(
    scores: pd.DataFrame,
    sizes: Mapping[str, int],
    measure: str,
    title: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw a dot per task and a bar at the median of each group.

    If the method helped where its context is close to the task, the helped tasks are further to the right.

    Args:
        scores: What `case_studies.retrieval_scores` returns.
        sizes: Group -> number of its tasks, with those without a score.
        measure: What the score is.
        title: The title.
        ax: Axes to draw into; None makes a figure.

    Returns:
        A figure of one text column.
    """
    figure, axes = row_axes(len(COLOURS), 0.52, legend=0.2, title=title, ax=ax)
    _draw_dots(axes, scores)
    for row, group in enumerate(COLOURS):
        beside(axes, row, str(sizes[group]))
        median = scores[scores["group"] == group]["score"].median()
        label = "median" if row == 0 else None
        axes.plot(
            [median] * 2,
            [row - 0.38, row + 0.38],
            color=INK,
            zorder=1,
            label=label,
        )
    axes.plot(
        [],
        [],
        "o",
        mfc="none",
        color=INK,
        markersize=4,
        label="shown as a case",
    )
    axes.set(xlabel=f"{measure} of the context", ylabel="")
    axes.grid(axis="x")
    ticks_inside(axes.xaxis)
    legend_below(axes)
    return figure


def _draw_dots(
    axes: Axes,
    scores: pd.DataFrame,
) -> None:
    """Draw a dot per task; cases have a dark edge."""
    sns.swarmplot(
        scores,
        x="score",
        y="group",
        order=list(COLOURS),
        hue="group",
        hue_order=list(COLOURS),
        palette=COLOURS,
        legend=False,
        ax=axes,
        s=2.6,
        linewidth=0.8,
        warn_thresh=1,
    )
    filled = [group for group in COLOURS if group in set(scores["group"])]
    drawn = [dots for dots in axes.collections if np.size(dots.get_offsets())]
    for dots, group in zip(drawn, filled, strict=True):
        shown = scores[scores["group"] == group]["shown"]
        dots.set_edgecolor([INK if is_case else "none" for is_case in shown])
