"""Does retrieval help where the context holds the solution? Tasks by what their context is (`Run.leakage`).

correct    a form of the context passes the task's tests
wrong      it has a form, that is a function which takes the arguments of the tests' first call (or a body
           that could be one's), and no form passes
unrelated  it has none: no such definition, or one of another number of arguments
none       nothing was retrieved
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from pkg_lib.analysis.stats import BASELINE, ControlError, holm, paired_score, pass_at_1, wilson
from pkg_lib.core.types import NOTHING
from pkg_lib.experiment.run import Run
from pkg_lib.retrieval.leakage import statements

STRATA = ("correct", "wrong", "unrelated", "none")


def strata(run: Run, column: str) -> pd.Series:
    """[task]: one of STRATA; <NA> where the context is not there or was not run."""
    leaks = run.leakage(column)
    values = {c.task_id: "none" for c in run.contexts(column) if c.sha256 == NOTHING}
    kinds = {i: "correct" if x.passes else "wrong" if x.callable else "unrelated" for i, x in leaks.items()}
    return pd.Series(kinds | values, dtype="string").reindex([t.id for t in run.tasks])


def copies(run: Run, column: str) -> pd.Series:
    """The row *copy*, boolean [task]: the context, renamed, is submitted; <NA> as `strata`, or of none."""
    of = strata(run, column)
    return (of == "correct").astype("boolean").mask(of.isna() | (of == "none"))


def copy_rates(run: Run, column: str) -> pd.Series:
    """[task]: the share of the solution's statements that stand in the context; <NA> without either."""
    known = {i: {*leak.statements} for i, leak in run.leakage(column).items()}
    found = {i: statements(s) for i, s in run.solutions(column).items() if i in known}
    rates = {i: sum(s in known[i] for s in own) / len(own) for i, own in found.items() if own}
    return pd.Series(rates, dtype="Float64").reindex([t.id for t in run.tasks])


def strata_table(
    run: Run, column: str, baseline: str = BASELINE, contexts: str = "", kinds: Sequence[str] = STRATA
) -> pd.DataFrame:
    """Stratum x (n, passed of the baseline and of the column with intervals, paired difference, p, Holm's p).

    Counts and fractions, on tasks that both have; "all" first. The strata are those of the column `contexts`,
    by default the column's own. ControlError where a renamed reference does not pass.
    """
    control = run.leakage("None")
    if wrong := [t.id for t in run.tasks if t.id not in control or not control[t.id].passes]:
        about = f"fails or is missing on {len(wrong)} of {len(run.tasks)} tasks (first: {wrong[0]})"
        raise ControlError(f"copy of the canonical solution {about}; prepare the run, or mend the leak test")
    of = strata(run, contexts or column)
    verdicts = run.verdicts([baseline, column]).dropna()
    rows = {}
    for kind in ("all", *kinds):
        part = verdicts.loc[[i for i in verdicts.index if kind == "all" or of[i] == kind]]
        row = {"n": len(part)}
        for name, where in ((baseline, "baseline"), (column, "column")):
            low, high = wilson(passed := pass_at_1(part[name]).passed, len(part)) or (math.nan, math.nan)
            row |= {where: passed, f"{where}_low": low, f"{where}_high": high}
        if gap := paired_score(part[column], part[baseline]):
            row |= {"difference": gap.value, "low": gap.low, "high": gap.high}
            row |= {"helped": gap.helped, "hurt": gap.hurt, "p": gap.p}
        rows[kind] = row
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.assign(p_holm=[math.nan, *holm(table["p"].tolist()[1:])])
