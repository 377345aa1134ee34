"""findings: sentences that follow the verdicts and claim nothing that was not measured."""

import pandas as pd
from checks import CODE

from pkg_lib.papers.pkg.findings import changed_tasks, findings


def test_findings_name_a_clear_difference_and_its_direction(verdicts):
    verdicts["None"] = [True] * 20 + [False] * 20
    for name in CODE[1:]:
        verdicts[name] = verdicts["None"]
    verdicts["Func-PKG"] = True
    verdicts["BM25"] = False
    first, above, below, *_ = texts = findings(verdicts, "humaneval")
    assert "20 of 40 tasks are solved: 50.0 %" in first
    assert above.startswith("Above None") and "Func-PKG +50.0 points" in above and "BM25" not in above
    assert below.startswith("Below None") and "BM25 \N{MINUS SIGN}50.0 points" in below
    assert "Highest of the retrieval columns: Func-PKG (100.0 %); lowest: BM25 (0.0 %)." in texts
    assert not any("Ideal" in s for s in texts if "beyond chance" in s)


def test_findings_claim_nothing_from_a_few_changed_tasks(verdicts):
    for name in CODE[1:]:
        verdicts[name] = verdicts["None"]
    verdicts.loc[verdicts.index[:2], "Func-PKG"] = True
    assert not any("beyond chance" in s for s in findings(verdicts, "humaneval"))


def test_findings_without_measurements_say_so(verdicts):
    verdicts[list(CODE[1:])] = pd.NA
    assert findings(verdicts, "humaneval")[1:] == [f"Not measured: {', '.join(CODE[1:])}."]
    verdicts["None"] = pd.NA
    assert "nothing to compare" in findings(verdicts, "humaneval")[-1]


def test_findings_compare_columns_on_the_same_tasks(verdicts):
    """A column measured on easy tasks alone must not look best."""
    for name in CODE:
        verdicts[name] = pd.array([True] * 20 + [False] * 20, dtype="boolean")
    verdicts.loc[verdicts.index[20:], "Dense"] = pd.NA
    texts = findings(verdicts, "humaneval")
    assert any("score 100.0 % on the 20 tasks measured in all" in s for s in texts)
    assert any("Reranked scores 100.0 %, 0.0 points against None" in s for s in texts)
    assert not any("beyond chance" in s for s in texts)


def test_changed_tasks_are_listed_by_id(verdicts):
    verdicts["None"] = [False] * 2 + [True] * 38
    verdicts["BM25"] = [True, False, False] + [True] * 37
    verdicts["Dense"] = pd.NA
    lines = changed_tasks(verdicts).splitlines()
    assert lines[:2] == [
        "- **BM25** helped 1: HumanEval/0; hurt 1: HumanEval/2",
        "- **Dense**: not measured",
    ]
