"""Tables 8 and 9 (Section 6.4) beside what was measured here, tokens that are written, and prices."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import scipy.stats
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures
from pkg_lib.analysis.contents import papers_benchmarks
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import BASELINE, CONFIDENCE, FEWEST_FOR_BOOTSTRAP, pass_at_1
from pkg_lib.analysis.tables import DASH, kind, number, percent, signed_count
from pkg_lib.core.models import MODELS
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.cost import (
    ENHANCER,
    added_tokens,
    build_seconds,
    duration,
    enhancement_note,
    enhancement_seconds,
    published,
    stored,
    stored_enhancement,
    table8_rows,
    token_counts,
)
from pkg_lib.papers.pkg.labels import figure_title
from pkg_lib.papers.pkg.pass_tables import printed
from pkg_lib.retrieval.methods import RERANKED

NOT_MEASURED = f"{DASH} not measured."
# The paper's Table 8 has other names for two methods, and for some steps.
TABLE8_METHODS = ("PKG", "VoyageAI", "BM25")
TABLE8_STEPS = {
    "encoding": "Encoding",
    "in all": "Overall Time",
    "storage": "Storage Usage",
}
STATISTICS = (
    "mean",
    "95 % interval",
    "median",
    "95th percentile",
)


@dataclass(frozen=True)
class CostMeasurements:
    """What the scripts in tests/benchmarks measured; {} for a script that did not run.

    Attributes:
        graph: Of building and searching the graph.
        bm25: Of the BM25 index.
        generation: Of the speed of a model.
        sandbox: Of executing tests.
        enhancement: Log of the enhancer's largest run.
    """

    graph: Mapping[str, Any]
    bm25: Mapping[str, Any]
    generation: Mapping[str, Any]
    sandbox: Mapping[str, Any]
    enhancement: Mapping[str, Any]

    @property
    def built(self) -> dict[str, float]:
        """Seconds of `cost.build_seconds`."""
        return build_seconds(self.graph)

    def speed_of(self, model: str) -> Mapping[str, Any]:
        """Return the measured speed of a model.

        Args:
            model: Name of the model.

        Returns:
            The measurement; {} if another model was measured.
        """
        return self.generation if self.generation.get("model") == model else {}

    def tokens_per_second(self, model: str) -> float:
        """Return how many tokens per second a model writes in a batch.

        Args:
            model: Name of the model.

        Returns:
            The speed; NaN if it was not measured.
        """
        return float(self.speed_of(model).get("batch_tokens_per_s", math.nan))


def read_measurements(results: Path) -> CostMeasurements:
    """Read what the benchmarks of this machine measured.

    Args:
        results: The results directory.

    Returns:
        The measurements.

    Raises:
        UserError: A file is damaged.
    """
    return CostMeasurements(
        graph=stored(results, "graph"),
        bm25=stored(results, "bm25"),
        generation=stored(results, "generation"),
        sandbox=stored(results, "sandbox"),
        enhancement=stored_enhancement(results),
    )


@dataclass(frozen=True)
class TokenUse:
    """Tokens of stored completions, [task, method]; NaN without a completion.

    Attributes:
        read: Tokens of the prompts.
        written: New tokens, without the end token.
        added: Tokens that a context adds to the prompt; without the baseline.
        at_limit: Whether a completion was cut at the limit of new tokens.
    """

    read: pd.DataFrame
    written: pd.DataFrame
    added: pd.DataFrame
    at_limit: pd.DataFrame


def token_use(results: Results) -> TokenUse:
    """Count the tokens of an experiment.

    Args:
        results: The experiment.

    Returns:
        The tokens of each method that the corpus offers.
    """
    completions = {method: results.completions(method) for method in results.retrievers}
    return TokenUse(
        read=token_counts(completions, lambda completion: completion.prompt_tokens),
        written=token_counts(completions, lambda completion: len(completion.tokens)),
        added=added_tokens(completions),
        at_limit=token_counts(completions, lambda completion: completion.finish == "length"),
    )


# Table 8


def estimated(
    seconds: float | None,
    measured: str = "",
) -> str:
    """Print an estimated time beside what it was estimated from.

    Args:
        seconds: The time; None or NaN means that it is unknown.
        measured: What was measured.

    Returns:
        Text such as "34 texts/s: 2.6 h (estimate)"; `measured` or an en dash without a time.
    """
    if seconds is None or math.isnan(seconds):
        return measured or DASH
    text = f"{duration(seconds)} (estimate)"
    return f"{measured}: {text}" if measured else text


def building_table(measured: CostMeasurements) -> ResultTable:
    """Tabulate the time and storage of what is searched (Table 8).

    Args:
        measured: The measurements.

    Returns:
        One row per step; columns for the published figures and for those measured here.
    """
    graph = measured.graph
    figures_of_paper = published()
    rows = {}
    for step, paper, here in table8_rows(graph, measured.enhancement):
        others = [
            figures_of_paper.get((TABLE8_STEPS.get(step), m), DASH) for m in TABLE8_METHODS[1:]
        ]
        rows[step] = [paper or DASH, *others, here, DASH, DASH]
    built = measured.built
    texts_per_second = rows["encoding"][3] if built else ""
    rows["encoding"][3] = estimated(built.get("PKG: encoding"), texts_per_second)
    rows["encoding"][4] = estimated(built.get("VoyageEmb"))
    function_index = None
    if graph and measured.bm25:
        function_index = measured.bm25["build_s"] / measured.bm25["functions"] * graph["functions"]
    rows["in all"] = [figures_of_paper["Overall Time", method] for method in TABLE8_METHODS]
    for seconds in (built.get("PKG"), built.get("VoyageEmb"), function_index):
        rows["in all"].append(estimated(seconds))
    enhanced = enhancement_seconds(measured.enhancement, graph.get("functions", 0))
    enhanced += built.get("PKG", math.nan)
    first_version = figures_of_paper[f"Overall Time ({ENHANCER}, first version)", ENHANCER]
    rows["in all, with docstrings by a model"] = [
        first_version,
        DASH,
        DASH,
        estimated(enhanced),
        DASH,
        DASH,
    ]
    columns = [("in the paper", method) for method in TABLE8_METHODS]
    columns += [
        ("measured here", method)
        for method in ("PKG", "whole files by embedding (as VoyageEmb)", "Func-BM25")
    ]
    notes = [
        f"{DASH} not measured, or not in the paper. The time of encoding is estimated from the "
        "number of distinct texts of the graph, or of files, and the measured speed of encoding "
        "the graph's texts on one processor. The time of Func-BM25's index is scaled to the number "
        "of functions.",
        enhancement_note(measured.enhancement),
        "In the paper, the total of PKG leaves out docstrings and is one minute less than the sum of its "
        "other steps, and the total of VoyageAI is one minute more than its only step.",
        "Multiple of ast.parse's time: the processor time of building and saving the graph divided by "
        "that of ast.parse on the same files; the build runs without Python's garbage collector. "
        "HNSW recall@1: share of queries for which the approximate index finds the nearest vector. "
        "Pruning removes each branch of a retrieved function in turn, and keeps the text nearest to the "
        "query.",
        "The paper's VoyageAI embeds the rows of PythonAlpaca. Here, VoyageEmb embeds whole files with "
        "all-MiniLM-L6-v2, which reads only the first 256 tokens of each, so the two times cannot be "
        "compared.",
    ]
    if graph:
        notes.insert(
            0,
            f"Not measured on the corpus of this page, but on {graph['documents']:,} files of installed "
            f"Python source with {graph['functions']:,} functions, about as many as the paper's corpus has.",
        )
    title = "Table 8: time and storage of the graph and of other indexes"
    return ResultTable.of(title, rows, columns, "step", *notes)


# Table 9


@cache
def table9() -> pd.DataFrame:
    """Read the paper's Table 9.

    Returns:
        Mean tokens that a context adds, [method, tokenizer].
    """
    return printed(9).astype(float).T


def comparable_table9(results: Results) -> pd.DataFrame:
    """Return the paper's Table 9 where it is about the experiment's benchmark and kind of corpus.

    Args:
        results: The experiment.

    Returns:
        The frame of `table9`; empty for a benchmark other than HumanEval, or a corpus of text.
    """
    if results.benchmark == "humaneval" and kind(results.retrievers) == "code":
        return table9()
    return pd.DataFrame()


def mean_interval(values: pd.Series) -> tuple[float, float]:
    """Compute Student's 95 % interval of a mean.

    Args:
        values: At least one value.

    Returns:
        Both ends; NaN if all values are equal or there are fewer than FEWEST_FOR_BOOTSTRAP, since no
        useful interval follows from them.
    """
    mean = float(values.mean())
    error = scipy.stats.sem(values) if len(values) >= FEWEST_FOR_BOOTSTRAP else 0.0
    if not error:
        return math.nan, math.nan
    low, high = scipy.stats.t.interval(CONFIDENCE, len(values) - 1, mean, error)
    return float(low), float(high)


def _statistics(values: pd.Series) -> list[str]:
    """The cells of STATISTICS."""
    if values.empty:
        return [DASH] * len(STATISTICS)
    low, high = mean_interval(values)
    return [
        f"{values.mean():.0f}",
        DASH if math.isnan(low) else f"{low:.0f} to {high:.0f}",
        f"{values.median():.0f}",
        f"{values.quantile(0.95):.0f}",
    ]


def context_tokens_table(
    results: Results,
    use: TokenUse,
) -> ResultTable:
    """Tabulate the tokens that a context adds to the prompt (Table 9).

    Args:
        results: The experiment.
        use: Its tokens.

    Returns:
        One row per method with a context; published columns where the paper's table is comparable.
    """
    reference = comparable_table9(results)
    rows = {}
    for method in use.added.columns:
        measured = use.added[method].dropna()
        cells = [str(len(measured) or DASH), *_statistics(measured)]
        for tokenizer in reference:
            means = reference[tokenizer]
            cells.append(f"{means[method]:.0f}" if method in means else DASH)
        rows[method] = cells
    columns = ["tasks", *STATISTICS]
    columns += [f"in the paper, {tokenizer}" for tokenizer in reference]
    notes = [
        f"Tokens of the prompt minus those of {BASELINE} for the same task, by the model's "
        f"tokenizer. {NOT_MEASURED}"
    ]
    if len(reference):
        notes.append(
            "In the paper: mean additional tokens with another corpus and the tokenizers named "
            "(Table 9)."
        )
    title = f"Tokens that a context adds on {results.benchmark_spec.title}"
    if results.benchmark in papers_benchmarks():
        title = f"Table 9: {title[0].lower()}{title[1:]}"
    return ResultTable.of(title, rows, columns, "method", *notes)


@figures.styled
def context_tokens_figure(
    results: Results,
    use: TokenUse,
    ax: Axes | None = None,
) -> Figure:
    """Draw the tokens that a context adds: the mean as a bar, 5th to 95th percentile as a line.

    Args:
        results: The experiment.
        use: Its tokens.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure; the paper's means are small markers.
    """
    reference = comparable_table9(results)
    title = figure_title(_tokens_message(use), results)
    legend = 0.2 if len(reference) else 0.0
    figure, axes = figures.row_axes(use.added.shape[1], 0.34, legend=legend, title=title, ax=ax)
    sns.barplot(
        use.added,
        orient="h",
        errorbar=("pi", 90),
        ax=axes,
        color=figures.BAR,
        saturation=1,
        width=0.5,
        err_kws={
            "color": figures.INK,
            "linewidth": 0.9,
        },
    )
    for place, mean in enumerate(use.added.mean()):
        if math.isnan(mean):
            axes.text(1, place, "not measured", color=figures.QUIET, va="center_baseline")
            figures.beside(axes, place, DASH)
        else:
            figures.beside(axes, place, f"{mean:.0f}")
    _draw_published_means(axes, list(use.added.columns), reference)
    axes.set(ylabel="", xlabel="tokens added: mean, 5th to 95th percentile")
    axes.grid(axis="x")
    figures.legend_below(axes)
    return figure


def _tokens_message(use: TokenUse) -> str:
    """Name the methods whose contexts add most and fewest tokens."""
    means = use.added.mean().dropna()
    if len(means) < 2:
        return "Tokens that a context adds to the prompt"
    return f"{means.idxmax()} adds most tokens, {means.idxmin()} fewest"


def _draw_published_means(
    axes: Axes,
    methods: list[str],
    reference: pd.DataFrame,
) -> None:
    """Draw the paper's mean for each tokenizer below the bars."""
    for tokenizer, marker in zip(reference, "os", strict=False):
        means = []
        places = []
        for place, method in enumerate(methods):
            if method in reference.index:
                means.append(reference[tokenizer][method])
                places.append(place + 0.36)
        axes.plot(
            means,
            places,
            marker,
            mfc="white",
            mec=figures.QUIET,
            mew=0.6,
            label=f"in the paper, {tokenizer}",
        )


# New tokens


def speed_note(
    measured: CostMeasurements,
    model: str,
) -> str:
    """Say where seconds come from, or that there are none.

    Args:
        measured: The measurements.
        model: The model.

    Returns:
        A note for a table, and a finding.
    """
    speed = measured.speed_of(model)
    if not speed:
        return (
            "Completions record no wall time, and the speed of this model was not measured. "
            "Therefore no seconds are shown."
        )
    return (
        "Completions record no wall time. Seconds are estimates: generated tokens divided by "
        f"{speed['batch_tokens_per_s']} tokens per second, which one batch of {speed['prompts']} prompts "
        "without context reaches in total (CPU, see results/benchmarks/README.md). The engine completes "
        f"up to {speed['slots']} prompts at the same time; a single prompt has "
        f"{speed['single_tokens_per_s']} tokens per second. Seconds per query are a share of the batch's "
        "time and not the time until an answer is there. Longer prompts take longer."
    )


def new_tokens_table(
    use: TokenUse,
    measured: CostMeasurements,
    model: str,
) -> ResultTable:
    """Tabulate how much each method writes, and how long that takes.

    Args:
        use: Tokens of the experiment.
        measured: The measurements.
        model: The model.

    Returns:
        One row per method.
    """
    per_second = measured.tokens_per_second(model)
    rows = {}
    for method in use.written:
        written = use.written[method].dropna()
        change = (use.written[method] - use.written[BASELINE]).dropna()
        at_limit = use.at_limit[method].sum()
        seconds = minutes = DASH
        if len(written) and not math.isnan(per_second):
            seconds = f"{written.mean() / per_second:.1f}"
            minutes = f"{written.sum() / per_second / 60:.0f}"
        rows[str(method)] = [
            str(len(written) or DASH),
            *_statistics(written),
            DASH if method == BASELINE else signed_count(change.mean()),
            percent(at_limit / len(written)) if len(written) else DASH,
            seconds,
            minutes,
        ]
    columns = [
        "completions",
        *STATISTICS,
        f"mean minus that of {BASELINE}",
        "cut at the limit, % of completions",
        "seconds per query (estimate)",
        "minutes for all tasks (estimate)",
    ]
    notes = (speed_note(measured, model), NOT_MEASURED)
    return ResultTable.of(
        "Tokens that the model generates per task", rows, columns, "method", *notes
    )


# Prices


def price_cells(
    read: float,
    written: float,
    rate: float | None,
    prices: pd.DataFrame,
) -> list[str]:
    """Print the tokens of a query and of a solved task, and what 1,000 queries cost.

    Args:
        read: Mean tokens of a prompt.
        written: Mean new tokens of a query.
        rate: pass@1 as a fraction; None or 0 gives no tokens of a solved task.
        prices: Dollars for a million tokens read and written, one row per model.

    Returns:
        Three counts, then a price for each row of `prices`.
    """
    per_solved_task = (read + written) / rate if rate else math.nan
    cells = [number(count) for count in (read, written, per_solved_task)]
    for per_read, per_written in prices.to_numpy():
        dollars = (read * per_read + written * per_written) / 1000
        price = f"{dollars:.2f}" if dollars else "0"
        cells.append(DASH if math.isnan(dollars) else price)
    return cells


def price_table(
    results: Results,
    use: TokenUse,
    prices: pd.DataFrame,
) -> ResultTable:
    """Tabulate the price of 1,000 queries with each method.

    Args:
        results: The experiment.
        use: Its tokens.
        prices: Dollars for a million tokens read and written, one row per model.

    Returns:
        One row per method. The reranker pays for all its candidates. Prices of other models that this
        program knows are left out.
    """
    verdicts = results.verdicts()
    is_other_model = prices.index.isin(list(MODELS)) & (prices.index != results.model)
    prices = prices[~is_other_model]
    rows = {}
    for method in use.read:
        rate = pass_at_1(verdicts[method]).value
        tokens = use.read[method].mean(), use.written[method].mean()
        rows[str(method)] = price_cells(*tokens, rate, prices)
    answered_by_all = use.read.dropna().index
    if len(answered_by_all) and RERANKED in verdicts:
        read = use.read.loc[answered_by_all].mean().sum()
        written = use.written.loc[answered_by_all].mean().sum()
        rate = pass_at_1(verdicts[RERANKED]).value
        rows[f"{RERANKED} (all of them)"] = price_cells(read, written, rate, prices)
    columns = ["prompt tokens per query", "generated tokens per query", "tokens per solved task"]
    columns += [f"$ per 1,000 queries, {name}" for name in prices.index]
    note = (
        "Tokens are means, counted by this model's tokenizer. Dollars are tokens times the prices in the "
        "file that the parameter prices names, by default pkg_lib/analysis/reference/prices.csv. Its "
        "prices are examples to be replaced; a model that runs on the user's machine has the price 0. "
        f"{DASH} not measured, or no price."
    )
    return ResultTable.of("Tokens and price of a query", rows, columns, "method", note)


# Findings


def token_findings(use: TokenUse) -> list[str]:
    """Say how many tokens contexts add, and how they change what is written.

    Args:
        use: Tokens of the experiment.

    Returns:
        One or two sentences.
    """
    means = use.added.mean().dropna().sort_values()
    if means.empty:
        return [f"No method with a context shares a task with {BASELINE}: no added tokens."]
    changes = []
    for method in use.written.columns.drop(BASELINE):
        change = (use.written[method] - use.written[BASELINE]).dropna()
        if len(change):
            low, high = mean_interval(change)
            ends = "" if math.isnan(low) else f" ({signed_count(low)} to {signed_count(high)})"
            changes.append(f"{method} {signed_count(change.mean())}{ends}")
    fewest_first = ", ".join(f"{method} {mean:.0f}" for method, mean in means.items())
    return [
        f"Mean tokens that a context adds to the prompt, fewest first: {fewest_first}.",
        f"Generated tokens against {BASELINE}, mean and 95 % interval: {'; '.join(changes)}.",
    ]


def table9_findings(
    results: Results,
    use: TokenUse,
) -> list[str]:
    """Compare the order of the methods with that of the paper's Table 9.

    Args:
        results: The experiment.
        use: Its tokens.

    Returns:
        One sentence; none if fewer than two methods are in both.
    """
    means = use.added.mean().dropna()
    there = comparable_table9(results).mean(axis=1).sort_values()
    both = [method for method in there.index if method in means]
    if len(both) < 2:
        return []
    order = "the same" if sorted(both, key=means.__getitem__) == both else "another"
    pairs = ", ".join(f"{m} {means[m]:.0f} here, {there[m]:.0f} in the paper" for m in both)
    return [
        f"The order of Table 9 is {order} here: {pairs}. The paper's numbers are means over two tokenizers."
    ]
