"""EVOR's figures: pass@1 by round, by tokens (Figure 3), and by retriever and length (5 and 6)."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator

from pkg_lib.analysis import figures, stats
from pkg_lib.papers.evor.evor_results import EVOR, EvorResults
from pkg_lib.papers.evor.evor_tables import LENGTHS, RETRIEVERS, benchmarks_with_forms

SIZE = (3.35, 2.6)  # inches
COLOURS = (*figures.COLOURS, "#56B4E9", "#D55E00")  # more of Okabe and Ito's
SAMPLED = "DocPrompting"  # whose samples cost as many tokens as EVOR's rounds
LINES = {EVOR: "o-", SAMPLED: "^--"}
Curve = list[tuple[float, float | None]]  # tokens per task, share of solved tasks


def benchmark_colours(evor: EvorResults) -> dict[str, str]:
    """Return the colour of each benchmark with more than one round of EVOR.

    Args:
        evor: The results.
    """
    return dict(zip(evor.evolved, cycle(COLOURS), strict=False))


@figures.styled
def round_figure(evor: EvorResults) -> Figure:
    """Draw pass@1 and the recall of the needed documents of EVOR by round.

    Args:
        evor: The results.
    """
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    for benchmark, colour in benchmark_colours(evor).items():
        rounds = evor.rounds(benchmark, EVOR)
        passed = [100 * evor.verdicts(benchmark, name).mean() for name in rounds]
        found = [100 * evor.recall(benchmark, name).mean() for name in rounds]
        axes.plot(passed, "o-", color=colour, label=evor.short_title(benchmark))
        axes.plot(found, "s:", color=colour)
    axes.plot([], [], "s:", color=figures.QUIET, label="documentation found")
    axes.set(xlabel="round", ylabel="%", ylim=(0, 100))
    locator = AutoLocator()
    locator.set_params(integer=True)
    axes.xaxis.set_major_locator(locator)
    figure.legend(loc="outside lower left", ncols=2)
    return figure


def token_curves(evor: EvorResults, benchmark: str) -> dict[str, Curve]:
    """Return what tokens buy (Figure 3): rounds of EVOR, or samples of DocPrompting.

    Args:
        evor: The results.
        benchmark: A measured benchmark.

    Returns:
        Method -> tokens per task and share of solved tasks, by round or by number of samples of
        which one must pass (pass@k).
    """
    evor_curve: Curve = []
    spent = 0.0
    for name in evor.rounds(benchmark, EVOR):
        spent += evor.tokens(benchmark, name).mean()
        rate = stats.pass_at_1(evor.verdicts(benchmark, name))
        evor_curve.append((spent, rate.value))
    sampled_curve: Curve = []
    samples = evor.by_benchmark[benchmark].draws(SAMPLED, "T0.8")
    if samples:
        verdicts = [evor.verdicts(benchmark, sample) for sample in samples]
        together = pd.concat(verdicts, axis=1)
        tokens = evor.tokens(benchmark, samples[0]).mean()
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
    """
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    for benchmark, colour in benchmark_colours(evor).items():
        for method, curve in token_curves(evor, benchmark).items():
            if not curve:
                continue
            frame = pd.DataFrame(curve, columns=["tokens", "rate"])
            axes.plot(
                frame["tokens"],
                100 * frame["rate"],
                LINES[method],
                color=colour,
                label=f"{method}, {evor.short_title(benchmark)}",
            )
    axes.set(xlabel="tokens a task", ylabel="solved (%)")
    axes.set(xlim=(0, None), ylim=(0, None))
    figure.legend(loc="outside lower left", ncols=2)
    return figure


@figures.styled
def form_figure(evor: EvorResults) -> Figure:
    """Draw RK by retriever (Figure 5) and by length of the context (Figure 6).

    Args:
        evor: The results.
    """
    colours = benchmark_colours(evor)
    figure = Figure(figsize=SIZE, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    places = {name: number for number, name in enumerate(RETRIEVERS)}
    by_place = {places[name]: form for name, form in RETRIEVERS.items()}
    for benchmark in benchmarks_with_forms(evor):
        colour = colours.get(benchmark)
        _draw_forms(left, evor, benchmark, by_place, colour, None)
        _draw_forms(right, evor, benchmark, LENGTHS, colour, evor.title(benchmark))
    left.set(
        xticks=range(len(RETRIEVERS)),
        xticklabels=list(RETRIEVERS),
        xlim=(-0.5, 2.5),
        ylabel="solved (%)",
        ylim=(0, None),
    )
    right.set(xlabel="tokens of context", xlim=(0, None))
    figure.legend(loc="outside lower left", ncols=2)
    return figure


def _draw_forms(
    axes: Axes,
    evor: EvorResults,
    benchmark: str,
    forms: Mapping[int, str],
    colour: str | None,
    label: str | None,
) -> None:
    """Draw pass@1 with its interval of each complete form at its place."""
    places = []
    rates = []
    below = []
    above = []
    for place, form in forms.items():
        verdicts = evor.last_verdicts(benchmark, form)
        if not verdicts.notna().all():
            continue
        rate = 100 * verdicts.mean()
        bounds = stats.wilson(int(verdicts.sum()), len(verdicts))
        assert bounds is not None, "a benchmark has tasks"
        places.append(place)
        rates.append(rate)
        below.append(abs(100 * bounds[0] - rate))
        above.append(abs(100 * bounds[1] - rate))
    style: dict[str, Any] = {
        "fmt": "o",
        "capsize": 2,
        "color": colour,
        "label": label,
    }
    axes.errorbar(places, rates, [below, above], **style)
