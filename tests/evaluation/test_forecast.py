"""A dry run: counts from what is stored, estimates from its means, and nothing computed or written."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest
from fakes import unpacked

from pkg_lib import cli
from pkg_lib.core.embedders import embedder_spec
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import Context, UserError
from pkg_lib.data.benchmark import DECODING
from pkg_lib.data.corpora import parse_corpus, with_options
from pkg_lib.evaluation import forecast, study
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.generation import calibration
from pkg_lib.generation.generator import Generator
from pkg_lib.papers.pkg import cost

FIRST = study.STUDY[0]
OTHER = "qwen2.5-coder-1.5b-instruct"


@pytest.fixture
def nothing_else(committed, monkeypatch):
    """Retrieval is out of reach, as the weights are; nothing is stored of OTHER."""
    for folder in (committed / "cache" / OTHER, *(committed / "runs").glob(f"*/{OTHER}")):
        shutil.rmtree(folder, ignore_errors=True)
    monkeypatch.setattr(forecast, "speeds", dict)  # nothing was measured on this machine
    monkeypatch.setattr(
        "pkg_lib.evaluation.stored_answers.knowledge_of",
        lambda corpus: pytest.fail("asked for a corpus"),
    )
    return committed


def drop(results, column, keep):
    """Leaves the first `keep` stored completions of a column, and returns them."""
    path = results / "cache" / study.MODEL / "humaneval" / FIRST.corpus / f"{column}.jsonl"
    lines = unpacked(path).read_text().splitlines(keepends=True)[:keep]
    path.write_text("".join(lines))
    return [json.loads(line) for line in lines]


def test_missing_completions_cost_the_mean_of_the_stored_ones(nothing_else):
    rows = drop(nothing_else, "func-bm25", 100)
    (column,) = forecast.forecast(
        Evaluator(Results(study.MODEL, corpus=FIRST.corpus)), ["Func-BM25"], set()
    )
    assert (column.cached, column.missing, column.stored) == (100, 64, 100)
    assert column.new_tokens == pytest.approx(
        column.todo * sum(len(r["tokens"]) for r in rows) / 100
    )
    assert column.prompt_tokens == pytest.approx(
        column.todo * sum(r["prompt_tokens"] for r in rows) / 100
    )
    assert 60 <= column.todo <= 64  # a prompt may be another column's, too


def test_what_no_completion_is_stored_of_has_an_upper_bound(nothing_else):
    experiment, seen = Results(OTHER, "humaneval", "textbook+stdlib", 8), set()
    none, bm25, dense = forecast.forecast(
        Evaluator(experiment), ["NoRAG", "BM25", "VoyageEmb"], seen
    )
    assert [(c.cached, c.missing, c.stored) for c in (none, bm25, dense)] == [(0, 8, 0)] * 3
    stored = [c for name in ("NoRAG", "BM25", "VoyageEmb") for c in experiment.contexts(name)]
    task = {t.id: t for t in experiment.tasks}
    distinct = {experiment.request(task[c.task_id], c, c.method).text for c in stored}
    assert (
        none.todo + bm25.todo + dense.todo == len(distinct) < 24
    )  # what is asked alike is completed once
    assert none.new_tokens == 8 * DECODING["max_new_tokens"]
    assert 0 < none.prompt_tokens < bm25.prompt_tokens
    again = Results(OTHER, "humaneval", "pkg-contexts", 8)
    assert forecast.forecast(Evaluator(again), ["NoRAG"], seen)[0].todo == 0, (
        "None serves both corpora"
    )
    text = "\n".join(forecast.lines(experiment, [none, bm25, dense], forecast.Rates()))
    assert "estimated" in text and "may have (512)" in text


def test_contexts_that_are_not_retrieved_yet_count_whole(nothing_else):
    (column,) = forecast.forecast(
        Evaluator(Results(study.MODEL, "humaneval", "stdlib", 5)), ["Func-PKG"], set()
    )
    assert (column.cached, column.missing, column.todo) == (0, 5, 5) and column.stored > 0


def columns(todo, asked, new):
    return [forecast.MethodForecast("NoRAG", 0, todo, todo, asked, new, 1)]


def test_time_and_price(nothing_else, monkeypatch):
    def cost(model, **rates):
        return forecast.cost(
            Results(model, limit=2), columns(10, 2e6, 7200), forecast.Rates(**rates)
        )

    prices = {study.MODEL: (0.5, 10.0)}
    assert cost(study.MODEL, tokens_per_second=2.0).seconds == 3600
    assert cost(study.MODEL, prices=prices).dollars == pytest.approx(1.072)
    assert cost(OTHER, prices=prices).dollars is None
    assert cost("codellama-7b-instruct").seconds is None
    monkeypatch.setattr(calibration, "layer_seconds", lambda rows: 0.01 * rows)
    layers = 0.5e9 / (calibration.FEATURES_IN * calibration.FEATURES_OUT)
    assert cost(study.MODEL).seconds == pytest.approx(layers * 0.01 * (2e6 + 7200), rel=0.01)
    monkeypatch.setattr(forecast, "speeds", lambda: {study.MODEL: 48.0})
    assert cost(study.MODEL).seconds == pytest.approx(150)
    assert cost(OTHER).seconds == pytest.approx(450), "three times the parameters"
    assert cost("codellama-7b-instruct").seconds is None, (
        "a speed on a CPU says nothing about a GPU"
    )
    whole = forecast.total([cost(study.MODEL, prices=prices), cost(OTHER, prices=prices)])
    assert (whole.todo, whole.seconds, whole.dollars) == (20, pytest.approx(600), None)


@pytest.mark.parametrize(
    "text",
    [
        "model,price\na,1\n",
        "model,input_usd_per_million,output_usd_per_million\na,x,1\n",
        "model,input_usd_per_million,output_usd_per_million\na,-1,1\n",
    ],
)
def test_a_price_table_that_is_none_is_the_users_mistake(tmp_path, text):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(UserError, match=r"input_usd_per_million|mend the file"):
        cost.read_prices(tmp_path / "p.csv")


def test_the_price_table_of_the_notebook_is_one(tmp_path):
    assert cost.read_prices(cost.PRICES).loc[study.MODEL].tolist() == [0, 0]
    (tmp_path / "p.csv").write_text(
        "model,input_usd_per_million,output_usd_per_million\na,1,2\nlater,,\n"
    )
    assert cost.read_prices(tmp_path / "p.csv").dropna().T.to_dict("list") == {"a": [1, 2]}


def test_the_command_writes_nothing(nothing_else, monkeypatch, capsys, tmp_path):
    prices = tmp_path / "prices.csv"
    prices.write_text(f"model,input_usd_per_million,output_usd_per_million\n{OTHER},1,2\n")
    before = {p: p.stat().st_mtime_ns for p in nothing_else.rglob("*")}
    words = f"run --dry-run --tokens-per-second 10 --model {study.MODEL} --model {OTHER} --benchmark humaneval"
    monkeypatch.setattr(sys, "argv", ["pkg_lib", *words.split(), "--prices", str(prices)])
    assert cli.main() == 0
    shown = capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in nothing_else.rglob("*")} == before
    lines = (
        f"{study.MODEL} | humaneval | {FIRST.corpus}: 164 tasks",
        "to complete: nothing",
        "US dollars",
    )
    assert all(
        words in shown for words in (*lines, "at the given 10 new tokens/s", "total to generate: ")
    )


PAPER = {
    "codellama-7b-instruct": ("4", "12", "31"),
    "codellama-13b-instruct": ("too small", "3", "15"),
    "llama-3.1-8b-instruct": ("11", "41", "115"),
    "starcoder2-7b-instruct": ("31", "95", "253"),
    "deepseek-coder-7b-instruct": ("4", "13", "34"),
}


def dry_run(monkeypatch, capsys, *words):
    """The lines of a dry run of one column on HumanEval."""
    command = [
        "pkg_lib",
        "run",
        "--dry-run",
        "--benchmark",
        "humaneval",
        "--corpus",
        "textbook",
        *words,
    ]
    monkeypatch.setattr(sys, "argv", [*command, "--method", "NoRAG", "--notebook", "rq1_code_pkg"])
    assert cli.main() == 0
    return capsys.readouterr().out.splitlines()


def test_the_batch_size_of_the_papers_models(nothing_else, monkeypatch, capsys):
    """At 0.9 x memory less weights, over twice the cache of 1,722 to 1,846 tokens; at most 256."""
    lines = dry_run(monkeypatch, capsys, *(word for name in PAPER for word in ("--model", name)))
    sizes = [line.rpartition(": ") for line in lines if "batch size" in line]
    assert [tuple(counts.split(", ")) for _, _, counts in sizes] == [*PAPER.values()]
    assert {head.rpartition(" of ")[2] for head, _, _ in sizes} == {"24 GB, 40 GB, 80 GB"}
    assert sum("524,288 bytes per token" in line and "13.5 GB" in line for line in lines) == 1
    assert sum("time on one A100" in line for line in lines) == len(PAPER)


def test_the_batch_size_of_this_gpu_and_that_of_the_user(nothing_else, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda gpu: (20 * 10**9, 24 * 10**9))
    model = ("--model", "codellama-7b-instruct")
    (size,) = (line for line in dry_run(monkeypatch, capsys, *model) if "batch size" in line)
    assert size.endswith("24 GB, 40 GB, 80 GB, this GPU: 4, 12, 31, 12")  # 40 GB are free
    (size,) = (
        line
        for line in dry_run(monkeypatch, capsys, *model, "--slots", "7")
        if "batch size" in line
    )
    assert " 7 prompts" in size and "too many" in size and "24 GB (4)" in size
    assert "40 GB" not in size, "seven prompts fit there"
    (size,) = (
        line
        for line in dry_run(monkeypatch, capsys, *model, "--slots", "1000000")
        if "batch size" in line
    )
    assert "too many" in size and "80 GB (31)" in size and "this GPU (12)" in size


@pytest.mark.parametrize("model", PAPER)
def test_no_prompt_is_longer_than_the_bound_of_the_dry_run(nothing_else, model):
    results = Results(model, corpus="textbook+stdlib")
    forecasts = [forecast.MethodForecast(m, 0, 1, 1, 1, 1, 0) for m in ("NoRAG", "Func-PKG")]
    text = "\n".join(forecast.lines(results, forecasts, forecast.Rates()))
    bound = int(re.search(r"at most ([\d,]+) tokens per prompt", text)[1].replace(",", ""))
    longest = max(results.tasks, key=lambda task: len(task.prompt))
    context = Context(longest.id, "Func-PKG", "x" * parse_corpus(results.corpus).length)
    prompt = results.request(longest, context, "Func-PKG").text
    room = (bound - DECODING["max_new_tokens"]) * forecast.CHARS_PER_TOKEN
    assert room - forecast.CHARS_PER_TOKEN < len(prompt) <= room


def test_the_page_on_gpus_has_the_figures_of_its_own_command(nothing_else, monkeypatch, capsys):
    """Where this fails, copy what the dry run prints into docs/gpu.md."""
    page = (ROOT / "docs" / "gpu.md").read_text("utf8")
    _, _, section = page.partition("## Table 1 with the paper's five models")
    command, _, section = section.partition("./run_all.sh ")[2].partition("\n\n")
    monkeypatch.setattr(
        sys, "argv", ["pkg_lib", "run", *command.replace("\\", "").split(), "--dry-run"]
    )
    assert cli.main() == 0
    shown = capsys.readouterr().out.splitlines()
    figures = []
    for model, start in (
        (line.split(" | ")[0], n) for n, line in enumerate(shown) if line.endswith("164 tasks")
    ):
        about = "\n".join(shown[start : start + 20])
        _, at_40, at_80 = re.search(r"80 GB: (.+), (.+), (.+)\n", about).groups()
        weights = re.search(r"weights (.+ GB), cache", about)[1]
        hours = re.search(r"80 GB: (.+), (.+) \(computed", about).groups()
        figures.append([f"`{model}`", weights, at_40, at_80, *hours])
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert [row.strip("| ").split(" | ") for row in rows] == figures and len(rows) == len(PAPER)


def test_no_batch_size_where_no_gpu_is_needed(nothing_else, monkeypatch, capsys):
    assert not [
        line for line in dry_run(monkeypatch, capsys, "--model", OTHER) if "batch size" in line
    ]


def test_a_results_directory_that_is_not_there_is_not_made(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "new"))
    monkeypatch.setattr(
        sys, "argv", "pkg_lib run --dry-run --benchmark humaneval --limit 3".split()
    )
    assert cli.main() == 0
    assert "notebooks: " in capsys.readouterr().out and not (tmp_path / "new").exists()


def test_the_missing_key_of_an_embedder_is_told_first(nothing_else, monkeypatch):
    monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
    monkeypatch.setattr(Generator, "weights", lambda self: pytest.fail("fetched the weights"))
    corpus = with_options("textbook", embedder_spec("voyage-code-2").pinned, 1, 2000, "").name
    results = Results(OTHER, corpus=corpus, limit=2)
    evaluator = Evaluator(results)
    (dense,) = forecast.forecast(evaluator, ["VoyageEmb"], set())
    lines = forecast.lines(results, [dense], forecast.Rates())
    assert sum("VOYAGE_API_KEY is not set" in line for line in lines) == 1
    with pytest.raises(UserError, match="VOYAGE_API_KEY is not set"):
        evaluator.generate(["VoyageEmb"])
    monkeypatch.setenv("VOYAGE_API_KEY", "a-key-of-the-tests")
    lines = forecast.lines(results, [dense], forecast.Rates())
    assert not any("VOYAGE_API_KEY" in line for line in lines)
