"""Figures of Tables 1 to 4: the columns' rates, and the tasks that each helped and hurt."""

import math

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pkg_lib.analysis import figures
from pkg_lib.analysis.figures import styled
from pkg_lib.analysis.stats import BASELINE, paired_differences, pass_at_1
from pkg_lib.analysis.tables import DASH, HIGHER, LOWER, MINUS, complete, percent
from pkg_lib.data.benchmarks import title_of
from pkg_lib.evaluation.results import LEAST
from pkg_lib.papers.pkg.pass_tables import published_rates


@styled
def pass_rates(verdicts: pd.DataFrame, title: str, benchmark: str) -> Figure:
    """pass@1 of each column with its 95 % Wilson interval; below it the published models as markers."""
    verdicts = complete(verdicts)
    published = published_rates(benchmark, list(verdicts))
    height, legend = (0.34, 0.52) if len(published) else (0.29, 0.0)
    figure, axes = figures.row_axes(verdicts.shape[1], height, legend, title=title)
    figures.rate_bars(axes, verdicts)
    for marker, (name, row) in zip(figures.MARKERS, published.iterrows(), strict=False):
        beneath = [place + 0.36 for place in range(len(row))]
        axes.plot(
            row, beneath, marker, label=name, zorder=3, mfc="white", mec=figures.QUIET, mew=0.6
        )
    axes.set(xlabel=f"pass@1 on {title_of(benchmark)} (%), 95 % Wilson interval")
    axes.set_title(title, loc="left")
    if len(published):
        heading = {"title": "Published (other models, the paper's corpus):", "title_fontsize": 7}
        figures.legend_below(axes, ncols=3, alignment="left", **heading)
    return figure


@styled
def helped_and_hurt_bars(verdicts: pd.DataFrame, title: str, benchmark: str) -> Figure:
    """Tasks that a column solved and None did not (right), and the reverse (left); net beside them."""
    changes = paired_differences(complete(verdicts))
    figure, axes = figures.row_axes(len(changes), 0.26, legend=0.0, title=title)
    enough = changes["n"] >= max(1, LEAST * len(verdicts))
    counts = changes[["helped", "hurt"]].where(enough)
    widest = max(5, *counts.max().fillna(0))
    for side, sign, colour in (("helped", 1, HIGHER), ("hurt", -1, LOWER)):
        axes.barh(range(len(counts)), sign * counts[side], height=0.6, color=colour)
        look = {"va": "center_baseline", "ha": "left" if sign > 0 else "right"}
        for place, n in enumerate(counts[side].fillna(-1)):
            axes.text(sign * (n + 0.02 * widest), place, f"{n:.0f}" if n >= 0 else "", **look)
    for place, (n, net) in enumerate(
        zip(changes["n"], counts["helped"] - counts["hurt"], strict=True)
    ):
        text = DASH if math.isnan(net) else f"{net:+.0f}".replace("-", MINUS).replace("+0", "0")
        figures.beside(axes, place, text)
        if math.isnan(net):
            text = f"{n} of {len(verdicts)} tasks" if n else "not measured"
            axes.text(0.02 * widest, place, text, va="center_baseline", color=figures.QUIET)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=figures.INK, linewidth=0.6)
    axes.set(xlim=(-1.25 * widest, 1.25 * widest))
    axes.set_xlabel(f"tasks of {title_of(benchmark)}: hurt | helped, against None")
    ticks = MaxNLocator(nbins=6, integer=True).tick_values(-widest, widest)
    axes.set_xticks([t for t in ticks if abs(t) <= 1.25 * widest])
    axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
    axes.set_yticks(range(len(counts)), list(counts.index))
    axes.set_title(title, loc="left")
    at = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate("net", (1, 1), (4, 3), **at, fontsize=7, color=figures.QUIET)
    return figure


def rates_caption(verdicts: pd.DataFrame, benchmark_title: str) -> str:
    """Write the caption of `pass_rates`.

    Args:
        verdicts: Verdicts [task, method].
        benchmark_title: Title of the benchmark.

    Returns:
        The pass@1 of every method.
    """
    rates = []
    for method in verdicts:
        rate = pass_at_1(verdicts[method])
        rates.append(f"{method} {percent(rate.value)}")
    shown = ", ".join(rates)
    return f"pass@1 in percent on {benchmark_title}: {shown} ({DASH}: not measured)."


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
    return f"Tasks against {BASELINE}: {'; '.join(counts) or 'nothing measured'}."
