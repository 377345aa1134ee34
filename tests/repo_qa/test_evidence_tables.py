"""Differences in evidence recall: which have an interval, and how zero is printed."""

import pandas as pd

from pkg_lib.analysis.tables import DASH
from pkg_lib.papers.dkb.evidence_tables import answers_finding, differences_table, recall_finding
from pkg_lib.papers.dkb.measurement import READING, SOURCE
from pkg_lib.papers.dkb.settings import BASE, OURS, SAME_SIZE


def evidence(recalls, by_source=None):
    """Recall by pipeline and question, listed and by source; the first ten questions are of the kind "local"."""
    rows = []
    for reading, by_pipeline in ((READING, recalls), (SOURCE, by_source or recalls)):
        for pipeline, values in by_pipeline.items():
            for question, value in enumerate(values):
                kind = "local" if question < 10 else "upstream"
                rows.append([pipeline, question, kind, reading, value])
    columns = ["pipeline", "question", "kind", "reading", "recall"]
    return {"repository": "repo", "rows": pd.DataFrame(rows, columns=columns)}


def test_all_questions_are_compared_in_each_reading():
    recalls = {BASE: [0.2] * 12, SAME_SIZE: [0.5] * 12, OURS: [1.0] * 12}
    rows = differences_table(evidence(recalls, recalls | {OURS: [0.25] * 12})).frame["difference"]
    assert rows[f"{OURS} minus {SAME_SIZE} | all"] == "+0.500"
    assert rows[f"{OURS} minus {SAME_SIZE} | all, source"] == "−0.250"


def test_an_interval_needs_ten_questions_that_differ_and_zero_has_no_sign():
    half, all_found = [0.4, 0.6] * 6, [1.0] * 12
    rows = differences_table(evidence({BASE: half, SAME_SIZE: all_found, OURS: all_found})).frame
    interval = rows["95 % interval"]
    assert interval[f"{OURS} minus {BASE} | all"].startswith("+0.4")
    assert interval[f"{OURS} minus {BASE} | local"].startswith("+0.4")
    assert interval[f"{OURS} minus {BASE} | upstream"] == DASH
    assert interval[f"{OURS} minus {SAME_SIZE} | all"] == DASH
    assert rows.loc[f"{OURS} minus {BASE} | upstream", "difference"] == "+0.500"
    assert rows.loc[f"{OURS} minus {SAME_SIZE} | all", "difference"] == "0.000"


def test_answers_are_compared_by_f1_where_both_pipelines_answered():
    rows = [(OURS, n, 0.75) for n in range(12)] + [(BASE, n, 0.5) for n in range(12)]
    scores = pd.DataFrame(rows, columns=["pipeline", "question", "f1"])
    (finding,) = answers_finding({"repo": scores})
    assert "0.75 against 0.50 on repo (p < 0.001)" in finding
    assert answers_finding({"repo": scores[scores["pipeline"] == OURS]}) == []


def test_contexts_are_compared_where_they_were_recorded():
    recalls = {BASE: [0.2] * 12, SAME_SIZE: [0.5] * 12, OURS: [1.0] * 12}
    by_source = recalls | {OURS: [0.5] * 12}
    (finding,) = recall_finding({"repo": evidence(recalls, by_source), "other": None})
    assert "50 % on repo, and vector retrieval" in finding
    assert "that of 50 % (no difference is significant)" in finding
    assert "its share is 100 % (significantly different from vector retrieval on repo, " in finding
    assert "other" not in finding
    assert recall_finding({"other": None}) == []
