"""Does retrieval help where the context holds the solution? Tasks by what their context is.

correct    a form of the context passes the task's tests
wrong      it has forms (a function that takes as many arguments as the reference), and none passes
unrelated  it has none: no function, or one of another number of arguments
none       nothing was retrieved
"""

from collections.abc import Iterable

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import BASELINE, ControlError, paired_differences, pass_at_1, wilson
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.core.types import NOTHING
from pkg_lib.evaluation.context_validity import statement_digests
from pkg_lib.evaluation.results import Results
from pkg_lib.retrieval.methods import METHODS

STRATA = ("correct", "wrong", "unrelated", "none")


def strata(run: Results, column: str) -> pd.Series:
    """[task]: one of STRATA; <NA> where the context is not there or was not run."""
    kinds = {c.task_id: "none" for c in run.contexts(column) if c.sha256 == NOTHING}
    for i, leak in run.leakage(column).items():
        kinds[i] = "correct" if leak.passes else "wrong" if leak.callable else "unrelated"
    return pd.Series(kinds, dtype="string").reindex([t.id for t in run.tasks])


def copies(run: Results, column: str) -> pd.Series:
    """The row *copy*, boolean [task]: the context, renamed, is submitted; <NA> without one."""
    of = strata(run, column)
    return (of == "correct").astype("boolean").mask(of.isna() | (of == "none"))


def copy_rates(run: Results, column: str) -> pd.Series:
    """[task]: the share of the solution's statements that stand in the context; <NA> without either."""
    leaks = run.leakage(column)
    pairs = {
        i: (statement_digests(s), leaks[i].statements)
        for i, s in run.solutions(column).items()
        if i in leaks
    }
    rates = {i: sum(s in known for s in own) / len(own) for i, (own, known) in pairs.items() if own}
    return pd.Series(rates, dtype="Float64").reindex([t.id for t in run.tasks])


def strata_table(run: Results, column: str, of: str = "", baseline: str = BASELINE) -> pd.DataFrame:
    """Stratum x (passed of both with Wilson's intervals; `paired_differences` from the baseline).

    On tasks that both have; "all" first. The strata are those of the contexts of the column `of`, else of its
    own. Counts and fractions. ControlError unless the reference, renamed, passes every task.
    """
    control = run.leakage("NoRAG")
    if wrong := [t.id for t in run.tasks if t.id not in control or not control[t.id].passes]:
        raise ControlError(
            f"a copy of the canonical solution fails or was not run on {len(wrong)} of "
            f"{len(run.tasks)} tasks (first: {wrong[0]}); prepare the run, or mend the leak test"
        )
    verdicts, kinds = run.verdicts([baseline, column]).dropna(), strata(run, of or column)
    parts = {
        kind: verdicts[kinds.reindex(verdicts.index).eq(kind).fillna(False)] for kind in STRATA
    }
    rows = {}
    for kind, part in {"all": verdicts, **parts}.items():
        counts = {name: pass_at_1(part[name]).passed for name in part}
        bounds = {f"{name} interval": wilson(count, len(part)) for name, count in counts.items()}
        rows[kind] = counts | bounds | paired_differences(part, baseline).loc[column].to_dict()
    return pd.DataFrame.from_dict(rows, orient="index").drop(columns="p_corrected")


def by_context(run: Results, columns: Iterable[str]) -> ResultTable:
    """Each column beside its two control rows, and by what its context is: NoRAG's rate, then the column's.

    *copy* submits the renamed context and asks no model; *swap* shows another task's context.
    """
    rows = {}
    for column in columns:
        table, swap = strata_table(run, column), f"{column}, swapped"
        offered = swap in METHODS and run.offers(swap)
        swapped = run.verdicts([swap])[swap] if offered else pd.Series(dtype="boolean")
        rates = [percent(pass_at_1(known).value) for known in (copies(run, column), swapped)]
        cells = [_change(row, column) for _, row in table.iterrows()]
        rows[column] = [*rates, *cells]
    notes = (
        "NoRAG's rate → the column's (number of tasks). Correct: the context, renamed, passes the tests.",
        "copy: the renamed context alone, without a model. swap: the column with another task's context.",
    )
    names = ["copy", "swap", "all", *STRATA]
    return ResultTable.of("pass@1 in percent by what the context is", rows, names, "column", *notes)


def _change(row: pd.Series, column: str) -> str:
    rates = [percent(row[name] / row["n"]) for name in (BASELINE, column)] if row["n"] else []
    return f"{rates[0]} → {rates[1]} ({row['n']:.0f})" if rates else DASH
