"""The two rules of Equation 11 side by side: what they choose, and what the choices solve."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from pkg_lib.analysis import tables
from pkg_lib.analysis.cells import difference_cells
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import paired_bootstrap, pass_at_1
from pkg_lib.analysis.tables import DASH
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.encoder_limit import reranking_note
from pkg_lib.retrieval.methods import AS_PRINTED, NO_RAG, RERANKED

# The candidates of the authors' script, in its order, which breaks ties.
SCRIPT_CANDIDATES = (NO_RAG, "Block-PKG", "Func-PKG", "Func-BM25")
OF_SCRIPT = "Reranked, the script's four candidates"
NOTE = (
    "Authors' code: the first function of each candidate, without docstring and comments, is compared with "
    'the query, and a candidate that does not run counts as the words "Wrong code!". As printed: candidates '
    "that do not parse or run are left out, and the others are compared whole. The difference is paired by "
    f"task. The authors' script chooses among {', '.join(SCRIPT_CANDIDATES)} alone; the paper's text names "
    "all retrieval methods."
)
COLUMNS = [
    "tasks",
    "pass@1",
    "other choices",
    "difference",
    "95 % interval",
    "helped",
    "hurt",
    "McNemar p",
]


def reranking_rules(run: Results) -> ResultTable:
    """Compare the choices of the two rules on the same candidates, and on those of the authors' script.

    Args:
        run: A model on a benchmark with a corpus, whose candidates are judged.

    Returns:
        A table with one row per rule: tasks, pass@1, choices that differ from the authors' rule, and the
        paired difference to it with interval and McNemar p.
    """
    title = "Two rules of reranking"
    verdicts = run.verdicts([RERANKED, AS_PRINTED])
    if RERANKED not in verdicts or not verdicts[RERANKED].notna().any():
        empty = [DASH] * len(COLUMNS)
        rows = {RERANKED: empty, AS_PRINTED: empty}
        return ResultTable.of(title, rows, COLUMNS, "rule", NOTE)
    selections = run.selections()
    chosen = {}
    printed = {}
    for task_id, row in selections.items():
        chosen[task_id] = row["chosen"]
        printed[task_id] = row.get("chosen_as_printed", "")
    reranked = verdicts[RERANKED]
    rate = pass_at_1(reranked)
    rows = {
        RERANKED: [str(rate.measured), tables.percent(rate.value), *[DASH] * 6],
        AS_PRINTED: _row(verdicts[AS_PRINTED], reranked, printed, chosen),
    }
    if set(SCRIPT_CANDIDATES) <= set(run.candidates):
        choices = _choices_of_script(selections)
        by_script = _verdicts_of(choices, run.verdicts(run.candidates))
        by_script = by_script.where(reranked.notna())
        rows[OF_SCRIPT] = _row(by_script, reranked, choices, chosen)
    notes = [NOTE]
    about_encoder = reranking_note(run.label, run.results)
    if about_encoder:
        notes.append(about_encoder)
    return ResultTable.of(title, rows, COLUMNS, "rule", *notes)


def _choices_of_script(selections: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Method chosen by the authors' rule among their script's candidates, by task id."""
    choices = {}
    for task_id, row in selections.items():
        similarities = {}
        for method in SCRIPT_CANDIDATES:
            if method in row["candidates"]:
                similarities[method] = row["candidates"][method]["cosine"]
        if similarities:
            choices[task_id] = max(similarities, key=similarities.__getitem__)
    return choices


def _verdicts_of(choices: Mapping[str, str], verdicts: pd.DataFrame) -> pd.Series:
    """Verdicts of chosen methods; <NA> where a task has no choice."""
    values = {}
    for task_id, method in choices.items():
        if task_id in verdicts.index and method in verdicts:
            values[task_id] = verdicts.at[task_id, method]
    return pd.Series(values, dtype="boolean").reindex(verdicts.index)


def _row(
    verdicts: pd.Series,
    reranked: pd.Series,
    choices: Mapping[str, str],
    chosen: Mapping[str, str],
) -> list[str]:
    """The cells of one rule.

    Args:
        verdicts: Verdicts on what the rule chooses.
        reranked: Verdicts on what the authors' rule chooses.
        choices: Method that the rule chooses, by task id.
        chosen: Method that the authors' rule chooses.
    """
    rate = pass_at_1(verdicts)
    cells = [str(rate.measured), tables.percent(rate.value)]
    measured = verdicts.index[verdicts.notna()]
    others = sum(choices.get(i) != chosen[i] for i in measured if i in chosen)
    difference = paired_bootstrap(verdicts, reranked)
    return [*cells, str(others), *difference_cells(difference)]
