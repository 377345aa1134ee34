"""The two rules of Equation 11 side by side: what they choose, and what the choices solve."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from pkg_lib.analysis import tables
from pkg_lib.analysis.cells import DIFFERENCE_COLUMNS, difference_cells
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import not_measured, paired_bootstrap, pass_at_1
from pkg_lib.analysis.tables import DASH
from pkg_lib.evaluation.reranking import nearest
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.encoder_limit import reranking_note
from pkg_lib.retrieval.methods import AS_PRINTED, NO_RAG, RERANKED

# The candidates of the authors' script, in its order, which breaks ties.
SCRIPT_CANDIDATES = (NO_RAG, "Block-PKG", "Func-PKG", "Func-BM25")
# Rows of the table.
BY_CODE = "the authors' rule, among the answers of all methods"
BY_FORMULA = "the paper's formula, among the answers of all methods"
OF_SCRIPT = "the authors' rule, among the four candidates of their script"
NOTES = (
    "The paper's formula (Equation 11) and the authors' code differ. The formula leaves out answers "
    "that do not parse or run, and compares the others as whole programs with the query. The code "
    "compares the first function of each answer, without docstring and comments. An answer that "
    'does not run stays a candidate; the text "Wrong code!" is embedded instead of it. In all other '
    "tables, Reranked means the first row.",
    "Four candidates: the authors' script selects among "
    f"{', '.join(SCRIPT_CANDIDATES)} alone; the paper's text names all retrieval methods. The last "
    "columns compare a row with the first row, paired by task; differences are in percentage points.",
)
COLUMNS = [
    "tasks",
    "pass@1",
    "tasks with another choice than in the first row",
    *DIFFERENCE_COLUMNS,
]


def reranking_rules(run: Results) -> ResultTable:
    """Compare the choices of the two rules on the same candidates, and on those of the authors' script.

    Args:
        run: A model on a benchmark with a corpus, whose candidates are judged.

    Returns:
        A table with one row per rule: tasks, pass@1, choices that differ from the authors' rule, and the
        paired difference to it with interval and McNemar p.
    """
    title = "pass@1 in percent of the answer that each rule selects"
    verdicts = run.verdicts([RERANKED, AS_PRINTED])
    if not_measured([RERANKED], verdicts):
        empty = [DASH] * len(COLUMNS)
        rows = {BY_CODE: empty, BY_FORMULA: empty}
        return ResultTable.of(title, rows, COLUMNS, "rule", *NOTES)
    selections = run.selections()
    chosen = {}
    printed = {}
    for task_id, row in selections.items():
        chosen[task_id] = row["chosen"]
        printed[task_id] = row.get("chosen_as_printed", "")
    reranked = verdicts[RERANKED]
    rate = pass_at_1(reranked)
    rows = {
        BY_CODE: [str(rate.measured), tables.percent(rate.value), *[DASH] * 6],
        BY_FORMULA: _row(verdicts[AS_PRINTED], reranked, printed, chosen),
    }
    if set(SCRIPT_CANDIDATES) <= set(run.candidates):
        choices = _choices_of_script(selections)
        by_script = _verdicts_of(choices, run.verdicts(run.candidates))
        by_script = by_script.where(reranked.notna())
        rows[OF_SCRIPT] = _row(by_script, reranked, choices, chosen)
    notes = list(NOTES)
    candidates = sum(len(row["candidates"]) for row in selections.values())
    about_encoder = reranking_note(run.label, candidates, run.results)
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
            choices[task_id] = nearest(similarities)
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
