"""Tables 8 and 9 and the break-even, from completions and measurements whose numbers are known."""

import json
import math
from types import SimpleNamespace

import pandas as pd
import pytest
from checks import legible

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import Generation, UserError
from pkg_lib.papers.pkg import break_even, corpus_scale, cost, cost_tables

SPEED = 10.0  # new tokens a second
COUNTS = {"functions": 1000, "nodes": 4000, "edges": 4100, "documents": 50, "payloads": 2000}
GRAPH = COUNTS | {
    "disk_mb": 900.4,
    "encoding": {"texts_per_cpu_s": 10.0},
    "build": {"one": {"wall_s": 8.0, "save_s": 2.0}, "two": {"wall_s": 6.0}},
    "search": {"exact_ms": 90.0, "hnsw": {"128": {"ms": 0.5}}},
    "pruning": {"median_ms": 10.0},
}


def column(prompt, new, count=4):
    """Completions of `count` tasks, prompt and text of each one token longer than of the one before."""
    tasks = [(str(i), [0] * (new + i), prompt + i) for i in range(count)]
    return {i: Generation(f"k{i}", i, "", tokens, "end", asked) for i, tokens, asked in tasks}


COMPLETIONS = {"NoRAG": column(100, 50), "VoyageEmb": column(350, 70), "Func-BM25": {}}
COMPLETIONS |= {"Func-PKG": column(250, 80), "Block-PKG": column(180, 60, 3)}


def measurements(**changed):
    """Measurements of GRAPH alone."""
    empty = {"bm25": {}, "generation": {}, "sandbox": {}, "enhancement": {}}
    return cost_tables.CostMeasurements(**({"graph": GRAPH} | empty | changed))


def experiment(completions, benchmark="humaneval"):
    return SimpleNamespace(
        benchmark=benchmark,
        retrievers=list(completions),
        completions=completions.__getitem__,
        model="a model",
        corpus="textbook",
        benchmark_spec=SimpleNamespace(title="HumanEval"),
        verdicts=lambda: pd.DataFrame(
            {method: [True, False] for method in completions}, dtype="boolean"
        ),
    )


def savings(completions, measured):
    use = cost_tables.token_use(experiment(completions))
    return {s.name: s for s in break_even.measured_savings(use, measured)}


def test_break_even_by_hand():
    """210 s to build against 5 s; 100 prompt tokens saved, 10 new ones more, 0.1 s of search."""
    measured = measurements()
    assert (measured.built["PKG"], measured.built["VoyageEmb"]) == (210.0, 5.0)
    assert cost.build_seconds({}) == {}
    saving = savings(COMPLETIONS, measured)["Func-PKG against VoyageEmb"]
    assert (saving.tasks, saving.build_s) == (4, 205.0)
    assert (saving.prompt_tokens, saving.new_tokens) == (100.0, -10.0)
    assert saving.seconds_per_query(1.0, SPEED) == pytest.approx(8.9)
    assert saving.queries(1.0, SPEED) == pytest.approx(205 / 8.9)
    assert saving.queries(0.0, SPEED) == math.inf, "new tokens cost more than they save"
    unknown = savings(COMPLETIONS, measurements(graph={}))["Func-PKG against VoyageEmb"]
    assert math.isnan(unknown.queries(1.0, SPEED))
    assert savings({"NoRAG": column(1, 1), "Func-PKG": column(2, 1)}, measured) == {}


def test_the_break_even_table_has_dashes_for_what_was_not_measured():
    (measured,) = (s for n, s in savings(COMPLETIONS, measurements()).items() if "Func" in n)
    paper = break_even.published_savings()
    rows = break_even.break_even_table([measured, *paper], SPEED).frame
    both = ["queries, prompt tokens free", "queries, prompt tokens as generated"]
    assert rows.loc[measured.name, both].tolist() == ["never", "24"]
    assert rows.loc[paper[0].name, both].tolist() == [DASH, "140"], "3,600 s over 25.8"
    without = break_even.break_even_table([measured], math.nan).frame
    assert without.loc[measured.name, both].tolist() == [DASH, DASH]


def test_both_bounds_are_drawn_beside_the_papers():
    measured = list(savings(COMPLETIONS, measurements()).values())
    bounds = break_even.query_bounds(measured, SPEED)
    assert list(bounds.index) == [s.name for s in measured] and bounds.shape[1] == 3
    assert bounds.loc["Func-PKG against VoyageEmb"].tolist()[:2] == pytest.approx(
        [math.inf, 205 / 8.9]
    )
    shown = legible(break_even.break_even_figure(bounds, "a model\nHumanEval"))
    assert "never" in shown and "Func-PKG\nagainst VoyageEmb" in shown
    said = break_even.break_even_findings(measured, bounds)
    assert len(said) == len(measured) and any("24" in s and "never" in s for s in said)


@pytest.mark.parametrize("missing", ["speed", "building", "pairs"])
def test_without_a_measurement_there_is_no_break_even(missing):
    measured = measurements(graph={}) if missing == "building" else measurements()
    found = [] if missing == "pairs" else list(savings(COMPLETIONS, measured).values())
    bounds = break_even.query_bounds(found, math.nan if missing == "speed" else SPEED)
    assert bounds.empty
    assert "not measured" in legible(break_even.break_even_figure(bounds, "a model\nHumanEval"))
    assert len(break_even.break_even_findings(found, bounds)) == 1


def test_table_9_sets_the_papers_tokens_beside_those_of_the_same_benchmark():
    run = experiment(COMPLETIONS)
    use = cost_tables.token_use(run)
    rows = cost_tables.context_tokens_table(run, use).frame
    assert rows.loc["Func-PKG", ["tasks", "mean"]].tolist() == ["4", "150"]
    assert rows.loc["Func-PKG", "in the paper, CodeLlama"] == "188"
    assert set(rows.loc["Func-BM25"]) == {DASH}, "neither measured nor published"
    mbpp = cost_tables.context_tokens_table(experiment(COMPLETIONS, "mbpp"), use).frame
    assert not [name for name in mbpp if name.startswith("in the paper")]
    shown = legible(cost_tables.context_tokens_figure(run, use))
    assert {"150", "not measured", "in the paper, CodeLlama"} <= set(shown)
    (order,) = cost_tables.table9_findings(run, use)
    assert "another" not in order and "Func-PKG 150 here, 185 in the paper" in order
    assert cost_tables.table9_findings(experiment(COMPLETIONS, "mbpp"), use) == []


def test_a_mean_of_equal_values_has_an_interval_without_width():
    assert cost_tables.mean_interval(pd.Series([3.0, 3.0])) == (3.0, 3.0)
    low, high = cost_tables.mean_interval(pd.Series([1.0, 2.0, 3.0]))
    assert low == pytest.approx(2 - 2.484, abs=1e-3) and high == pytest.approx(2 + 2.484, abs=1e-3)


def test_new_tokens_have_seconds_only_where_the_models_speed_was_measured():
    use = cost_tables.token_use(experiment(COMPLETIONS))
    speed = {"model": "m", "batch_tokens_per_s": SPEED, "prompts": 2, "slots": 1}
    measured = measurements(generation=speed | {"single_tokens_per_s": 1.0})
    rows = cost_tables.new_tokens_table(use, measured, "m").frame
    assert rows.loc["Func-PKG"].tolist()[-4:] == ["+30", "0.0", "8.2", "1"]
    assert rows.loc["NoRAG", "mean minus that of NoRAG"] == DASH
    other = cost_tables.new_tokens_table(use, measured, "another model").frame
    assert other.loc["Func-PKG"].tolist()[-2:] == [DASH, DASH]
    assert "10.0 tokens per second" in cost_tables.speed_note(measured, "m")
    assert "10.0" not in cost_tables.speed_note(measured, "another model")


def test_prices_are_of_a_query_and_of_a_solved_task():
    prices = pd.DataFrame([[1.0, 2.0], [math.nan, 1.0]])
    assert cost_tables.price_cells(100.0, 50.0, 0.5, prices) == ["100", "50", "300", "0.20", DASH]
    assert cost_tables.price_cells(100.0, 50.0, 0.0, prices)[2] == DASH, "nothing was solved"
    run = experiment({"NoRAG": column(100, 50), "Reranked": column(10, 5)})
    rows = cost_tables.price_table(run, cost_tables.token_use(run), prices[:1]).frame
    assert rows.loc["NoRAG"].tolist()[:3] == ["102", "52", "306"]
    assert rows.loc["Reranked (all of them)"].tolist()[:2] == ["113", "58"]


def test_findings_on_tokens_name_the_method_that_adds_fewest_first():
    first, second = cost_tables.token_findings(cost_tables.token_use(experiment(COMPLETIONS)))
    assert first.index("Block-PKG 80") < first.index("Func-PKG 150") < first.index("VoyageEmb 250")
    assert "Func-PKG +30 (+30 to +30)" in second and "Func-BM25" not in second
    alone = cost_tables.token_use(experiment({"NoRAG": column(1, 1)}))
    assert len(cost_tables.token_findings(alone)) == 1


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
    assert rows["docstrings by a model"] == ("5,150 min", "2.0 s per function: 33 min (estimate)")
    assert cost.enhancement_seconds(log, 1000) == 2000.0
    (without_graph,) = [
        here for step, _, here in cost.table8_rows({}, log) if step == "docstrings by a model"
    ]
    assert without_graph == "2.0 s per function"
    assert "500 functions" in cost.enhancement_note(log) and "m was asked" in cost.enhancement_note(
        log
    )


def test_an_enhancement_that_was_not_measured_is_a_dash_and_a_damaged_log_one_line(tmp_path):
    log_of(tmp_path, "none", asked=0, seconds=0.0)
    log = cost.stored_enhancement(tmp_path)
    assert log == {} and math.isnan(cost.enhancement_seconds(log, 1000))
    assert ("docstrings by a model", "5,150 min", DASH) in cost.table8_rows(GRAPH, log)
    assert cost_tables.estimated(math.nan) == DASH
    assert cost_tables.estimated(math.nan, "34 texts/s") == "34 texts/s"
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
    stages = corpus_scale.corpus_stages(10**6, graph, rows)

    def needs(name):
        return stages[name].size, stages[name].seconds, stages[name].query_s

    assert needs("graph") == pytest.approx((1e9, 10_000.0, None))
    assert needs("encoding") == pytest.approx((6e9, 200_000.0, None))
    assert needs("index, exact") == pytest.approx((6e9, 0.0, 45.0))
    assert needs("index, HNSW")[0] == 6e9 + 2e6 * 256
    assert needs("index, IVF-PQ") == (2e6 * 72, None, None)
    assert needs("index, BM25") == pytest.approx((None, 100.0, 0.2))
    machine = corpus_scale.Machine()
    cells = corpus_scale.stage_cells(stages["encoding"], machine)
    assert cells == ["6 GB", "55.6 h", "1", "2.78", "0.60", DASH]
    held = corpus_scale.Stage(65e9, 0.0, 45.0, in_memory=True)
    assert corpus_scale.stage_cells(held, machine) == [
        "65 GB",
        "0 s",
        "2",
        "0.00",
        "1,168.00",
        "45.0000",
    ]
    assert not corpus_scale.is_measured(measurements())


def test_the_page_on_scale_says_what_the_notebook_computes():
    """Where it fails, a measurement was made again: copy what the notebook shows into docs/scale.md."""
    measured = cost_tables.read_measurements(ROOT / "results")
    machine = corpus_scale.Machine()
    page = (ROOT / "docs" / "scale.md").read_text("utf8")
    assert corpus_scale.scale_table(10**8, measured, machine).markdown().strip() in page
    said = corpus_scale.scale_findings(10**8, measured, machine)
    assert all(f"- {sentence}\n" in page for sentence in said)
    search = cost.stored(ROOT / "results", "code_search")
    fewer = search["variations"]["with 10,000 of the distractors"]["MiniLM"]["mrr_at_10"]
    assert (
        f"{fewer:.3f} among 10,500 candidates and {search['methods']['MiniLM']['mrr_at_10']:.3f}"
        in page
    )
