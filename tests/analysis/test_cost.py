"""Tables 8 and 9 and the break-even, from completions and measurements whose numbers are known."""

import json

import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Generation, UserError
from pkg_lib.papers.pkg import cost, table8

GRAPH = {
    **{"functions": 1000, "nodes": 4000, "edges": 4100, "documents": 50, "payloads": 2000, "disk_mb": 900.4},
    **{
        "disk_mb_without_vectors": 100.0,
        "load_s": 1.0,
        "resident_mb": 300.0,
        "encoding": {"texts_per_cpu_s": 10.0},
    },
    "build": {
        "ratio": 2.1,
        "ratio_paused": 2.4,
        "one": {"wall_s": 8.0, "save_s": 2.0, "functions_per_s": 3828.0},
        "two": {"wall_s": 6.0, "functions_per_s": 7187.5},
    },
    "search": {"exact_ms": 90.0, "hnsw": {"128": {"ms": 0.5, "recall_at_1": 0.98}}},
    "pruning": {"median_ms": 10.0, "p99_ms": 30.0},
}


def column(prompt, new, count=4):
    """Completions of `count` tasks, each longer by one token than the one before, in the prompt and in the
    text."""
    tasks = [(str(i), [0] * (new + i), prompt + i) for i in range(count)]
    return {i: Generation(f"k{i}", i, "", tokens, "end", asked) for i, tokens, asked in tasks}


@pytest.fixture
def completions():
    columns = {"None": column(100, 50), "BM25": column(400, 90), "Dense": column(350, 70), "Func-BM25": {}}
    return columns | {"Func-PKG": column(250, 80), "Block-PKG": column(180, 60, 3)}


@pytest.fixture
def results(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    stored = {"graph": GRAPH, "generation": {"model": "m"}, "bm25": {"functions": 500, "build_s": 2.0}}
    for name, value in stored.items():
        (tmp_path / "benchmarks" / f"{name}.json").write_text(json.dumps(value))
    return tmp_path


def test_a_context_adds_its_prompt_minus_that_of_none(completions):
    added = cost.added_tokens(completions)
    assert added["BM25"].tolist() == [300.0] * 4 and added["Block-PKG"].tolist()[:3] == [80.0] * 3
    assert added["Func-BM25"].isna().all() and "None" not in added


def test_the_interval_of_a_mean_holds_it():
    low, high = cost.mean_interval(pd.Series([1.0, 2.0, 6.0]))
    assert low < 3 < high and high - 3 == pytest.approx(3 - low)
    assert cost.mean_interval(pd.Series([2.0, 2.0])) == cost.mean_interval(pd.Series([2.0])) == (2.0, 2.0)


def test_the_speed_is_that_of_the_same_model(results):
    assert cost.rate(results, "m") == {"model": "m"}
    assert cost.rate(results, "another") is None and cost.rate(results / "none", "m") is None


def test_break_even_by_hand(completions, results):
    """210 s to build against 5 s; 100 prompt tokens saved, 10 new ones more, 0.1 s of search, 10 tokens a
    second."""
    saving = {s.name: s for s in cost.savings(completions, results)}["Func-PKG against Dense"]
    assert (saving.tasks, saving.extra_s, saving.prompt, saving.new) == (4, 205.0, 100.0, -10.0)
    assert saving.seconds(10, 1.0) == pytest.approx(8.9)
    assert saving.queries(10, 1.0) == pytest.approx(205 / 8.9) and saving.queries(10, 0.0) == float("inf")
    unknown = cost.savings(completions, results / "none")[0]
    assert unknown.extra_s is None and unknown.queries(10, 1.0) is None
    assert cost.savings({"None": column(1, 1), "Func-PKG": column(2, 1)}, results) == []


def test_break_even_of_the_paper_against_voyage():
    """60 minutes more to build; 344 - 85.5 tokens saved."""
    saving = cost.published_savings()["Block-PKG against Dense"]
    assert saving.extra_s == 3600 and saving.prompt == pytest.approx(258.5)
    assert saving.queries(48.65, 1.0) == pytest.approx(3600 / (258.5 / 48.65))


def test_table_8_with_and_without_the_measurement(results, tmp_path):
    rows = {step: (paper, here) for step, paper, here in table8.table8_rows(GRAPH)}
    assert rows["storage"] == ("12,530 MB", "900 MB") and rows["functions"] == ("115,000", "1,000")
    assert rows["extraction, blocks, graph"] == ("3 min + 25 min + 33 min", "8.0 s (2 processes: 6.0 s)")
    partly = {k: v for k, v in GRAPH.items() if k != "encoding"}
    assert ("encoding", "241 min", DASH) in table8.table8_rows(partly)
    assert {here for _, _, here in table8.table8_rows({})} == {DASH}
    built = table8.build_seconds(results)
    assert (built["PKG"], built["Dense"], table8.function_index_seconds(results)) == (210.0, 5.0, 4.0)
    assert table8.build_seconds(tmp_path / "none") == {}
    assert table8.function_index_seconds(tmp_path / "none") is None
    (results / "benchmarks" / "graph.json").write_text("{")
    with pytest.raises(UserError, match=r"graph\.json is damaged"):
        table8.build_seconds(results)
