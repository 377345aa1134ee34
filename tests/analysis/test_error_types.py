"""Table 7 and what stands beside it, from outcomes whose counts are known."""

import notebook_code
import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Outcome
from pkg_lib.evaluation.results import STAGES, Results
from tests.golden import copy_inputs

PASSED, UNKNOWN = Outcome("passed"), Outcome("not_measured")


def failed(error, detail=""):
    return Outcome("failed", error, detail)


def undefined(name):
    return failed("NameError", f"NameError: name '{name}' is not defined")


WITHOUT = [PASSED, failed("AssertionError"), undefined("x1"), failed("Timeout"), UNKNOWN]
WITH = [undefined("y22"), PASSED, undefined("x1"), failed("Timeout"), undefined("z")]


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Runs the notebook on five tasks with these outcomes of None and the column; its variables."""

    def run(without, with_):
        def outcomes(self, column):
            by_task = without if column == "NoRAG" else with_
            return {t.id: o for t, o in zip(self.tasks, by_task, strict=True)}

        def records(self, column):
            answers = {"passed": (True,) * 5, "failed": (True,) * 3 + (False,) * 2}
            stages = {"not_measured": (True,) * 4 + (None,)} | answers
            way = {t: (None, None, *stages[o.status]) for t, o in self.outcomes(column).items()}
            return pd.DataFrame.from_dict(way, orient="index", columns=STAGES).astype("boolean")

        def verdicts(self, columns):
            passed = {"passed": True, "failed": False, "not_measured": pd.NA}
            frame = {c: {t: passed[o.status] for t, o in self.outcomes(c).items()} for c in columns}
            return pd.DataFrame(frame, dtype="boolean")

        for method in (outcomes, records, verdicts):
            monkeypatch.setattr(Results, method.__name__, method)
        monkeypatch.setattr(Results, "own_assertions", lambda self, column: frozenset())
        monkeypatch.setenv("PKG_RESULTS", str(copy_inputs(tmp_path)))
        return notebook_code.run("error_types", benchmark="humaneval", limit=5, replays="")

    return run


def test_what_is_not_measured_is_no_zero(shown):
    space = shown(WITHOUT, [UNKNOWN] * 5)
    column = space["counts_table"]["This study", "+ Block-PKG"]
    assert column.pop("not measured") == "5" and set(column) == {DASH}
    assert (space["grid"].frame["Block-PKG"] == DASH).all() and (space["matrix"] == DASH).all(
        axis=None
    )
    assert space["shift"].isna().all(axis=None) and space["pairs"].empty
    texts = [t.get_text() for t in space["figure"].axes[0].texts]
    assert {"not measured", DASH} <= set(texts) and "0" not in texts
