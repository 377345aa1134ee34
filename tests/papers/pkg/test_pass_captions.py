"""What is said below the figures of Tables 1 to 4, and of contexts that hold the answer."""

import pandas as pd

from pkg_lib.analysis.stats import count_defining_contexts
from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Context
from pkg_lib.papers.pkg.pass_figures import (
    changes_caption,
    changes_title,
    rates_caption,
    rates_title,
)
from pkg_lib.papers.pkg.pass_tables import answer_finding, findings

VERDICTS = pd.DataFrame(
    {
        "NoRAG": [True, True, False, False],
        "BM25": [True, False, True, True],
        "VoyageEmb": [pd.NA] * 4,
    }
).astype("boolean")


def test_captions_hold_the_rate_and_the_changes_of_every_measured_method():
    assert f"NoRAG 50.0, BM25 75.0, VoyageEmb {DASH}" in rates_caption(
        VERDICTS, "HumanEval", "published"
    )
    assert "Voyage-Code-2" in rates_caption(VERDICTS, "HumanEval", "published")
    assert "VoyageEmb" not in rates_caption(VERDICTS[["NoRAG", "BM25"]], "HumanEval", "published")
    caption = changes_caption(VERDICTS)
    assert "BM25 2 helped, 1 hurt" in caption and "VoyageEmb" not in caption
    assert "nothing measured" in changes_caption(VERDICTS[["NoRAG", "VoyageEmb"]])


def test_titles_say_how_the_methods_compare_with_no_retrieval():
    frame = VERDICTS.assign(Reranked=pd.array([pd.NA] * 4, "boolean"))
    assert rates_title(frame) == "No retrieval method solves fewer tasks than NoRAG"
    assert changes_title(frame) == "No retrieval method hurts more tasks than it helps"
    same = frame.assign(BM25=frame["NoRAG"])
    assert rates_title(same) == "Every retrieval method solves as many tasks as NoRAG"
    assert changes_title(same) == "No retrieval method helps or hurts a task"
    frame["VoyageEmb"] = pd.array([False] * 4, "boolean")
    frame["BM25"] = pd.array([True, False, False, False], "boolean")
    assert rates_title(frame) == "Every retrieval method solves fewer tasks than NoRAG"
    assert changes_title(frame) == "Every retrieval method hurts more tasks than it helps"
    frame["Func-BM25"] = frame["NoRAG"]
    assert rates_title(frame) == "2 of 3 retrieval methods solve fewer tasks than NoRAG"
    assert changes_title(frame) == "2 of 3 retrieval methods hurt more tasks than they help"
    unmeasured = VERDICTS.assign(BM25=pd.array([pd.NA] * 4, "boolean"))
    assert rates_title(unmeasured) == "pass@1 by method"
    unmeasured["VoyageEmb"] = pd.array([pd.NA] * 4, "boolean")
    assert changes_title(unmeasured) == "No method with retrieval is measured"


def test_the_first_finding_has_the_rates_and_counts_significant_differences():
    frame = pd.DataFrame({"NoRAG": [True] * 20, "BM25": [False] * 15 + [True] * 5}, dtype="boolean")
    frame["VoyageEmb"] = pd.array([True] * 10 + [False] * 10, "boolean")
    first = findings(frame, "humaneval")[0]
    assert "100.0 % without retrieval (NoRAG) and 25.0 to 50.0 % with" in first
    assert "the rates of both methods are significantly lower" in first
    one = findings(frame[["NoRAG", "BM25"]], "humaneval")[0]
    assert "25.0 % with BM25; on the same tasks, this rate is significantly lower" in one
    higher = frame.assign(VoyageEmb=True, NoRAG=frame["VoyageEmb"])
    assert "the rate of 1 of 2 methods is significantly higher" in findings(higher, "humaneval")[0]


def test_the_first_finding_on_equal_rates_has_no_range_and_no_count_of_zero():
    frame = pd.DataFrame({name: [True, True, False] for name in ("NoRAG", "BM25", "VoyageEmb")})
    first = findings(frame.astype("boolean"), "humaneval")[0]
    assert "66.7 % with each of 2 retrieval methods" in first
    assert "no difference is significant" in first
    assert "0 of" not in first


def test_contexts_that_hold_the_answer_are_counted_among_those_that_were_checked():
    answers = {"BM25": [True, False, None], "VoyageEmb": [None, None]}
    contexts = {
        method: [Context(str(i), method, "x", defines_task=a) for i, a in enumerate(of_method)]
        for method, of_method in answers.items()
    }
    (sentence,) = answer_finding(count_defining_contexts(contexts))
    assert "BM25 1 of 2" in sentence and "VoyageEmb" not in sentence
    (nothing,) = answer_finding(count_defining_contexts({"VoyageEmb": contexts["VoyageEmb"]}))
    assert "not measured" in nothing
