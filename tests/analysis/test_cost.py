"""Tables 8 and 9, prices, the break-even and scale, computed from known numbers."""

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
from pkg_lib.papers.pkg.labels import figure_title

SPEED = 10.0  # new tokens a second
GRAPH = {
    "functions": 1000,
    "nodes": 4000,
    "edges": 4100,
    "documents": 50,
    "payloads": 2000,
    "disk_mb": 900.4,
    "encoding": {"texts_per_cpu_s": 10.0},
    "build": {"one": {"wall_s": 8.0, "save_s": 2.0}, "two": {"wall_s": 6.0}},
    "search": {"exact_ms": 90.0, "hnsw": {"128": {"ms": 0.5}}},
    "pruning": {"median_ms": 10.0},
}


def make_completions(prompt_tokens, new_tokens, count=4):
    """Make completions of some tasks. Each has one token more than the one before."""
    completions = {}
    for number in range(count):
        task = str(number)
        tokens = [0] * (new_tokens + number)
        completions[task] = Generation(f"k{task}", task, "", tokens, "end", prompt_tokens + number)
    return completions


COMPLETIONS = {
    "NoRAG": make_completions(100, 50),
    "VoyageEmb": make_completions(350, 70),
    "Func-BM25": {},
    "Func-PKG": make_completions(250, 80),
    "Block-PKG": make_completions(180, 60, count=3),
}


def make_measurements(graph=GRAPH, generation=None):
    """Make measurements of a graph, and of the speed of generation if it is given."""
    return cost_tables.CostMeasurements(
        graph=graph,
        bm25={},
        generation=generation or {},
        sandbox={},
        enhancement={},
    )


def make_results(completions, benchmark="humaneval"):
    """Make results with some completions, in which every method passes one of two tasks."""
    verdicts = {method: [True, False] for method in completions}
    return SimpleNamespace(
        benchmark=benchmark,
        retrievers=list(completions),
        completions=completions.__getitem__,
        model="a model",
        limit=None,
        corpus="textbook",
        benchmark_spec=SimpleNamespace(title="HumanEval"),
        verdicts=lambda: pd.DataFrame(verdicts, dtype="boolean"),
    )


def savings(completions, measured):
    """Return the savings of each pair of methods by the name of the pair."""
    use = cost_tables.token_use(make_results(completions))
    return {saving.name: saving for saving in break_even.measured_savings(use, measured)}


def test_break_even_equals_the_one_computed_by_hand():
    """Building takes 210 s instead of 5 s.

    A query saves 100 prompt tokens, and costs 10 new tokens and 0.1 s of search more.
    """
    measured = make_measurements()
    assert measured.built["PKG"] == 210.0
    assert measured.built["VoyageEmb"] == 5.0
    assert cost.build_seconds({}) == {}
    saving = savings(COMPLETIONS, measured)["Func-PKG against VoyageEmb"]
    assert (saving.tasks, saving.build_s) == (4, 205.0)
    assert (saving.prompt_tokens, saving.new_tokens) == (100.0, -10.0)
    assert saving.seconds_per_query(1.0, SPEED) == pytest.approx(8.9)
    assert saving.queries(1.0, SPEED) == pytest.approx(205 / 8.9)
    assert saving.queries(0.0, SPEED) == math.inf, "new tokens cost more than they save"
    without_graph = savings(COMPLETIONS, make_measurements(graph={}))
    assert math.isnan(without_graph["Func-PKG against VoyageEmb"].queries(1.0, SPEED))
    without_pair = {"NoRAG": make_completions(1, 1), "Func-PKG": make_completions(2, 1)}
    assert savings(without_pair, measured) == {}


def test_break_even_table_has_dashes_for_values_that_were_not_measured():
    by_name = savings(COMPLETIONS, make_measurements())
    (measured,) = [saving for name, saving in by_name.items() if "Func" in name]
    paper = break_even.published_savings()
    rows = break_even.break_even_table([measured, *paper], SPEED).frame
    both = [
        "queries to break even, prompt free",
        "queries to break even, prompt slow",
    ]
    assert rows.loc[measured.name, both].tolist() == ["never", "24"]
    assert rows.loc[paper[0].name, both].tolist() == [DASH, "140"], "3,600 s over 25.8"
    without = break_even.break_even_table([measured], math.nan).frame
    assert without.loc[measured.name, both].tolist() == [DASH, DASH]


def test_figure_shows_both_bounds_beside_those_of_the_paper():
    measured = list(savings(COMPLETIONS, make_measurements()).values())
    bounds = break_even.query_bounds(measured, SPEED)
    assert list(bounds.index) == [saving.name for saving in measured]
    assert bounds.shape[1] == 3
    of_pair = bounds.loc["Func-PKG against VoyageEmb"].tolist()
    assert of_pair[:2] == pytest.approx([math.inf, 205 / 8.9])
    texts = legible(break_even.break_even_figure(bounds, "a model\nHumanEval"))
    assert "never" in texts
    assert "Func-PKG\nagainst VoyageEmb" in texts
    findings = break_even.break_even_findings(measured, bounds)
    (finding,) = findings
    assert finding.startswith(measured[0].name)


@pytest.mark.parametrize("missing", ["speed", "building", "pairs"])
def test_without_a_measurement_there_is_no_break_even(missing):
    measured = make_measurements(graph={} if missing == "building" else GRAPH)
    found = [] if missing == "pairs" else list(savings(COMPLETIONS, measured).values())
    speed = math.nan if missing == "speed" else SPEED
    bounds = break_even.query_bounds(found, speed)
    assert bounds.empty
    assert "not measured" in legible(break_even.break_even_figure(bounds, "a model\nHumanEval"))
    assert len(break_even.break_even_findings(found, bounds)) == 1


def test_table_9_compares_tokens_with_the_paper_on_the_same_benchmark_only():
    on_humaneval = make_results(COMPLETIONS)
    on_mbpp = make_results(COMPLETIONS, "mbpp")
    use = cost_tables.token_use(on_humaneval)
    rows = cost_tables.context_tokens_table(on_humaneval, use).frame
    assert rows.loc["Func-PKG", ["tasks", "mean"]].tolist() == ["4", "150"]
    assert rows.loc["Func-PKG", "in the paper, CodeLlama"] == "188"
    assert set(rows.loc["Func-BM25"]) == {DASH}, "neither measured nor published"
    mbpp_rows = cost_tables.context_tokens_table(on_mbpp, use).frame
    assert not any(name.startswith("in the paper") for name in mbpp_rows)
    texts = legible(cost_tables.context_tokens_figure(on_humaneval, use))
    assert {"150", "not measured", "in the paper, CodeLlama"} <= set(texts)
    (finding,) = cost_tables.table9_findings(on_humaneval, use)
    assert "another" not in finding
    assert "Func-PKG 150 here, 185 in the paper" in finding
    assert cost_tables.table9_findings(on_mbpp, use) == []


def test_mean_of_equal_or_few_values_has_no_interval():
    for values in ([3.0] * 12, [1.0, 2.0, 3.0]):
        assert all(map(math.isnan, cost_tables.mean_interval(pd.Series(values))))
    low, high = cost_tables.mean_interval(pd.Series([1.0, 2.0, 3.0] * 4))
    assert low == pytest.approx(2 - 0.542, abs=1e-3)
    assert high == pytest.approx(2 + 0.542, abs=1e-3)


def test_new_tokens_have_seconds_only_for_the_model_whose_speed_was_measured():
    use = cost_tables.token_use(make_results(COMPLETIONS))
    speed = {
        "model": "m",
        "batch_tokens_per_s": SPEED,
        "prompts": 2,
        "slots": 1,
        "single_tokens_per_s": 1.0,
    }
    measured = make_measurements(generation=speed)
    rows = cost_tables.new_tokens_table(use, measured, "m").frame
    assert rows.loc["Func-PKG"].tolist()[-4:] == ["+30", "0.0", "8.2", "1"]
    assert rows.loc["NoRAG", "mean minus that of NoRAG"] == DASH
    other = cost_tables.new_tokens_table(use, measured, "another model").frame
    assert other.loc["Func-PKG"].tolist()[-2:] == [DASH, DASH]
    assert "10.0 tokens per second" in cost_tables.speed_note(measured, "m")
    assert "10.0" not in cost_tables.speed_note(measured, "another model")


def test_prices_are_per_query_and_per_solved_task():
    prices = pd.DataFrame([[1.0, 2.0], [math.nan, 1.0]])
    assert cost_tables.price_cells(100.0, 50.0, 0.5, prices) == ["100", "50", "300", "0.20", DASH]
    assert cost_tables.price_cells(100.0, 50.0, 0.0, prices)[2] == DASH, "nothing was solved"
    completions = {"NoRAG": make_completions(100, 50), "Reranked": make_completions(10, 5)}
    results = make_results(completions)
    rows = cost_tables.price_table(results, cost_tables.token_use(results), prices[:1]).frame
    assert rows.loc["NoRAG"].tolist()[:3] == ["102", "52", "306"]
    assert rows.loc["Reranked (all of them)"].tolist()[:2] == ["113", "58"]


def test_a_title_says_on_how_many_tasks_a_figure_is_and_whether_they_are_the_first():
    results = make_results({"NoRAG": make_completions(100, 50)})
    assert "a model, 2 tasks" in figure_title("A message", results)
    results.limit = 2
    assert "a model, first 2 tasks" in figure_title("A message", results)


def test_prices_of_other_known_models_are_left_out():
    names = ["qwen2.5-coder-0.5b-instruct", "a model", "my provider"]
    prices = pd.DataFrame([[1.0, 2.0]] * 3, names)
    results = make_results({"NoRAG": make_completions(100, 50)})
    table = cost_tables.price_table(results, cost_tables.token_use(results), prices).frame
    priced = [name.rpartition(", ")[2] for name in table if name.startswith("$")]
    assert priced == ["a model", "my provider"]


def test_findings_on_tokens_list_methods_by_their_additional_tokens():
    use = cost_tables.token_use(make_results(COMPLETIONS))
    prompt_tokens, new_tokens = cost_tables.token_findings(use)
    block = prompt_tokens.index("Block-PKG 80")
    func = prompt_tokens.index("Func-PKG 150")
    voyage = prompt_tokens.index("VoyageEmb 250")
    assert block < func < voyage
    assert "Func-PKG +30;" in new_tokens, "equal changes have no interval"
    assert "Func-BM25" not in new_tokens
    only_no_rag = cost_tables.token_use(make_results({"NoRAG": make_completions(1, 1)}))
    assert len(cost_tables.token_findings(only_no_rag)) == 1


def table_8(graph, *enhancement):
    """Return the cells (paper, here) of Table 8 by the name of the step."""
    rows = cost.table8_rows(graph, *enhancement)
    return {step: (paper, here) for step, paper, here in rows}


def test_table_8_with_and_without_the_measurement(tmp_path):
    rows = table_8(GRAPH)
    assert rows["storage"] == ("12,530 MB", "900 MB")
    assert rows["functions"] == ("115,000", "1,000")
    building = ("3 min + 25 min + 33 min", "8.0 s (2 processes: 6.0 s)")
    assert rows["extraction, blocks, graph"] == building
    without_encoding = {name: value for name, value in GRAPH.items() if name != "encoding"}
    assert table_8(without_encoding)["encoding"] == ("241 min", DASH)
    not_measured = table_8(cost.stored(tmp_path, "graph"))
    assert {here for _, here in not_measured.values()} == {DASH}


def test_reports_a_damaged_measurement_of_the_graph(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "graph.json").write_text("{")
    with pytest.raises(UserError, match=r"graph\.json, line 1 is damaged"):
        cost.stored(tmp_path, "graph")


def write_log(results, corpus, asked=500, seconds=1000.0):
    """Write the log of a model that wrote docstrings for a corpus."""
    log = {"asked": asked, "seconds": seconds, "model": "m", "corpus": corpus}
    folder = results / "enhanced" / "m"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{corpus}.log.json").write_text(json.dumps(log))


def test_table_8_has_the_enhancement_of_the_papers_first_version(tmp_path):
    """500 functions took 1,000 s, so 1,000 functions take 2,000 s."""
    write_log(tmp_path, "a")
    write_log(tmp_path, "b", asked=20, seconds=1.0)
    log = cost.stored_enhancement(tmp_path)
    with_graph = table_8(GRAPH, log)["docstrings by a model"]
    assert with_graph == ("5,150 min", "2.0 s per function: 33 min (estimate)")
    assert cost.enhancement_seconds(log, 1000) == 2000.0
    _, without_graph = table_8({}, log)["docstrings by a model"]
    assert without_graph == "2.0 s per function"
    note = cost.enhancement_note(log)
    assert "500 functions" in note
    assert "m was asked" in note


def test_enhancement_that_was_not_measured_is_a_dash(tmp_path):
    write_log(tmp_path, "none", asked=0, seconds=0.0)
    log = cost.stored_enhancement(tmp_path)
    assert log == {}
    assert math.isnan(cost.enhancement_seconds(log, 1000))
    assert ("docstrings by a model", "5,150 min", DASH) in cost.table8_rows(GRAPH, log)
    assert cost_tables.estimated(math.nan) == DASH
    assert cost_tables.estimated(math.nan, "34 texts/s") == "34 texts/s"


def test_reports_a_damaged_log_of_an_enhancement(tmp_path):
    write_log(tmp_path, "damaged", asked="many")
    with pytest.raises(UserError, match=r"damaged\.log\.json"):
        cost.stored_enhancement(tmp_path)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(12, "12 s"), (3600, "60 min"), (10440, "2.9 h"), (None, DASH), (math.nan, DASH)],
)
def test_formats_a_duration(seconds, text):
    assert cost.duration(seconds) == text


def test_scale_equals_the_one_computed_by_hand():
    """Each function has two texts. The measurement has 1,000 functions, the estimate a million."""
    search = {
        **GRAPH["search"],
        "exact_rows": 4000,
        "hnsw_rows": 2000,
        "hnsw_links": 32,
        "hnsw_build_s": 3.0,
    }
    graph = {**GRAPH, "disk_mb": 7.0, "disk_mb_without_vectors": 1.0, "search": search}
    rows = {"functions": 500, "build_s": 0.05, "ours_ms_per_query": 0.1}
    stages = corpus_scale.corpus_stages(10**6, graph, rows)

    def needs(name):
        stage = stages[name]
        return stage.size, stage.seconds, stage.query_s

    assert needs("graph") == pytest.approx((1e9, 10_000.0, None))
    assert needs("encoding") == pytest.approx((6e9, 200_000.0, None))
    assert needs("index, exact") == pytest.approx((6e9, 0.0, 45.0))
    assert needs("index, HNSW")[0] == 6e9 + 2e6 * 256
    assert needs("index, IVF-PQ") == (2e6 * 72, None, None)
    assert needs("index, BM25") == pytest.approx((None, 100.0, 0.2))
    machine = corpus_scale.Machine()
    cells = corpus_scale.stage_cells(stages["encoding"], machine)
    assert cells == ["6 GB", "55.6 h", "1", "2.78", "0.60", DASH]
    in_memory = corpus_scale.Stage(65e9, 0.0, 45.0, in_memory=True)
    cells = corpus_scale.stage_cells(in_memory, machine)
    assert cells == ["65 GB", "0 s", "2", "0.00", "1,168.00", "45.0000"]
    assert not corpus_scale.is_measured(make_measurements())


def test_page_on_scale_agrees_with_the_notebook():
    """If this fails, a measurement was repeated: copy what the notebook shows to docs/scale.md."""
    measured = cost_tables.read_measurements(ROOT / "results")
    machine = corpus_scale.Machine()
    page = (ROOT / "docs" / "scale.md").read_text("utf8")
    assert corpus_scale.scale_table(10**8, measured, machine).markdown().strip() in page
    for finding in corpus_scale.scale_findings(10**8, measured, machine):
        assert f"- {finding}\n" in page
    search = cost.stored(ROOT / "results", "code_search")
    with_all = search["methods"]["MiniLM"]["mrr_at_10"]
    with_fewer = search["variations"]["with 10,000 of the distractors"]["MiniLM"]["mrr_at_10"]
    assert f"{with_fewer:.3f} among 10,500 candidates and {with_all:.3f}" in page
