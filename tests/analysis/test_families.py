"""Which columns the notebooks compare: as many candidates of each family, and whole rounds alone."""

from types import SimpleNamespace

import pandas as pd
import pytest
from notebook_code import function

DRAWS = [f"None, T0.8, {n}" for n in range(1, 6)]


@pytest.mark.parametrize(
    ("retrieved", "draws", "expected"),
    [
        (
            "BM25 Dense Func-BM25 Func-PKG Block-PKG",
            5,
            ("Dense Func-BM25 Func-PKG Block-PKG", 4, "Func-PKG Block-PKG", 2),
        ),
        (
            "Dense Func-BM25 Func-PKG Block-PKG",
            4,
            ("Dense Func-BM25 Func-PKG Block-PKG", 4, "Func-PKG Block-PKG", 2),
        ),
        ("BM25 Dense JSON-PKG", 5, ("BM25 Dense JSON-PKG", 3, "Dense JSON-PKG", 1)),
        ("Func-PKG Block-PKG", 0, ("Func-PKG Block-PKG", 0, "", 0)),
    ],
)
def test_families_have_equally_many_candidates(retrieved, draws, expected):
    known = pd.DataFrame(columns=["None", *retrieved.split(), *DRAWS[:draws]])
    found = function("what_helps", "families", verdicts={"m": known}, BASELINE="None", SIZE=5)("m")
    ours, samples, half, drawn = expected
    wanted = {"retrieval": ours.split(), "samples": DRAWS[:samples], "both": [*half.split(), *DRAWS[:drawn]]}
    assert found == {name: ["None", *of] for name, of in wanted.items() if of}
    assert len({len(of) for of in found.values()}) == 1


def test_a_round_that_some_tasks_lack_is_none():
    """They are those that failed before, so that it would look better than it is."""
    judged = {"EVOR@0": "ab", "EVOR@1": "ab", "EVOR@2": "a", "None": "a"}
    run = SimpleNamespace(
        file=lambda folder, column: SimpleNamespace(exists=lambda: column in judged),
        verdicts=lambda columns: pd.DataFrame({c: pd.Series(True, [*judged[c]]) for c in columns}),
    )
    space = {"runs": {"m": run}, "TASKS": {"m": pd.Index(["a", "b"])}}
    space["verdicts"] = function("evor", "verdicts", **space)
    rounds = function("evor", "rounds", **space)
    assert rounds("m", "EVOR") == ["EVOR@0", "EVOR@1"]
    assert rounds("m", "None") == ["None"] and rounds("m", "MPSC") == []
