"""cAST's figures: pass@1 of each context, and nDCG@5 of each chunking."""

import pandas as pd
from matplotlib.figure import Figure

from pkg_lib.analysis import figures
from pkg_lib.papers.cast.cast_results import CastResults, mean_interval
from pkg_lib.papers.cast.cast_steps import RANKERS, VARIANTS


@figures.styled
def pass_rate_figure(cast: CastResults) -> Figure:
    """Draw pass@1 of each context.

    Args:
        cast: The results.
    """
    figure, axes = figures.row_axes(cast.verdicts.shape[1], 0.29, legend=0.0, left=1.35)
    figures.rate_bars(axes, cast.verdicts)
    axes.set(xlabel="Pass@1 (%), 95 % Wilson interval")
    axes.set_title(cast.model, loc="left")
    return figure


@figures.styled
def ranking_figure(cast: CastResults) -> Figure:
    """Draw nDCG@5 of each chunking and ranker.

    Args:
        cast: The results.
    """
    measured = []
    for ranker in RANKERS:
        for chunking in VARIANTS:
            values = 100 * cast.ranking(ranker, chunking, "nDCG@5")
            if len(values):
                rows = {"value": values, "row": chunking, "retriever": ranker}
                measured.append(pd.DataFrame(rows))
    frame = pd.concat(measured)
    names = [chunking for chunking in VARIANTS if chunking in set(frame["row"])]
    figure, axes = figures.row_axes(len(names), 0.3, legend=0.16, left=0.95)
    styles = zip(figures.COLOURS, figures.MARKERS, strict=False)
    looks = dict(zip(RANKERS, styles, strict=False))
    figures.interval_points(axes, frame, names, "retriever", looks, errorbar=_bounds)
    axes.set(xlabel="nDCG@5 (%), 95 % bootstrap interval")
    axes.set_title(f"Retrieval on {len(cast.tasks)} tasks", loc="left")
    figures.legend_below(axes)
    return figure


def _bounds(values: pd.Series) -> tuple[float, float]:
    mean = mean_interval(values)
    assert mean is not None, "a drawn chunking is measured"
    return mean.low, mean.high
