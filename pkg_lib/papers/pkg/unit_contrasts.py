"""RQ3 (Section 5): which unit should be retrieved, a row, a function or a block?

A contrast keeps the retriever and changes the unit: two methods, task by task.
"""

import math
from collections.abc import (
    Mapping,
    Sequence,
)
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures
from pkg_lib.analysis.cells import bracketed_difference, paired_cells, wilson_range
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import (
    difference,
    finding,
)
from pkg_lib.analysis.stats import (
    ALPHA,
    BASELINE,
    FEWEST_FOR_BOOTSTRAP,
    holm,
    not_measured,
    paired_bootstrap,
    paired_differences,
    pass_at_1,
)
from pkg_lib.analysis.tables import (
    DASH,
    MINUS,
    complete,
    kind,
    percent,
    points,
)
from pkg_lib.core.types import Context
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.cost import added_tokens
from pkg_lib.papers.pkg.pass_tables import (
    PUBLISHED,
    published_rates,
)
from pkg_lib.retrieval.methods import (
    METHODS,
    RERANKED,
)

UNITS = {method.name: method.unit for method in METHODS.values() if method.unit}
# Kind of corpus -> (method with the finer unit, method with the coarser unit). The last contrast
# sets selection against the finest unit.
CONTRASTS = {
    "code": [
        ("Func-BM25", "BM25"),
        ("Func-PKG", "VoyageEmb"),
        ("Block-PKG", "VoyageEmb"),
        ("Block-PKG", "Func-PKG"),
        (RERANKED, "Block-PKG"),
    ],
    "text": [
        ("JSON-PKG", "BM25"),
        ("JSON-PKG", "VoyageEmb"),
        (RERANKED, "JSON-PKG"),
    ],
}
UNIT_COLUMNS = (
    "unit",
    "pass@1, %",
    "95 % interval",
    "mean tokens added",
    "contexts shortened",
    "contexts that define the function",
)
CONTRAST_COLUMNS = (
    "tasks",
    "difference",
    "95 % interval",
    "only the first",
    "only the second",
    "McNemar p",
    "p (Holm)",
    "tasks without such a context",
    "difference on these tasks",
)
PUBLISHED_COLUMNS = ("average in the paper", "models of the paper above 0")
CONTRAST_NOTES = (
    "Differences are in percentage points of pass@1, first method minus second, on the tasks measured "
    "with both. Intervals are paired bootstrap intervals over tasks; there is none for fewer than "
    f"{FEWEST_FOR_BOOTSTRAP} tasks, or if all resamples have the same difference. Only the first: tasks "
    "that only the first method solves.",
    "Tasks without such a context: neither method's context defines the function that the task asks for. "
    "Reranked has no context, so it has no such number.",
)


NARROWEST = 2.0  # width of the figure's axis in percentage points


@dataclass(frozen=True)
class UnitComparison:
    """The methods of one experiment, compared by the unit that they retrieve.

    Attributes:
        results: The experiment.
        verdicts: Verdicts [task, method].
        methods: The measured methods that retrieve a unit.
        contexts: Method -> its contexts.
        contrasts: The contrasts on all tasks; see `paired_contrasts`.
        without_answer: The contrasts on the tasks whose contexts do not hold the answer.
        published: The paper's differences; see `published_contrasts`.
    """

    results: Results
    verdicts: pd.DataFrame
    methods: list[str]
    contexts: dict[str, list[Context]]
    contrasts: pd.DataFrame
    without_answer: pd.DataFrame
    published: pd.DataFrame


def compare_units(results: Results) -> UnitComparison:
    """Compare the methods of an experiment by the unit that they retrieve.

    Args:
        results: The experiment.

    Returns:
        The contrasts with everything that they are computed from.
    """
    verdicts = complete(results.verdicts())
    methods = [m for m in UNITS if m in verdicts and verdicts[m].notna().any()]
    contexts = {method: results.contexts(method) for method in methods}
    clean = tasks_without_answer(contexts)
    return UnitComparison(
        results,
        verdicts,
        methods,
        contexts,
        paired_contrasts(verdicts),
        paired_contrasts(verdicts, clean),
        published_contrasts(results.benchmark, verdicts),
    )


def tasks_without_answer(
    contexts: Mapping[str, Sequence[Context]],
) -> dict[str, pd.Series]:
    """Find the tasks whose context does not define the function that the task asks for.

    Args:
        contexts: Method -> its contexts.

    Returns:
        Method -> boolean by task id. A context that was not checked counts as False.
    """
    clean = {}
    for method, texts in contexts.items():
        by_task = {context.task_id: context.defines_task is False for context in texts}
        clean[method] = pd.Series(by_task, dtype=bool)
    return clean


def paired_contrasts(
    verdicts: pd.DataFrame,
    among: Mapping[str, pd.Series] | None = None,
) -> pd.DataFrame:
    """Compute every contrast on the tasks that both of its methods measured.

    Args:
        verdicts: Verdicts [task, method].
        among: Method -> the tasks that count (boolean by task id); None for all tasks.

    Returns:
        One row per contrast with the columns of `paired_differences`; p-values are corrected over
        the contrasts. The index is text such as "Func-PKG against VoyageEmb".
    """
    frame = complete(verdicts)
    rows = {}
    for finer, coarser in CONTRASTS[kind(frame.columns)]:
        pair = frame.reindex(columns=[coarser, finer])
        for method in (coarser, finer):
            if among and method in among:
                pair = pair[among[method].reindex(pair.index, fill_value=False)]
        rows[_name(finer, coarser)] = paired_differences(pair, coarser).loc[finer]
    table = pd.DataFrame.from_dict(rows, orient="index")
    table["p_corrected"] = holm(table["p"].astype(float).tolist())
    return table.astype({"n": int, "helped": int, "hurt": int})


def published_contrasts(
    benchmark: str,
    verdicts: pd.DataFrame,
) -> pd.DataFrame:
    """Compute the same contrasts from the paper's table.

    Args:
        benchmark: A benchmark by name.
        verdicts: Verdicts, whose methods say which of the paper's tables applies.

    Returns:
        Differences as fractions, [contrast, published model]. There are no columns if the paper has
        no such table, and NaN where its table lacks a method.
    """
    table = kind(verdicts.columns)
    pairs = CONTRASTS[table]
    names = [_name(*pair) for pair in pairs]
    if (benchmark, table) not in PUBLISHED:
        return pd.DataFrame(index=names, dtype=float)
    methods = list(dict.fromkeys(method for pair in pairs for method in pair))
    rates = published_rates(benchmark, methods) / 100
    differences = [rates[finer] - rates[coarser] for finer, coarser in pairs]
    return pd.DataFrame(differences, index=names).astype(float)


def _name(
    finer: str,
    coarser: str,
) -> str:
    return f"{finer} against {coarser}"


def _first(contrast: str) -> str:
    """The first method of a contrast."""
    return contrast.partition(" against ")[0]


# Tables


def units_table(comparison: UnitComparison) -> ResultTable:
    """Show what each method retrieves: its unit, its pass@1 and the size of its contexts.

    Args:
        comparison: The comparison.

    Returns:
        One row per method with a unit.
    """
    results = comparison.results
    added = added_tokens({method: results.completions(method) for method in results.retrievers})
    rows = {}
    for method, unit in UNITS.items():
        if method in comparison.verdicts:
            tokens = added[method].mean() if method in added else math.nan
            rate = pass_at_1(comparison.verdicts[method])
            bounds = wilson_range(rate.passed, rate.measured)
            added_cell = DASH if pd.isna(tokens) else f"{tokens:.0f}"
            contexts = _context_cells(comparison.contexts.get(method, []))
            rows[method] = [unit, percent(rate.value), bounds, added_cell, *contexts]
    notes = (
        "Tokens added: tokens of the prompt with the context minus those without. Contexts shortened: "
        f"contexts cut at the limit of characters. {DASH} not measured."
    )
    return ResultTable.of(
        "Unit, pass@1 and size of the contexts by method", rows, UNIT_COLUMNS, "method", notes
    )


def _context_cells(contexts: Sequence[Context]) -> list[str]:
    """How many contexts were cut, and how many of the checked ones define the function asked for."""
    if not contexts:
        return [DASH, DASH]
    cut = sum(context.truncated for context in contexts)
    checked = [c.defines_task for c in contexts if c.defines_task is not None]
    return [str(cut), f"{sum(checked)} of {len(checked)}" if checked else DASH]


def contrasts_table(comparison: UnitComparison) -> ResultTable:
    """Show every contrast, on all tasks and on those without the answer, and the paper's.

    Args:
        comparison: The comparison.

    Returns:
        One row per contrast. The paper's columns are left out if the paper has no such table.
    """
    has_published = not comparison.published.empty
    rows = {}
    for contrast in comparison.contrasts.index:
        clean = comparison.without_answer.loc[contrast]
        clean_cells = [DASH, DASH]
        if clean["n"] and _first(contrast) in UNITS:
            change = bracketed_difference(clean["difference"], clean["low"], clean["high"])
            clean_cells = [f"{clean['n']:.0f}", change]
        cells = [*paired_cells(comparison.contrasts.loc[contrast]), *clean_cells]
        if has_published:
            cells += _published_cells(comparison.published.loc[contrast].dropna())
        rows[contrast] = cells
    title = f"Units of retrieval against each other on {comparison.results.benchmark_spec.title}"
    columns = [*CONTRAST_COLUMNS, *(PUBLISHED_COLUMNS if has_published else ())]
    dash = (
        f"{DASH} not measured, or not in the paper." if has_published else f"{DASH} not measured."
    )
    return ResultTable.of(title, rows, columns, "contrast", *CONTRAST_NOTES, dash)


def _published_cells(models: pd.Series) -> list[str]:
    if models.empty:
        return [DASH, DASH]
    above = (models > 0).sum()
    return [points(models.mean()), f"{above} of {len(models)}"]


# The figure


@figures.styled
def draw_contrasts(
    contrasts: pd.DataFrame,
    published: pd.DataFrame,
    title: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw the contrasts with their intervals, and the published models below each.

    Args:
        contrasts: What `paired_contrasts` returns.
        published: What `published_contrasts` returns.
        title: The title.
        ax: Axes to draw into; None makes a figure.

    Returns:
        A figure of one text column.
    """
    figure, axes = figures.row_axes(
        len(contrasts), 0.42, legend=0.5, left=0.98, title=title, right=0.5, ax=ax
    )
    places = np.arange(len(contrasts)) - 0.1
    _draw_measured(axes, contrasts, places)
    by_contrast = published.T
    for row, (contrast, measured) in enumerate(contrasts.iterrows()):
        figures.beside(axes, row, points(measured["difference"]))
        if not measured["n"]:
            _write_not_measured(axes, places[row])
        models = 100 * by_contrast[str(contrast)].dropna()
        if len(models):
            _draw_published(axes, places[row] + 0.34, models)
    labels = [name.replace(" against ", f"\n{MINUS} ") for name in contrasts.index]
    axes.set_yticks(range(len(contrasts)), labels)
    axes.axvline(0, color=figures.INK, linewidth=0.6)
    axes.margins(x=0.06)
    left, right = axes.get_xlim()
    if right - left < NARROWEST:
        middle = (left + right) / 2
        axes.set_xlim(middle - NARROWEST / 2, middle + NARROWEST / 2)
    axes.set_xlabel("pass@1 of the first method minus that of the\nsecond (percentage points)")
    axes.grid(axis="x")
    figures.ticks_inside(axes.xaxis)
    figures.legend_below(axes, ncols=2)
    return figure


def _draw_measured(
    axes: Axes,
    contrasts: pd.DataFrame,
    places: np.ndarray,
) -> None:
    """Draw the differences measured here with their intervals."""
    # Rounded, so that a difference of 0 is not a tiny number with axes of its size.
    percentages = (100 * contrasts[["difference", "low", "high"]].astype(float)).round(6)
    has_intervals = percentages["low"].notna().any()
    colour = figures.COLOURS[0]
    axes.hlines(places, percentages["low"], percentages["high"], color=colour, linewidth=1.2)
    known = contrasts["n"].to_numpy() > 0
    axes.plot(
        percentages["difference"][known],
        places[known],
        "o",
        color=colour,
        markersize=4.5,
        label="here, 95 % interval" if has_intervals else "here",
    )


def _write_not_measured(
    axes: Axes,
    place: float,
) -> None:
    axes.annotate(
        "not measured",
        (1, place),
        (-2, 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        color=figures.QUIET,
        ha="right",
        va="center_baseline",
    )


def _draw_published(
    axes: Axes,
    place: float,
    models: pd.Series,
) -> None:
    """Draw the paper's models and their average."""
    axes.plot(
        models,
        [place] * len(models),
        "s",
        label="a model of the paper",
        mec=figures.QUIET,
        mfc="white",
        mew=0.6,
        markersize=2.6,
    )
    axes.plot(
        models.mean(),
        place,
        "D",
        color="#D55E00",
        markersize=4,
        label="average of the paper's models",
    )


# Findings


def unit_findings(comparison: UnitComparison) -> list[str]:
    """Say what the contrasts show.

    Args:
        comparison: The comparison.

    Returns:
        Sentences: the significant contrasts, selection, the paper's signs, and what is not measured.
    """
    contrasts = comparison.contrasts
    measured = contrasts[contrasts["n"] > 0]
    return [
        *_decided(measured),
        *_selection(comparison),
        *_signs(measured, comparison.published.mean(axis=1).dropna()),
        *finding("Not measured", contrasts.index[contrasts["n"] == 0]),
    ]


def contrasts_caption(published: pd.DataFrame) -> str:
    """Write the caption of `draw_contrasts`.

    Args:
        published: What `published_contrasts` returns.
    """
    markers = "" if published.empty else "; small markers: the models of the paper"
    return f"Differences in pass@1 between units, with 95 % intervals{markers}."


def significance_message(contrasts: pd.DataFrame) -> str:
    """Say how many contrasts are significant after correction, for the title of the figure.

    Args:
        contrasts: What `paired_contrasts` returns.
    """
    tested = contrasts["p_corrected"].astype(float).dropna()
    significant = (tested < ALPHA).sum()
    if not significant:
        return "No difference is significant (Holm)"
    verb = "is" if significant == 1 else "are"
    return f"{significant} of {len(tested)} differences {verb} significant (Holm)"


def _decided(measured: pd.DataFrame) -> list[str]:
    """Say which contrasts are significant after correction."""
    tested = measured[measured["p_corrected"].notna()]
    if tested.empty:
        return []
    is_significant = tested["p_corrected"].astype(float) < ALPHA
    significant = tested[is_significant]
    heads = {
        0: "No difference is significant after correction",
        1: "Only one difference is significant after correction",
    }
    number = len(significant)
    head = heads.get(
        number, f"{number} of {len(tested)} differences are significant after correction"
    )
    parts = [_in_words(str(c), row) for c, row in significant.iterrows()]
    return finding(head, parts) or [f"{head}."]


def _in_words(contrast: str, row: pd.Series) -> str:
    """A contrast as a clause, such as "Func-PKG solves 8.0 percentage points more than BM25"."""
    first, _, second = contrast.partition(" against ")
    size = percent(abs(float(row["difference"])))
    word = "more" if row["difference"] > 0 else "less"
    return f"{first} solves {size} percentage points {word} than {second}"


def _selection(comparison: UnitComparison) -> list[str]:
    """Compare the reranker with the best unit, which is known only in hindsight, and with no retrieval."""
    methods = comparison.methods
    verdicts = comparison.verdicts
    if not methods or not_measured([RERANKED], verdicts):
        return []
    chosen = verdicts[verdicts[RERANKED].notna()]
    best = str(chosen[methods].mean().astype(float).idxmax())
    parts = []
    for other in (best, BASELINE):
        gap = paired_bootstrap(chosen[RERANKED], chosen[other])
        value = difference(gap.value, gap.low, gap.high) if gap else "not measured"
        parts.append(f"{value} against {other}")
    return [f"Selection: Reranked is at {parts[0]}, the best in hindsight, and at {parts[1]}."]


def _signs(
    measured: pd.DataFrame,
    average: pd.Series,
) -> list[str]:
    """Compare the signs of the contrasts with those of the paper's average."""
    both = [contrast for contrast in measured.index if contrast in average]
    gaps = measured.loc[both, "difference"].astype(float)
    same = int((gaps * average[both] > 0).sum())
    if not both:
        return []
    return [
        f"{same} of {len(both)} contrasts have the sign of the paper's average over its models."
    ]
