"""Table 7 and the tables and figures beside it, computed from outcomes with known counts."""

from itertools import pairwise

import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH, MINUS
from pkg_lib.core.types import Outcome, UnavailableError
from pkg_lib.evaluation.results import STAGES, verdict_series
from pkg_lib.execution.errors import BEYOND, TABLE7
from pkg_lib.papers.pkg import error_types
from pkg_lib.papers.pkg.error_figures import draw_errors
from pkg_lib.papers.pkg.error_types import compare_errors, stage_counts, table7_row
from tests.analysis.checks import legible

PASSED = Outcome("passed")
UNKNOWN = Outcome("not_measured")
# What a task with each status contributes to the five stages.
STAGES_OF_STATUS = {
    "passed": (True, True, True, True, True),
    "failed": (True, True, True, False, False),
    "not_measured": (True, True, True, True, None),
}


def failed(error, detail=""):
    return Outcome("failed", error, detail)


def undefined(name):
    return failed("NameError", f"NameError: name '{name}' is not defined")


# The outcomes of five tasks without retrieval and with Block-PKG.
WITHOUT = [PASSED, failed("AssertionError"), undefined("x1"), failed("Timeout"), UNKNOWN]
WITH = [undefined("y22"), PASSED, undefined("x1"), failed("Timeout"), undefined("z")]


class StoredOutcomes:
    """Results of five tasks with the given outcomes by method."""

    model, benchmark, limit = "a-model", "humaneval", None
    task_ids = tuple(f"HumanEval/{number}" for number in range(5))

    def __init__(self, folder, **by_method):
        self.results = folder
        self.by_method = {}
        for method, outcomes in by_method.items():
            self.by_method[method] = dict(zip(self.task_ids, outcomes, strict=True))

    def outcomes(self, method):
        return self.by_method.get(method)

    def records(self, method):
        rows = {}
        for task, outcome in self.by_method[method].items():
            rows[task] = (None, None, *STAGES_OF_STATUS[outcome.status])
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=STAGES)
        return frame.astype("boolean")

    def verdicts(self, methods):
        return pd.DataFrame({m: verdict_series(self.by_method[m]) for m in methods})

    def own_assertions(self, method):
        return frozenset(self.task_ids[:1]) if method == "NoRAG" else frozenset()


@pytest.fixture
def compared(tmp_path):
    """Compare outcomes of five tasks without retrieval and with Block-PKG."""

    def compare(without, with_, **options):
        results = StoredOutcomes(tmp_path, **{"NoRAG": without, "Block-PKG": with_})
        return compare_errors(results, "Block-PKG", **options)

    return compare


def test_error_types_outside_table7_count_as_others():
    assert [table7_row(error) for error in TABLE7] == list(TABLE7)
    assert {table7_row(error) for error in BEYOND} == {"Others"}


def test_counts_errors_by_table7_and_names_the_others(compared):
    columns = error_types.errors_table(compared(WITHOUT, WITH)).frame["This study"]
    without, with_ = columns["a-model"], columns["+ Block-PKG"]
    rows = ["AssertionError", "NameError", "Others", "all failed", "not measured"]
    assert without[rows].tolist() == ["1", "1", "1", "3", "1"]
    assert with_[rows].tolist() == ["0", "3", "1", "4", "0"]
    assert without["of Others: Timeout"] == "1"
    assert without["of Others: Memory"] == "0"


def test_what_others_consists_of_adds_up(compared):
    outcomes = [
        failed("Others"),
        failed("Timeout"),
        failed("Memory"),
        failed("NameError"),
        PASSED,
    ]
    column = error_types.errors_table(compared(outcomes, WITH)).frame["This study", "a-model"]
    assert column["of Others: any other error"] == "1"
    parts = [int(count) for row, count in column.items() if row.startswith("of Others: ")]
    assert sum(parts) == int(column["Others"]) == 3


def test_changes_count_only_tasks_that_both_measured(compared):
    changes = error_types.changes_table(compared(WITHOUT, WITH)).frame
    assert changes.loc["NameError"].tolist() == ["1", "2", "+1"]
    assert changes.loc["AssertionError", "change"] == f"{MINUS}1"
    assert changes.loc["all failed"].tolist() == ["3", "3", "0"]


def test_the_cross_table_and_the_agreement_count_every_pair(compared):
    comparison = compared(WITHOUT, WITH)
    endings = error_types.endings_table(comparison).frame
    assert endings.at["passed", "NameError"] == "1"
    assert endings.at["AssertionError", "passed"] == "1"
    assert endings.astype(int).to_numpy().sum() == 4
    agreement = error_types.agreement_table(comparison)
    assert agreement.frame.loc["Block-PKG passed"].tolist() == ["0", "1"]
    assert agreement.frame.loc["Block-PKG failed"].tolist() == ["1", "2"]
    assert "1 tasks are not measured" in agreement.notes[0]


def test_messages_that_differ_in_names_or_numbers_count_together():
    outcomes = [undefined("x1"), undefined("z"), failed("Timeout", "30 s"), PASSED]
    table = error_types.messages_table(dict(enumerate(outcomes))).frame
    assert table.loc["NameError"].tolist() == ["2", "2: NameError: name '…' is not defined"]
    assert table.loc["Timeout", "most common messages"] == "1: N s"
    assert error_types.messages_table({}).frame.empty


def test_findings_name_the_errors_of_lost_tasks_and_own_assertions(compared):
    text = "\n".join(error_types.error_findings(compared(WITHOUT, WITH)))
    assert "Of 4 tasks measured in both, 3 fail with NoRAG and 3 with Block-PKG." in text
    assert "NameError 1 to 2 (p = 1.000)" in text
    assert "TypeError" not in text
    assert "Errors of the 1 tasks that only NoRAG solves: NameError 1." in text
    assert "1 of 1 NoRAG" in text


def test_shows_unmeasured_values_as_missing_rather_than_zero(compared):
    comparison = compared(WITHOUT, [UNKNOWN] * 5)
    column = error_types.errors_table(comparison).frame["This study", "+ Block-PKG"]
    assert column.pop("not measured") == "5"
    assert set(column) == {DASH}
    assert (error_types.changes_table(comparison).frame["Block-PKG"] == DASH).all()
    assert (error_types.agreement_table(comparison).frame == DASH).all(axis=None)
    assert (error_types.stages_table(comparison).frame["Block-PKG"] == DASH).all()
    assert error_types.endings_table(comparison).frame.empty
    assert "no task measured in both" in error_types.error_findings(comparison)[0]
    figure = draw_errors(error_types.settings_counts(comparison), "Errors")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert {"not measured", DASH} <= set(texts)
    assert "0" not in texts


def test_a_missing_replay_is_an_error_only_if_other_models_were_replayed(compared, tmp_path):
    assert len(compared(WITHOUT, WITH, replays="nosuch").settings) == 2
    (tmp_path / "replay" / "other" / "humaneval").mkdir(parents=True)
    assert len(compared(WITHOUT, WITH, replays="other").settings) == 2
    with pytest.raises(UnavailableError, match="nosuch"):
        compared(WITHOUT, WITH, replays="nosuch")


@pytest.mark.parametrize("times", [1, 400])
def test_the_figure_is_legible_and_shows_every_total(times):
    names = ["qwen2.5-coder-0.5b-instruct (n=163)", "+ Block-PKG", "deepseek-coder-1.3b-instruct"]
    rows = [[times, 2 * times, 0, times, 0, 3 * times], [0.0] * 6, [float("nan")] * 6]
    counts = pd.DataFrame(rows, names, list(TABLE7), dtype=float)
    shown = legible(draw_errors(counts, "Errors on HumanEval"))
    assert {str(7 * times), "0", DASH, "not measured"} <= set(shown)


# The record of a task that reaches every stage.
FULL = dict.fromkeys(STAGES, True)


def counts(*records):
    """Count the tasks of each stage.

    Args:
        *records: What each task has instead of reaching every stage.

    Returns:
        (reached, lost, passed anyway, not measured) by stage.
    """
    frame = pd.DataFrame([FULL | record for record in records], columns=list(STAGES))
    rows = stage_counts(frame.astype("boolean")).itertuples(name=None)
    return {stage: numbers for stage, *numbers in rows}


def test_each_stage_loses_its_own_tasks():
    failing = [{stage: False, "passed": False} for stage in STAGES]
    stages = counts({}, *failing)
    assert stages["tasks"] == [8, 0, 0, 0]
    reached_and_lost = [stages[stage][:2] for stage in STAGES]
    assert reached_and_lost == [[7, 1], [6, 1], [5, 1], [4, 1], [3, 1], [2, 1], [1, 1]]


def test_counts_add_up_with_every_kind_of_record():
    records = [{"passed": None}] * 3
    for stage in STAGES:
        records += [{stage: False}, {stage: True}]
    rows = list(counts(*records).values())
    for (before, *_), (reached, lost, _, unknown) in pairwise(rows):
        assert before == reached + lost + unknown
    reached, _, _, unknown = rows[-1]
    passed_anyway = sum(row[2] for row in rows)
    assert reached + passed_anyway == 2 * len(STAGES) - 1
    assert unknown == 3


def test_a_method_without_retrieval_has_no_context_stages():
    without = {"context found": None, "in the prompt": None}
    assert list(counts(without, without)) == ["tasks", *STAGES[2:]]
    assert [row[0] for row in counts().values()] == [0] * 8


def test_a_task_without_context_can_pass_anyway():
    assert counts({}, {"context found": False})["context found"] == [1, 1, 1, 0]
