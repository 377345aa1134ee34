"""The same contexts in other prompts, and variants of methods on the same tasks."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from pkg_lib.analysis import figures, tables
from pkg_lib.analysis.cells import difference_cell
from pkg_lib.analysis.prompt_variants import compare_prompt_variants
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import BASELINE, paired_score
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.validity_tables import Experiments

Comparisons = Mapping[tuple[str, str], pd.DataFrame]  # (experiment, method) -> its prompt variants
PROMPT_COLUMNS = (
    "tasks",
    "pass@1",
    f"against {BASELINE} (95 %)",
    "p (Holm)",
    "against the paper's prompt (95 %)",
    "p",
)


def first_tasks_of(
    experiments: Experiments,
    limit: int,
) -> dict[str, Results]:
    """Restrict experiments to the first tasks of their benchmarks.

    Args:
        experiments: The experiments.
        limit: Number of tasks.

    Returns:
        The same labels with restricted results.
    """
    limited = {}
    for label, results in experiments.items():
        limited[label] = Results(results.model, results.benchmark, results.corpus, limit)
    return limited


def prompt_comparisons(
    experiments: Experiments,
    methods: Sequence[str],
) -> dict[tuple[str, str], pd.DataFrame]:
    """Compare the prompt variants of each method with no retrieval.

    Args:
        experiments: The experiments.
        methods: Methods; the baseline has variants, too.

    Returns:
        (Experiment, method) -> frame of `compare_prompt_variants`; empty if nothing was measured.
    """
    comparisons = {}
    for label, results in experiments.items():
        for method in (BASELINE, *methods):
            comparisons[label, method] = compare_prompt_variants(results, method)
    return comparisons


def prompt_variants_table(
    experiments: Experiments,
    comparisons: Comparisons,
) -> ResultTable:
    """Tabulate pass@1 of each prompt variant against no retrieval and the paper's prompt.

    Args:
        experiments: The experiments.
        comparisons: The result of `prompt_comparisons`.

    Returns:
        One row per experiment and variant.
    """
    rows = {}
    for (label, method), comparison in comparisons.items():
        for name, row in comparison.iterrows():
            variant = str(name)
            change = (
                f"{tables.points(row['difference'])} {tables.interval(row['low'], row['high'])}"
            )
            against_papers = [DASH, DASH]
            if method not in (variant, BASELINE):
                verdicts = experiments[label].verdicts([method, variant]).dropna()
                difference = paired_score(verdicts[variant], verdicts[method])
                if difference:
                    p = tables.probability(difference.p)
                    against_papers = [difference_cell(difference), p]
            rows[f"{label}, {variant}"] = [
                f"{row['n']:.0f}",
                percent(row["rate"]),
                change,
                tables.probability(row["p_corrected"]),
                *against_papers,
            ]
    title = "The same contexts in other prompt variants"
    note = "On the tasks that every variant of a method measured."
    return ResultTable.of(title, rows, PROMPT_COLUMNS, "model, method", note)


@figures.styled
def prompt_variants_figure(comparisons: Comparisons) -> Figure:
    """Draw pass@1 with the paper's prompt, and its range over all prompt variants.

    Args:
        comparisons: The result of `prompt_comparisons`.

    Returns:
        The figure: a bar per experiment and method, a line over its variants, and no retrieval.
    """
    shown = {
        (label, method): comparison
        for (label, method), comparison in comparisons.items()
        if len(comparison) and method != BASELINE
    }
    figure, axes = figures.row_axes(len(shown), 0.22, legend=0.3, left=1.6)
    for place, ((_, method), comparison) in enumerate(shown.items()):
        rates = 100 * comparison["rate"]
        without = 100 * (comparison["rate"] - comparison["difference"]).iloc[0]
        axes.barh(place, rates[method], 0.6, color=figures.COLOURS[0], label="the paper's prompt")
        if len(comparison) > 1:
            ends = [rates.min(), rates.max()]
            axes.plot(ends, [place] * 2, "k|-", label="all prompt variants")
        axes.plot(without, place, "D", mfc="white", mec="black", label=BASELINE)
    axes.set_yticks(range(len(shown)), [f"{label}, {method}" for label, method in shown])
    axes.set(xlim=(0, 100), xlabel="pass@1 (%)")
    axes.grid(axis="x")
    figures.legend_below(axes, ncols=3)
    return figure


def variant_cells(
    results: Results,
    method: str,
    variants: Sequence[str],
) -> list[str]:
    """Print pass@1 of a method and its variants, and the difference of each variant.

    Args:
        results: The experiment.
        method: The method.
        variants: What the names of the variants add to the method's.

    Returns:
        The number of common tasks, the rates in percent, and the differences; empty without a
        common task.
    """
    names = [method, *(f"{method}, {variant}" for variant in variants)]
    verdicts = results.verdicts(names).dropna()
    if verdicts.empty:
        return []
    cells = [str(len(verdicts))]
    cells += [percent(float(verdicts[name].mean())) for name in names]
    for name in names[1:]:
        difference = paired_score(verdicts[name], verdicts[method])
        cells.append(difference_cell(difference) if difference else DASH)
    return cells


def variant_rates_table(
    experiments: Experiments,
    methods: Sequence[str],
    variants: Sequence[str],
    title: str,
    usual: str,
    usual_in_heading: str = "",
) -> ResultTable:
    """Tabulate variants of methods on the tasks that all of them measured.

    Args:
        experiments: Experiments; those whose corpus does not offer the variants are left out.
        methods: Methods.
        variants: What the names of the variants add to the method's.
        title: Title of the table.
        usual: What the method without a variant is called.
        usual_in_heading: What it is called in the headings of differences.

    Returns:
        One row per experiment and method with a common task.
    """
    rows = {}
    for label, results in experiments.items():
        if not results.offers(f"{methods[0]}, unpruned"):
            continue
        for method in methods:
            cells = variant_cells(results, method, variants)
            if cells:
                rows[f"{label}, {method}"] = cells
    less = [f"{variant} less {usual_in_heading or usual}" for variant in variants]
    columns = ["tasks", usual, *variants, *less]
    return ResultTable.of(title, rows, columns, "run, method")
