"""pass@1 by context validity: does retrieval help where the context already solves the task?"""

from collections.abc import Mapping, Sequence
from typing import cast

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures, tables
from pkg_lib.analysis.cells import bracketed_difference, rate_of_counts
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import counted, listed
from pkg_lib.analysis.stats import BASELINE
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.data.corpora import corpus_in_words
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.labels import models_in_words
from pkg_lib.papers.pkg.validity_counts import (
    ALL,
    VALID,
    VALIDITIES,
    VALIDITY_NOTE,
    copies,
    copy_rates,
    validity_counts,
)

Experiments = Mapping[str, Results]  # label of a model on a benchmark -> its results
RateKey = tuple[str, str, str]  # experiment, method, kind of context
WITHOUT = figures.RateLook(BASELINE, "black", filled=False)
VALIDITY_COLUMNS = (
    "tasks",
    BASELINE,
    "with the context",
    "change (95 %)",
    "helped / hurt",
    "McNemar p",
)
COPYING_COLUMNS = (
    "tasks",
    "retrieved code alone",
    "own context",
    "another task's context",
    "same verdict, % of tasks (95 %)",
    "statements copied, % of the answer's",
)
ANSWERS_NOTE = (
    "Each answer is one model's answer to one task with one method's context. It is compared with the "
    "NoRAG answer of the same model to the same task, which therefore appears once for each method."
)


def short_model_name(model: str) -> str:
    """Shorten the name of a Qwen2.5-Coder model to its size.

    Args:
        model: Name of a model.

    Returns:
        Text such as "0.5B"; other names in capitals.
    """
    return model.removeprefix("qwen2.5-coder-").removesuffix("-instruct").upper()


def measured_experiments(
    models: Sequence[str],
    benchmarks: Sequence[str],
    corpus: str,
) -> dict[str, Results]:
    """Return the experiments with a verdict of a method that retrieves.

    Args:
        models: Models by name.
        benchmarks: Benchmarks by name.
        corpus: A corpus by name.

    Returns:
        Label, such as "0.5B HumanEval" -> results; by benchmark, then by model.
    """
    experiments = {}
    for benchmark in benchmarks:
        for model in models:
            results = Results(model, benchmark, corpus)
            retrieving = results.verdicts().drop(columns=BASELINE)
            if retrieving.notna().any(axis=None):
                title = results.benchmark_spec.title.partition(" (")[0]
                experiments[f"{short_model_name(model)} {title}"] = results
    return experiments


def with_other_corpora(
    experiments: Experiments,
    models: Sequence[str],
    benchmarks: Sequence[str],
    corpora: Sequence[str],
) -> dict[str, Results]:
    """Add the measured experiments of other corpora.

    Args:
        experiments: The experiments of one corpus.
        models: Models by name.
        benchmarks: Benchmarks by name.
        corpora: The other corpora by name.

    Returns:
        The experiments, then those of each other corpus with its name in the label.
    """
    extended = dict(experiments)
    for corpus in corpora:
        others = measured_experiments(models, benchmarks, corpus)
        extended |= {f"{label}, {corpus}": results for label, results in others.items()}
    return extended


def completed(
    experiments: Experiments,
    methods: Sequence[str],
) -> list[tuple[str, str]]:
    """List the methods that were completed.

    Args:
        experiments: The experiments.
        methods: Methods that retrieve.

    Returns:
        Pairs of a label and a method.
    """
    return [(e, m) for e in experiments for m in methods if experiments[e].completions(m)]


def validity_rates(
    experiments: Experiments,
    methods: Sequence[str],
) -> pd.DataFrame:
    """Compare each method with no retrieval, by what its context is.

    Args:
        experiments: The experiments.
        methods: Methods that retrieve.

    Returns:
        One row per experiment, method and kind of context, "all" first: the columns of
        `validity_counts.validity_counts`, where ``method`` counts what the method passed.
    """
    parts = {}
    for experiment, method in completed(experiments, methods):
        rates = validity_counts(experiments[experiment], method)
        parts[experiment, method] = rates.rename(columns={method: "method"})
    return pd.concat(parts, names=["experiment", "method", "context"])


def validity_table(
    rates: pd.DataFrame,
    corpus: str,
) -> ResultTable:
    """Tabulate pass@1 with and without the context, by what the context is.

    Args:
        rates: The frame of `validity_rates`.
        corpus: Name of the corpus.

    Returns:
        One row per experiment, method and kind of context with tasks.
    """
    rows = {}
    for key, row in rates[rates["n"] > 0].iterrows():
        n = int(row["n"])
        change = bracketed_difference(row["difference"], row["low"], row["high"])
        rows[", ".join(cast("RateKey", key))] = [
            str(n),
            rate_of_counts(row[BASELINE], n),
            rate_of_counts(row["method"], n),
            change,
            f"{row['helped']:.0f} / {row['hurt']:.0f}",
            tables.probability(row["p"]),
        ]
    title = f"pass@1 in percent by context validity, {corpus_in_words(corpus)}"
    change_note = (
        "Change: percentage points, paired bootstrap over tasks. Helped: tasks that only the method "
        f"solves; hurt: tasks that only {BASELINE} solves. p is not corrected. Interval and p come from "
        f"different methods, so the interval can exclude 0 where p is above 0.05. {ANSWERS_NOTE}"
    )
    index = "model, method, context"
    return ResultTable.of(title, rows, VALIDITY_COLUMNS, index, VALIDITY_NOTE, change_note)


@figures.styled
def validity_figure(
    rates: pd.DataFrame,
    experiments: Experiments,
    ax: Axes | None = None,
) -> Figure:
    """Draw pass@1 from no retrieval to the method, by what the context is.

    Args:
        rates: The frame of `validity_rates`.
        experiments: The experiments.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure: open circles without, filled ones with the context; one colour per model. The
        number of tasks is in parentheses.
    """
    kinds = rates.index.get_level_values("context")
    models = list(dict.fromkeys(results.model for results in experiments.values()))
    styles = figures.distinct_styles(models)
    labels: list[str] = []
    headings = []
    rows = []
    for kind in VALIDITIES:
        kind_rates = rates[(kinds == kind) & (rates["n"] > 0)]
        if kind_rates.empty:
            continue
        headings.append(len(labels))
        labels.append(f"{kind} context")
        for key, counts in kind_rates.iterrows():
            experiment, method, _ = cast("RateKey", key)
            rows.append((len(labels), experiments[experiment].model, counts))
            labels.append(f"{experiment}, {method} ({counts['n']:.0f})")
    title = f"{_validity_message(rates)}\n{models_in_words(models)}"
    figure, axes = figures.row_axes(len(labels), 0.17, 0.46, 2.0, title, right=0.14, ax=ax)
    for place, model, counts in rows:
        tasks = int(counts["n"])
        name = f"with the context, {short_model_name(model)}"
        with_context = figures.RateLook(name, *styles[model])
        figures.rate_point(axes, counts[BASELINE], tasks, place - 0.18, WITHOUT)
        figures.rate_point(axes, counts["method"], tasks, place + 0.18, with_context)
    figures.label_rows(axes, labels, headings)
    axes.set(xlim=(0, 100), xlabel="pass@1 (%),\n95 % Wilson interval")
    axes.grid(axis="x")
    figures.legend_below(axes, ncols=2)
    return figure


def _validity_message(rates: pd.DataFrame) -> str:
    """Count the rows of the figure in which pass@1 is higher and lower than without a context."""
    with_tasks = rates[rates["n"] > 0]
    kinds = with_tasks.index.get_level_values("context")
    valid = with_tasks["difference"][kinds == VALID].astype(float)
    other = with_tasks["difference"][kinds.isin(VALIDITIES[1:])].astype(float)
    return (
        f"pass@1 is higher in {(valid > 0).sum()} of {len(valid)} rows with a valid context,\n"
        f"and lower in {(other < 0).sum()} of {len(other)} rows with another context"
    )


def validity_caption(experiments: Experiments) -> str:
    """Write the caption of `validity_figure`, without a colon, so that all of it is shown.

    Args:
        experiments: The experiments.
    """
    corpora = dict.fromkeys(results.corpus for results in experiments.values())
    return (
        "pass@1 without a context (open) and with it (filled) by context validity, "
        f"{', '.join(map(corpus_in_words, corpora))}. The number of tasks is in parentheses. "
        + VALIDITY_NOTE
    )


def copy_agreement(
    results: Results,
    method: str,
) -> pd.DataFrame:
    """Set the verdicts of the renamed context beside those of the method.

    Args:
        results: The experiment.
        method: A method that retrieves.

    Returns:
        ``copy`` and ``method``, on the tasks that both measured.
    """
    verdicts = {
        "copy": copies(results, method),
        "method": results.verdicts([method])[method],
    }
    return pd.concat(verdicts, axis=1).dropna().astype(bool)


def agreement_cell(both: pd.DataFrame) -> str:
    """Print on how many tasks the method has the verdict of the renamed context.

    Args:
        both: The frame of `copy_agreement`.

    Returns:
        The share in percent with its Wilson interval.
    """
    same = both["copy"] == both["method"]
    return rate_of_counts(int(same.sum()), len(both))


def copying_table(
    experiments: Experiments,
    methods: Sequence[str],
    corpus: str,
) -> ResultTable:
    """Tabulate the renamed context alone, the method, and the method with another task's context.

    Args:
        experiments: The experiments.
        methods: Methods that retrieve.
        corpus: Name of the corpus.

    Returns:
        One row per experiment and method.
    """
    rows = {}
    better = []
    compared = 0
    for experiment, method in completed(experiments, methods):
        results = experiments[experiment]
        both = copy_agreement(results, method)
        swap = f"{method}, swapped"
        swapped = results.verdicts([swap])[swap].reindex(both.index)
        own = percent(float(both["method"].mean()))
        swap_rate = DASH
        if swapped.notna().all():
            swap_rate = percent(float(swapped.mean()))
            compared += 1
            if swapped.mean() > both["method"].mean():
                better.append(f"{experiment}, {method} ({swap_rate} against {own})")
        rows[f"{experiment}, {method}"] = [
            len(both),
            percent(float(both["copy"].mean())),
            own,
            swap_rate,
            agreement_cell(both),
            percent(copy_rates(results, method).dropna().mean()),
        ]
    title = (
        "pass@1 in percent of the retrieved code alone, of the method, and of the method with "
        f"another task's context, {corpus_in_words(corpus)}"
    )
    note = (
        "Retrieved code alone: the context is submitted without a model, with its function renamed. Own "
        "context: the method as defined, with the context of the task itself. "
        "Same verdict: share of the tasks on which the retrieved code alone and the method's answer "
        "both pass or both fail. Statements copied: share of an answer's statements that are also in its "
        f"context, mean over the tasks. {DASH} not measured on all of these tasks."
    )
    swaps = (
        f"Another task's context gives a higher pass@1 than the task's own in {len(better)} of "
        f"{compared} rows of this table that have both{': ' if better else ''}{'; '.join(better)}."
    )
    return ResultTable.of(title, rows, COPYING_COLUMNS, "model, method", note, swaps)


def validity_finding(rates: pd.DataFrame, methods: Sequence[str], corpus: str) -> str:
    """Say what a context changes where it solves the task, and where it does not.

    Args:
        rates: The frame of `validity_rates`.
        methods: The methods of these rates.
        corpus: Their corpus by name.

    Returns:
        Two sentences over all experiments and methods.
    """
    kinds = rates.index.get_level_values("context")
    solves = rates[kinds == VALID].sum(numeric_only=True)
    other = rates[kinds.isin(VALIDITIES[1:])].sum(numeric_only=True)
    where = f"{listed(methods)}, {corpus_in_words(corpus)}"
    return (
        f"Where the retrieved code itself passes the task's tests ({where}), retrieval changes pass@1 "
        f"{_without_and_with(solves)}. Where it does not, retrieval changes pass@1 "
        f"{_without_and_with(other)}."
    )


def _without_and_with(sums: pd.Series) -> str:
    """Say how many answers pass without a context and with one.

    Args:
        sums: The fields n (answers), method (those that pass with a context), and NoRAG.
    """
    without = percent(sums[BASELINE] / sums["n"], 0)
    with_it = percent(sums["method"] / sums["n"], 0)
    answers = f"{sums[BASELINE]:,.0f} of {sums['n']:,.0f} answers"
    return f"from {without} % ({answers}) to {with_it} % ({sums['method']:,.0f})"


def answers_finding(
    rates: pd.DataFrame,
    experiments: Experiments,
) -> str:
    """Say what the answers of `validity_finding` are counted over.

    Args:
        rates: The frame of `validity_rates`.
        experiments: The experiments.

    Returns:
        Two sentences.
    """
    shown = [experiments[label] for label in rates.index.unique("experiment")]
    models = len({results.model for results in shown})
    benchmarks = len({results.benchmark for results in shown})
    methods = rates.index.get_level_values("method").nunique()
    kinds = rates.index.get_level_values("context")
    answers = rates["n"][kinds == ALL].sum()
    return (
        f"These {answers:,.0f} answers are of {counted(models, 'model')} with "
        f"{counted(methods, 'method')} on {counted(benchmarks, 'benchmark')}. {ANSWERS_NOTE}"
    )
