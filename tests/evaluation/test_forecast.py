"""A dry run counts stored completions and estimates the rest. It computes and writes nothing."""

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
OTHER = "qwen2.5-coder-1.5b-instruct"  # nothing is stored of this model


@pytest.fixture
def stored_only(committed, monkeypatch):
    """The committed results, without those of OTHER. Retrieval and weights are unavailable."""
    shutil.rmtree(committed / "cache" / OTHER, ignore_errors=True)
    for folder in (committed / "runs").glob(f"*/{OTHER}"):
        shutil.rmtree(folder, ignore_errors=True)
    monkeypatch.setattr(forecast, "speeds", dict)  # nothing was measured on this machine
    monkeypatch.setattr(
        "pkg_lib.evaluation.stored_answers.knowledge_of",
        lambda corpus: pytest.fail("a corpus was loaded"),
    )
    return committed


def keep_first(results, folder, count):
    """Keep only the first stored completions of a method, and return them."""
    path = results / "cache" / study.MODEL / "humaneval" / FIRST.corpus / f"{folder}.jsonl"
    lines = unpacked(path).read_text().splitlines(keepends=True)[:count]
    path.write_text("".join(lines))
    return [json.loads(line) for line in lines]


def test_missing_completions_are_estimated_by_the_mean_of_the_stored_ones(stored_only):
    rows = keep_first(stored_only, "func-bm25", 100)
    evaluator = Evaluator(Results(study.MODEL, corpus=FIRST.corpus))
    (bm25,) = forecast.forecast(evaluator, ["Func-BM25"], set())
    assert (bm25.cached, bm25.missing, bm25.stored) == (100, 64, 100)
    mean_new_tokens = sum(len(row["tokens"]) for row in rows) / 100
    assert bm25.new_tokens == pytest.approx(bm25.todo * mean_new_tokens)
    mean_prompt_tokens = sum(row["prompt_tokens"] for row in rows) / 100
    assert bm25.prompt_tokens == pytest.approx(bm25.todo * mean_prompt_tokens)
    assert 60 <= bm25.todo <= 64  # another method may share a prompt


def test_without_stored_completions_the_estimate_is_an_upper_bound(stored_only):
    results = Results(OTHER, "humaneval", "textbook+stdlib", 8)
    methods = ["NoRAG", "BM25", "VoyageEmb"]
    seen = set()
    forecasts = forecast.forecast(Evaluator(results), methods, seen)
    for of_method in forecasts:
        assert (of_method.cached, of_method.missing, of_method.stored) == (0, 8, 0)

    task_of_id = {task.id: task for task in results.tasks}
    prompts = set()
    for method in methods:
        for context in results.contexts(method):
            task = task_of_id[context.task_id]
            prompts.add(results.request(task, context, context.method).text)
    todo = sum(of_method.todo for of_method in forecasts)
    assert todo == len(prompts) < 24, "equal prompts are completed once"

    no_rag, bm25, _ = forecasts
    assert no_rag.new_tokens == 8 * DECODING["max_new_tokens"]
    assert 0 < no_rag.prompt_tokens < bm25.prompt_tokens
    text = "\n".join(forecast.lines(results, forecasts, forecast.Rates()))
    assert "estimated" in text
    assert "may have (512)" in text

    other_corpus = Results(OTHER, "humaneval", "pkg-contexts", 8)
    (no_rag,) = forecast.forecast(Evaluator(other_corpus), ["NoRAG"], seen)
    assert no_rag.todo == 0, "both corpora share the completions of NoRAG"


def test_counts_every_task_whose_context_is_not_retrieved(stored_only):
    evaluator = Evaluator(Results(study.MODEL, "humaneval", "stdlib", 5))
    (func_pkg,) = forecast.forecast(evaluator, ["Func-PKG"], set())
    assert (func_pkg.cached, func_pkg.missing, func_pkg.todo) == (0, 5, 5)
    assert func_pkg.stored > 0


def test_estimates_time_and_price(stored_only, monkeypatch):
    forecasts = [forecast.MethodForecast("NoRAG", 0, 10, 10, 2e6, 7200, 1)]

    def cost(model, **rates):
        return forecast.cost(Results(model, limit=2), forecasts, forecast.Rates(**rates))

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
        "a speed on a CPU does not predict the speed on a GPU"
    )
    total = forecast.total([cost(study.MODEL, prices=prices), cost(OTHER, prices=prices)])
    assert total.todo == 20
    assert total.seconds == pytest.approx(600)
    assert total.dollars is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,price\na,1\n", "input_usd_per_million"),
        ("model,input_usd_per_million,output_usd_per_million\na,x,1\n", "cannot read prices"),
        ("model,input_usd_per_million,output_usd_per_million\na,-1,1\n", "no number of 0 or more"),
    ],
)
def test_rejects_an_invalid_price_table(tmp_path, text, message):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        cost.read_prices(tmp_path / "p.csv")


def test_reads_the_price_table_of_the_notebook_and_one_with_gaps(tmp_path):
    assert cost.read_prices(cost.PRICES).loc[study.MODEL].tolist() == [0, 0]
    path = tmp_path / "p.csv"
    path.write_text("model,input_usd_per_million,output_usd_per_million\na,1,2\nlater,,\n")
    priced = cost.read_prices(path).dropna()
    assert priced.T.to_dict("list") == {"a": [1, 2]}


def modification_times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_dry_run_prints_an_estimate_and_writes_nothing(stored_only, monkeypatch, capsys, tmp_path):
    prices = tmp_path / "prices.csv"
    prices.write_text(f"model,input_usd_per_million,output_usd_per_million\n{OTHER},1,2\n")
    before = modification_times(stored_only)
    command = ["pkg_lib", "run", "--dry-run", "--tokens-per-second", "10"]
    command += ["--model", study.MODEL, "--model", OTHER, "--benchmark", "humaneval"]
    command += ["--prices", str(prices)]
    monkeypatch.setattr(sys, "argv", command)
    assert cli.main() == 0
    printed = capsys.readouterr().out
    assert modification_times(stored_only) == before
    assert f"{study.MODEL} | humaneval | {FIRST.corpus}: 164 tasks" in printed
    assert "to complete: nothing" in printed
    assert "US dollars" in printed
    assert "at the given 10 new tokens/s" in printed
    assert "total to generate: " in printed


# Number of prompts in a batch on GPUs of 24, 40 and 80 GB, for each model of the paper.
BATCH_SIZES = {
    "codellama-7b-instruct": ("4", "12", "31"),
    "codellama-13b-instruct": ("too small", "3", "15"),
    "llama-3.1-8b-instruct": ("11", "41", "115"),
    "starcoder2-7b-instruct": ("31", "95", "253"),
    "deepseek-coder-7b-instruct": ("4", "13", "34"),
}


def dry_run(monkeypatch, capsys, *words):
    """Return the lines of a dry run of NoRAG on HumanEval."""
    command = ["pkg_lib", "run", "--dry-run", "--benchmark", "humaneval", "--corpus", "textbook"]
    command += [*words, "--method", "NoRAG", "--notebook", "rq1_code_pkg"]
    monkeypatch.setattr(sys, "argv", command)
    assert cli.main() == 0
    return capsys.readouterr().out.splitlines()


def batch_size_lines(lines):
    return [line for line in lines if "batch size" in line]


def test_batch_size_of_the_papers_models(stored_only, monkeypatch, capsys):
    """The batch fills 0.9 of the memory that the weights leave, and holds at most 256 prompts.

    Each prompt takes twice the cache of 1,722 to 1,846 tokens.
    """
    models = []
    for name in BATCH_SIZES:
        models += ["--model", name]
    lines = dry_run(monkeypatch, capsys, *models)
    sizes = []
    for line in batch_size_lines(lines):
        head, _, counts = line.rpartition(": ")
        assert head.endswith(" of 24 GB, 40 GB, 80 GB")
        sizes.append(tuple(counts.split(", ")))
    assert sizes == list(BATCH_SIZES.values())
    assert sum("524,288 bytes per token" in line and "13.5 GB" in line for line in lines) == 1
    assert sum("time on one A100" in line for line in lines) == len(BATCH_SIZES)


def test_batch_size_of_this_gpu_and_of_the_user(stored_only, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda gpu: (20 * 10**9, 24 * 10**9))
    model = ("--model", "codellama-7b-instruct")
    (size,) = batch_size_lines(dry_run(monkeypatch, capsys, *model))
    # The two GPUs have 40 GB free together.
    assert size.endswith("24 GB, 40 GB, 80 GB, this GPU: 4, 12, 31, 12")

    (size,) = batch_size_lines(dry_run(monkeypatch, capsys, *model, "--slots", "7"))
    assert " 7 prompts" in size
    assert "too many" in size
    assert "24 GB (4)" in size
    assert "40 GB" not in size, "seven prompts fit into 40 GB"

    (size,) = batch_size_lines(dry_run(monkeypatch, capsys, *model, "--slots", "1000000"))
    assert "too many" in size
    assert "80 GB (31)" in size
    assert "this GPU (12)" in size


@pytest.mark.parametrize("model", BATCH_SIZES)
def test_no_prompt_is_longer_than_the_bound_of_the_dry_run(stored_only, model):
    results = Results(model, corpus="textbook+stdlib")
    forecasts = [
        forecast.MethodForecast("NoRAG", 0, 1, 1, 1, 1, 0),
        forecast.MethodForecast("Func-PKG", 0, 1, 1, 1, 1, 0),
    ]
    text = "\n".join(forecast.lines(results, forecasts, forecast.Rates()))
    bound = int(re.search(r"at most ([\d,]+) tokens per prompt", text)[1].replace(",", ""))
    longest = max(results.tasks, key=lambda task: len(task.prompt))
    context = Context(longest.id, "Func-PKG", "x" * parse_corpus(results.corpus).length)
    prompt = results.request(longest, context, "Func-PKG").text
    longest_prompt = (bound - DECODING["max_new_tokens"]) * forecast.CHARS_PER_TOKEN
    assert longest_prompt - forecast.CHARS_PER_TOKEN < len(prompt) <= longest_prompt


def figures_of_models(printed):
    """Return the figures of each model in a printed dry run, as the cells of a table row."""
    lines = printed.splitlines()
    rows = []
    for number, line in enumerate(lines):
        if not line.endswith("164 tasks"):
            continue
        model = line.split(" | ")[0]
        about = "\n".join(lines[number : number + 20])
        _, at_40, at_80 = re.search(r"80 GB: (.+), (.+), (.+)\n", about).groups()
        weights = re.search(r"weights (.+ GB), cache", about)[1]
        hours = re.search(r"80 GB: (.+), (.+) \(computed", about).groups()
        rows.append([f"`{model}`", weights, at_40, at_80, *hours])
    return rows


def test_documented_gpu_figures_match_the_documented_command(stored_only, monkeypatch, capsys):
    """If this fails, copy what the dry run prints into docs/gpu.md."""
    page = (ROOT / "docs" / "gpu.md").read_text("utf8")
    _, _, section = page.partition("## Table 1 with the paper's five models")
    _, _, after_script = section.partition("./run_all.sh ")
    options, _, after_command = after_script.partition("\n\n")
    command = ["pkg_lib", "run", *options.replace("\\", "").split(), "--dry-run"]
    monkeypatch.setattr(sys, "argv", command)
    assert cli.main() == 0

    section_lines = after_command.partition("\n## ")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in section_lines if line.startswith("| `")]
    assert rows == figures_of_models(capsys.readouterr().out)
    assert len(rows) == len(BATCH_SIZES)


def test_prints_no_batch_size_for_a_model_without_a_gpu(stored_only, monkeypatch, capsys):
    assert batch_size_lines(dry_run(monkeypatch, capsys, "--model", OTHER)) == []


def test_dry_run_does_not_create_the_results_directory(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "new"))
    command = "pkg_lib run --dry-run --benchmark humaneval --limit 3"
    monkeypatch.setattr(sys, "argv", command.split())
    assert cli.main() == 0
    assert "notebooks: " in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


def test_reports_a_missing_embedder_key_before_the_weights_are_fetched(stored_only, monkeypatch):
    monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
    monkeypatch.setattr(Generator, "weights", lambda self: pytest.fail("the weights were fetched"))
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
