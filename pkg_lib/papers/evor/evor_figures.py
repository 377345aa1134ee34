"""EVOR's figures: pass@1 by round, by tokens (Figure 3), and by retriever and length (5 and 6)."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures, stats
from pkg_lib.analysis.sentences import listed
from pkg_lib.papers.evor.evor_results import EVOR, BenchmarkResults, EvorResults
from pkg_lib.papers.evor.evor_tables import LENGTHS, RETRIEVERS, benchmarks_with_forms
from pkg_lib.retrieval.methods import NO_RAG

SAMPLED = "DocPrompting"  # whose samples cost as many tokens as EVOR's rounds
USUAL = "RK"  # both retrievers, 1,000 tokens
DRAWN_FORMS = {*RETRIEVERS.values(), *LENGTHS.values()}
BLUE, ORANGE, *_ = figures.COLOURS
PASSED = figures.RateLook("pass@1", BLUE)
FOUND = figures.RateLook(
    "documentation\nfound",
    ORANGE,
    marker="s",
    filled=False,
)
# Method -> look of its curve.
CURVES = {
    EVOR: figures.RateLook("EVOR, by round", BLUE),
    SAMPLED: figures.RateLook(
        "DocPrompting,\nby sample",
        ORANGE,
        marker="^",
        filled=False,
    ),
    NO_RAG: figures.RateLook(
        NO_RAG,
        "black",
        marker="D",
        filled=False,
    ),
}
LINES = {EVOR: "-", SAMPLED: "--", NO_RAG: "none"}
UNCORRECTED_BARS = (
    "The bars are 95 % intervals of each rate. The counts in the title use McNemar's exact test of the last "
    "round against round 0 on the same tasks, with Holm's correction over the benchmarks."
)


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


def round_caption(evor: EvorResults) -> str:
    """Write the caption of `round_figure`.

    Args:
        evor: The results.

    Returns:
        The caption, which names the benchmarks with fewer rounds than the others.
    """
    return (
        "pass@1 of EVOR by round, and the share of the needed documentation that the prompts held "
        "(mean over the tasks where it is known). After a benchmark are its number of tasks and the "
        f"number of tasks with known documentation. {_fewer_rounds(evor)}{UNCORRECTED_BARS}"
    )


def token_caption(evor: EvorResults) -> str:
    """Write the caption of `token_figure`.

    Args:
        evor: The results.

    Returns:
        The caption, which names the benchmarks with fewer rounds than the others, and those on which
        DocPrompting was sampled.
    """
    sampled = [b.short_title for b in evor.evolved if b.results.sample_names(SAMPLED, 0.8)]
    where = f"{SAMPLED} was sampled only on {listed(sampled)}. " if sampled else ""
    return (
        "Figure 3, solved tasks by the tokens that all rounds, or all samples, read and wrote. After a "
        "benchmark is its number of tasks. A point is a round of EVOR, or one more sample of which one "
        f"must pass. {_fewer_rounds(evor)}{where}{UNCORRECTED_BARS}"
    )


def form_caption() -> str:
    """Write the caption of `form_figure`."""
    return (
        "Figures 5 and 6, RK by retriever and by tokens of context. After a benchmark is its number of "
        "tasks. The bars are 95 % intervals of each rate. The counts in the title use McNemar's exact test "
        "against RK on the same tasks, with Holm's correction."
    )


def _fewer_rounds(evor: EvorResults) -> str:
    """Name the benchmarks on which fewer rounds are complete than on others."""
    last_rounds = {}
    for benchmark in evor.evolved:
        last_rounds[benchmark.short_title] = len(benchmark.rounds(EVOR)) - 1
    longest = max(last_rounds.values(), default=0)
    fewer = [f"{title} until round {n}" for title, n in last_rounds.items() if n < longest]
    if not fewer:
        return ""
    return f"EVOR was run until round {longest}, but on {listed(fewer)} only. "


def _title(benchmark: BenchmarkResults) -> str:
    """Name a benchmark with its number of tasks."""
    return f"{benchmark.short_title} ({len(benchmark.tasks)})"


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
        f"on {changed} of {len(evor.evolved)} benchmarks\n"
        f"{evor.model}\n"
        "(tasks; tasks whose needed documents are known)"
    )
    titles = []
    for benchmark in evor.evolved:
        known = len(benchmark.recall(f"{EVOR}@0"))
        titles.append(f"{benchmark.short_title} ({len(benchmark.tasks)}; {known})")
    figure, panels = figures.panel_axes(titles, title, "round", "%, with 95 % interval", 1.15)
    for axes, benchmark in zip(panels, evor.evolved, strict=True):
        rounds = benchmark.rounds(EVOR)
        places = range(len(rounds))
        passed = [benchmark.verdicts(name).sum() for name in rounds]
        rates = figures.wilson_points(passed, len(benchmark.tasks))
        figures.curve_with_intervals(axes, places, rates, PASSED)
        found = figures.mean_points([100 * benchmark.recall(name) for name in rounds])
        figures.curve_with_intervals(axes, places, found, FOUND, "--")
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
    samples = benchmark.results.sample_names(SAMPLED, 0.8)
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
    factors = []
    for benchmark_curves in curves:
        spent = benchmark_curves[EVOR]["tokens"]
        factors.append(spent.iloc[-1] / spent.iloc[0])
    least = f"{min(factors):.1f}"
    most = f"{max(factors):.1f}"
    changed = changed_benchmarks(evor)
    title = (
        f"All rounds cost {least} to {most} times the tokens of round 0\n"
        f"and change pass@1 significantly on {changed} of {len(curves)} benchmarks\n"
        f"{evor.model}"
    )
    titles = [_title(benchmark) for benchmark in evor.evolved]
    figure, panels = figures.panel_axes(
        titles,
        title,
        across="tokens per task",
        upwards="solved (%), 95 % interval",
        height=1.15,
    )
    for axes, benchmark_curves in zip(panels, curves, strict=True):
        for method, curve in benchmark_curves.items():
            figures.curve_with_intervals(
                axes,
                curve["tokens"],
                curve,
                CURVES[method],
                LINES[method],
            )
    panels[0].set(xlim=(0, None), ylim=(0, None))
    for axes in panels:
        figures.ticks_inside(axes.xaxis)
    figures.panel_legend(figure, panels)
    return figure


def form_rows(benchmarks: Sequence[BenchmarkResults]) -> dict[str, dict[str, pd.Series]]:
    """Return the rows of the figure of forms: retrievers, then lengths of the context.

    Args:
        benchmarks: Benchmarks with other forms of RK.

    Returns:
        Label of a row -> its verdicts by benchmark with the number of tasks. There is a row per form
        that is complete on a benchmark, and one without verdicts for the heading of each group.
    """
    lengths = {f"{length:,}": form for length, form in LENGTHS.items()}
    groups = {
        "retriever": RETRIEVERS,
        "tokens of context": lengths,
    }
    rows: dict[str, dict[str, pd.Series]] = {}
    for heading, forms in groups.items():
        rows[heading] = {}
        for name, form in forms.items():
            complete = {}
            for benchmark in benchmarks:
                verdicts = benchmark.last_verdicts(form)
                if verdicts.notna().all():
                    complete[_title(benchmark)] = verdicts
            if complete:
                label = f"{name} ({USUAL})" if form == USUAL else name
                rows[label] = complete
    return rows


def _compared_forms(benchmarks: Sequence[BenchmarkResults]) -> list[tuple[pd.Series, pd.Series]]:
    """Return the verdicts of each complete form beside those of RK as it is."""
    pairs = []
    for benchmark in benchmarks:
        usual = benchmark.last_verdicts(USUAL)
        for form in DRAWN_FORMS - {USUAL}:
            other = benchmark.last_verdicts(form)
            if other.notna().all():
                pairs.append((other, usual))
    return pairs


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
        The figure: a row per complete form, with one marker per benchmark. The title counts the
        forms that differ from RK.
    """
    benchmarks = benchmarks_with_forms(evor)
    rows = form_rows(benchmarks)
    pairs = _compared_forms(benchmarks)
    title = (
        f"{stats.count_significant(pairs)} of {len(pairs)} other retrievers and lengths differ\n"
        f"significantly from {USUAL} in pass@1\n"
        f"{evor.model}"
    )
    figure, axes = figures.row_axes(
        len(rows),
        height=0.2,
        legend=0.06 + 0.15 * len(benchmarks),
        left=1.15,
        title=title,
        right=0.14,
        ax=ax,
    )
    names = [_title(benchmark) for benchmark in benchmarks]
    step = 0.6 / len(names)
    first = -step * (len(names) - 1) / 2
    styles = figures.distinct_styles(names)
    for row, by_benchmark in enumerate(rows.values()):
        for name, verdicts in by_benchmark.items():
            look = figures.RateLook(name, *styles[name])
            place = row + first + step * names.index(name)
            figures.rate_point(axes, verdicts.sum(), len(verdicts), place, look)
    headings = [row for row, by_benchmark in enumerate(rows.values()) if not by_benchmark]
    figures.label_rows(axes, list(rows), headings)
    axes.set(xlim=(0, None), xlabel="pass@1 (%), 95 % Wilson interval")
    axes.grid(axis="x")
    figures.ticks_inside(axes.xaxis)
    figures.legend_below(axes, ncols=1)
    return figure
