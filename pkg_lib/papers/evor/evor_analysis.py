"""Analyses beyond the paper: ways to make a query, where the loop loses, names that do not exist."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.analysis.cells import rate_cell
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.papers.evor.evor_figures import changed_benchmarks
from pkg_lib.papers.evor.evor_methods import QUERIES
from pkg_lib.papers.evor.evor_results import EVOR, BenchmarkResults, EvorResults
from pkg_lib.papers.evor.evor_tables import (
    BY_METHOD,
    HALVES_NOTE,
    LAST_ROUND,
    Cells,
    rows_by_benchmark,
    rows_by_method,
    table_if_any,
    titled,
)
from pkg_lib.papers.evor.query_evolution import missing_attribute, missing_name
from pkg_lib.retrieval.methods import NO_RAG

NEAREST = "EVOR, nearest names"
# Methods whose failures are counted by the name that does not exist.
NAMED_METHODS = (NO_RAG, "DocPrompting", "Oracle", "RK", EVOR, NEAREST)
REFUSED = "renamed away: "  # in the detail of an outcome by the authors' rule
RECALL_COLUMNS = ("tasks", "recall in round 0, %", "recall in round 1, %")
HALVES = ("development half", "held-out half")
# Way to make the query of round 1 -> the label of its row.
QUERY_LABELS = {
    "question": "the task again",
    "code": "the draft",
    "feedback": "the execution feedback",
    "names": "names in the failing line",
    "absent names": "names that do not exist",
    "explained code": "an explanation of the draft",
    "model": "the model writes it (EVOR)",
}


# Ways to make a query (Section 2.1)


def queries_table(evor: EvorResults) -> ResultTable | None:
    """Compare the ways to make a query by recall on the tasks with a second round.

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark and way; None if no second round is stored.
    """
    methods = {QUERY_LABELS[query]: f"EVOR, {query}" for query in QUERIES}
    methods[QUERY_LABELS["model"]] = EVOR
    methods[f"the model writes it ({NEAREST})"] = NEAREST

    def cells_of(benchmark: BenchmarkResults, query: str) -> Cells | None:
        return _query_cells(benchmark, methods[query])

    rows = rows_by_method(evor, methods, cells_of)
    names = []
    for half in HALVES:
        names += [(half, column) for column in RECALL_COLUMNS]
    names += [("pass@1 after round 1, % (95 %)", half) for half in HALVES]
    notes = (
        "The first six columns are about the tasks whose first draft failed, so that the model was prompted "
        "again in round 1, and whose needed documentation is known. Recall is the share of the needed "
        "documentation that the prompt holds. pass@1 is "
        "of all tasks of a half; a dash stands for a round that is not complete.",
        f"{NEAREST}: the prompt also names the three documents nearest to a name that does not exist.",
        HALVES_NOTE,
    )
    title = "How the query of round 1 is made"
    return table_if_any(evor, title, rows, names, "benchmark: query", *notes)


def _query_cells(benchmark: BenchmarkResults, method: str) -> Cells | None:
    second_round = f"{method}@1"
    contexts = benchmark.results.contexts(second_round)
    if not contexts:
        return None
    first = benchmark.recall(f"{method}@0")
    second = benchmark.recall(second_round)
    development: list[str] = []
    held_out: list[str] = []
    for context in contexts:
        task_id = context.task_id
        was_prompted_again = context.method == second_round
        if not was_prompted_again or task_id not in second.index:
            continue
        half = held_out if task_id in benchmark.held_out else development
        half.append(task_id)
    cells: Cells = []
    for tasks in (development, held_out):
        cells += [
            len(tasks),
            percent(first[tasks].mean()),
            percent(second[tasks].mean()),
        ]
    verdicts = benchmark.verdicts(second_round)
    if not verdicts.notna().all():
        return [*cells, DASH, DASH]
    cells.append(rate_cell(verdicts.drop(benchmark.held_out)))
    cells.append(rate_cell(verdicts[benchmark.held_out]))
    return cells


# Where the loop loses


def losses_table(evor: EvorResults) -> ResultTable | None:
    """Follow the failed first drafts of EVOR through retrieval, use and success.

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark; None if no feedback is stored.
    """
    rows = {}
    for benchmark in evor.evolved:
        if benchmark.feedback(f"{EVOR}@0"):
            rows[benchmark.title] = _losses(benchmark)
    names = list(next(iter(rows.values()), {}))
    notes = (
        "Numbers of tasks. A draft that runs on the inputs that the model wrote ends its task, right or "
        "wrong. A draft that fails on them goes into later rounds. Right: it passes the hidden tests. All "
        "named by a later program: it names every function of the needed documentation.",
        "The last four columns count failed drafts whose needed documentation is known. Each of the last "
        "two counts tasks of the column before it.",
    )
    cells = {title: list(losses.values()) for title, losses in rows.items()}
    title = "EVOR from the first draft to the last round"
    return table_if_any(evor, title, cells, names, "benchmark", *notes)


def _losses(benchmark: BenchmarkResults) -> dict[tuple[str, str], Any]:
    """Group and name of a column -> number of tasks."""
    first, *later = benchmark.rounds(EVOR)
    feedback = benchmark.feedback(first)
    right = benchmark.verdicts(first).fillna(False)
    failed = [i for i, row in feedback.items() if not row["ok"] and i in right.index]
    right_at_last = benchmark.last_verdicts(EVOR).reindex(failed).fillna(False)
    recall_at_first = benchmark.recall(first).reindex(failed)
    best_recall = _best_of_rounds(benchmark.recall, later)
    best_use = _best_of_rounds(benchmark.used, later)
    found_at_first = recall_at_first == 1
    found = found_at_first | (best_recall.reindex(failed) == 1)
    used = found & (best_use.reindex(failed) == 1)
    wrong = ~right.drop(failed)
    solved_that_way = used & right_at_last
    every_draft = "first drafts"
    failed_draft = "first drafts that failed"
    followed = "failed first drafts: needed documentation"
    return {
        (every_draft, "all"): len(feedback),
        (every_draft, "ran, but wrong"): wrong.sum(),
        (every_draft, "failed"): len(failed),
        (failed_draft, "right by the hidden tests"): right.reindex(failed).sum(),
        (failed_draft, "right after the last round"): right_at_last.sum(),
        (followed, "known"): recall_at_first.notna().sum(),
        (followed, "all in the first prompt"): found_at_first.sum(),
        (followed, "all in one of the prompts"): found.sum(),
        (followed, "and all named by a later program"): used.sum(),
        (followed, "and right after the last round"): solved_that_way.sum(),
    }


def _best_of_rounds(
    share_of: Callable[[str], pd.Series],
    rounds: Iterable[str],
) -> pd.Series:
    """The largest share of each task over several rounds."""
    by_round = pd.concat(map(share_of, rounds), axis=1)
    return by_round.max(axis=1)


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
    names = [
        "tasks",
        "passed",
        "failed on such a name",
        "most frequent name",
        "programs that fail on it",
    ]
    note = (
        "Numbers of programs, one per task. The names come from the error, or from the authors' rule, by "
        f"which one program may fail on several names. {LAST_ROUND}"
    )
    rows = rows_by_method(evor, NAMED_METHODS, _missing_cells)
    title = titled("Programs that failed on a name that the library lacks", evor)
    return ResultTable.of(title, rows, names, BY_METHOD, note)


def _missing_cells(benchmark: BenchmarkResults, method: str) -> Cells | None:
    verdicts = benchmark.last_verdicts(method)
    if not verdicts.notna().any():
        return None
    last_round = benchmark.rounds(method)[-1]
    ended = 0
    counts: Counter[str] = Counter()
    for outcome in benchmark.results.outcomes(last_round).values():
        if outcome.status != "failed":
            continue
        names = set(missing_names(outcome.detail))
        ended += bool(names)
        counts.update(names)
    passed = int(verdicts.fillna(False).sum())
    # The most frequent name; of equally frequent ones the first by alphabet.
    by_frequency = sorted(counts, key=lambda name: (-counts[name], name))
    most = by_frequency[0] if by_frequency else DASH
    return [
        len(verdicts),
        passed,
        ended,
        most,
        counts[most] or DASH,
    ]


def repeated_names_table(evor: EvorResults) -> ResultTable | None:
    """Count the drafts that use a missing attribute again after its error.

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark and method; None if no second round is stored.
    """
    names = [
        "first drafts that failed so",
        "next draft uses the name again",
        "next draft passes without the name",
        "next draft passes with the name",
    ]
    note = (
        "Numbers of tasks. The error reported an attribute that does not exist, and the next prompt showed "
        "the error."
    )
    rows = rows_by_method(evor, (EVOR, NEAREST), _repeated_cells)
    title = "After a first draft failed on a name that the library lacks"
    return table_if_any(evor, title, rows, names, BY_METHOD, note)


def _repeated_cells(benchmark: BenchmarkResults, method: str) -> Cells | None:
    if len(benchmark.rounds(method)) < 2:
        return None
    second_round = f"{method}@1"
    programs = benchmark.results.solutions(second_round)
    reported = []
    again = []
    for task_id, row in benchmark.feedback(f"{method}@0").items():
        name = missing_attribute(row["error"])
        if not name or task_id not in programs:
            continue
        reported.append(task_id)
        if re.search(rf"\.{name}\b", programs[task_id]):
            again.append(task_id)
    if not reported:
        return None
    passed = benchmark.verdicts(second_round)[reported].fillna(False)
    others_passed = passed.drop(again)
    return [
        len(reported),
        len(again),
        others_passed.sum(),
        passed[again].sum(),
    ]


def uncalled_table(evor: EvorResults) -> ResultTable | None:
    """Count the functions that were never called before their task ended.

    A function without usable test inputs is only defined. If that raises no error, the stored runs
    take it for a program that ran, and its task has ended.

    Args:
        evor: The results.

    Returns:
        The table, one row per benchmark; None if no inputs are stored.
    """
    names = [
        "functions without test inputs",
        "their first draft ended the task",
        "these drafts pass the hidden tests",
        "all tasks that ended in round 0",
    ]
    rows = rows_by_benchmark(evor, _uncalled_cells)
    title = "First drafts of functions that no test input called"
    note = (
        "Numbers of tasks. Where the model wrote no usable input, a draft that defines its function without "
        "an error counts as one that ran, and ends its task. The first three columns leave out the tasks "
        "that ask for a script instead of a function, because a script runs without inputs."
    )
    return table_if_any(evor, title, rows, names, "benchmark", note)


def _uncalled_cells(benchmark: BenchmarkResults) -> Cells | None:
    first_round = f"{EVOR}@0"
    stored = benchmark.results.knowledge.input_rows()
    if not stored or first_round not in benchmark.rounds(EVOR):
        return None
    without_inputs = {row["task_id"] for row in stored if not row["inputs"]}
    ended = {task_id for task_id, row in benchmark.feedback(first_round).items() if row["ok"]}
    uncalled = sorted(without_inputs & ended)
    passed = benchmark.verdicts(first_round)[uncalled].sum()
    return [len(without_inputs), len(uncalled), passed, len(ended)]


# Findings


def evor_findings(evor: EvorResults) -> list[str]:
    """One sentence on retrieving once and on the later rounds; none without rounds of EVOR."""
    pairs = []
    gains = {}
    for benchmark in evor.benchmarks:
        with_retrieval = benchmark.last_verdicts("RK")
        without = benchmark.last_verdicts(NO_RAG)
        difference = stats.paired_score(with_retrieval, without)
        if difference is not None:
            pairs.append((with_retrieval, without))
            gains[benchmark.short_title] = difference.value, without, with_retrieval
    if not gains or not evor.evolved:
        return []
    largest = max(gains, key=lambda title: gains[title][0])
    _, without, with_retrieval = gains[largest]
    before = percent(without.mean())
    after = percent(with_retrieval.mean())
    never_lower = all(value >= 0 for value, *_ in gains.values())
    verb = "raises" if never_lower else "changes"
    return [
        f"With {evor.model}, retrieving documentation (and code snippets, where there are any) once "
        f"{verb} pass@1 significantly on "
        f"{stats.count_significant(pairs)} of {len(pairs)} benchmarks (most on {largest}: from {before} "
        f"to {after} %); EVOR's later rounds, run on {len(evor.evolved)} of them, "
        f"change it significantly on {changed_benchmarks(evor) or 'none'}."
    ]
