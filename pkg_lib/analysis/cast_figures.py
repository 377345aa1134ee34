"""Figures of cast.ipynb: retrieval by chunking, and Pass@1 by context."""

from __future__ import annotations

from matplotlib.figure import Figure

from pkg_lib.analysis.cast_study import Study, mean_interval
from pkg_lib.analysis.figures import BAR, BASE, ERROR_LOOK, INK, MARKERS, beside, row_axes, styled
from pkg_lib.analysis.metrics import pass_at_1, wilson
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.repo_tasks.retrieving import RANKERS, VARIANTS


@styled
def ranking(study: Study, metric: str = "nDCG@5") -> Figure:
    """A retrieval measure of each chunking with its bootstrap interval, one marker a retriever."""
    names = [v for v in VARIANTS if any(len(study.measure(r, v, metric)) for r in RANKERS)]
    figure, axes = row_axes(len(names), 0.3, legend=0.16, left=0.95)
    for number, ranker in enumerate(RANKERS):
        colour, shift = list(ERROR_LOOK.values())[number][0], 0.26 * (number - (len(RANKERS) - 1) / 2)
        for place, name in enumerate(names):
            found = mean_interval(study.measure(ranker, name, metric))
            if found:
                axes.plot([100 * found.low, 100 * found.high], [place + shift] * 2, color=colour, linewidth=1.0)
                label = ranker if place == 0 else None
                axes.plot(100 * found.value, place + shift, MARKERS[number], color=colour, markersize=4, label=label)
    axes.set(xlabel=f"{metric} (%), 95 % bootstrap interval")
    axes.grid(axis="x")
    axes.set_yticks(range(len(names)), names)
    axes.set_title(f"Retrieval on {len(study.ids)} tasks", loc="left")
    figure.legend(loc="lower left", ncols=2, borderaxespad=0.2, handlelength=1.0)
    return figure


@styled
def pass_rates(study: Study) -> Figure:
    """Pass@1 of every judged column with its Wilson interval."""
    names = list(study.verdicts)
    figure, axes = row_axes(max(len(names), 1), 0.26, legend=0.0, left=1.35)
    for place, name in enumerate(names):
        rate = pass_at_1(study.verdicts[name])
        bounds = wilson(rate.passed, rate.measured)
        if rate.value is None or bounds is None:
            beside(axes, place, DASH)
            continue
        axes.barh(place, 100 * rate.value, height=0.5, color=BASE if name == "None" else BAR)
        axes.plot([100 * b for b in bounds], [place] * 2, color=INK, linewidth=0.9, zorder=4)
        if rate.measured < rate.total:
            axes.text(100 * bounds[1] + 1, place, f"n={rate.measured}", va="center_baseline", fontsize=7)
        beside(axes, place, percent(rate.value))
    axes.set(xlim=(0, 100), xlabel="Pass@1 (%), 95 % Wilson interval")
    axes.grid(axis="x")
    axes.set_yticks(range(len(names)), [n.replace(", body in corpus", ",\nbody in corpus") for n in names])
    axes.set_title(study.model, loc="left")
    return figure
