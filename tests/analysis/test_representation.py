"""RQ3: paired contrasts between units, by hand; what is not measured; the forest plot."""

import pandas as pd
import pytest
from checks import CODE, legible
from notebook_code import definitions

from pkg_lib.core.types import Context

RQ3 = definitions("rq3_representation")
paired = RQ3["paired"]


def test_tasks_with_the_answer_are_left_out_of_the_second_difference(verdicts):
    defines = {"BM25": [True] * 10 + [False] * 30, "Func-BM25": [False] * 35 + [None] * 5}
    contexts = {
        column: [
            Context(f"HumanEval/{i}", column, "x", defines_task=a) for i, a in enumerate(answers)
        ]
        for column, answers in defines.items()
    }
    assert paired(verdicts, RQ3["without_the_answer"](contexts))["n"].tolist() == [
        25,
        40,
        40,
        40,
        40,
    ]


@pytest.mark.parametrize("absent", [[], ["BM25", "VoyageEmb"], list(CODE)])
@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp-all"])
def test_the_forest_is_legible_and_draws_the_differences(verdicts, benchmark, absent):
    verdicts[absent] = pd.NA
    rows, published = paired(verdicts), RQ3["published_differences"](benchmark, verdicts)
    figure = RQ3["forest"](rows, published, f"qwen2.5-coder-0.5b-instruct, {benchmark}")
    assert ("not measured" in legible(figure)) == bool(absent)
    here = (line for line in figure.axes[0].lines if line.get_label() == "here, 95 % interval")
    assert next(here).get_xdata() == pytest.approx(
        (100 * rows["difference"].dropna()).astype(float).tolist()
    )
