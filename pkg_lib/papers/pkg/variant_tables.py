"""The same contexts in other prompts, and variants of methods on the same tasks."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures, tables
from pkg_lib.analysis.cells import bracketed_difference, difference_cell
from pkg_lib.analysis.contents import texts_of
from pkg_lib.analysis.prompt_variants import compare_prompt_variants
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import listed
from pkg_lib.analysis.stats import BASELINE, paired_score
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.labels import models_in_words
from pkg_lib.papers.pkg.validity_tables import Experiments

Comparisons = Mapping[tuple[str, str], pd.DataFrame]  # (experiment, method) -> its prompt variants
DEFAULT_PROMPT = "default prompt"
SWAPPED = "swapped"
VARIANT_LABELS = {SWAPPED: "another task's context"}
PRUNING_NOTE = (
    "Pruning removes a branch of the retrieved code, such as a loop. Guarded, the default: nothing is "
    "removed if no pruned version is nearer to the query. Paper-literal: a branch is always removed."
)
VARIANT_STEP = 0.16  # of a row, between two variants
VARIANT_COLOURS = (figures.INK, *figures.COLOURS)
PROMPT_COLUMNS = (
    "tasks",
    "pass@1",
    f"against {BASELINE} (95 %)",
    "p (Holm)",
    f"against the {DEFAULT_PROMPT} (95 %)",
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


def variant_meanings(comparisons: Comparisons) -> str:
    """Say what each compared prompt variant does.

    Args:
        comparisons: The result of `prompt_comparisons`.

    Returns:
        Text such as 'Prompt variants are "context first" (the context is before the task)'; "" without one.
    """
    meanings = texts_of("terms")["variants"]
    shown: dict[str, str] = {}
    for comparison in comparisons.values():
        for name in comparison.index:
            variant = str(name).partition(", ")[2]
            if variant in meanings:
                label = VARIANT_LABELS.get(variant, variant)
                also = "" if label == variant else f"; in the data files: {variant}"
                shown[variant] = f'"{label}" ({meanings[variant]}{also})'
    return f"Prompt variants are {listed(shown.values())}" if shown else ""


def prompt_variants_caption(comparisons: Comparisons) -> str:
    """Describe `prompt_variants_figure`, with what each of its prompts is.

    Args:
        comparisons: The result of `prompt_comparisons`.

    Returns:
        The caption.
    """
    drawn = {key: compared for key, compared in comparisons.items() if key[1] != BASELINE}
    meanings = variant_meanings(drawn)
    return (
        "Change of pass@1 from no retrieval by prompt variant, 95 % paired bootstrap interval (tasks). "
        f"{f'{meanings}. ' if meanings else ''}Prompts without a marker in a row were not run."
    )


def prompt_variants_table(
    experiments: Experiments,
    comparisons: Comparisons,
) -> ResultTable:
    """Tabulate pass@1 of each prompt variant against no retrieval and the default prompt.

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
            change = bracketed_difference(row["difference"], row["low"], row["high"])
            against_papers = [DASH, DASH]
            if method not in (variant, BASELINE):
                verdicts = experiments[label].verdicts([method, variant]).dropna()
                difference = paired_score(verdicts[variant], verdicts[method])
                if difference:
                    p = tables.probability(difference.p)
                    against_papers = [difference_cell(difference), p]
            rows[f"{label}, {_variant_label(variant)}"] = [
                f"{row['n']:.0f}",
                percent(row["rate"]),
                change,
                tables.probability(row["p_corrected"]),
                *against_papers,
            ]
    title = "The same contexts in other prompt variants"
    limits = [str(results.limit) for results in experiments.values() if results.limit]
    first = f"the first {limits[0]} tasks of a benchmark" if limits else "all tasks of a benchmark"
    tasks = (
        f"The variants are compared on {first}, on those tasks that every variant of a method "
        "measured. Tables above that count all tasks can have more of them. p (Holm) is corrected over "
        "the variants of this table for a model and a benchmark. The last p is not corrected."
    )
    meanings = variant_meanings(comparisons)
    notes = [f"{meanings}.", tasks] if meanings else [tasks]
    return ResultTable.of(title, rows, PROMPT_COLUMNS, "model, method", *notes)


def _variant_label(variant: str) -> str:
    """Name a variant as the figures do, e.g. "Func-PKG, another task's context"."""
    method, separator, short_name = variant.rpartition(", ")
    return f"{method}{separator}{VARIANT_LABELS.get(short_name, short_name)}"


@figures.styled
def prompt_variants_figure(
    comparisons: Comparisons,
    models: Sequence[str],
    ax: Axes | None = None,
) -> Figure:
    """Draw the difference in pass@1 between each prompt variant and no retrieval.

    Args:
        comparisons: The result of `prompt_comparisons`.
        models: Names of the models, for the title.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure: a row per experiment and method, a marker per variant with its interval. The
        number of tasks is in parentheses. The title counts the variants below no retrieval.
    """
    shown = {
        key: comparison
        for key, comparison in comparisons.items()
        if len(comparison) and key[1] != BASELINE
    }
    names: dict[str, None] = {}
    for (_, method), comparison in shown.items():
        names |= dict.fromkeys(_variant_name(str(name), method) for name in comparison.index)
    styles = figures.distinct_styles(names, VARIANT_COLOURS)
    legend_rows = math.ceil(len(names) / 2)
    legend = 0.42 + 0.15 * legend_rows
    drawn = pd.concat([comparison["difference"] for comparison in shown.values()] or [pd.Series()])
    below = (drawn < 0).sum()
    how_many = f"All {below}" if below == len(drawn) > 1 else f"{below} of {len(drawn)}"
    message = f"{how_many} prompts with a context score below {BASELINE}"
    title = f"{message}\n{models_in_words(models)}"
    figure, axes = figures.row_axes(len(shown), 0.4, legend, 1.5, title, right=0.1, ax=ax)
    labels = []
    for row, ((label, method), comparison) in enumerate(shown.items()):
        tasks = int(comparison["n"].iloc[0])
        labels.append(f"{label},\n{method} ({tasks})")
        first = row - VARIANT_STEP * (len(comparison) - 1) / 2
        for number, (name, variant) in enumerate(comparison.iterrows()):
            short_name = _variant_name(str(name), method)
            place = first + number * VARIANT_STEP
            look = figures.RateLook(
                VARIANT_LABELS.get(short_name, short_name),
                *styles[short_name],
                filled=short_name != SWAPPED,
            )
            ends = (variant["low"], variant["high"])
            figures.point_with_interval(axes, variant["difference"], *ends, place, look)
    axes.axvline(0, color=figures.INK, linewidth=0.6, zorder=0)
    for row in range(1, len(shown)):
        axes.axhline(row - 0.5, color="#E2E2E2", linewidth=0.4)
    figures.label_rows(axes, labels)
    axes.set_xlabel(
        f"pass@1 minus that of {BASELINE}\n(default prompt), percentage points,\n"
        "95 % interval; right of 0: helps"
    )
    axes.grid(axis="x")
    figures.legend_below(axes, title="prompt", alignment="left", title_fontsize=7)
    return figure


def _variant_name(
    name: str,
    method: str,
) -> str:
    """Name a prompt variant without its method, such as "context first"."""
    return name.removeprefix(f"{method}, ") if name != method else DEFAULT_PROMPT


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
        cells.append(difference_cell(difference))
    return cells


def variant_rates_table(
    experiments: Experiments,
    methods: Sequence[str],
    variants: Sequence[str],
    title: str,
    usual: str,
    usual_in_heading: str = "",
    note: str = "",
) -> ResultTable:
    """Tabulate variants of methods on the tasks that all of them measured.

    Args:
        experiments: Experiments; those whose corpus does not offer the variants are left out.
        methods: Methods.
        variants: What the names of the variants add to the method's.
        title: Title of the table.
        usual: What the method without a variant is called.
        usual_in_heading: What it is called in the headings of differences.
        note: What the variants are.

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
    less = [f"{variant} minus {usual_in_heading or usual}" for variant in variants]
    columns = ["tasks", usual, *variants, *less]
    notes = [note] if note else []
    return ResultTable.of(title, rows, columns, "run, method", *notes)
