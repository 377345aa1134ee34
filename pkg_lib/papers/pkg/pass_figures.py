"""Figures of Tables 1 to 4: the rates of the methods, and the tasks that each helped and hurt."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pkg_lib.analysis import figures
from pkg_lib.analysis.sentences import how_many, listed
from pkg_lib.analysis.stats import (
    BASELINE,
    paired_differences,
    pass_at_1,
)
from pkg_lib.analysis.tables import (
    DASH,
    HIGHER,
    LOWER,
    complete,
    percent,
    signed_count,
)
from pkg_lib.data.benchmarks import title_of
from pkg_lib.evaluation.results import LEAST
from pkg_lib.papers.pkg.labels import voyage_note
from pkg_lib.papers.pkg.overlap import measured_methods
from pkg_lib.papers.pkg.pass_tables import VOYAGE, below_message, published_rates
from pkg_lib.retrieval.methods import SELECTING


@figures.styled
def pass_rates(
    verdicts: pd.DataFrame,
    title: str,
    benchmark: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw pass@1 of each method with its 95 % Wilson interval, and the published models below it.

    Args:
        verdicts: Verdicts [task, method].
        title: The title.
        benchmark: The benchmark's name.
        ax: Axes to draw into; None makes a figure.

    Returns:
        A figure of one text column.
    """
    verdicts = complete(verdicts)
    published = published_rates(benchmark, list(verdicts.columns))
    height, legend = (0.34, 0.78) if len(published) else (0.29, 0.12)
    figure, axes = figures.row_axes(
        verdicts.shape[1],
        height,
        legend,
        title=title,
        ax=ax,
    )
    figures.rate_bars(axes, verdicts, lighter=SELECTING)
    below = [place + 0.36 for place in range(verdicts.shape[1])]
    for marker, (model, rates) in zip(
        figures.MARKERS,
        published.iterrows(),
        strict=False,
    ):
        axes.plot(
            rates,
            below,
            marker,
            label=model,
            zorder=3,
            mfc="white",
            mec=figures.QUIET,
            mew=0.6,
        )
    axes.set_xlabel(f"pass@1 on {title_of(benchmark)} (%),\n95 % Wilson interval")
    if len(published):
        figures.legend_below(
            axes,
            ncols=3,
            alignment="left",
            title=(
                "Small marker below a bar: the same method in the paper,\n"
                "with another model and the paper's corpus"
            ),
            title_fontsize=7,
        )
    return figure


@figures.styled
def helped_and_hurt_bars(
    verdicts: pd.DataFrame,
    title: str,
    benchmark: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw the tasks that only the method solved (right) and that only no retrieval solved (left).

    Args:
        verdicts: Verdicts [task, method].
        title: The title.
        benchmark: The benchmark's name.
        ax: Axes to draw into; None makes a figure.

    Returns:
        A figure of one text column; the net number of tasks is at the right edge.
    """
    changes = paired_differences(complete(verdicts))
    figure, axes = figures.row_axes(
        len(changes),
        0.26,
        legend=0.26,
        title=title,
        above=0.1,  # for the heading of the numbers at the right edge
        ax=ax,
    )
    enough = changes["n"] >= max(1, LEAST * len(verdicts))
    counts = changes[["helped", "hurt"]].where(enough)
    widest = max(5, *counts.max().fillna(0))
    _draw_side(axes, counts["helped"], widest, 1)
    _draw_side(axes, counts["hurt"], widest, -1)
    nets = counts["helped"] - counts["hurt"]
    for place, (n, net) in enumerate(
        zip(
            changes["n"],
            nets,
            strict=True,
        )
    ):
        figures.beside(axes, place, signed_count(net))
        if math.isnan(net):
            text = f"{n} of {len(verdicts)} tasks" if n else "not measured"
            axes.text(
                0.02 * widest,
                place,
                text,
                va="center_baseline",
                color=figures.QUIET,
            )
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=figures.INK, linewidth=0.6)
    limit = 1.25 * widest
    axes.set_xlim(-limit, limit)
    sides = (
        f"left: {BASELINE} alone solves them (hurt)",
        "right: the method alone solves them (helped)",
    )
    axes.set_xlabel("\n".join([f"tasks of {title_of(benchmark)}", *sides]))
    ticks = MaxNLocator(nbins=6, integer=True).tick_values(-widest, widest)
    axes.set_xticks([tick for tick in ticks if abs(tick) <= limit])
    if not enough.any():
        axes.set_xticks([])
    axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
    axes.set_yticks(range(len(counts)), list(counts.index))
    axes.annotate(
        "net",
        (1, 1),
        (4, 3),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=7,
        color=figures.QUIET,
    )
    return figure


def _draw_side(
    axes: Axes,
    counts: pd.Series,
    widest: float,
    sign: int,
) -> None:
    """Draw the bars to the right (sign 1) or to the left (sign -1), with their numbers."""
    colour, alignment = (HIGHER, "left") if sign > 0 else (LOWER, "right")
    axes.barh(
        range(len(counts)),
        sign * counts,
        height=0.6,
        color=colour,
    )
    for place, count in enumerate(counts.fillna(-1)):
        text = f"{count:.0f}" if count >= 0 else ""
        end = sign * (count + 0.02 * widest)
        axes.text(end, place, text, va="center_baseline", ha=alignment)


def rates_title(verdicts: pd.DataFrame) -> str:
    """Write the message of `pass_rates` for its title.

    Args:
        verdicts: Verdicts [task, method].
    """
    message = below_message(verdicts)
    return f"{message[:1].upper()}{message[1:]}" or "pass@1 by method"


def changes_title(verdicts: pd.DataFrame) -> str:
    """Write the message of `helped_and_hurt_bars` for its title.

    Args:
        verdicts: Verdicts [task, method].
    """
    methods = [method for method in measured_methods(verdicts) if method != BASELINE]
    changes = paired_differences(complete(verdicts)).reindex(methods)
    changes = changes[changes["n"] > 0]
    if changes.empty:
        return "No method with retrieval is measured"
    if (changes[["hurt", "helped"]] == 0).all(axis=None):
        return "No retrieval method helps or hurts a task"
    more_hurt = int((changes["hurt"] > changes["helped"]).sum())
    subject = how_many(more_hurt, len(changes), "retrieval method", "hurt")
    clause = f"{subject} more tasks than it helps"
    if 1 < more_hurt < len(changes):
        clause = f"{subject} more tasks than they help"
    return f"{clause[0].upper()}{clause[1:]}"


def rates_caption(
    verdicts: pd.DataFrame,
    benchmark_title: str,
    corpus: str,
) -> str:
    """Write the caption of `pass_rates`.

    Args:
        verdicts: Verdicts [task, method].
        benchmark_title: Title of the benchmark.
        corpus: Name of the corpus.

    Returns:
        What VoyageEmb is if it is shown, and the pass@1 of every method.
    """
    rates = []
    for method in verdicts:
        rate = pass_at_1(verdicts[method])
        rates.append(f"{method} {percent(rate.value)}")
    shown = ", ".join(rates)
    about = f" {voyage_note(corpus)}" if VOYAGE in verdicts else ""
    selecting = [method for method in verdicts if method in SELECTING]
    lighter = f" Lighter: {listed(selecting)}, which select among answers." if selecting else ""
    return (
        f"pass@1 in percent on {benchmark_title}: {shown} ({DASH}: not measured).{lighter}{about}"
    )


def changes_caption(verdicts: pd.DataFrame) -> str:
    """Write the caption of `helped_and_hurt_bars`.

    Args:
        verdicts: Verdicts [task, method].

    Returns:
        The tasks that every measured method helped and hurt.
    """
    counts = []
    for method, row in paired_differences(verdicts).iterrows():
        if row["n"]:
            counts.append(f"{method} {row['helped']:.0f} helped, {row['hurt']:.0f} hurt")
    shown = "; ".join(counts) or "nothing measured"
    return f"Tasks that a method solves and {BASELINE} does not (helped), and the reverse (hurt): {shown}."
