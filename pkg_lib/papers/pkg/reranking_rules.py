"""The two rules of Equation 11 side by side: what they choose, and what the choices solve."""

import pandas as pd

from pkg_lib.analysis import tables
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import paired_bootstrap, pass_at_1
from pkg_lib.analysis.tables import DASH
from pkg_lib.evaluation.results import Results
from pkg_lib.retrieval.methods import AS_PRINTED

RERANKED = "Reranked"
NOTE = (
    "Authors' code: the first function of each candidate, without docstring and comments, is compared with "
    'the query, and a candidate that does not run counts as the words "Wrong code!". As printed: candidates '
    "that do not parse or run are left out, and the others are compared whole. The difference is paired by "
    "task."
)
COLUMNS = "tasks, pass@1, other choices, difference, 95 % interval, helped, hurt, McNemar p".split(
    ", "
)


def reranking_rules(run: Results) -> ResultTable:
    """Compare the choices of the two rules on the same candidates.

    Args:
        run: A model on a benchmark with a corpus, whose candidates are judged.

    Returns:
        A table with one row per rule: tasks, pass@1, choices that differ from the authors' rule, and the
        paired difference to it with interval and McNemar p.
    """
    verdicts = run.verdicts([RERANKED, AS_PRINTED])
    if RERANKED not in verdicts or not verdicts[RERANKED].notna().any():
        empty = [DASH] * len(COLUMNS)
        return ResultTable.of(
            "Two rules of reranking", {RERANKED: empty, AS_PRINTED: empty}, COLUMNS, "rule", NOTE
        )
    rows = {name: _row(run, verdicts, name) for name in (RERANKED, AS_PRINTED)}
    return ResultTable.of("Two rules of reranking", rows, COLUMNS, "rule", NOTE)


def _row(run: Results, verdicts: pd.DataFrame, name: str) -> list[str]:
    rate = pass_at_1(verdicts[name])
    cells = [str(rate.measured), tables.percent(rate.value)]
    if name == RERANKED:
        return [*cells, *[DASH] * 6]
    measured = verdicts.index[verdicts[name].notna()]
    choices = {i: row for i, row in run.selections().items() if i in measured}
    others = sum(row["chosen"] != row.get("chosen_as_printed") for row in choices.values())
    difference = paired_bootstrap(verdicts[name], verdicts[RERANKED])
    if difference is None:
        return [*cells, str(others), *[DASH] * 5]
    return [
        *cells,
        str(others),
        tables.points(difference.value),
        tables.interval(difference.low, difference.high),
        str(difference.helped),
        str(difference.hurt),
        tables.probability(difference.p),
    ]
