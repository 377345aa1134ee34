"""Does retrieval help where the context holds the solution? Tasks by the validity of their context.

A context is renamed and submitted as if it were the solution. Functions with as many arguments as
the reference are renamed to the entry point.

valid      a renamed function of the context passes the task's tests
invalid    there are such functions, and none passes
unrelated  there is none: no function, or none with as many arguments as the reference
none       nothing was retrieved
"""

from collections.abc import Iterable

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import BASELINE, paired_differences, pass_at_1
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.core.types import NOTHING
from pkg_lib.evaluation.context_validity import statement_digests
from pkg_lib.evaluation.controls import ControlError
from pkg_lib.evaluation.results import Results
from pkg_lib.retrieval.methods import METHODS

# What a context is; see above. Stored tables use these names.
VALID = "valid"
INVALID = "invalid"
UNRELATED = "unrelated"
NO_CONTEXT = "none"
VALIDITIES = (
    VALID,
    INVALID,
    UNRELATED,
    NO_CONTEXT,
)
ALL = "all"
VALIDITY_NOTE = (
    "A context is valid if one of its functions passes the task's hidden tests once it is renamed "
    "to the function that the task asks for. It is invalid if it has a function with as many arguments as "
    "the reference solution, and none of these passes. A context without functions, such as a block, is "
    "tried as the body of the requested function. It is valid if this passes, and invalid if it has a return "
    "statement and fails. Every other context is unrelated."
)
NO_CONTEXT_NOTE = "No context: nothing was retrieved for the task."


def context_validities(run: Results, method: str) -> pd.Series:
    """Tell what the context of every task is.

    Args:
        run: An experiment.
        method: A method with contexts.

    Returns:
        One of VALIDITIES per task; <NA> if the context is not stored or was not executed.
    """
    kinds = {}
    for context in run.contexts(method):
        if context.sha256 == NOTHING:
            kinds[context.task_id] = NO_CONTEXT
    leaks = run.leakage(method)
    for task_id, leak in leaks.items():
        if leak.passes:
            kinds[task_id] = VALID
        elif leak.callable:
            kinds[task_id] = INVALID
        else:
            kinds[task_id] = UNRELATED
    return _of_all_tasks(run, pd.Series(kinds, dtype="string"))


def _of_all_tasks(run: Results, values: pd.Series) -> pd.Series:
    """Values by task id for every task of a run; <NA> where there is none."""
    tasks = [task.id for task in run.tasks]
    return values.reindex(tasks)


def copies(run: Results, method: str) -> pd.Series:
    """Give the verdicts on the contexts themselves: each is renamed and submitted without a model.

    Args:
        run: An experiment.
        method: A method with contexts.

    Returns:
        Boolean per task; <NA> without a context.
    """
    kinds = context_validities(run, method)
    has_none = kinds.isna() | (kinds == NO_CONTEXT)
    passed = (kinds == VALID).astype("boolean")
    return passed.mask(has_none)


def copy_rates(run: Results, method: str) -> pd.Series:
    """Measure how much of a solution is copied from the context.

    Args:
        run: An experiment.
        method: A method with contexts.

    Returns:
        Per task, the share of the solution's statements that are in the context; <NA> if there is no
        context, no solution or no statement.
    """
    leaks = run.leakage(method)
    rates = {}
    for task_id, solution in run.solutions(method).items():
        leak = leaks.get(task_id)
        statements = statement_digests(solution)
        if leak and statements:
            copied = sum(statement in leak.statements for statement in statements)
            rates[task_id] = copied / len(statements)
    return _of_all_tasks(run, pd.Series(rates, dtype="Float64"))


def validity_counts(run: Results, method: str) -> pd.DataFrame:
    """Compare a method with no retrieval by what the context of a task is.

    Args:
        run: An experiment.
        method: The method.

    Returns:
        One row per validity, the first of them "all", on the tasks that both methods measured: how many
        each of them passed, and `paired_differences` from no retrieval. Counts and
        fractions.

    Raises:
        ControlError: The renamed reference solution does not pass every task.
    """
    _check_reference(run)
    verdicts = run.verdicts([BASELINE, method]).dropna()
    kinds = context_validities(run, method).reindex(verdicts.index)
    parts = {ALL: verdicts}
    for kind in VALIDITIES:
        is_of_kind = kinds.eq(kind).fillna(False)
        parts[kind] = verdicts[is_of_kind]
    rows = {}
    for kind, part in parts.items():
        differences = paired_differences(part)
        rows[kind] = part.sum().to_dict() | differences.loc[method].to_dict()
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.drop(columns="p_corrected")


def _check_reference(run: Results) -> None:
    """Raise ControlError unless the renamed reference solution passes every task."""
    control = run.leakage(BASELINE)
    passing = {task_id for task_id, leak in control.items() if leak.passes}
    failing = [task.id for task in run.tasks if task.id not in passing]
    if failing:
        count = len(failing)
        raise ControlError(
            f"a copy of the canonical solution fails or was not run on {count} of "
            f"{len(run.tasks)} tasks (first: {failing[0]}); prepare the run, or mend the leak test"
        )


def by_context(run: Results, methods: Iterable[str]) -> ResultTable:
    """Show each method with its two controls, and by what its context is.

    The controls are the renamed context submitted without a model, and the method with the context
    of another task.

    Args:
        run: An experiment.
        methods: Methods with contexts.

    Returns:
        One row per method: the rates of the controls, then the change from NoRAG by validity.
    """
    rows = {}
    for method in methods:
        table = validity_counts(run, method)
        swap = f"{method}, swapped"
        swapped = pd.Series(dtype="boolean")
        if swap in METHODS and run.offers(swap):
            swapped = run.verdicts([swap])[swap]
        copied = copies(run, method)
        changes = [_change(row, method) for _, row in table.iterrows()]
        rows[method] = [_rate(copied), _rate(swapped), *changes]
    notes = (
        f"a → b (n): NoRAG solves a % and the method b % of the n tasks of this group. {VALIDITY_NOTE} "
        f"{NO_CONTEXT_NOTE}",
        "Retrieved code alone: the renamed context is submitted without a model. Another task's context: "
        f"the method is shown the context of another task. {DASH} not measured, or no such task.",
    )
    names = ["retrieved code alone", "another task's context", "all tasks"]
    names += [f"{kind} context" for kind in VALIDITIES[:-1]] + ["no context"]
    title = "pass@1 in percent by context validity"
    return ResultTable.of(title, rows, names, "method", *notes)


def _rate(verdicts: pd.Series) -> str:
    """pass@1 in percent."""
    rate = pass_at_1(verdicts)
    return percent(rate.value)


def _change(row: pd.Series, method: str) -> str:
    """The rate without retrieval and with the method, and the number of tasks."""
    n = row["n"]
    if not n:
        return DASH
    before = percent(row[BASELINE] / n)
    after = percent(row[method] / n)
    return f"{before} → {after} ({n:.0f})"
