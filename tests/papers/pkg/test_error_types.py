"""Table 7 and what is shown next to it, from outcomes whose counts are known."""

from itertools import pairwise
from types import SimpleNamespace

import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH, MINUS
from pkg_lib.core.types import Outcome, Unavailable
from pkg_lib.evaluation.results import STAGES, verdict_series
from pkg_lib.execution.errors import BEYOND, TABLE7
from pkg_lib.papers.pkg import error_types
from pkg_lib.papers.pkg.error_figures import draw_errors
from pkg_lib.papers.pkg.error_types import compare_errors, stage_counts, table7_row
from tests.analysis.checks import legible

PASSED, UNKNOWN = Outcome("passed"), Outcome("not_measured")


def failed(error, detail=""):
    return Outcome("failed", error, detail)


def undefined(name):
    return failed("NameError", f"NameError: name '{name}' is not defined")


WITHOUT = [PASSED, failed("AssertionError"), undefined("x1"), failed("Timeout"), UNKNOWN]
WITH = [undefined("y22"), PASSED, undefined("x1"), failed("Timeout"), undefined("z")]


@pytest.fixture
def compared(tmp_path):
    """The comparison of five tasks with these outcomes without retrieval and with Block-PKG."""

    def compare(without, with_, **options):
        ids = [f"HumanEval/{i}" for i in range(5)]
        outcomes = {
            "NoRAG": dict(zip(ids, without, strict=True)),
            "Block-PKG": dict(zip(ids, with_, strict=True)),
        }

        def records(method):
            answers = {"passed": (True,) * 5, "failed": (True,) * 3 + (False,) * 2}
            stages = answers | {"not_measured": (True,) * 4 + (None,)}
            way = {i: (None, None, *stages[o.status]) for i, o in outcomes[method].items()}
            return pd.DataFrame.from_dict(way, orient="index", columns=STAGES).astype("boolean")

        results = SimpleNamespace(
            model="a-model",
            benchmark="humaneval",
            limit=None,
            results=tmp_path,
            outcomes=outcomes.get,
            records=records,
            verdicts=lambda ms: pd.DataFrame({m: verdict_series(outcomes[m]) for m in ms}),
            own_assertions=lambda method: frozenset(ids[:1]) if method == "NoRAG" else frozenset(),
        )
        return compare_errors(results, "Block-PKG", **options)

    return compare


def test_types_beyond_the_table_count_as_others():
    assert [table7_row(error) for error in TABLE7] == list(TABLE7)
    assert {table7_row(error) for error in BEYOND} == {"Others"}


def test_errors_are_counted_by_table7_and_named_beyond_it(compared):
    columns = error_types.errors_table(compared(WITHOUT, WITH)).frame["This study"]
    without, with_ = columns["a-model"], columns["+ Block-PKG"]
    rows = ["AssertionError", "NameError", "Others", "all failed", "not measured"]
    assert without[rows].tolist() == ["1", "1", "1", "3", "1"]
    assert with_[rows].tolist() == ["0", "3", "1", "4", "0"]
    assert without["of Others: Timeout"] == "1" and without["of Others: Memory"] == "0"


def test_changes_are_of_the_tasks_that_both_measured(compared):
    changes = error_types.changes_table(compared(WITHOUT, WITH)).frame
    assert changes.loc["NameError"].tolist() == ["1", "2", "+1"]
    assert changes.loc["AssertionError", "change"] == f"{MINUS}1"
    assert changes.loc["all failed"].tolist() == ["3", "3", "0"]


def test_the_cross_table_and_the_agreement_count_every_pair(compared):
    comparison = compared(WITHOUT, WITH)
    endings = error_types.endings_table(comparison).frame
    assert endings.at["passed", "NameError"] == "1" == endings.at["AssertionError", "passed"]
    assert endings.astype(int).to_numpy().sum() == 4
    agreement = error_types.agreement_table(comparison)
    assert agreement.frame.loc["Block-PKG passed"].tolist() == ["0", "1"]
    assert agreement.frame.loc["Block-PKG failed"].tolist() == ["1", "2"]
    assert "1 tasks are not measured" in agreement.notes[0]


def test_messages_of_one_kind_count_together():
    outcomes = dict(enumerate([undefined("x1"), undefined("z"), failed("Timeout", "30 s"), PASSED]))
    table = error_types.messages_table(outcomes).frame
    assert table.loc["NameError"].tolist() == ["2", "2: NameError: name '…' is not defined"]
    assert table.loc["Timeout", "most common messages"] == "1: N s"
    assert error_types.messages_table({}).frame.empty


def test_findings_name_the_errors_of_lost_tasks_and_own_assertions(compared):
    text = "\n".join(error_types.error_findings(compared(WITHOUT, WITH)))
    assert "Of 4 tasks measured in both, 3 fail with NoRAG and 3 with Block-PKG." in text
    assert "NameError 1 to 2 (p = 1.000)" in text and "TypeError" not in text
    assert "Errors of the 1 tasks that only NoRAG solves: NameError 1." in text
    assert "1 of 1 NoRAG" in text


def test_what_is_not_measured_is_not_zero(compared):
    comparison = compared(WITHOUT, [UNKNOWN] * 5)
    column = error_types.errors_table(comparison).frame["This study", "+ Block-PKG"]
    assert column.pop("not measured") == "5" and set(column) == {DASH}
    assert (error_types.changes_table(comparison).frame["Block-PKG"] == DASH).all()
    assert (error_types.agreement_table(comparison).frame == DASH).all(axis=None)
    assert (error_types.stages_table(comparison).frame["Block-PKG"] == DASH).all()
    assert error_types.endings_table(comparison).frame.empty
    assert "no task measured in both" in error_types.error_findings(comparison)[0]
    figure = draw_errors(error_types.settings_counts(comparison), "Errors")
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert {"not measured", DASH} <= set(texts) and "0" not in texts


def test_a_replayed_model_that_is_missing_is_reported_where_others_were_replayed(
    compared, tmp_path
):
    assert len(compared(WITHOUT, WITH, replays="nosuch").settings) == 2
    (tmp_path / "replay" / "other" / "humaneval").mkdir(parents=True)
    assert len(compared(WITHOUT, WITH, replays="other").settings) == 2
    with pytest.raises(Unavailable, match="nosuch"):
        compared(WITHOUT, WITH, replays="nosuch")


@pytest.mark.parametrize("times", [1, 400])
def test_the_figure_is_legible_and_shows_every_total(times):
    names = ["qwen2.5-coder-0.5b-instruct (n=163)", "+ Block-PKG", "deepseek-coder-1.3b-instruct"]
    rows = [[times, 2 * times, 0, times, 0, 3 * times], [0.0] * 6, [float("nan")] * 6]
    counts = pd.DataFrame(rows, names, list(TABLE7), dtype=float)
    shown = legible(draw_errors(counts, "Errors on HumanEval"))
    assert {str(7 * times), "0", DASH, "not measured"} <= set(shown)


FULL = dict.fromkeys(STAGES, True)


def counts(*records):
    """Stage -> (reached, lost, passed anyway, not measured) of tasks that reach all stages but these."""
    frame = pd.DataFrame([FULL | r for r in records], columns=list(STAGES), dtype="boolean")
    return {row[0]: row[1:] for row in stage_counts(frame).itertuples(name=None)}


def test_each_stage_loses_its_own_tasks():
    stages = counts({}, *({s: False, "passed": False} for s in STAGES))
    assert stages["tasks"] == (8, 0, 0, 0)
    assert [stages[s][:2] for s in STAGES] == [(reached, 1) for reached in (7, 6, 5, 4, 3, 2, 1)]


def test_counts_add_up_with_every_kind_of_record():
    kinds = [{s: value} for s in STAGES for value in (False, True)]
    rows = list(counts(*kinds, *[{"passed": None}] * 3).values())
    for (before, *_), (reached, lost, _, unknown) in pairwise(rows):
        assert before == reached + lost + unknown
    assert rows[-1][0] + sum(row[2] for row in rows) == 2 * len(STAGES) - 1 and rows[-1][3] == 3


def test_without_retrieval_there_are_no_context_stages():
    without = {"context found": None, "in the prompt": None}
    assert list(counts(without, without)) == ["tasks", *STAGES[2:]]
    assert [row[0] for row in counts().values()] == [0] * 8


def test_a_task_without_context_can_pass_anyway():
    assert counts({}, {"context found": False})["context found"] == (1, 1, 1, 0)
