"""RQ3: paired contrasts between units, by hand; what is not measured; the forest plot."""

import pandas as pd
import pytest
from checks import legible

from pkg_lib.analysis.figures import save_figure
from pkg_lib.analysis.tables import CODE, DASH, TEXT
from pkg_lib.core.types import Context
from pkg_lib.papers.pkg import representation as rq3

MINUS = "\N{MINUS SIGN}"


def contexts(column, answers):
    return [Context(f"HumanEval/{i}", column, "x", defines_task=a) for i, a in enumerate(answers)]


def test_a_contrast_is_the_first_column_minus_the_second_on_the_tasks_of_both(verdicts):
    verdicts["Func-BM25"] = [True] * 12 + [False] * 28
    verdicts["BM25"] = pd.array([False] * 10 + [True] * 6 + [False] * 23 + [pd.NA], "boolean")
    row = rq3.paired(verdicts).loc["function against row, BM25"]
    assert (row["n"], row["helped"], row["hurt"]) == (39, 10, 4)
    assert row["difference"] == pytest.approx(6 / 39) and row["low"] < 6 / 39 < row["high"]


def test_holm_is_over_the_contrasts(verdicts):
    found = rq3.paired(verdicts)
    assert len(found) == 5 and (found["p_holm"] >= found["p"]).all()
    smallest = found["p"].astype(float).idxmin()
    assert found.at[smallest, "p_holm"] == pytest.approx(min(1, 5 * found.at[smallest, "p"]))


def test_tasks_with_the_answer_are_left_out_of_the_second_difference(verdicts):
    among = rq3.without_the_answer(
        {
            "BM25": contexts("BM25", [True] * 10 + [False] * 30),
            "Func-BM25": contexts("Func-BM25", [False] * 35 + [None] * 5),
        }
    )
    assert rq3.paired(verdicts, among)["n"].tolist() == [25, 40, 40, 40, 40]
    row = rq3.contrast_grid(verdicts, "humaneval", among).frame.loc["Func-BM25 against BM25"]
    assert row["tasks"] == "40" and row["tasks without the answer"] == "25"


def test_the_papers_differences_stand_beside_ours(verdicts):
    theirs = rq3.published_differences("humaneval", verdicts)
    assert theirs.at["function against row, BM25", "CodeLlama-7B"] == pytest.approx(0.12)
    row = rq3.contrast_grid(verdicts, "humaneval", {}).frame.loc["Block-PKG against Func-PKG"]
    assert row["published average"] == "+2.2" and row["published models above 0"] == "4 of 5"
    assert rq3.contrast_grid(verdicts, "mbpp-all", {}).frame["published average"].tolist() == [DASH] * 5


def test_what_is_not_measured_is_a_dash_and_said(verdicts):
    verdicts["Dense"] = pd.NA
    frame = rq3.contrast_grid(verdicts, "humaneval", {}).frame
    assert frame.loc["Func-PKG against Dense"].tolist()[:9] == [DASH] * 9
    said = rq3.findings(verdicts, "humaneval", {})
    assert (
        said[-1]
        == "Not measured: Func-PKG against Dense; Block-PKG against Dense; Reranked against Block-PKG."
    )


def test_findings_follow_the_verdicts(verdicts):
    verdicts[["BM25", "Dense"]] = False
    verdicts["Func-BM25"] = [True] * 20 + [False] * 20
    verdicts["Func-PKG"] = verdicts["Block-PKG"] = [True] * 10 + [False] * 30
    said = rq3.findings(
        verdicts, "humaneval", rq3.without_the_answer({"Func-BM25": contexts("Func-BM25", [False] * 40)})
    )
    assert said[0].startswith("The first is better beyond chance: Func-BM25 against BM25 +50.0 points")
    assert any("Lowest is a row." in s for s in said)
    assert any(s.startswith("On tasks for which neither context defines") for s in said)
    turned = verdicts.assign(BM25=True, Dense=True)
    assert any(
        s.startswith("The first is worse beyond chance: Func-BM25")
        for s in rq3.findings(turned, "humaneval", {})
    )
    assert any("Lowest is a function and a block." in s for s in rq3.findings(turned, "humaneval", {}))


def test_units_bring_tokens_cuts_and_answers(verdicts):
    known = {"BM25": contexts("BM25", [True, False, None])}
    grid = rq3.unit_grid(verdicts, known, pd.DataFrame({"BM25": [100.0, 201.0], "Dense": [float("nan")] * 2}))
    assert grid.frame.loc["BM25"].tolist()[3:] == ["150", "0", "1 of 2"]
    assert grid.frame.loc["Dense"].tolist()[3:] == [DASH] * 3
    assert grid.frame["unit"].tolist() == ["row", "row", "function", "function", "block"]


def test_text_corpora_have_contrasts_of_their_own():
    frame = pd.DataFrame({c: [True, False] for c in TEXT}, ["a", "b"]).astype("boolean")
    assert rq3.contrast_grid(frame, "humaneval", {}).frame.index[0] == "JSON-PKG against BM25"


@pytest.mark.parametrize("absent", [[], ["BM25", "Dense"], list(CODE)])
@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp", "mbpp-all"])
def test_the_forest_is_legible(verdicts, benchmark, absent):
    verdicts[absent] = pd.NA
    shown = legible(rq3.forest(verdicts, benchmark, f"qwen2.5-coder-0.5b-instruct, {benchmark}"))
    assert ("not measured" in shown) == bool(absent)


def test_the_forest_draws_the_differences_and_the_same_bytes(verdicts, tmp_path):
    figure = rq3.forest(verdicts, "humaneval", "m")
    points = next(
        line.get_xdata() for line in figure.axes[0].lines if line.get_label() == "here, 95 % interval"
    )
    assert points == pytest.approx((100 * rq3.paired(verdicts)["difference"]).tolist())
    a, b = (save_figure(rq3.forest(verdicts, "humaneval", "m"), tmp_path / n) for n in "ab")
    assert all(a[k].read_bytes() == b[k].read_bytes() for k in a)
