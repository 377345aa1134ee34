"""RQ3: paired contrasts between units, by hand; what is not measured; the forest plot."""

import pandas as pd
import pytest
from checks import CODE, TEXT, legible
from notebook_code import definitions

from pkg_lib.core.types import Context

RQ3 = definitions("rq3_representation")
paired = RQ3["paired"]


def contexts(column, answers):
    return [Context(f"HumanEval/{i}", column, "x", defines_task=a) for i, a in enumerate(answers)]


def test_a_contrast_is_the_first_column_minus_the_second_on_the_tasks_of_both(verdicts):
    verdicts["Func-BM25"] = [True] * 12 + [False] * 28
    verdicts["BM25"] = pd.array([False] * 10 + [True] * 6 + [False] * 23 + [pd.NA], "boolean")
    row = paired(verdicts).loc["Func-BM25 against BM25"]
    assert (row["n"], row["helped"], row["hurt"]) == (39, 10, 4)
    assert row["difference"] == pytest.approx(6 / 39) and row["low"] < 6 / 39 < row["high"]


def test_holm_is_over_the_contrasts(verdicts):
    rows = paired(verdicts)
    assert len(rows) == 5 and (rows["p_holm"] >= rows["p"]).all()
    smallest = rows["p"].astype(float).idxmin()
    assert rows.at[smallest, "p_holm"] == pytest.approx(min(1, 5 * rows.at[smallest, "p"]))


def test_tasks_with_the_answer_are_left_out_of_the_second_difference(verdicts):
    looked_at = {"BM25": [True] * 10 + [False] * 30, "Func-BM25": [False] * 35 + [None] * 5}
    among = RQ3["without_the_answer"]({c: contexts(c, answers) for c, answers in looked_at.items()})
    assert paired(verdicts, among)["n"].tolist() == [25, 40, 40, 40, 40]


def test_the_papers_differences_stand_beside_ours(verdicts):
    published = RQ3["published_differences"]("humaneval", verdicts)
    assert published.at["Func-BM25 against BM25", "CodeLlama-7B"] == pytest.approx(0.12)
    assert published.loc["Block-PKG against Func-PKG"].mean() == pytest.approx(0.022)
    assert RQ3["published_differences"]("mbpp-all", verdicts).shape == (5, 0)
    text = pd.DataFrame({c: [True, False] for c in TEXT}, ["a", "b"]).astype("boolean")
    assert paired(text).index[0] == "JSON-PKG against BM25"


def forest(verdicts, benchmark="humaneval", title="m"):
    return RQ3["forest"](paired(verdicts), RQ3["published_differences"](benchmark, verdicts), title)


@pytest.mark.parametrize("absent", [[], ["BM25", "Dense"], list(CODE)])
@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp-all"])
def test_the_forest_is_legible(verdicts, benchmark, absent):
    verdicts[absent] = pd.NA
    assert paired(verdicts)["n"].eq(0).any() == bool(absent)
    shown = legible(forest(verdicts, benchmark, f"qwen2.5-coder-0.5b-instruct, {benchmark}"))
    assert ("not measured" in shown) == bool(absent)


def test_the_forest_draws_the_differences(verdicts):
    lines = forest(verdicts).axes[0].lines
    drawn = next(line.get_xdata() for line in lines if line.get_label() == "here, 95 % interval")
    assert drawn == pytest.approx((100 * paired(verdicts)["difference"]).tolist())
