"""Closed models: verdicts read back from a replay, agreement with the paper, gaps that selections close."""

import pandas as pd
import pytest

from pkg_lib.analysis.stats import BASELINE, ORACLE
from pkg_lib.core.store import write_json, write_jsonl
from pkg_lib.core.types import UnavailableError
from pkg_lib.papers.pkg import closed_model_tables as closed
from pkg_lib.papers.pkg.replay import CANDIDATES, CLOSED
from tests.analysis.checks import legible

MODEL = "gpt-4o"


def boolean(**columns):
    return pd.DataFrame(columns, dtype="boolean")


def store(results, method, statuses, published=None):
    """Verdicts of one method on HumanEval as `pkg-lib replay` stores them."""
    rows = []
    for number, status in enumerate(statuses):
        rows.append(
            {
                "task_id": f"HumanEval/{number}",
                "benchmark": "humaneval",
                "method": method,
                "sample": 0,
                "status": status,
                "error": "",
                "detail": "",
                "published": published[number] if published else None,
            }
        )
    write_jsonl(results / "replay" / MODEL / "humaneval" / f"{method}.jsonl.gz", rows)


def test_the_gap_is_measured_from_the_best_method_to_the_oracle():
    candidates = boolean(**{BASELINE: [1, 1, 0, 0, 0], "B": [0, 0, 1, 1, 0]})
    half = pd.Series([1, 1, 1, 0, 0], dtype="boolean")
    gap = closed.gap_closed(half, candidates)
    assert (gap.n, gap.value) == (5, 0.5) and gap.low < 0.5 <= gap.high
    assert closed.gap_closed(half, candidates[[BASELINE]]) is None
    assert closed.gap_closed(half.mask(half.notna()), candidates) is None


def test_verdicts_are_read_by_model_and_a_limit_takes_the_first_tasks(tmp_path):
    store(tmp_path, "no_rag", ["passed", "failed", "not_measured"])
    store(tmp_path, "voyage_func", ["failed", "passed", "passed"])
    frame = closed.replayed_verdicts(tmp_path, [MODEL], "humaneval")[MODEL]
    assert frame[BASELINE].tolist()[:2] == [True, False] and frame[BASELINE].isna().sum() == 1
    assert frame["Block-PKG"].isna().all(), "a method without samples is not measured"
    limited = closed.replayed_verdicts(tmp_path, [MODEL], "humaneval", limit=1)[MODEL]
    assert list(limited.index) == ["HumanEval/0"]
    assert closed.replayed_verdicts(tmp_path, [MODEL], "mbpp") == {}
    with pytest.raises(UnavailableError, match="another"):
        closed.replayed_verdicts(tmp_path, ["another"], "humaneval")


def test_the_table_has_the_measured_row_first_and_then_the_published_ones(tmp_path):
    store(tmp_path, "no_rag", ["passed", "failed"])
    verdicts = closed.replayed_verdicts(tmp_path, [MODEL], "humaneval")
    frame = closed.closed_pass_table(verdicts, "humaneval").frame
    assert frame.index[0] == (closed.REPLAYED_GROUP, MODEL)
    assert frame.iloc[0][BASELINE].value == 50.0
    printed = frame.xs("GPT-4o", level="Model").iloc[0]
    assert printed[BASELINE].text == "88.4"
    assert closed.closed_pass_table({}, "humaneval").frame.shape[0] == len(frame) - 1


def test_agreement_counts_published_verdicts_and_says_which_cells_differ(tmp_path):
    store(tmp_path, "no_rag", ["passed", "failed", "not_measured"], [True, True, True])
    verdicts = {"humaneval": closed.replayed_verdicts(tmp_path, [MODEL], "humaneval")}
    (sentence,) = closed.agreement_findings(tmp_path, verdicts)
    assert sentence.startswith("1 of 2 "), "what was not measured is not compared"
    store(tmp_path, "no_rag", ["passed", "failed"], [True, True])
    verdicts = {"humaneval": closed.replayed_verdicts(tmp_path, [MODEL], "humaneval")}
    _, cells, different = closed.agreement_findings(tmp_path, verdicts)
    assert "0 of 1 " in cells and "50.0 here, 88.4 in the paper" in different


def test_only_differences_beyond_chance_are_named():
    clear = boolean(**{BASELINE: [False] * 40, "Func-PKG": [True] * 40})
    (sentence,) = closed.closed_differences_finding({"humaneval": {MODEL: clear}})
    assert sentence.startswith("1 of 1 ")
    assert f"Func-PKG of {MODEL} on HumanEval (+100.0 percentage points)" in sentence
    equal = clear.assign(**{"Func-PKG": clear[BASELINE]})
    (sentence,) = closed.closed_differences_finding({"humaneval": {MODEL: equal}})
    assert sentence.startswith("None of 1 ")
    assert "Func-PKG" not in sentence
    table = closed.closed_differences_table({MODEL: clear}, "humaneval").frame
    assert table.loc[f"{MODEL}, Func-PKG", ["difference", "helped", "hurt"]].tolist() == [
        "+100.0",
        "40",
        "0",
    ]


def test_selections_without_signals_are_not_measured(tmp_path):
    frame = boolean(**{method: [True, False] for method in CANDIDATES})
    frame.index = ["HumanEval/0", "HumanEval/1"]
    rows = closed.closed_selections_table({MODEL: frame}, tmp_path, "humaneval").frame
    assert rows.loc[f"{MODEL}, by visible examples", "tasks"] == "0"
    assert rows.loc[f"{MODEL}, {ORACLE}", "pass@1"] == "50.0"


def test_the_figure_is_legible_with_and_without_models():
    frame = boolean(**{method: [True, False] * 20 for method in CLOSED})
    shown = legible(closed.closed_rates({MODEL: frame, "claude": frame}, "humaneval"))
    assert {MODEL, "claude", *CLOSED} <= set(shown)
    assert MODEL not in legible(closed.closed_rates({}, "humaneval"))


def test_provenance_has_the_marker_of_each_method(tmp_path):
    write_json(tmp_path / "replay" / MODEL / "mbpp" / "bm25.done.json", {"key": "k"})
    assert closed.replay_provenance(tmp_path, [MODEL]) == {MODEL: {"mbpp/bm25": {"key": "k"}}}
