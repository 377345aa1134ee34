"""Tables 5 and 6: closed models, from the completions that the PKG paper's authors published.

The verdicts come from `pkg-lib replay`, which executes the published completions in the sandbox.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures, tables
from pkg_lib.analysis.cells import PAIRED_COLUMNS, paired_cells
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.selection import SignalsByMethod, selected_verdicts
from pkg_lib.analysis.sentences import finding, listed
from pkg_lib.analysis.stats import (
    ALPHA,
    BASELINE,
    RESAMPLES,
    Difference,
    paired_differences,
    pass_at_1,
    percentile_interval,
)
from pkg_lib.analysis.tables import DASH
from pkg_lib.core.store import ROWS, read_json, read_rows
from pkg_lib.data.benchmarks import BENCHMARKS, title_of
from pkg_lib.data.published import SAMPLES
from pkg_lib.evaluation.results import ideal
from pkg_lib.evaluation.signals import (
    HELD_OUT,
    SIGNALS,
    VisibleTask,
    read_held_out,
    read_signals,
)
from pkg_lib.papers.pkg.labels import selection_label
from pkg_lib.papers.pkg.pass_tables import (
    PUBLISHED,
    PassCell,
    PassTable,
    measured_cells,
    published,
    published_rows,
)
from pkg_lib.papers.pkg.replay import (
    CANDIDATES,
    CLOSED,
    agreement,
    replayed,
    verdict_frame,
)

VerdictsByModel = Mapping[str, pd.DataFrame]  # model -> verdicts [task, method]
REPLAYED_BENCHMARKS = ("humaneval", "mbpp")
REPLAYED_GROUP = "Samples of the authors, executed here"
DIFFERENCE_NOTE = (
    f"Percentage points of pass@1 against {BASELINE}. Intervals are from a paired bootstrap over "
    "tasks. Holm's correction is over the methods of one model. An oracle cannot lose."
)
SELECTION_COLUMNS = (
    "tasks",
    "best method",
    "pass@1",
    "gap closed (%)",
    "95 % interval",
)
SELECTION_NOTE = (
    "Best method: the highest pass@1 of a single method, which is known only by the hidden tests. Gap "
    "closed: how much of the difference between the best single method and the oracle the selection "
    "gains. Intervals are from a bootstrap over tasks that finds the best method in each resample. On "
    "MBPP, a solution passes if it passes the tests that no prompt shows, so rates differ from Table 6."
)


def replayed_title(benchmark: str) -> str:
    """Return the title of a benchmark as the authors' samples were prompted.

    Args:
        benchmark: One of REPLAYED_BENCHMARKS.

    Returns:
        The title. The authors' prompts for MBPP show all tests.
    """
    return title_of("mbpp-all-asserts" if benchmark == "mbpp" else benchmark)


def replayed_verdicts(
    results: Path,
    models: Sequence[str],
    benchmark: str,
    limit: int | None = None,
) -> dict[str, pd.DataFrame]:
    """Read the verdicts of replayed samples.

    Args:
        results: The results directory.
        models: Names of directories in results/replay.
        benchmark: One of REPLAYED_BENCHMARKS.
        limit: Take only so many of the first tasks.

    Returns:
        Model -> verdicts [task, method], for the models with samples of the benchmark.

    Raises:
        UnavailableError: A model was not replayed.
    """
    verdicts = {}
    for model in models:
        outcomes = replayed(results, model, benchmark)
        if outcomes:
            verdicts[model] = verdict_frame(outcomes, limit)
    return verdicts


def closed_pass_table(
    verdicts: VerdictsByModel,
    benchmark: str,
) -> PassTable:
    """Tabulate pass@1 of the replayed samples beside the rows of the paper.

    Args:
        verdicts: Verdicts of each model.
        benchmark: One of REPLAYED_BENCHMARKS.

    Returns:
        One row per replayed model and per row of the paper's table.
    """
    rows: dict[tuple[str, str], tuple[PassCell, ...]] = {}
    for model, frame in verdicts.items():
        rows[REPLAYED_GROUP, model] = measured_cells(frame)
    texts = published(benchmark, CLOSED, "closed")
    source = f"In the paper (Table {PUBLISHED[benchmark, 'closed']} of the PKG paper)"
    rows |= published_rows(source, texts)
    tasks = max(map(len, verdicts.values()), default=0)
    title = f"pass@1 in percent on {replayed_title(benchmark)} ({tasks} tasks), closed models"
    return PassTable.of(title, rows, CLOSED, ["Source", "Model"], f"{DASH} not measured.")


@figures.styled
def closed_rates(
    verdicts: VerdictsByModel,
    benchmark: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw pass@1 of each method with its 95 % Wilson interval, one marker per model.

    Args:
        verdicts: Verdicts of each model.
        benchmark: One of REPLAYED_BENCHMARKS.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure.
    """
    title = f"The authors' completions of closed models\n{replayed_title(benchmark)}"
    figure, axes = figures.row_axes(len(CLOSED), 0.34, legend=0.2, title=title, ax=ax)
    looks = figures.distinct_styles(verdicts)
    parts = [figures.percents(frame).assign(model=model) for model, frame in verdicts.items()]
    if parts:
        points = pd.concat(parts).rename(columns={"column": "row"})
        figures.interval_points(axes, points, CLOSED, "model", looks, errorbar=figures.wilson_bar)
    else:
        axes.set(xlim=(0, 100), yticks=range(len(CLOSED)), yticklabels=CLOSED)
        axes.text(2, 0, "not measured", va="center_baseline", color=figures.QUIET)
    axes.set(xlabel="pass@1 (%), 95 % Wilson interval")
    figures.legend_below(axes, ncols=3)
    return figure


def closed_differences_table(
    verdicts: VerdictsByModel,
    benchmark: str,
) -> ResultTable:
    """Tabulate the paired difference of each method to no retrieval.

    Args:
        verdicts: Verdicts of each model.
        benchmark: One of REPLAYED_BENCHMARKS.

    Returns:
        One row per model and method.
    """
    rows = {}
    for model, frame in verdicts.items():
        for method, row in paired_differences(frame).query("n > 0").iterrows():
            rows[f"{model}, {method}"] = paired_cells(row)[1:]
    title = f"Each method against {BASELINE} on {replayed_title(benchmark)}"
    return ResultTable.of(title, rows, PAIRED_COLUMNS[1:], "model, method", DIFFERENCE_NOTE)


def _signals_and_verdicts(
    results: Path,
    model: str,
    benchmark: str,
    verdicts: pd.DataFrame,
) -> tuple[SignalsByMethod, pd.DataFrame]:
    """Read the test-free signals of the candidates, and their verdicts by tests that no prompt shows."""
    candidates = verdicts[list(CANDIDATES)].copy()
    tasks = dict.fromkeys(candidates.index, VisibleTask("", "", ""))
    signals = {}
    for stem, method in SAMPLES.items():
        if method not in CANDIDATES:
            continue
        file = results / "replay" / model / benchmark / "shown" / stem
        signals[method] = read_signals(BENCHMARKS[benchmark], tasks, {}, file.with_suffix(SIGNALS))
        held_out = file.with_suffix(HELD_OUT)
        if held_out.exists():
            passed = pd.Series(read_held_out(None, held_out), dtype="boolean")
            candidates[method] = passed.reindex(candidates.index)
    return signals, candidates


def gap_closed(
    selected: pd.Series,
    candidates: pd.DataFrame,
) -> Difference | None:
    """Compute how much of the gap between the best method and the oracle a selection closes.

    Tasks are resampled, and the best method is found again in each resample. All tasks count that
    the selection and every candidate measured.

    Args:
        selected: Verdicts of the selected solutions.
        candidates: Verdicts [task, method] of the candidates.

    Returns:
        The share of the gap with its percentile bootstrap interval; None without a gap.
    """
    frame = candidates.assign(selected=selected, oracle=ideal(candidates))
    measured = frame.dropna().astype(float)
    n = len(measured)
    if not n:
        return None
    resamples = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    # The first row counts every task once: the observed sample.
    counts = np.vstack([np.ones(n), resamples])
    solved = counts @ measured.to_numpy()
    best = solved[:, :-2].max(axis=1)
    gap = solved[:, -1] - best
    if gap[0] <= 0:
        return None
    gained = solved[:, -2] - best
    shares = gained[gap > 0] / gap[gap > 0]
    return Difference(n, shares[0], *percentile_interval(shares))


def closed_selections_table(
    verdicts: VerdictsByModel,
    results: Path,
    benchmark: str,
) -> ResultTable:
    """Tabulate what selections by test-free signals score, beside the best method.

    Args:
        verdicts: Verdicts of each model.
        results: The results directory, with the signals of the replayed samples.
        benchmark: One of REPLAYED_BENCHMARKS.

    Returns:
        One row per model and selection.
    """
    rows = {}
    for model, frame in verdicts.items():
        signals, candidates = _signals_and_verdicts(results, model, benchmark, frame)
        rates = [pass_at_1(candidates[method]).value or 0 for method in candidates]
        best = tables.percent(max(rates))
        for selection, selected in selected_verdicts(signals, candidates).items():
            rate = pass_at_1(selected)
            gap = gap_closed(selected, candidates)
            share, bounds = DASH, f"{DASH} to {DASH}"
            if gap:
                share, low, high = (
                    tables.percent(value).replace("-", tables.MINUS)
                    for value in (gap.value, gap.low, gap.high)
                )
                bounds = f"{low} to {high}"
            rows[f"{model}, {selection_label(str(selection))}"] = [
                str(rate.measured),
                best,
                tables.percent(rate.value),
                share,
                bounds,
            ]
    title = f"Selections on {replayed_title(benchmark)}"
    return ResultTable.of(title, rows, SELECTION_COLUMNS, "model, selection", SELECTION_NOTE)


def agreement_findings(
    results: Path,
    verdicts: Mapping[str, VerdictsByModel],
) -> list[str]:
    """Say how many published verdicts and cells the execution reproduces.

    Args:
        results: The results directory.
        verdicts: Verdicts by benchmark and model.

    Returns:
        Sentences; those on verdicts are left out where no sample has a published one.
    """
    models = dict.fromkeys(
        model for model_verdicts in verdicts.values() for model in model_verdicts
    )
    compared = 0
    equal = 0
    for model in models:
        for path in sorted((results / "replay" / model).glob(f"*/*{ROWS}")):
            for row in read_rows(path):
                if row["published"] is None or row["status"] == "not_measured":
                    continue
                compared += 1
                equal += (row["status"] == "passed") == row["published"]
    sentences = []
    if compared:
        sentences.append(f"{equal:,} of {compared:,} published verdicts are confirmed.")
    for benchmark, by_model in verdicts.items():
        cells = agreement(by_model, benchmark)
        if cells.empty:
            continue
        title = replayed_title(benchmark)
        sentences.append(
            f"{title}: {cells['equal'].sum()} of {len(cells)} replayed cells equal those of the "
            "paper."
        )
        different = [
            f"{cell.model} {cell.method} {cell.here} here, {cell.published} in the paper"
            for cell in cells[~cells["equal"].astype(bool)].itertuples()
        ]
        sentences += finding(f"{title}, cells that differ", different)
    return sentences


def closed_differences_finding(verdicts: Mapping[str, VerdictsByModel]) -> list[str]:
    """Count the differences from no retrieval that are significant, and name these.

    Args:
        verdicts: Verdicts by benchmark and model.

    Returns:
        One sentence; none if nothing was tested.
    """
    tested_count = 0
    significant = []
    for benchmark, by_model in verdicts.items():
        for model, frame in by_model.items():
            tested = paired_differences(frame).dropna(subset="p_corrected")
            tested_count += len(tested)
            for method, row in tested[tested["p_corrected"] < ALPHA].iterrows():
                change = f"{tables.points(row['difference'])} percentage points"
                significant.append(f"{method} of {model} on {replayed_title(benchmark)} ({change})")
    if not tested_count:
        return []
    named = f": {listed(significant)}" if significant else ""
    return [
        f"{len(significant) or 'None'} of {tested_count} tested differences from {BASELINE} "
        f"{'is' if len(significant) == 1 else 'are'} significant (corrected p < {ALPHA}){named}."
    ]


def replay_provenance(
    results: Path,
    models: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """Read what the verdicts of replayed samples were made from.

    Args:
        results: The results directory.
        models: Names of directories in results/replay.

    Returns:
        Model -> "benchmark/method" -> the marker of its execution.
    """
    provenance = {}
    for model in models:
        folder = results / "replay" / model
        executed = {}
        for path in sorted(folder.glob("*/*.done.json")):
            name = path.relative_to(folder).as_posix().removesuffix(".done.json")
            executed[name] = read_json(path)
        provenance[model] = executed
    return provenance
