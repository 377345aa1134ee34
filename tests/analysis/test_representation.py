"""RQ3: paired contrasts between units, by hand; what is not measured; the forest plot."""

import pandas as pd
import pytest
from checks import legible

from pkg_lib.analysis.figures import save_figure
from pkg_lib.analysis.tables import CODE, TEXT
from pkg_lib.core.types import Context
from pkg_lib.papers.pkg import representation as rq3


def contexts(column, answers):
    return [Context(f"HumanEval/{i}", column, "x", defines_task=a) for i, a in enumerate(answers)]


def test_a_contrast_is_the_first_column_minus_the_second_on_the_tasks_of_both(verdicts):
    verdicts["Func-BM25"] = [True] * 12 + [False] * 28
    verdicts["BM25"] = pd.array([False] * 10 + [True] * 6 + [False] * 23 + [pd.NA], "boolean")
    row = rq3.paired(verdicts).loc["Func-BM25 against BM25"]
    assert (row["n"], row["helped"], row["hurt"]) == (39, 10, 4)
    assert row["difference"] == pytest.approx(6 / 39) and row["low"] < 6 / 39 < row["high"]


def test_holm_is_over_the_contrasts(verdicts):
    rows = rq3.paired(verdicts)
    assert len(rows) == 5 and (rows["p_holm"] >= rows["p"]).all()
    smallest = rows["p"].astype(float).idxmin()
    assert rows.at[smallest, "p_holm"] == pytest.approx(min(1, 5 * rows.at[smallest, "p"]))


def test_tasks_with_the_answer_are_left_out_of_the_second_difference(verdicts):
    looked_at = {"BM25": [True] * 10 + [False] * 30, "Func-BM25": [False] * 35 + [None] * 5}
    among = rq3.without_the_answer({c: contexts(c, answers) for c, answers in looked_at.items()})
    assert rq3.paired(verdicts, among)["n"].tolist() == [25, 40, 40, 40, 40]


def test_the_papers_differences_stand_beside_ours(verdicts):
    published = rq3.published_differences("humaneval", verdicts)
    assert published.at["Func-BM25 against BM25", "CodeLlama-7B"] == pytest.approx(0.12)
    assert published.loc["Block-PKG against Func-PKG"].mean() == pytest.approx(0.022)
    assert rq3.published_differences("mbpp-all", verdicts).shape == (5, 0)
    text = pd.DataFrame({c: [True, False] for c in TEXT}, ["a", "b"]).astype("boolean")
    assert rq3.paired(text).index[0] == "JSON-PKG against BM25"


@pytest.mark.parametrize("absent", [[], ["BM25", "Dense"], list(CODE)])
@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp-all"])
def test_the_forest_is_legible(verdicts, benchmark, absent):
    verdicts[absent] = pd.NA
    assert rq3.paired(verdicts)["n"].eq(0).any() == bool(absent)
    shown = legible(rq3.forest(verdicts, benchmark, f"qwen2.5-coder-0.5b-instruct, {benchmark}"))
    assert ("not measured" in shown) == bool(absent)


def test_the_forest_draws_the_differences_and_the_same_bytes(verdicts, tmp_path):
    lines = rq3.forest(verdicts, "humaneval", "m").axes[0].lines
    drawn = next(line.get_xdata() for line in lines if line.get_label() == "here, 95 % interval")
    assert drawn == pytest.approx((100 * rq3.paired(verdicts)["difference"]).tolist())
    a, b = (save_figure(rq3.forest(verdicts, "humaneval", "m"), tmp_path / n) for n in "ab")
    assert all(a[k].read_bytes() == b[k].read_bytes() for k in a)
