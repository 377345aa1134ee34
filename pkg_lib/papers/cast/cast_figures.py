"""cAST's figures: pass@1 of each context, and nDCG@5 of each chunking."""

import pandas as pd
from matplotlib.figure import Figure

from pkg_lib.analysis import figures
from pkg_lib.papers.cast.cast_results import CastResults
from pkg_lib.papers.cast.cast_steps import RANKERS, VARIANTS


@figures.styled
def pass_rate_figure(cast: CastResults) -> Figure:
    """Draw pass@1 of each context.

    Args:
        cast: The results.

    Returns:
        The figure, one bar per context.
    """
    figure, axes = figures.row_axes(
        count=len(cast.verdicts.columns),
        height=0.29,
        legend=0.0,
        left=1.35,
    )
    figures.rate_bars(axes, cast.verdicts)
    axes.set_xlabel("Pass@1 (%), 95 % Wilson interval")
    axes.set_title(f"Package functions, {cast.model}", loc="left")
    return figure


@figures.styled
def ranking_figure(cast: CastResults) -> Figure:
    """Draw nDCG@5 of each chunking and ranker.

    Args:
        cast: The results.

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
