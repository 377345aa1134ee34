"""findings: sentences that follow the verdicts and claim nothing that was not measured."""

import pandas as pd
from checks import CODE

from pkg_lib.analysis.stats import own_function
from pkg_lib.core.types import Context
from pkg_lib.papers.pkg import findings


def test_findings_name_a_clear_difference_and_its_direction(verdicts):
    verdicts["None"] = [True] * 20 + [False] * 20
    for name in CODE[1:]:
        verdicts[name] = verdicts["None"]
    verdicts["Func-PKG"] = True
    verdicts["BM25"] = False
    said = findings.findings(verdicts, "humaneval")
    assert said[0].startswith("Without retrieval (None) 20 of 40 tasks are solved: 50.0 %")
    above = next(s for s in said if s.startswith("Above None"))
    below = next(s for s in said if s.startswith("Below None"))
    assert "Func-PKG +50.0 points" in above and "BM25" not in above
    assert "BM25 \N{MINUS SIGN}50.0 points" in below and "Func-PKG" not in below
    assert "Highest of the retrieval columns: Func-PKG (100.0 %); lowest: BM25 (0.0 %)." in said
    assert "Ideal" not in " ".join(s for s in said if "beyond chance" in s)


def test_findings_claim_nothing_from_a_few_changed_tasks(verdicts):
    for name in CODE[1:]:
        verdicts[name] = verdicts["None"]
    verdicts.loc[verdicts.index[:2], "Func-PKG"] = True
    assert not any("beyond chance" in s for s in findings.findings(verdicts, "humaneval"))


def test_findings_without_measurements_say_so(verdicts):
    verdicts[list(CODE[1:])] = pd.NA
    said = findings.findings(verdicts, "humaneval")
    assert len(said) == 2 and said[1] == f"Not measured: {', '.join(CODE[1:])}."
    verdicts["None"] = pd.NA
    assert "nothing to compare" in findings.findings(verdicts, "humaneval")[-1]


def test_findings_compare_columns_on_the_same_tasks(verdicts):
    """A column measured on easy tasks alone must not look best."""
    for name in CODE:
        verdicts[name] = pd.array([True] * 20 + [False] * 20, dtype="boolean")
    verdicts.loc[verdicts.index[20:], "Dense"] = pd.NA
    said = findings.findings(verdicts, "humaneval")
    assert "All measured retrieval columns score 100.0 % on the 20 tasks measured in all of them." in said
    assert any("Reranked scores 100.0 %, 0.0 points against None" in s for s in said)
    assert not any("beyond chance" in s for s in said)


def test_changed_tasks_and_captions_list_ids_and_counts(verdicts):
    verdicts["None"] = [False] * 2 + [True] * 38
    verdicts["BM25"] = [True, False, False] + [True] * 37
    verdicts["Dense"] = pd.NA
    lines = findings.changed_tasks(verdicts).splitlines()
    assert lines[0] == "- **BM25** helped 1: HumanEval/0; hurt 1: HumanEval/2"
    assert lines[1] == "- **Dense**: not measured"
    assert "BM25 1 helped, 1 hurt" in findings.caption_changes(verdicts)
    assert "None 95.0, BM25 95.0, Dense \N{EN DASH}" in findings.caption_rates(verdicts, "humaneval")


def test_own_function_sentence_keeps_unknown_apart_from_zero():
    known = [Context("a", "BM25", None, defines_task=True), Context("b", "BM25", None, defines_task=False)]
    unknown = [Context("a", "Dense", None)]
    assert findings.own_function_sentence(own_function({"BM25": known, "Dense": unknown})).endswith(
        "asked for: BM25 1 of 2."
    )
    assert "not measured" in findings.own_function_sentence(own_function({"Dense": unknown}))
