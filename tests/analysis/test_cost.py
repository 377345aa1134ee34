"""Tables 8 and 9, prices and the break-even, from completions and measurements whose numbers are known."""

import json

import pandas as pd
import pytest
from checks import legible

from pkg_lib.analysis.figures import save_figure
from pkg_lib.analysis.prices import read_prices
from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Generation
from pkg_lib.papers.pkg import break_even, cost

MINUS = "\N{MINUS SIGN}"
SPEED = {"model": "m", "prompts": 20, "slots": 48, "batch_tokens_per_s": 10.0, "single_tokens_per_s": 2.0}
GRAPH = {
    "functions": 1000,
    "nodes": 4000,
    "edges": 4100,
    "documents": 50,
    "payloads": 2000,
    "processors": 2,
    "load_before": 0.1,
    "build": {
        "ratio": 2.1,
        "ratio_paused": 2.4,
        "one": {"wall_s": 8.0, "save_s": 2.0, "functions_per_s": 3828.0},
        "two": {"wall_s": 6.0, "functions_per_s": 7187.5},
    },
    "search": {
        "exact_ms": 90.0,
        "exact_rows": 400,
        "hnsw_rows": 300,
        "hnsw": {"128": {"ms": 0.5, "recall_at_1": 0.98}},
    },
    "pruning": {"median_ms": 10.0, "p99_ms": 30.0},
    "disk_mb": 900.4,
    "disk_mb_without_vectors": 100.0,
    "load_s": 1.0,
    "resident_mb": 300.0,
    "vectors": "words",
    "encoding": {"texts_per_cpu_s": 10.0},
}


def column(prompt, new, count=4, finish="end"):
    """Completions of `count` tasks, each longer by one token than the one before, in the prompt and in the text."""
    return {
        str(i): Generation(f"k{i}", str(i), "", [0] * (new + i), finish, prompt + i) for i in range(count)
    }


@pytest.fixture
def made():
    return {
        "None": column(100, 50),
        "BM25": column(400, 90, finish="length"),
        "Dense": column(350, 70),
        "Func-BM25": {},
        "Func-PKG": column(250, 80),
        "Block-PKG": column(180, 60, 3),
    }


@pytest.fixture
def results(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    for name, value in (
        ("graph", GRAPH),
        ("generation", SPEED),
        ("bm25", {"functions": 500, "build_s": 2.0}),
    ):
        (tmp_path / "benchmarks" / f"{name}.json").write_text(json.dumps(value))
    return tmp_path


def test_a_context_adds_its_prompt_minus_that_of_none(made):
    added = cost.added_tokens(made)
    assert added["BM25"].tolist() == [300.0] * 4 and added["Block-PKG"].tolist()[:3] == [80.0] * 3
    assert added["Func-BM25"].isna().all() and "None" not in added


def test_table_9_has_the_spread_and_the_papers_means(made):
    made["Dense"] |= {"3": Generation("k", "3", "", [0], "end", 100 + 3 + 650)}
    frame = cost.context_grid(made, "humaneval").frame
    assert frame.loc["BM25"].tolist() == ["4", "300", "300 to 300", "300", "300", "226", "218"]
    assert frame.loc["Dense"].tolist()[:2] == ["4", "350"] and frame.at["Dense", "median"] == "250"
    assert (
        frame.at["Dense", "95th percentile"] == "590" and frame.at["Dense", "published, CodeLlama"] == "349"
    )
    low, high = map(float, frame.at["Dense", "95 % interval"].replace(MINUS, "-").split(" to "))
    assert low < 350 < high
    assert frame.loc["Func-BM25"].tolist() == [DASH] * 7
    assert "published, CodeLlama" not in cost.context_grid(made, "mbpp").frame
    text = {"None": column(1, 1), "JSON-PKG": column(2, 1)}
    assert "published, CodeLlama" not in cost.context_grid(text, "humaneval").frame


def test_new_tokens_and_seconds_come_from_the_stored_speed_of_the_same_model(made, results):
    frame = cost.generation_grid(made, cost.rate(results, "m")).frame
    assert (
        frame.at["BM25", "cut at the limit, %"] == "100.0"
        and frame.at["None", "cut at the limit, %"] == "0.0"
    )
    assert (
        frame.at["BM25", "mean against None"] == "+40" and frame.at["BM25", "s a query (estimate)"] == "9.2"
    )
    assert cost.rate(results, "another") is None and cost.rate(results / "none", "m") is None
    without = cost.generation_grid(made, None)
    assert (
        set(without.frame["s a query (estimate)"]) == {DASH} and "no speed of this model" in without.notes[0]
    )


def test_prices_are_for_a_thousand_queries_and_reranked_pays_for_all(made, tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("model,input_usd_per_million,output_usd_per_million\nhere,0,0\nthere,2,10\nlater,,\n")
    made.pop("Func-BM25")
    verdicts = pd.DataFrame({c: [True, False, True, False] for c in [*made, "Reranked"]}).astype("boolean")
    frame = cost.price_grid(made, verdicts, read_prices(path)).frame
    assert frame.loc["None"].tolist() == ["102", "52", "306", "0.00", "0.72", DASH]
    read = sum(101 + n for n in (0, 300, 250, 150, 80))  # the first three tasks have them all
    assert frame.at["Reranked (all of them)", "tokens read"] == f"{read:,}"
    made["Dense"] = {}
    frame = cost.price_grid(made, verdicts.assign(Dense=pd.NA), read_prices(path)).frame
    assert frame.loc["Dense"].tolist() == [DASH] * 6 and "Reranked (all of them)" not in frame.index


def test_table_8_by_method(results, tmp_path):
    frame = break_even.table8_grid(results).frame
    assert frame.loc["in all"].tolist() == [
        "301 min",
        "241 min",
        "44 min",
        *(f"{t} (estimate)" for t in ("4 min", "5 s", "4 s")),
    ]
    assert frame.loc["encoding"].tolist()[3:] == ["10 texts/s: 3 min (estimate)", "5 s (estimate)", DASH]
    assert frame.loc["storage"].tolist() == ["12,530 MB", "8,440 MB", "315 MB", "900 MB", DASH, DASH]
    empty = break_even.table8_grid(tmp_path / "none").frame
    assert set(empty["here"].to_numpy().ravel()) == {DASH}


def test_break_even_by_hand(made, results):
    """210 s to build against 5 s; 100 tokens of the prompt saved, 10 new ones more, 0.1 s of search, 10 tokens a second."""
    saving = {s.name: s for s in break_even.savings(made, results)}["Func-PKG against Dense"]
    assert (saving.tasks, saving.extra_s, saving.prompt, saving.new) == (4, 205.0, 100.0, -10.0)
    assert saving.seconds(10, 1.0) == pytest.approx(8.9) and saving.queries(10, 1.0) == pytest.approx(
        205 / 8.9
    )
    assert saving.queries(10, 0.0) == float("inf")
    row = break_even.break_even_grid(made, results, SPEED).frame.loc["Func-PKG against Dense"]
    assert row.tolist() == ["4", "3 min", "+100", f"{MINUS}10", f"{MINUS}1.10", "never", "8.90", "24"]


def test_break_even_of_the_paper_against_voyage():
    """60 minutes more to build; 344 - 85.5 tokens saved."""
    saving = break_even.published_savings()[0]
    assert saving.extra_s == 3600 and saving.prompt == pytest.approx(258.5)
    assert saving.queries(48.65, 1.0) == pytest.approx(3600 / (258.5 / 48.65))


def test_findings_say_when_it_pays_and_when_never(made, results):
    said = break_even.findings(made, results, SPEED)
    assert said[0].startswith("Block-PKG against Dense: 3 min more to build; pays after ")
    assert "Func-PKG against Dense: 3 min more to build; pays after 24 queries if prompt tokens" in said[2]
    made["Dense"] = column(100, 10)
    assert "no time saved a query, so there is no break-even" in break_even.findings(made, results, SPEED)[0]
    assert "not measured here" in break_even.findings(made, results, None)[0]
    assert "not measured here" in break_even.findings(made, results / "none", SPEED)[0]
    assert break_even.findings({"None": column(1, 1), "Func-PKG": column(2, 1)}, results, SPEED)[
        0
    ].startswith("No column")


def test_findings_of_tokens_follow_the_counts(made):
    said = cost.findings(made, "humaneval", SPEED)
    assert (
        said[0]
        == "Mean tokens that a context adds, fewest first: Block-PKG 80, Func-PKG 150, Dense 250, BM25 300."
    )
    assert "is another here" in said[1] and "Block-PKG +10 (+10 to +10)" in said[2]
    made["BM25"] = column(300, 90)
    assert "is the same here" in cost.findings(made, "humaneval", SPEED)[1]
    assert cost.findings({"None": column(1, 1), "BM25": {}}, "mbpp", None)[0].startswith(
        "No column with a context"
    )


@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp"])
@pytest.mark.parametrize("kept", [6, 2, 1])
def test_the_figures_are_legible(made, results, benchmark, kept):
    some = {c: found if i < kept else {} for i, (c, found) in enumerate(made.items())}
    title = f"qwen2.5-coder-0.5b-instruct\n{benchmark}, corpus textbook+stdlib"
    assert "not measured" in legible(cost.context_figure(some, benchmark, title))
    assert ("not measured" in legible(break_even.figure(some, results, SPEED, title))) == (kept < 6)
    assert "not measured" in legible(break_even.figure(made, results, None, title))


def test_the_break_even_is_drawn_from_the_earliest_to_the_latest_or_as_never(made, results):
    axes = break_even.figure(made, results, SPEED, "m").axes[0]
    name = [t.get_text() for t in axes.get_yticklabels()].index("Func-PKG\nagainst Dense")
    later, earlier, _ = (line.get_xdata() for line in axes.lines if line.get_label().startswith("("))
    assert later[name] == pytest.approx(205 / 8.9) and earlier[name] == at_never(axes)
    low, high = axes.get_xlim()
    assert all(
        low <= x <= high for line in axes.lines if line.get_label().startswith("(") for x in line.get_xdata()
    )
    made["Dense"] = made["BM25"] = column(100, 10)
    axes = break_even.figure(made, results, SPEED, "m").axes[0]
    ours = [x for line in axes.lines if line.get_label().startswith("(") for x in line.get_xdata()][:8]
    assert ours == [at_never(axes)] * 8


def at_never(axes):
    return next(
        x
        for x, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if text.get_text() == "never"
    )


def test_the_same_bytes_twice(made, results, tmp_path):
    for draw in (
        lambda: cost.context_figure(made, "humaneval", "m"),
        lambda: break_even.figure(made, results, SPEED, "m"),
    ):
        a, b = (save_figure(draw(), tmp_path / n) for n in "ab")
        assert all(a[k].read_bytes() == b[k].read_bytes() for k in a)
