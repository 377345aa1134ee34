"""RQ3: paired contrasts between units, by hand; what is not measured; the forest plot."""

import pandas as pd
import pytest
from checks import CODE, legible
from notebook_code import definitions

from pkg_lib.core.types import Context

RQ3 = definitions("rq3_representation")
paired = RQ3["paired"]


def test_a_contrast_is_the_first_column_minus_the_second_on_the_tasks_of_both(verdicts):
    verdicts["Func-BM25"] = [True] * 12 + [False] * 28
    verdicts["BM25"] = pd.array([False] * 10 + [True] * 6 + [False] * 23 + [pd.NA], "boolean")
    rows = paired(verdicts)
    row = rows.loc["Func-BM25 against BM25"]
    assert (row["n"], row["helped"], row["hurt"]) == (39, 10, 4)
    assert row["difference"] == pytest.approx(6 / 39) and row["low"] < 6 / 39 < row["high"]
    assert len(rows) == 5 and rows["p_holm"].min() == pytest.approx(min(1, 5 * rows["p"].min()))


def test_tasks_with_the_answer_are_left_out_of_the_second_difference(verdicts):
    defines = {"BM25": [True] * 10 + [False] * 30, "Func-BM25": [False] * 35 + [None] * 5}
    contexts = {
        column: [Context(f"HumanEval/{i}", column, "x", defines_task=a) for i, a in enumerate(answers)]
        for column, answers in defines.items()
    }
    assert paired(verdicts, RQ3["without_the_answer"](contexts))["n"].tolist() == [25, 40, 40, 40, 40]


@pytest.mark.parametrize("absent", [[], ["BM25", "Dense"], list(CODE)])
@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp-all"])
def test_the_forest_is_legible_and_draws_the_differences(verdicts, benchmark, absent):
    verdicts[absent] = pd.NA
    rows, published = paired(verdicts), RQ3["published_differences"](benchmark, verdicts)
    figure = RQ3["forest"](rows, published, f"qwen2.5-coder-0.5b-instruct, {benchmark}")
    assert ("not measured" in legible(figure)) == bool(absent)
    here = (line for line in figure.axes[0].lines if line.get_label() == "here, 95 % interval")
    assert next(here).get_xdata() == pytest.approx((100 * rows["difference"].dropna()).astype(float).tolist())
