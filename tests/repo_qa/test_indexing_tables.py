"""Tables of time and cost: the paper's own repositories have a row for each method."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.store import write_json
from pkg_lib.papers.dkb.indexing_tables import (
    coverage_table,
    indexing_time_table,
    latency_table,
    token_cost_table,
)
from pkg_lib.papers.dkb.number_tables import PAPER_REPOSITORIES

STUDY = SimpleNamespace(
    name="study", index=None, extracted=None, ranked={}, answers={}, chunks={}, model="m"
)


def index(name, **more):
    graph = {"seconds": {"total": 2.5}}
    return {
        "repository": name,
        "files": 3,
        "characters": 1_000_000,
        "processes": 1,
        "processors": 2,
        "load_before": 0.5,
        "seconds": {"read": 0.25, "split": 0.5},
        "graphs": {"resolved": graph},
        **more,
    }


EMBEDDING = {"tokens": 1234, "seconds": 900.0, "processor_seconds": 100.0}


def test_the_time_of_embedding_is_that_of_a_processor_and_both_are_told():
    table = indexing_time_table(
        STUDY, [index("shopizer", embedding=EMBEDDING), index("thingsboard")]
    )
    rows = table.frame
    assert rows.loc["Shopizer, No-Graph"].tolist() == ["100.75", "0.00", "100.75"]
    assert rows.loc["Shopizer, DKB"].tolist() == ["100.75", "2.50", "103.25"]
    assert rows.loc["ThingsBoard, DKB"].tolist() == [DASH, "2.50", DASH]
    assert "Shopizer, LLM-KB" not in rows.index
    assert "Shopizer, LLM-KB" in table.notes[-1]
    assert "100 s of processor time, 900 s of elapsed time" in " ".join(table.notes)


def test_embedded_tokens_of_the_papers_repositories_need_no_model_that_answers(results):
    rows = token_cost_table(
        STUDY, [index("shopizer", embedding=EMBEDDING), index("openjdk-17")]
    ).frame
    for method in ("No-Graph", "DKB"):
        assert rows.loc[f"Shopizer, {method}"].tolist() == ["1,234", "0", "0", *[DASH] * 4]
    assert "Shopizer, LLM-KB" not in rows.index
    assert not any(name.startswith("OpenJDK") for name in rows.index)


def test_recorded_answers_of_the_papers_repositories_have_tokens_and_a_price(results):
    columns = ["pipeline", "question", "precision", "recall", "f1"]
    columns += ["wrong", "invented", "prompt_tokens", "answer_tokens"]
    measured = [1.0, 1.0, 1.0, 0, 0]
    data = [
        ["No-Graph", "S1", *measured, 1_000_000, 100_000],
        ["No-Graph", "S2", *measured, 1_000_000, 100_000],
        ["DKB", "S1", *measured, 4_000_000, 100_000],
        ["DKB", "S2", *measured, 2_000_000, 100_000],
    ]
    scores = {"scores": {"columns": columns, "data": data}}
    write_json(results / "repo_qa" / "shopizer" / "answers" / "m" / "entities.json", scores)
    embedding = EMBEDDING | {"tokens": 2_000_000}
    rows = token_cost_table(STUDY, [index("shopizer", embedding=embedding)]).frame
    # 2 million embedded tokens at 0.15, 2 million read at 0.3 and 0.2 million written at 2.5 dollars.
    assert rows.loc["Shopizer, No-Graph"].tolist()[3:] == ["2,000,000", "200,000", "1.4000", "1.00"]
    assert rows.loc["Shopizer, DKB"].tolist()[3:] == ["6,000,000", "200,000", "2.6000", "1.86"]


def test_a_repository_that_is_studied_keeps_its_own_rows(results):
    """Its rows hold answers, which the rows of the paper's repositories have no place for."""
    measured = {"query_seconds": {"No-Graph": {"S1": 9.0}}}
    studied = SimpleNamespace(**vars(STUDY) | {"name": "shopizer", "ranked": measured})
    other = {"query_seconds": {"No-Graph": {"S1": 1.0}}}
    write_json(results / "repo_qa" / "shopizer" / "evidence.json", other)
    latency = latency_table(studied).frame
    assert latency.loc["Shopizer, No-Graph"].tolist()[1] == "9.0000"
    rows = token_cost_table(studied, [index("shopizer", embedding=EMBEDDING)]).frame
    own = token_cost_table(studied, []).frame
    assert rows.loc["Shopizer, No-Graph"].tolist() == own.loc["Shopizer, No-Graph"].tolist()


def test_the_published_graphs_have_the_papers_node_coverage():
    studied = SimpleNamespace(**vars(STUDY) | {"graph": SimpleNamespace(nodes={})})
    coverage = coverage_table(studied, []).frame["node coverage"]
    assert coverage["published: Shopizer, LLM-KB"] == "0.727"  # Table 5
    assert coverage["published: Shopizer, DKB"] == "1.000"
    assert coverage["published: Shopizer, No-Graph"] == DASH


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    return tmp_path


def test_what_was_not_measured_of_the_papers_repositories_is_named_below_the_table(results):
    seconds = {"No-Graph": {"S1": 1.0, "S2": 3.0}, "DKB": {"S1": 2.0, "S2": 2.0}}
    write_json(results / "repo_qa" / "shopizer" / "evidence.json", {"query_seconds": seconds})
    table = latency_table(STUDY)
    for name, title in PAPER_REPOSITORIES.items():
        for method in ("No-Graph", "DKB", "LLM-KB"):
            row = f"{title}, {method}"
            measured = name == "shopizer" and method in seconds
            assert (row in table.frame.index) == measured
            assert (row in table.notes[-1]) != measured
    assert table.frame.loc["Shopizer, No-Graph"].tolist()[1:3] == [
        "2.0000",
        "1.0000–3.0000",
    ]
