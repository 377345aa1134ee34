"""The figure of Table 7: failed solutions by error, one stacked bar per setting."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pkg_lib.analysis.figures import (
    QUIET,
    beside,
    legend_below,
    row_axes,
    styled,
)
from pkg_lib.analysis.tables import DASH

# Error -> colour and hatch. Okabe and Ito's colours stay apart for the common colour deficiencies;
# hatches are for print.
LOOKS = {
    "AssertionError": ("#0072B2", ""),
    "NameError": ("#E69F00", "///"),
    "TypeError": ("#009E73", "..."),
    "SyntaxError": ("#CC79A7", "xxx"),
    "IndentationError": ("#56B4E9", "\\\\\\"),
    "Others": ("#C9CDD2", ""),
}
LABEL_CHARS = 16  # Longer names are broken.
LABELLED_SHARE = 0.07  # Share of the axis that a part needs to hold its number.


@styled
def draw_errors(
    counts: pd.DataFrame,
    title: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw one stacked bar of errors per setting.

    Args:
        counts: Counts [setting, error] of `error_types.settings_counts`.
        title: The title.
        ax: Axes to draw into; None makes a figure.

    Returns:
        A figure of one text column.
    """
    labels = [_broken(str(name)) for name in counts.index]
    has_three_lines = any(label.count("\n") > 1 for label in labels)
    height = 0.4 if has_three_lines else 0.28
    figure, axes = row_axes(len(counts), height, legend=0.38, left=1.1, title=title, ax=ax)
    totals = counts.sum(axis=1, min_count=1)
    widest = max(1.0, totals.max()) if totals.notna().any() else 1.0
    _draw_stacks(axes, counts, widest)
    for place, total in enumerate(totals):
        if pd.isna(total):
            beside(axes, place, DASH)
            axes.text(
                0.01 * widest,
                place,
                "not measured",
                va="center_baseline",
                color=QUIET,
            )
        else:
            beside(axes, place, f"{total:.0f}")
    axes.set(xlim=(0, widest), ylim=(len(counts) - 0.5, -0.5), xlabel="failed solutions")
    axes.set_yticks(range(len(counts)), labels)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    legend_below(axes, ncols=3, handlelength=1.4)
    return figure


def _draw_stacks(
    axes: Axes,
    counts: pd.DataFrame,
    widest: float,
) -> None:
    """Draw the parts of the bars; a part that is wide enough holds its number."""
    ends = counts.cumsum(axis=1)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    for error, (colour, hatch) in LOOKS.items():
        parts = counts[error]
        bars = axes.barh(
            range(len(counts)),
            parts,
            0.66,
            ends[error] - parts,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.4,
            label=error,
        )
        numbers = [f"{n:.0f}" if n > LABELLED_SHARE * widest else "" for n in parts]
        for label in axes.bar_label(bars, numbers, label_type="center", fontsize=7):
            label.set_bbox(box if label.get_text() else None)


def _broken(name: str) -> str:
    """Break a long name after the hyphen nearest to its middle, and before its n."""
    name, size, n = name.partition(" (n=")
    breaks = [i + 1 for i, letter in enumerate(name[:-1]) if letter == "-"]
    if len(name) > LABEL_CHARS and breaks:
        middle = min(breaks, key=lambda i: abs(i - len(name) / 2))
        name = f"{name[:middle]}\n{name[middle:]}"
    return f"{name}\n(n={n}" if size else name
