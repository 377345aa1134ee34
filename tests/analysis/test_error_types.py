"""Table 7 and what stands beside it, from made-up outcomes whose counts are known."""

import notebook_code
import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Outcome
from pkg_lib.experiment.run import Run
from pkg_lib.experiment.waterfall import TaskRecord
from tests.golden import copy_inputs

FAILED = "failed"
NAME_ERROR = "NameError: name '{}' is not defined"
WITHOUT = [
    Outcome("passed"),
    Outcome(FAILED, "AssertionError", "AssertionError | failing: assert f(1) == 2"),
    Outcome(FAILED, "NameError", NAME_ERROR.format("x1")),
    Outcome(FAILED, "Timeout"),
    Outcome("not_measured"),
]
WITH = [Outcome(FAILED, "NameError", NAME_ERROR.format("y22")), Outcome("passed"), *WITHOUT[2:4]]
WITH += [Outcome(FAILED, "NameError", NAME_ERROR.format("z"))]


def test_counts_name_every_failure_once():
    notebook = notebook_code.definitions("error_types")
    counts = notebook["error_counts"](dict(enumerate(WITHOUT)))
    assert counts.sum() == 3 and counts["Timeout"] == counts["NameError"] == counts["AssertionError"] == 1
    assert notebook["as_published"](counts).to_dict() == {
        **dict.fromkeys(counts.index[:5], 0),
        "AssertionError": 1,
        "NameError": 1,
        "Others": 1,
    }


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Runs the notebook on five tasks with these outcomes of None and of the column; gives its variables."""

    def run(without, with_):
        def outcomes(self, column):
            made = without if column == "None" else with_
            return {t.id: o for t, o in zip(self.tasks, made, strict=True)}

        def records(self, column):
            stages = {
                "passed": (True,) * 5,
                "failed": (True, True, True, False, False),
                "not_measured": (True,) * 4,
            }
            return [
                TaskRecord(t, None, None, *(*stages[o.status], None)[:5])
                for t, o in self.outcomes(column).items()
            ]

        def verdicts(self, columns):
            passed = {"passed": True, "failed": False, "not_measured": pd.NA}
            frame = {c: {t: passed[o.status] for t, o in self.outcomes(c).items()} for c in columns}
            return pd.DataFrame(frame, dtype="boolean")

        for method in (outcomes, records, verdicts):
            monkeypatch.setattr(Run, method.__name__, method)
        monkeypatch.setattr(Run, "own_assertions", lambda self, column: frozenset())
        monkeypatch.setenv("PKG_RESULTS", str(copy_inputs(tmp_path)))
        return notebook_code.run("error_types", benchmark="humaneval", limit=5, replays="")

    return run


def test_shift_fates_and_findings_count_the_tasks_measured_in_both(shown):
    found = shown(WITHOUT, WITH)
    shift = found["shift"].astype(object)
    assert list(shift.loc["NameError"]) == [1, 2, 1] and list(shift.loc["AssertionError"]) == [1, 0, -1]
    pairs = found["pairs"]
    assert pairs.to_numpy().sum() == 4
    assert pairs.at["passed", "NameError"] == 1 and pairs.at["AssertionError", "passed"] == 1
    assert found["total"] == "Of 4 tasks measured in both, 3 fail with None and 3 with Block-PKG."
    assert found["kinds"] == [("NameError", 1)]
    assert found["matrix"].to_numpy().tolist() == [["0", "1"], ["1", "2"]]
    assert found["counts_table"].at["not measured", ("This study", found["model"])] == "1"
    assert found["counts_table"].at["of Others: Timeout", ("This study", found["model"])] == "1"


def test_what_is_not_measured_is_no_zero(shown):
    found = shown(WITHOUT, [Outcome("not_measured")] * 5)
    column = found["counts_table"]["This study", "+ Block-PKG"]
    assert column.pop("not measured") == "5" and set(column) == {DASH}
    assert (found["grid"].frame["Block-PKG"] == DASH).all()
    assert (found["matrix"] == DASH).all(axis=None)
    assert found["shift"].isna().all(axis=None) and found["pairs"].empty
    texts = [t.get_text() for t in found["figure"].axes[0].texts]
    assert {"not measured", DASH} <= set(texts) and "0" not in texts


def test_messages_of_one_kind_count_together():
    messages = notebook_code.definitions("error_types")["common_messages"]
    table = messages({"a": WITH[0], "c": WITHOUT[2], "d": WITHOUT[3], "e": WITHOUT[0]}).frame
    assert table.at["NameError", "most common messages"] == "2: NameError: name '…' is not defined"
    assert table.at["Timeout", "failed"] == "1" and "passed" not in table.index
    assert messages({}).frame.empty
