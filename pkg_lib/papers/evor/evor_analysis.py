"""Analyses beyond the paper: ways to make a query, where the loop loses, names that do not exist."""

import re
from collections import Counter

import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.analysis.cells import rate_cell
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import compared
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.papers.evor.evor_methods import QUERIES
from pkg_lib.papers.evor.evor_results import EVOR, NO_RAG, EvorResults
from pkg_lib.papers.evor.evor_tables import BY_METHOD, Cells, rows_by_method
from pkg_lib.papers.evor.query_evolution import missing_attribute, missing_name

NEAREST = "EVOR, nearest names"
# Methods whose failures are counted by the name that does not exist.
NAMED_METHODS = (NO_RAG, "DocPrompting", "Oracle", "RK", EVOR, NEAREST)
REFUSED = "renamed away: "  # in the detail of an outcome by the authors' rule
RECALL_COLUMNS = ("tasks", "recall at first, %", "recall, asked again, %")
HALVES = ("development", "held out")


# Ways to make a query (Section 2.1)


def queries_table(evor: EvorResults) -> ResultTable | None:
    """Compare the ways to make a query by recall on the tasks with a second round.

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark and way; None if no second round is stored.
    """
    methods = {query: f"EVOR, {query}" for query in QUERIES}
    methods["model"] = EVOR
    methods["model, nearest names"] = NEAREST
    rows = {}
    for benchmark, results in evor.by_benchmark.items():
        title = evor.title(benchmark)
        for query, method in methods.items():
            second_round = results.contexts(f"{method}@1")
            if second_round:
                rows[f"{title}: {query}"] = _query_cells(evor, benchmark, method)
    if not rows:
        return None
    names = []
    for half in HALVES:
        names += [(half, what) for what in RECALL_COLUMNS]
    names += [("pass@1, %", half) for half in HALVES]
    note = "Recall of the needed documentation in the prompt of the tasks that were asked again."
    return ResultTable.of("Ways to ask", rows, names, "benchmark: query", note)


def _query_cells(evor: EvorResults, benchmark: str, method: str) -> Cells:
    second_round = f"{method}@1"
    first = evor.recall(benchmark, f"{method}@0")
    second = evor.recall(benchmark, second_round)
    contexts = evor.by_benchmark[benchmark].contexts(second_round)
    active = [c.task_id for c in contexts if c.method == second_round]
    held_out = evor.held_out(benchmark)
    cells: Cells = []
    measured = [i for i in active if i in second.index]
    development = [i for i in measured if i not in held_out]
    for tasks in (development, [i for i in measured if i in held_out]):
        cells.append(len(tasks))
        for recall in (first, second):
            cells.append(percent(recall[tasks].mean()))
    verdicts = evor.verdicts(benchmark, second_round)
    if not verdicts.notna().all():
        return [*cells, DASH, DASH]
    cells.append(rate_cell(verdicts.drop(held_out)))
    cells.append(rate_cell(verdicts[held_out]))
    return cells


# Where the loop loses


def losses_table(evor: EvorResults) -> ResultTable | None:
    """Follow the failed first drafts of EVOR through retrieval, use and success.

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark; None if no feedback is stored.
    """
    names = ["first drafts", "ran, but wrong", "failed", "of these right at first"]
    names += ["right at last", "needed documents known", "found at first"]
    names += ["found in some round", "and used", "and right at last"]
    rows = {}
    for benchmark in evor.evolved:
        if evor.feedback(benchmark, f"{EVOR}@0"):
            rows[evor.title(benchmark)] = _losses(evor, benchmark)
    if not rows:
        return None
    note = "Numbers of tasks of EVOR. Right: by the hidden tests; used: a later program names all of it."
    return ResultTable.of("Where the loop loses", rows, names, "benchmark", note)


def _losses(evor: EvorResults, benchmark: str) -> Cells:
    """The numbers of tasks in the columns of `losses_table`."""
    first, *later = evor.rounds(benchmark, EVOR)
    feedback = evor.feedback(benchmark, first)
    right = evor.verdicts(benchmark, first).fillna(False)
    failed = [i for i, row in feedback.items() if not row["ok"] and i in right.index]
    right_at_last = evor.last_verdicts(benchmark, EVOR).reindex(failed).fillna(False)
    recall_at_first = evor.recall(benchmark, first).reindex(failed)
    recalls = [evor.recall(benchmark, name) for name in later]
    best_recall = _best_of_rounds(recalls, failed)
    uses = [evor.used(benchmark, name) for name in later]
    best_use = _best_of_rounds(uses, failed)
    found_at_first = recall_at_first == 1
    found = found_at_first | (best_recall == 1)
    used = found & (best_use == 1)
    return [
        len(feedback),
        (~right.drop(failed)).sum(),
        len(failed),
        right.reindex(failed).sum(),
        right_at_last.sum(),
        recall_at_first.notna().sum(),
        found_at_first.sum(),
        found.sum(),
        used.sum(),
        (used & right_at_last).sum(),
    ]


def _best_of_rounds(shares: list[pd.Series], tasks: list[str]) -> pd.Series:
    """The largest share of each task over several rounds."""
    by_round = pd.concat(shares, axis=1)
    return by_round.max(axis=1).reindex(tasks)


# Names that do not exist


def missing_names(detail: str) -> list[str]:
    """Return the names that ended a program.

    Args:
        detail: The detail of its outcome.

    Returns:
        The names that the authors' rule refuses, or the one of the program's error.
    """
    refused = re.findall(r"\w+", detail.partition(REFUSED)[2])
    if refused:
        return refused
    name = missing_name(detail)
    return [name] if name else []


def missing_names_table(evor: EvorResults) -> ResultTable:
    """Count the programs that ended with a name that does not exist.

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark and method.
    """
    names = ["tasks", "passed", "ended by such a name", "most often", "programs"]
    note = "A program may be ended by several names; EVOR: its last whole round."
    rows: dict[str, Cells] = {}
    for benchmark in evor.benchmarks:
        cells = {method: _missing_cells(evor, benchmark, method) for method in NAMED_METHODS}
        rows |= rows_by_method(evor, benchmark, cells)
    return ResultTable.of("Names that do not exist", rows, names, BY_METHOD, note)


def _missing_cells(evor: EvorResults, benchmark: str, method: str) -> Cells | None:
    verdicts = evor.last_verdicts(benchmark, method)
    if not verdicts.notna().any():
        return None
    last_round = evor.rounds(benchmark, method)[-1]
    ended = 0
    counts: Counter[str] = Counter()
    outcomes = evor.by_benchmark[benchmark].outcomes(last_round)
    for outcome in outcomes.values():
        if outcome.status != "failed":
            continue
        names = set(missing_names(outcome.detail))
        ended += bool(names)
        counts.update(names)
    passed = int(verdicts.fillna(False).sum())
    most = min(counts.items(), key=lambda item: (-item[1], item[0]), default=(DASH, DASH))
    return [len(verdicts), passed, ended, *most]


def repeated_names_table(evor: EvorResults) -> ResultTable | None:
    """Count the drafts that use a missing attribute again after its error.

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark and method; None if no second round is stored.
    """
    names = ["drafts that were told", "ask for it again", "of the others pass", "of these pass"]
    rows = {}
    for benchmark in evor.benchmarks:
        for method in (EVOR, NEAREST):
            if len(evor.rounds(benchmark, method)) < 2:
                continue
            cells = _repeated_cells(evor, benchmark, method)
            if cells[0]:
                rows[f"{evor.title(benchmark)}: {method}"] = cells
    if not rows:
        return None
    title = "After the first error about a name"
    return ResultTable.of(title, rows, names, BY_METHOD, "Numbers of tasks.")


def _repeated_cells(evor: EvorResults, benchmark: str, method: str) -> Cells:
    second_round = f"{method}@1"
    programs = evor.by_benchmark[benchmark].solutions(second_round)
    missing = {}
    for task_id, row in evor.feedback(benchmark, f"{method}@0").items():
        name = missing_attribute(row["error"])
        if task_id in programs and name:
            missing[task_id] = name
    again = [i for i, name in missing.items() if re.search(rf"\.{name}\b", programs[i])]
    verdicts = evor.verdicts(benchmark, second_round)
    passed = verdicts[list(missing)].fillna(False)
    return [len(missing), len(again), passed.drop(again).sum(), passed[again].sum()]


# Findings


def evor_findings(evor: EvorResults) -> list[str]:
    """Return the findings of the notebook.

    Args:
        evor: The results.

    Returns:
        Sentences on the gain over no retrieval and over no evolution, on the nearest names, and on
        the distance to the public names.
    """
    findings = []
    for benchmark in evor.benchmarks:
        without_retrieval = evor.verdicts(benchmark, NO_RAG)
        for method in ("DocPrompting", "RK", EVOR, "Oracle"):
            verdicts = evor.last_verdicts(benchmark, method)
            findings += _comparison(evor, benchmark, method, verdicts, NO_RAG, without_retrieval)
        for baseline in ("RK", "RK, resampled"):
            verdicts = evor.last_verdicts(benchmark, EVOR)
            other = evor.last_verdicts(benchmark, baseline)
            findings += _comparison(evor, benchmark, EVOR, verdicts, baseline, other)
    for benchmark in evor.benchmarks:
        findings += _nearest_finding(evor, benchmark)
    for benchmark in evor.benchmarks:
        findings += _public_finding(evor, benchmark)
    return findings


def _comparison(
    evor: EvorResults,
    benchmark: str,
    method: str,
    verdicts: pd.Series,
    baseline: str,
    baseline_verdicts: pd.Series,
) -> list[str]:
    """One sentence; none if no task was measured with both methods."""
    difference = stats.paired_score(verdicts, baseline_verdicts)
    if difference is None:
        return []
    sentence = compared(method, difference, baseline, sized=True)
    return [f"{evor.title(benchmark)}: {sentence}."]


def _nearest_finding(evor: EvorResults, benchmark: str) -> list[str]:
    """The gain of naming the nearest documents, in the last round that both methods have."""
    nearest = evor.rounds(benchmark, NEAREST)
    plain = evor.rounds(benchmark, EVOR)
    number = min(len(nearest), len(plain)) - 1
    if number < 1:
        return []
    verdicts = [evor.verdicts(benchmark, rounds[number]) for rounds in (nearest, plain)]
    difference = stats.paired_score(*verdicts)
    assert difference is not None, "complete rounds have verdicts"
    text = compared(NEAREST, difference, EVOR, sized=True)
    return [f"{evor.title(benchmark)}, round {number}: {text}."]


def _public_finding(evor: EvorResults, benchmark: str) -> list[str]:
    """How far EVOR goes from no retrieval to the public names, on the held-out tasks."""
    rates = public_rates(evor, benchmark)
    if rates is None or rates[2] <= rates[0]:
        return []
    without, with_evor, public = rates
    share = percent((with_evor - without) / (public - without))
    way = f"of the way from NoRAG ({percent(without)} %) to the public names ({percent(public)} %)"
    goes = f"EVOR goes {share} % (to {percent(with_evor)} %)"
    return [f"{evor.title(benchmark)}, held-out tasks: {way} {goes}; half was the aim."]


def public_rates(evor: EvorResults, benchmark: str) -> tuple[float, float, float] | None:
    """Return pass@1 without retrieval, with EVOR and with the public names, on the held-out tasks.

    Args:
        evor: The results.
        benchmark: A measured benchmark.

    Returns:
        The rates; None if one of them is not measured on every held-out task.
    """
    public = evor.with_public_names(benchmark)
    if public is None or not evor.rounds(benchmark, EVOR):
        return None
    held_out = evor.held_out(benchmark)
    rates = []
    for verdicts in (
        evor.verdicts(benchmark, NO_RAG),
        evor.last_verdicts(benchmark, EVOR),
        public,
    ):
        rate = stats.pass_at_1(verdicts.reindex(held_out))
        if rate.value is None or rate.measured < len(held_out):
            return None
        rates.append(rate.value)
    return rates[0], rates[1], rates[2]
