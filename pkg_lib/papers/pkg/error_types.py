"""Table 7 (Section 6.3): how solutions fail without and with retrieval.

Failed solutions are counted by the exception that ended them. Types beyond Table 7, such as a
timeout, count as Others and are named below the table.
"""

from collections.abc import (
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import (
    chance,
    counted_values,
    finding,
)
from pkg_lib.analysis.stats import (
    BASELINE,
    helped_and_hurt,
    mcnemar,
)
from pkg_lib.analysis.tables import (
    DASH,
    MINUS,
    probability,
    signed_count,
)
from pkg_lib.core.types import Outcome
from pkg_lib.data.benchmarks import title_of
from pkg_lib.evaluation.results import (
    STAGES,
    Results,
)
from pkg_lib.execution.errors import (
    BEYOND,
    TABLE7,
    split_detail,
)
from pkg_lib.papers.pkg.labels import table7_setting
from pkg_lib.papers.pkg.pass_tables import printed
from pkg_lib.papers.pkg.replay import replayed

Outcomes = Mapping[str, Outcome]  # task id -> outcome
PASSED = "passed"
MESSAGES = 3  # How many messages of an error are shown.
MESSAGE_CHARS = 80
# Parts of a message that differ between tasks -> what they are replaced by.
VARIABLE_PARTS = {
    r"'[^']*'|\"[^\"]*\"": "'…'",
    r"\d+": "N",
}
ERRORS_NOTE = (
    "Others counts every error that is none of the five types. The last rows say what Others consists of. "
    "Suspicious: the solution returned a value that could deceive the tests, such as an object of a class of "
    f"its own. {DASH} not measured, or not published."
)
STAGES_NOTE = (
    "Tasks that reach a stage; in brackets, tasks lost at it. A task without context is lost to the method. "
    "If the model was prompted anyway and the solution passed, 'passed anyway' counts it. "
    "Parsed: the solution has a syntax tree. Some SyntaxErrors, such as a 'return' outside of a function, "
    "are found only after parsing. Ran: the solution, executed without the tests, ends without an error; "
    "errors inside of its functions mostly occur later, when the tests call them. "
    f"{DASH} the method has no such stage, or is not measured."
)


@dataclass(frozen=True)
class ErrorComparison:
    """The outcomes of one experiment without retrieval and with one method.

    Attributes:
        results: The experiment.
        method: The method that is compared with no retrieval.
        outcomes: Outcomes without retrieval and with the method.
        settings: (group, label) -> outcomes: this study, then the replayed models.
        endings: How each task that both measured ended, [task, method]: "passed" or a row of Table 7.
    """

    results: Results
    method: str
    outcomes: dict[str, Outcomes]
    settings: dict[tuple[str, str], Outcomes]
    endings: pd.DataFrame


def compare_errors(
    results: Results,
    method: str,
    replays: str = "",
) -> ErrorComparison:
    """Collect the outcomes without retrieval and with a method.

    Args:
        results: The experiment.
        method: A method that the corpus offers.
        replays: Replayed models to add, joined by "+". A model without samples of both methods on
            this benchmark is left out.

    Returns:
        The outcomes.

    Raises:
        UnavailableError: A model was not replayed.
    """
    outcomes: dict[str, Outcomes] = {name: results.outcomes(name) for name in (BASELINE, method)}
    settings: dict[tuple[str, str], Outcomes] = {
        ("This study", results.model): outcomes[BASELINE],
        ("This study", f"+ {method}"): outcomes[method],
    }
    # Without the folder nothing was ever replayed, which is no mistake of the user.
    if replays and (results.results / "replay").is_dir():
        for model in replays.split("+"):
            settings |= _replayed_settings(results, model, method)
    endings = pd.DataFrame(
        {name: _endings(method_outcomes) for name, method_outcomes in outcomes.items()}
    )
    return ErrorComparison(results, method, outcomes, settings, endings.dropna().map(table7_row))


def _replayed_settings(
    results: Results,
    model: str,
    method: str,
) -> dict[tuple[str, str], Outcomes]:
    by_method = replayed(results.results, model, results.benchmark)
    if not {BASELINE, method} <= by_method.keys():
        return {}
    settings: dict[tuple[str, str], Outcomes] = {}
    for name, label in ((BASELINE, model), (method, f"{model} + {method}")):
        first = list(by_method[name].items())[: results.limit]
        settings["Published samples, executed here", label] = dict(first)
    return settings


def _endings(outcomes: Outcomes) -> pd.Series:
    """How each measured task ended: "passed" or its error."""
    endings = {}
    for task, outcome in outcomes.items():
        if outcome.status != "not_measured":
            endings[task] = PASSED if outcome.status == PASSED else outcome.error
    return pd.Series(endings, dtype=object)


def _counted(
    endings: pd.Series,
    rows: list[str],
) -> pd.Series:
    """Count the tasks that ended in each of some rows; <NA> if no task was measured."""
    if endings.empty:
        return pd.Series(pd.NA, rows, dtype="Int64")
    return endings.value_counts().reindex(rows, fill_value=0).astype("Int64")


# Counts


def table7_row(error: str) -> str:
    """Find the row of Table 7 that counts an error.

    Args:
        error: An error of `TABLE7` or `BEYOND`, or "passed".

    Returns:
        The same, or "Others" for a type that the table does not have.
    """
    return error if error in (PASSED, *TABLE7) else "Others"


def error_counts(outcomes: Outcomes) -> pd.Series:
    """Count failed solutions by error.

    Args:
        outcomes: Outcome by task id.

    Returns:
        Counts by error, those of `TABLE7` first, then those of `BEYOND`; <NA> if no task was measured.
    """
    return _counted(_endings(outcomes), [*TABLE7, *BEYOND])


def table7_counts(outcomes: Outcomes) -> pd.Series:
    """Count failed solutions by the six rows of Table 7.

    Args:
        outcomes: Outcome by task id.

    Returns:
        Counts by row; <NA> if no task was measured.
    """
    return error_counts(outcomes).groupby(table7_row, sort=False).sum(min_count=1)


def published_error_counts() -> pd.DataFrame:
    """Read the paper's Table 7, which is of MBPP.

    Returns:
        Counts [error, setting], in printed order. Models are spelled as in the other tables.
    """
    counts = printed(7).astype(int).T.loc[list(TABLE7)]
    return counts.rename(columns=table7_setting)


def settings_counts(comparison: ErrorComparison) -> pd.DataFrame:
    """Collect the counts of Table 7 for the figure.

    Args:
        comparison: The outcomes.

    Returns:
        Counts [setting, error], NaN where nothing was measured. The published settings follow on MBPP.
    """
    rows = []
    for (_, label), outcomes in comparison.settings.items():
        rows.append(table7_counts(outcomes).rename(_bar_name(label, outcomes)))
    if comparison.results.benchmark == "mbpp":
        for setting, counts in published_error_counts().items():
            rows.append(counts.rename(_bar_name(str(setting), {})))
    return pd.DataFrame(rows).astype(float)


def _bar_name(
    label: str,
    outcomes: Outcomes,
) -> str:
    """Shorten the label of a setting with retrieval; add n if some tasks are not measured."""
    _, plus, method = label.partition(" + ")
    name = f"+ {method}" if plus else label
    measured = len(_endings(outcomes))
    if measured in (0, len(outcomes)):
        return name
    return f"{name} (n={measured})"


# Tables


def errors_table(comparison: ErrorComparison) -> ResultTable:
    """Show failed solutions by error, next to the paper's counts on MBPP.

    Args:
        comparison: The outcomes.

    Returns:
        Table 7, one column per setting.
    """
    columns: dict[tuple[str, str], dict[str, str]] = {}
    for setting, outcomes in comparison.settings.items():
        columns[setting] = _errors_column(outcomes)
    benchmark = comparison.results.benchmark
    if benchmark == "mbpp":
        for label, counts in published_error_counts().items():
            cells = counts.to_dict() | {"all failed": counts.sum()}
            texts = {str(row): str(count) for row, count in cells.items()}
            columns["In the paper (Table 7)", str(label)] = texts
    frame = pd.DataFrame(columns).fillna(DASH).rename_axis("error")
    title = f"Failed solutions by error on {title_of(benchmark)}"
    return ResultTable(title, frame, (ERRORS_NOTE,))


def _errors_column(outcomes: Outcomes) -> dict[str, str]:
    counts = error_counts(outcomes)
    cells = table7_counts(outcomes).to_dict()
    cells["all failed"] = counts.sum(min_count=1)
    cells["not measured"] = len(outcomes) - len(_endings(outcomes))
    for error in BEYOND:
        cells[f"of Others: {error}"] = counts[error]
    cells["of Others: any other error"] = counts["Others"]
    return {str(row): _text(count) for row, count in cells.items()}


def _text(count: Any) -> str:
    return DASH if pd.isna(count) else str(count)


def error_changes(comparison: ErrorComparison) -> pd.DataFrame:
    """Count failed solutions without and with the method on the tasks that both measured.

    Args:
        comparison: The outcomes.

    Returns:
        Counts [error, ...] for no retrieval, the method and ``change``; the last row is "all failed".
    """
    endings = comparison.endings
    rows = list(TABLE7)
    frame = pd.DataFrame({method: _counted(endings[method], rows) for method in endings})
    frame.loc["all failed"] = frame.sum(min_count=1)
    frame["change"] = frame[comparison.method] - frame[BASELINE]
    return frame


def changes_table(comparison: ErrorComparison) -> ResultTable:
    """Show `error_changes`.

    Args:
        comparison: The outcomes.

    Returns:
        One row per error.
    """
    changes = error_changes(comparison)
    shown = changes.map(_text)
    shown["change"] = changes["change"].astype(float).map(signed_count)
    title = f"Failed solutions: {comparison.method} against {BASELINE}"
    return ResultTable(title, shown.rename_axis("error"))


def endings_table(comparison: ErrorComparison) -> ResultTable:
    """Cross-tabulate how the tasks end without retrieval (rows) and with the method (columns).

    Args:
        comparison: The outcomes.

    Returns:
        Numbers of tasks.
    """
    endings, method = comparison.endings, comparison.method
    present = set(endings[BASELINE]) | set(endings[method])
    order = [name for name in (PASSED, *TABLE7) if name in present]
    counts = pd.crosstab(endings[BASELINE], endings[method])
    counts = counts.reindex(
        index=order,
        columns=order,
        fill_value=0,
    )
    title = f"Tasks by how they end: {BASELINE} (rows), {method} (columns)"
    return ResultTable(title, counts.astype(str).rename_axis(BASELINE))


def agreement_table(comparison: ErrorComparison) -> ResultTable:
    """Show on how many tasks the method and no retrieval agree, with McNemar's exact test.

    Args:
        comparison: The outcomes.

    Returns:
        Numbers of tasks that both, one or none solves.
    """
    method = comparison.method
    verdicts = comparison.results.verdicts([BASELINE, method])
    measured = verdicts.dropna()
    helped, hurt = map(len, helped_and_hurt(measured[method], measured[BASELINE]))
    solved = int(measured.all(axis=1).sum())
    failed = len(measured) - solved - helped - hurt
    rows: dict[str, Sequence[int | str]] = {
        f"{method} passed": [solved, helped],
        f"{method} failed": [hurt, failed],
    }
    if measured.empty:
        rows = {name: [DASH, DASH] for name in rows}
    note = f"McNemar's exact test: p {probability(mcnemar(helped, hurt))}."
    absent = len(verdicts) - len(measured)
    if absent:
        note += f" {absent} tasks are not measured in both."
    columns = [f"{BASELINE} passed", f"{BASELINE} failed"]
    texts = {name: map(str, cells) for name, cells in rows.items()}
    return ResultTable.of(
        f"{method} against {BASELINE}",
        texts,
        columns,
        "tasks",
        note,
    )


def stage_counts(records: pd.DataFrame) -> pd.DataFrame:
    """Count the tasks that reach each stage, from the context to a passing solution.

    A task is lost at the first stage that it does not reach.

    Args:
        records: What `Results.records` returns.

    Returns:
        One row for all tasks and one per stage: ``reached``, ``lost``, ``passed anyway`` (of the lost)
        and ``not measured``. A stage that no task has is left out.
    """
    left = records
    rows = {
        "tasks": [
            len(records),
            0,
            0,
            0,
        ]
    }
    for stage in STAGES:
        reached = left[stage]
        is_verdict = stage == PASSED
        if len(left) and reached.isna().all() and not is_verdict:
            continue
        lost = left[~reached.fillna(True)]
        anyway = int(lost[PASSED].sum())
        unknown = int(reached.isna().sum()) if is_verdict else 0
        left = left[reached.fillna(not is_verdict)]
        rows[stage] = [
            len(left),
            len(lost),
            anyway,
            unknown,
        ]
    columns = ["reached", "lost", "passed anyway", "not measured"]
    return pd.DataFrame.from_dict(
        rows,
        orient="index",
        columns=columns,
    )


def stages_table(comparison: ErrorComparison) -> ResultTable:
    """Show at which stage tasks are lost, without retrieval and with the method.

    Args:
        comparison: The outcomes.

    Returns:
        One row per stage.
    """
    columns = {}
    for method in comparison.outcomes:
        records = comparison.results.records(method)
        columns[method] = pd.Series(dtype=object)
        if records[PASSED].notna().any():
            columns[method] = stage_counts(records).apply(_stage_text, axis=1)
    order = max(columns.values(), key=len).index
    frame = pd.DataFrame(columns).reindex(order).fillna(DASH).rename_axis("stage")
    return ResultTable("From tasks to passed tasks", frame, (STAGES_NOTE,))


def _stage_text(stage: pd.Series) -> str:
    text = str(stage["reached"])
    parts = []
    if stage["lost"]:
        parts.append(f"{MINUS}{stage['lost']}")
    if stage["passed anyway"]:
        parts.append(f"{stage['passed anyway']} passed anyway")
    if stage["not measured"]:
        parts.append(f"{stage['not measured']} not measured")
    return f"{text} ({', '.join(parts)})" if parts else text


def messages_table(outcomes: Outcomes) -> ResultTable:
    """Show the most common last lines of the tracebacks of each error.

    Quoted names and numbers are replaced, so that messages of one kind count together.

    Args:
        outcomes: Outcome by task id.

    Returns:
        One row per error, the most common first.
    """
    rows = []
    for outcome in outcomes.values():
        if outcome.status == "failed":
            line, _ = split_detail(outcome.detail)
            rows.append((outcome.error, line))
    failed = pd.DataFrame(rows, columns=["error", "line"], dtype=object)
    for pattern, replacement in VARIABLE_PARTS.items():
        failed["line"] = failed["line"].str.replace(
            pattern,
            replacement,
            regex=True,
        )
    failed["line"] = failed["line"].str[:MESSAGE_CHARS]
    counts = failed.value_counts().rename("n").reset_index()
    counts = counts.sort_values(["n", "line"], ascending=[False, True])
    messages_of = {}
    for error, error_counts in counts.groupby("error"):
        common = error_counts.head(MESSAGES)
        messages = common["n"].astype(str) + ": " + common["line"]
        messages_of[error] = (error_counts["n"].sum(), "; ".join(messages))
    columns = ["failed", "most common messages"]
    table = pd.DataFrame.from_dict(messages_of, orient="index", columns=columns)
    table = table.sort_values("failed", ascending=False).rename_axis("error")
    return ResultTable("Messages of the tracebacks", table.astype(str))


# Findings


def error_findings(comparison: ErrorComparison) -> list[str]:
    """Say how the errors change with the method.

    Args:
        comparison: The outcomes.

    Returns:
        Sentences: the failed tasks, each error type, the tasks that the method lost, and assertions
        that solutions raise themselves.
    """
    return [
        *_changes_by_error(comparison),
        *_errors_of_lost_tasks(comparison),
        *_own_assertions(comparison),
    ]


def _changes_by_error(comparison: ErrorComparison) -> list[str]:
    endings, method = comparison.endings, comparison.method
    if endings.empty:
        return [f"{BASELINE} and {method} have no task measured in both."]
    changes = error_changes(comparison)
    failed = changes.loc["all failed"]
    total = (
        f"Of {len(endings)} tasks measured in both, {failed[BASELINE]} fail with {BASELINE} and "
        f"{failed[method]} with {method}."
    )
    parts = []
    for error in TABLE7:
        before, after = changes.loc[error, [BASELINE, method]].fillna(0)
        if before or after:
            has_error = endings == error
            gained, lost = helped_and_hurt(has_error[method], has_error[BASELINE])
            p = mcnemar(len(gained), len(lost))
            parts.append(f"{error} {before} to {after} ({chance(p)})")
    head = f"By error, {BASELINE} to {method}, with McNemar's exact p of each type alone"
    return [total, *finding(head, parts)]


def _errors_of_lost_tasks(comparison: ErrorComparison) -> list[str]:
    endings = comparison.endings
    before, after = endings[BASELINE], endings[comparison.method]
    lost = after[(before == PASSED) & (after != PASSED)]
    head = f"Errors of the {len(lost)} tasks that only {BASELINE} solves"
    return finding(head, counted_values(lost))


def _own_assertions(comparison: ErrorComparison) -> list[str]:
    parts = []
    for method, outcomes in comparison.outcomes.items():
        asserted = sum(o.error == "AssertionError" for o in outcomes.values())
        if asserted:
            own = len(comparison.results.own_assertions(method))
            parts.append(f"{own} of {asserted} {method}")
    return finding("AssertionErrors that the solution raises itself, before any test", parts)
