"""EVOR's figures: pass@1 by round, by tokens (Figure 3), and by retriever and length (5 and 6)."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures, stats
from pkg_lib.papers.evor.evor_results import EVOR, BenchmarkResults, EvorResults
from pkg_lib.papers.evor.evor_tables import LENGTHS, RETRIEVERS, benchmarks_with_forms
from pkg_lib.retrieval.methods import NO_RAG

SAMPLED = "DocPrompting"  # whose samples cost as many tokens as EVOR's rounds
USUAL = "RK"  # both retrievers, 1,000 tokens
DRAWN_FORMS = {*RETRIEVERS.values(), *LENGTHS.values()}
# Look and line of each curve.
PASSED = (figures.RateLook("pass@1", figures.COLOURS[0]), "-")
FOUND = (figures.RateLook("documentation\nfound", figures.COLOURS[1], "s", filled=False), "--")
CURVES = {
    EVOR: (figures.RateLook("EVOR, by round", figures.COLOURS[0]), "-"),
    SAMPLED: (figures.RateLook("DocPrompting,\nby sample", figures.COLOURS[1], "^", False), "--"),
    NO_RAG: (figures.RateLook(NO_RAG, "black", "D", filled=False), "none"),
}


def changed_benchmarks(evor: EvorResults) -> int:
    """Count the benchmarks on which the last round of EVOR differs from the first.

    Args:
        evor: The results.

    Returns:
        Number of benchmarks with a significant difference by McNemar's exact test, corrected by Holm
        over the benchmarks.
    """
    pairs = []
    for benchmark in evor.evolved:
        rounds = benchmark.rounds(EVOR)
        pairs.append((benchmark.verdicts(rounds[-1]), benchmark.verdicts(rounds[0])))
    return stats.count_significant(pairs)


def _titles(benchmarks: Sequence[BenchmarkResults]) -> list[str]:
    """Name benchmarks with their number of tasks."""
    return [f"{benchmark.short_title} ({len(benchmark.tasks)})" for benchmark in benchmarks]


@figures.styled
def round_figure(evor: EvorResults) -> Figure:
    """Draw pass@1 and the recall of the needed documents of EVOR by round.

    Args:
        evor: The results.

    Returns:
        The figure: a panel per benchmark. In parentheses are the number of tasks and the number of
        those whose needed documents are known. Intervals of pass@1 are Wilson's, those of the recall
        are bootstrapped over tasks. The title counts the benchmarks on which the last round differs
        from the first.
    """
    changed = changed_benchmarks(evor)
    title = (
        "From round 0 to the last, pass@1 changes significantly\n"
        f"on {changed} of {len(evor.evolved)} benchmarks"
    )
    titles = []
    for benchmark in evor.evolved:
        known = len(benchmark.recall(f"{EVOR}@0"))
        titles.append(f"{benchmark.short_title} ({len(benchmark.tasks)}; {known})")
    figure, panels = figures.panel_axes(titles, title, "round", "% of tasks, 95 % interval", 1.15)
    for axes, benchmark in zip(panels, evor.evolved, strict=True):
        rounds = benchmark.rounds(EVOR)
        places = range(len(rounds))
        passed = [benchmark.verdicts(name).sum() for name in rounds]
        rates = figures.wilson_points(passed, len(benchmark.tasks))
        figures.curve_with_intervals(axes, places, rates, *PASSED)
        found = figures.mean_points([100 * benchmark.recall(name) for name in rounds])
        figures.curve_with_intervals(axes, places, found, *FOUND)
    longest = max(len(benchmark.rounds(EVOR)) for benchmark in evor.evolved)
    panels[0].set(xticks=range(longest), ylim=(0, 100))
    figures.panel_legend(figure, panels)
    return figure


def token_curves(benchmark: BenchmarkResults) -> dict[str, pd.DataFrame]:
    """Compute what tokens buy (Figure 3): rounds of EVOR, or samples of DocPrompting.

    Args:
        benchmark: The results on a benchmark.

    Returns:
        Method -> a row per round, or per number of samples of which one must pass (pass@k):
        ``tokens`` per task; ``value``, ``low`` and ``high`` in percent. NoRAG has one row. A method
        that was not measured is left out.
    """
    curves = {}
    rounds = benchmark.rounds(EVOR)
    passed = [benchmark.verdicts(name).sum() for name in rounds]
    spent = pd.Series([benchmark.tokens(name).mean() for name in rounds])
    rates = figures.wilson_points(passed, len(benchmark.tasks))
    curves[EVOR] = rates.assign(tokens=spent.cumsum())
    samples = benchmark.results.draws(SAMPLED, "T0.8")
    if samples:
        together = pd.concat([benchmark.verdicts(sample) for sample in samples], axis=1)
        tokens = benchmark.tokens(samples[0]).mean()
        rows = []
        for count in range(1, len(samples) + 1):
            rate = stats.mean_pass_at_k(together, count)
            if rate:
                rows.append((tokens * count, 100 * rate.value, 100 * rate.low, 100 * rate.high))
        curves[SAMPLED] = pd.DataFrame(rows, columns=["tokens", "value", "low", "high"])
    without = benchmark.last_verdicts(NO_RAG)
    if without.notna().all():
        rates = figures.wilson_points([without.sum()], len(benchmark.tasks))
        curves[NO_RAG] = rates.assign(tokens=benchmark.tokens(NO_RAG).mean())
    return curves


@figures.styled
def token_figure(evor: EvorResults) -> Figure:
    """Draw the share of solved tasks by tokens (Figure 3).

    Args:
        evor: The results.

    Returns:
        The figure: a panel per benchmark, with the number of tasks in parentheses. Intervals are
        Wilson's, those of several samples are bootstrapped over tasks. The title says how many
        times the tokens of the first round all rounds cost.
    """
    curves = [token_curves(benchmark) for benchmark in evor.evolved]
    factors = [of[EVOR]["tokens"].iloc[-1] / of[EVOR]["tokens"].iloc[0] for of in curves]
    title = (
        f"All rounds cost {min(factors):.1f} to {max(factors):.1f} times the tokens of round 0\n"
        f"and change pass@1 significantly on {changed_benchmarks(evor)} of {len(curves)} benchmarks"
    )
    titles = _titles(evor.evolved)
    figure, panels = figures.panel_axes(
        titles, title, "tokens per task", "solved (%), 95 % interval", 1.15
    )
    for axes, of_benchmark in zip(panels, curves, strict=True):
        for method, curve in of_benchmark.items():
            figures.curve_with_intervals(axes, curve["tokens"], curve, *CURVES[method])
    panels[0].set(xlim=(0, None), ylim=(0, None))
    for axes in panels:
        figures.ticks_inside(axes.xaxis)
    figures.panel_legend(figure, panels)
    return figure


@figures.styled
def form_figure(
    evor: EvorResults,
    ax: Axes | None = None,
) -> Figure:
    """Draw RK by retriever (Figure 5) and by length of the context (Figure 6).

    Args:
        evor: The results.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure: a row per complete form, with one marker per benchmark.
    """
    benchmarks = benchmarks_with_forms(evor)
    styles = figures.distinct_styles(_titles(benchmarks))
    labels = []
    headings = []
    rows = []  # (row, number of the benchmark, verdicts)
    lengths = {f"{length:,}": form for length, form in LENGTHS.items()}
    for heading, forms in {"retriever": RETRIEVERS, "tokens of context": lengths}.items():
        headings.append(len(labels))
        labels.append(heading)
        for label, form in forms.items():
            verdicts = [benchmark.last_verdicts(form) for benchmark in benchmarks]
            complete = [number for number, of in enumerate(verdicts) if of.notna().all()]
            rows += [(len(labels), number, verdicts[number]) for number in complete]
            if complete:
                labels.append(f"{label} (RK)" if form == USUAL else label)
    pairs = []
    for benchmark in benchmarks:
        usual = benchmark.last_verdicts(USUAL)
        others = [benchmark.last_verdicts(form) for form in DRAWN_FORMS - {USUAL}]
        pairs += [(other, usual) for other in others if other.notna().all()]
    title = (
        f"{stats.count_significant(pairs)} of {len(pairs)} other retrievers and lengths "
        "differ\nsignificantly from RK in pass@1"
    )
    legend = 0.06 + 0.15 * len(benchmarks)
    figure, axes = figures.row_axes(
        len(labels),
        0.2,
        legend,
        left=1.15,
        title=title,
        right=0.14,
        ax=ax,
    )
    step = 0.6 / len(benchmarks)
    for row, number, verdicts_of_form in rows:
        name, (colour, marker) = list(styles.items())[number]
        place = row + step * (number - (len(benchmarks) - 1) / 2)
        look = figures.RateLook(name, colour, marker)
        figures.rate_point(axes, verdicts_of_form.sum(), len(verdicts_of_form), place, look)
    figures.label_rows(axes, labels, headings)
    axes.set(xlim=(0, None), xlabel="pass@1 (%), 95 % Wilson interval")
    axes.grid(axis="x")
    figures.ticks_inside(axes.xaxis)
    figures.write_title(axes, title)
    figures.legend_below(axes, ncols=1)
    return figure
