"""The figure of pruning: the cosine of what remains of a node without each of its branches."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis.figures import (
    COLOURS,
    INK,
    QUIET,
    beside,
    legend_below,
    row_axes,
    styled,
)
from pkg_lib.analysis.tables import LOWER
from pkg_lib.papers.pkg.query_steps import (
    branches_of_best,
    lines_of,
)
from pkg_lib.retrieval.explain import (
    Explanation,
    first_line,
)

LABEL_CHARS = 30


@styled
def draw_branches(
    explained: Explanation,
    ax: Axes | None = None,
) -> Figure:
    """Draw the cosine without each branch of the best node; the dashed line is the whole node's.

    Args:
        explained: What a method did for a query.
        ax: Axes to draw into; None makes a figure.

    Returns:
        A figure of one text column.
    """
    branches = branches_of_best(explained)
    whole = explained.without[-1]
    figure, axes = row_axes(
        max(1, len(branches)),
        0.26,
        legend=0.2,
        left=1.78,
        title="Similarity to the query without each branch",
        right=0.46,
        ax=ax,
    )
    for row, branch in enumerate(branches):
        cosine = explained.without[branch]
        axes.plot(
            [whole, cosine],
            [row, row],
            color=QUIET,
            linewidth=0.8,
            zorder=1,
        )
        _draw_cosine(axes, row, cosine, branch == explained.removed)
    axes.axvline(
        whole,
        color=INK,
        linestyle="--",
        linewidth=0.9,
        label=f"whole: {whole:.3f}",
    )
    axes.set_yticks(range(len(branches)), [_label(explained, branch) for branch in branches])
    axes.set_xlabel("cosine without the branch")
    legend_below(axes)
    return figure


def _draw_cosine(
    axes: Axes,
    row: int,
    cosine: float,
    is_removed: bool,
) -> None:
    colour, marker, label = COLOURS[0], "o", None
    if is_removed:
        colour, marker, label = LOWER, "X", "removed"
    axes.plot(cosine, row, marker, color=colour, label=label)
    beside(axes, row, f"{cosine:.3f}")


def _label(
    explained: Explanation,
    branch: int,
) -> str:
    text = f"{lines_of(explained.graph, branch)}: {first_line(explained.graph, branch)}"
    if len(text) <= LABEL_CHARS:
        return text
    words = text[: LABEL_CHARS - 1].rsplit(" ", 1)[0]
    return f"{words} …"
