"""cAST's figures: pass@1 of each context, and nDCG@5 of each chunking."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures
from pkg_lib.analysis.stats import count_significant
from pkg_lib.papers.cast.cast_results import CastResults, chunking_label
from pkg_lib.papers.cast.cast_steps import RANKERS, VARIANTS

CAST, FIXED = "cast", "fixed-size"
# Chunking -> look of its rate; PLAIN for prompts without chunks.
LOOKS = {
    CAST: figures.RateLook("", figures.COLOURS[0]),
    FIXED: figures.RateLook("", figures.COLOURS[1], "s"),
}
PLAIN = figures.RateLook("", "black", filled=False)


@figures.styled
def pass_rate_figure(
    cast: CastResults,
    ax: Axes | None = None,
) -> Figure:
    """Draw pass@1 of each context, grouped by retriever.

    Args:
        cast: The results.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure: a row per context with its number of tasks. The title counts the retrievers for
        which cAST differs from fixed-size chunks.
    """
    groups: dict[str, dict[str, str]] = {}  # retriever -> label of a row -> context
    for context in cast.compared_methods:
        chunking, _, retriever = context.partition(", ")
        if chunking in VARIANTS:
            groups.setdefault(retriever, {})[chunking] = context
        else:
            groups.setdefault("no retrieval", {})[context] = context
    labels: list[str] = []
    headings = []
    rows = []
    pairs = []
    for heading, contexts in groups.items():
        headings.append(len(labels))
        labels.append(heading)
        if {CAST, FIXED} <= set(contexts):
            pairs.append((cast.verdicts[contexts[CAST]], cast.verdicts[contexts[FIXED]]))
        for label, context in contexts.items():
            verdicts = cast.verdicts[context].dropna()
            rows.append((len(labels), label, verdicts))
            labels.append(f"{chunking_label(label)} ({len(verdicts)})")
    title = (
        f"Package functions, {cast.model}\npass@1 of cAST differs significantly from that of\n"
        f"fixed-size chunks for {count_significant(pairs)} of {len(pairs)} retrievers"
    )
    figure, axes = figures.row_axes(
        len(labels),
        0.2,
        legend=0.0,
        left=1.4,
        title=title,
        right=0.14,
        ax=ax,
    )
    for row, label, verdicts in rows:
        if len(verdicts):
            figures.rate_point(axes, verdicts.sum(), len(verdicts), row, LOOKS.get(label, PLAIN))
    figures.label_rows(axes, labels, headings)
    axes.set(xlim=(0, None), xlabel="pass@1 (%), 95 % Wilson interval")
    axes.grid(axis="x")
    figures.ticks_inside(axes.xaxis)
    return figure


@figures.styled
def ranking_figure(
    cast: CastResults,
    ax: Axes | None = None,
) -> Figure:
    """Draw nDCG@5 of each chunking and ranker.

    Args:
        cast: The results.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure, one row per chunking and one point per ranker.
    """
    measured = []
    for chunking in VARIANTS:
        for ranker in RANKERS:
            values = cast.ranking(ranker, chunking, "nDCG@5")
            if values.empty:
                continue
            percents = pd.DataFrame({"value": 100 * values})
            measured.append(percents.assign(row=chunking, retriever=ranker))
    frame = pd.concat(measured)
    names = list(frame["row"].unique())
    figure, axes = figures.row_axes(
        count=len(names),
        height=0.3,
        legend=0.16,
        left=0.95,
        ax=ax,
    )
    figures.interval_points(
        axes,
        frame,
        names,
        hue="retriever",
        styles=figures.distinct_styles(RANKERS),
        errorbar=figures.bootstrap_bar,
    )
    axes.set_xlabel("nDCG@5 (%), 95 % bootstrap interval")
    axes.set_title(f"Retrieval on {len(cast.tasks)} package functions", loc="left")
    figures.legend_below(axes)
    return figure
