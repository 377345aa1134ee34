"""Tables 8 and 9 and the break-even, from completions and measurements whose numbers are known."""

import json
import math

import pytest
from notebook_code import definitions

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import Generation, UserError
from pkg_lib.papers.pkg import cost

COST = definitions("cost")
COST["per_second"] = 10.0
COUNTS = {"functions": 1000, "nodes": 4000, "edges": 4100, "documents": 50, "payloads": 2000}
GRAPH = COUNTS | {
    "disk_mb": 900.4,
    "encoding": {"texts_per_cpu_s": 10.0},
    "build": {"one": {"wall_s": 8.0, "save_s": 2.0}, "two": {"wall_s": 6.0}},
    "search": {"exact_ms": 90.0, "hnsw": {"128": {"ms": 0.5}}},
}


def column(prompt, new, count=4):
    """Completions of `count` tasks, prompt and text of each one token longer than of the one before."""
    tasks = [(str(i), [0] * (new + i), prompt + i) for i in range(count)]
    return {i: Generation(f"k{i}", i, "", tokens, "end", asked) for i, tokens, asked in tasks}


COMPLETIONS = {"NoRAG": column(100, 50), "VoyageEmb": column(350, 70), "Func-BM25": {}}
COMPLETIONS |= {"Func-PKG": column(250, 80), "Block-PKG": column(180, 60, 3)}


def savings(completions, built):
    asked = cost.token_counts(completions, lambda g: g.prompt_tokens)
    written = cost.token_counts(completions, lambda g: len(g.tokens))
    return {s.name: s for s in COST["saved_here"](asked, written, built, 0.1).itertuples()}


def test_break_even_by_hand():
    """210 s to build against 5 s; 100 prompt tokens saved, 10 new ones more, 0.1 s of search, 10 tokens a
    second."""
    built, until = cost.build_seconds(GRAPH), COST["queries_until"]
    assert (built["PKG"], built["VoyageEmb"]) == (210.0, 5.0) and cost.build_seconds({}) == {}
    saving = savings(COMPLETIONS, built)["Func-PKG against VoyageEmb"]
    assert (saving.tasks, saving.extra_s, saving.prompt, saving.new) == (4, 205.0, 100.0, -10.0)
    assert COST["seconds_saved"](saving, 1.0) == pytest.approx(8.9)
    assert until(saving, 1.0) == pytest.approx(205 / 8.9) and until(saving, 0.0) == math.inf
    unknown = savings(COMPLETIONS, {})["Func-PKG against VoyageEmb"]
    assert math.isnan(until(unknown, 1.0)) and COST["queries"](math.nan) == DASH
    assert savings({"NoRAG": column(1, 1), "Func-PKG": column(2, 1)}, built) == {}


def test_table_8_with_and_without_the_measurement(tmp_path):
    rows = {step: (paper, here) for step, paper, here in cost.table8_rows(GRAPH)}
    assert rows["storage"] == ("12,530 MB", "900 MB") and rows["functions"] == ("115,000", "1,000")
    assert rows["extraction, blocks, graph"] == (
        "3 min + 25 min + 33 min",
        "8.0 s (2 processes: 6.0 s)",
    )
    partly = {k: v for k, v in GRAPH.items() if k != "encoding"}
    assert ("encoding", "241 min", DASH) in cost.table8_rows(partly)
    assert {here for _, _, here in cost.table8_rows(cost.stored(tmp_path, "graph"))} == {DASH}
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "graph.json").write_text("{")
    with pytest.raises(UserError, match=r"graph\.json, line 1 is damaged"):
        cost.stored(tmp_path, "graph")


def log_of(results, corpus, **changed):
    log = {"asked": 500, "seconds": 1000.0, "model": "m", "corpus": corpus}
    (results / "enhanced" / "m").mkdir(parents=True, exist_ok=True)
    (results / "enhanced" / "m" / f"{corpus}.log.json").write_text(json.dumps(log | changed))


def test_table_8_has_the_enhancement_of_the_papers_first_version(tmp_path):
    """500 functions took 1,000 s, so 1,000 take 2,000 s."""
    log_of(tmp_path, "a")
    log_of(tmp_path, "b", asked=20, seconds=1.0)
    log = cost.stored_enhancement(tmp_path)
    rows = {step: (paper, here) for step, paper, here in cost.table8_rows(GRAPH, log)}
    assert rows["enhancement"] == ("5,150 min", "2.0 s a function: 33 min (estimate)")
    assert cost.enhancement_seconds(log, 1000) == 2000.0
    (without_graph,) = [
        here for step, _, here in cost.table8_rows({}, log) if step == "enhancement"
    ]
    assert without_graph == "2.0 s a function"
    assert "500 functions" in cost.enhancement_note(log) and "m was asked" in cost.enhancement_note(
        log
    )


def test_an_enhancement_that_was_not_measured_is_a_dash_and_a_damaged_log_one_line(tmp_path):
    log_of(tmp_path, "none", asked=0, seconds=0.0)
    log = cost.stored_enhancement(tmp_path)
    assert log == {} and math.isnan(cost.enhancement_seconds(log, 1000))
    assert ("enhancement", "5,150 min", DASH) in cost.table8_rows(GRAPH, log)
    assert COST["estimate"](math.nan) == DASH
    log_of(tmp_path, "damaged", asked="many")
    with pytest.raises(UserError, match=r"damaged\.log\.json"):
        cost.stored_enhancement(tmp_path)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(12, "12 s"), (3600, "60 min"), (10440, "2.9 h"), (None, DASH), (math.nan, DASH)],
)
def test_durations(seconds, text):
    assert cost.duration(seconds) == text


def test_scale_by_hand():
    """2 texts a function; 1,000 functions as measured, then a million."""
    graph = GRAPH | {"disk_mb": 7.0, "disk_mb_without_vectors": 1.0}
    graph |= {
        "search": GRAPH["search"]
        | {"exact_rows": 4000, "hnsw_rows": 2000, "hnsw_links": 32, "hnsw_build_s": 3.0}
    }
    rows = {"functions": 500, "build_s": 0.05, "ours_ms_per_query": 0.1}
    found = COST["stages"](10**6, graph, rows)
    assert found["graph"] == pytest.approx((1e9, 10_000.0, None))
    assert found["encoding"] == pytest.approx((6e9, 200_000.0, None))
    assert found["index, exact"] == pytest.approx((6e9, 0.0, 45.0))
    assert found["index, HNSW"][0] == 6e9 + 2e6 * 256 and found["index, IVF-PQ"][0] == 2e6 * 72
    assert found["index, BM25"] == pytest.approx((None, 100.0, 0.2))
    cells = COST["scale_row"]("encoding", *found["encoding"])
    assert cells == ["6 GB", "55.6 h", "1", "2.78", "0.60", DASH]
    held = COST["scale_row"]("index, exact", 65e9, 0.0, 45.0)
    assert held == ["65 GB", "0 s", "2", "0.00", "1,168.00", "45.0000"]


def test_the_page_on_scale_says_what_the_notebook_computes():
    """Where it fails, a measurement was made again: copy what the notebook shows into docs/scale.md."""
    graph, rows, *others = (
        cost.stored(ROOT / "results", n) for n in ("graph", "bm25", "generation", "sandbox")
    )
    page = (ROOT / "docs" / "scale.md").read_text("utf8")
    assert COST["scale_grid"](10**8, graph, rows, *others).markdown().strip() in page
    assert all(f"- {said}\n" in page for said in COST["scale_findings"](10**8, graph, rows))
    search = cost.stored(ROOT / "results", "code_search")
    fewer = search["variations"]["with 10,000 of the distractors"]["MiniLM"]["mrr_at_10"]
    assert (
        f"{fewer:.3f} among 10,500 candidates and {search['methods']['MiniLM']['mrr_at_10']:.3f}"
        in page
    )
