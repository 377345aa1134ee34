"""EVOR's figures: pass@1 by round, by tokens (Figure 3), and by retriever and length (5 and 6)."""

from collections.abc import Mapping
from itertools import cycle

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator

from pkg_lib.analysis import figures, stats
from pkg_lib.papers.evor.evor_results import EVOR, BenchmarkResults, EvorResults
from pkg_lib.papers.evor.evor_tables import LENGTHS, RETRIEVERS, benchmarks_with_forms

SIZE = (figures.WIDTH, 2.6)  # inches
COLOURS = (*figures.COLOURS, "#56B4E9", "#D55E00")  # more of Okabe and Ito's
SAMPLED = "DocPrompting"  # whose samples cost as many tokens as EVOR's rounds
LINES = {EVOR: "o-", SAMPLED: "^--"}
PASSED, FOUND = "o-", "s:"  # lines of pass@1 and of the recall of documents
LEGEND = {"loc": "outside lower left", "ncols": 2}
Curve = list[tuple[float, float | None]]  # tokens per task, share of solved tasks


def benchmark_colours(evor: EvorResults) -> dict[str, str]:
    """Return the colour of each benchmark with more than one round of EVOR.

    Args:
        evor: The results.

    Returns:
        Name of the benchmark -> colour.
    """
    names = [benchmark.name for benchmark in evor.evolved]
    return dict(zip(names, cycle(COLOURS), strict=False))


@figures.styled
def round_figure(evor: EvorResults) -> Figure:
    """Draw pass@1 and the recall of the needed documents of EVOR by round.

    Args:
        evor: The results.

    Returns:
        The figure.
    """
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    colours = benchmark_colours(evor)
    for benchmark in evor.evolved:
        colour = colours[benchmark.name]
        passed = []
        found = []
        for name in benchmark.rounds(EVOR):
            passed.append(100 * benchmark.verdicts(name).mean())
            found.append(100 * benchmark.recall(name).mean())
        axes.plot(passed, PASSED, color=colour, label=benchmark.short_title)
        axes.plot(found, FOUND, color=colour)
    axes.plot([], [], FOUND, color=figures.QUIET, label="documentation found")
    axes.set(xlabel="round", ylabel="%", ylim=(0, 100))
    locator = AutoLocator()
    locator.set_params(integer=True)
    axes.xaxis.set_major_locator(locator)
    figure.legend(**LEGEND)
    return figure


def token_curves(benchmark: BenchmarkResults) -> dict[str, Curve]:
    """Return what tokens buy (Figure 3): rounds of EVOR, or samples of DocPrompting.

    Args:
        benchmark: The results on a benchmark.

    Returns:
        Method -> tokens per task and share of solved tasks, by round or by number of samples of
        which one must pass (pass@k).
    """
    evor_curve: Curve = []
    spent = 0.0
    for name in benchmark.rounds(EVOR):
        spent += benchmark.tokens(name).mean()
        rate = stats.pass_at_1(benchmark.verdicts(name))
        evor_curve.append((spent, rate.value))
    sampled_curve: Curve = []
    samples = benchmark.results.draws(SAMPLED, "T0.8")
    if samples:
        verdicts = [benchmark.verdicts(sample) for sample in samples]
        together = pd.concat(verdicts, axis=1)
        tokens = benchmark.tokens(samples[0]).mean()
        for count in range(1, len(samples) + 1):
            mean = stats.mean_pass_at_k(together, count)
            share = mean.value if mean else None
            sampled_curve.append((tokens * count, share))
    return {EVOR: evor_curve, SAMPLED: sampled_curve}


@figures.styled
def token_figure(evor: EvorResults) -> Figure:
    """Draw the share of solved tasks by tokens (Figure 3).

    Args:
        evor: The results.

    Returns:
        The figure.
    """
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    colours = benchmark_colours(evor)
    for benchmark in evor.evolved:
        for method, curve in token_curves(benchmark).items():
            if not curve:
                continue
            frame = pd.DataFrame(curve, columns=["tokens", "rate"])
            axes.plot(
                frame["tokens"],
                100 * frame["rate"],
                LINES[method],
                color=colours[benchmark.name],
                label=f"{method}, {benchmark.short_title}",
            )
    axes.set(xlabel="tokens a task", ylabel="solved (%)")
    axes.set(xlim=(0, None), ylim=(0, None))
    figure.legend(**LEGEND)
    return figure


@figures.styled
def form_figure(evor: EvorResults) -> Figure:
    """Draw RK by retriever (Figure 5) and by length of the context (Figure 6).

    Args:
        evor: The results.

    Returns:
        The figure.
    """
    colours = benchmark_colours(evor)
    figure = Figure(figsize=SIZE, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    by_place = dict(enumerate(RETRIEVERS.values()))
    for benchmark in benchmarks_with_forms(evor):
        colour = colours.get(benchmark.name)
        _draw_forms(left, benchmark, by_place, colour)
        _draw_forms(right, benchmark, LENGTHS, colour, benchmark.title)
    left.set(
        xticks=range(len(RETRIEVERS)),
        xticklabels=list(RETRIEVERS),
        xlim=(-0.5, 2.5),
        ylabel="solved (%)",
        ylim=(0, None),
    )
    right.set(xlabel="tokens of context", xlim=(0, None))
    figure.legend(**LEGEND)
    return figure


def _draw_forms(
    axes: Axes,
    benchmark: BenchmarkResults,
    forms: Mapping[int, str],
    colour: str | None,
    label: str | None = None,
) -> None:
    """Draw pass@1 with its interval of each complete form at its place."""
    places = []
    rates = []
    below = []
    above = []
    for place, form in forms.items():
        verdicts = benchmark.last_verdicts(form)
        if not verdicts.notna().all():
            continue
        rate = 100 * verdicts.mean()
        bounds = stats.wilson(int(verdicts.sum()), len(verdicts))
        assert bounds is not None, "a benchmark has tasks"
        low, high = bounds
        places.append(place)
        rates.append(rate)
        below.append(abs(100 * low - rate))
        above.append(abs(100 * high - rate))
    axes.errorbar(
        places,
        rates,
        [below, above],
        fmt="o",
        capsize=2,
        color=colour,
        label=label,
    )
