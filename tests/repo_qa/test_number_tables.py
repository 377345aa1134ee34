"""Tables of numbers beside the published ones, and what was recorded of repositories."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pkg_lib.analysis.tables import DASH, MINUS
from pkg_lib.core.store import write_json
from pkg_lib.core.types import UserError
from pkg_lib.papers.dkb.number_tables import (
    NAN,
    PAPER_REPOSITORIES,
    STUDIED,
    graph_size,
    number_table,
    published_rows,
    recorded,
    recorded_evidence,
    recorded_indexes,
)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The results directory, without anything recorded."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    return tmp_path


def record(results, name, what, content):
    write_json(results / "repo_qa" / name / f"{what}.json", content)


def test_every_column_has_its_decimals_and_text_stays():
    columns = {"count": 0, "share": 3, "p": 2}
    rows = {"first": [1234.5678, 0.5, "< 0.001"], "second": [NAN, -0.25, None]}
    table = number_table("Title", "row", columns, rows, "a note")
    assert table.frame.loc["first"].tolist() == ["1,235", "0.500", "< 0.001"]
    assert table.frame.loc["second"].tolist() == [DASH, f"{MINUS}0.250", DASH]
    assert list(table.frame) == list(columns)
    assert table.frame.index.name == "row"
    assert table.notes == ("a note",)


def test_a_row_that_is_too_short_is_refused():
    with pytest.raises(ValueError):
        number_table("Title", "row", {"a": 0, "b": 0}, {"first": [1]})


def test_published_numbers_are_read_by_row():
    repositories = {row.repository for row in published_rows("table1_indexing")}
    assert set(PAPER_REPOSITORIES.values()) <= repositories
    assert all(row.graph_time_s >= 0 for row in published_rows("table1_indexing"))


def test_the_size_of_a_graph_adds_up_its_kinds():
    graph = {
        "nodes": {"class": 3, "enum": 1},
        "edges": {"injects": 2},
        "skipped": {"no Java": 5},
        "chunks_of_files_with_a_node": 7,
    }
    size = graph_size({"graphs": {"resolved": graph}}, "resolved")
    assert size == (4, 2, 5, 7)


def test_what_is_recorded_is_read_and_a_studied_repository_may_be_missing(results):
    record(results, "mine", "index", {"files": 3})
    assert recorded("mine", "index") == {"files": 3}
    assert all(recorded(name, "index") is None for name in STUDIED)
    assert recorded_evidence(STUDIED[0]) is None


def test_an_unknown_repository_is_reported_with_those_that_are_recorded(results):
    with pytest.raises(UserError, match=STUDIED[0]):
        recorded("mine", "index")
    record(results, "other", "index", {})
    with pytest.raises(UserError, match="other"):
        recorded("mine", "index")


def test_graphs_are_the_study_s_the_large_one_s_and_the_paper_s(results):
    study = SimpleNamespace(index={"repository": "study"})
    for name in ("large", *PAPER_REPOSITORIES):
        record(results, name, "index", {"repository": name})
    indexes = recorded_indexes(study, "large")
    assert [index["repository"] for index in indexes] == ["study", "large", *PAPER_REPOSITORIES]


def test_graphs_that_were_not_measured_are_left_out(results):
    assert recorded_indexes(SimpleNamespace(index=None), "openjdk-17") == []


def test_recorded_contexts_become_tables(results):
    split = {"columns": ["pipeline", "recall"], "data": [["DKB", 0.5]]}
    record(results, "mine", "evidence", {"rows": split, "variants": split, "k": 10})
    evidence = recorded_evidence("mine")
    assert evidence["repository"] == "mine"
    assert evidence["k"] == 10
    for table in ("rows", "variants"):
        assert evidence[table].to_dict("list") == {"pipeline": ["DKB"], "recall": [0.5]}
