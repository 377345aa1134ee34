"""The leaderboard: its rates, its order, missing measurements, and when it is written again."""

from __future__ import annotations

import csv
import json
import math
import os
from unittest.mock import Mock

import pandas as pd
import pytest
from fakes import FakeBackend

from pkg_lib.analysis import leaderboard
from pkg_lib.analysis.comparison import pass_at_k
from pkg_lib.analysis.report import build_report
from pkg_lib.core.limits import MAX_ANSWER_BYTES
from pkg_lib.core.store import slug, write_json, write_jsonl
from pkg_lib.core.types import BenchmarkMissingError, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import condition_fields, method_files
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.papers.pkg.replay import replay
from pkg_lib.retrieval.methods import Sampling, sampled_name

MODEL = "endpoint:mine"  # no configuration describes its server any more
GROUP = "NoRAG, T0.8"
SAMPLES = [
    sampled_name("NoRAG", Sampling(0.8, 0.95, sample=1)),
    sampled_name("NoRAG", Sampling(0.8, 0.95, sample=2)),
]
# For each task, whether the greedy answer, the first sample and the second sample are right.
RIGHT = {"HumanEval/0": (1, 1, 0), "HumanEval/1": (0, 0, 0), "HumanEval/2": (1, 1, 1)}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Results of NoRAG on three tasks, by greedy decoding and by two samples."""
    monkeypatch.setenv("PKG_ENDPOINTS", str(tmp_path / "none.toml"))
    record = {"name": MODEL, "revision": "endpoint-sha256-0"}
    write_json(tmp_path / "cache" / slug(MODEL) / "revision.json", record)
    run = Results(MODEL, limit=3, results=tmp_path)
    tasks = {task.id: task for task in run.tasks}

    def answer(request):
        task = tasks[request.task_id]
        is_right = RIGHT[task.id][request.sample]
        body = task.solution if is_right else "    return None\n"
        return f"```python\n{task.prompt}{body}```"

    evaluator = Evaluator(run, backend=FakeBackend(answer, tokens=4))
    methods = ["NoRAG", *SAMPLES]
    evaluator.generate(methods)
    for method in methods:
        evaluator._judge(run.files(method).samples, run.solutions(method), run.benchmark_spec.job)
    return tmp_path


def add_unknown_model(results):
    """Store a condition of a model that this version does not know."""
    files = method_files(results, "no-such-model", "humaneval", "", "NoRAG")
    write_json(files.condition, condition_fields("no-such-model", "humaneval", "", "NoRAG"))


def missing(*_):
    raise BenchmarkMissingError("no data")


def board(results):
    """Write the leaderboard and return its rows by method and k."""
    leaderboard.write(results)
    rows = json.loads((results / "leaderboard.json").read_text())
    return {(row["column"], row["k"]): row for row in rows}


def test_rates_equal_those_computed_by_hand(results):
    rows = board(results)
    assert list(rows) == [("NoRAG", 1), (GROUP, 1), (GROUP, 2)]
    for row in rows.values():
        assert row["model"] == MODEL
        assert row["revision"] == "endpoint-sha256-0"
        assert row["benchmark"] == "humaneval"
        assert row["protocol"] == "pkg-paper"
    greedy, one, two = rows.values()
    assert greedy["pass_at_k"] == 0.666667
    assert greedy["n"] == 3
    assert greedy["tasks"] == 164
    assert greedy["samples"] == 1
    # Wilson's interval of 2 among 3.
    assert (greedy["low"], greedy["high"]) == (0.20766, 0.938508)
    assert (one["pass_at_k"], one["samples"]) == (0.5, 2)  # (1/2 + 0 + 1) / 3
    assert (two["pass_at_k"], two["samples"]) == (0.666667, 2)  # (1 + 0 + 1) / 3
    assert greedy["prompt_tokens"] == 9
    assert greedy["new_tokens"] == 4
    assert greedy["seconds"] >= 0
    assert len(greedy["verdicts_sha256"]) == 64
    assert greedy["commit"]


def test_omits_values_that_are_not_measured(results):
    run = Results(MODEL, results=results)
    for method in SAMPLES:
        run.files(method).samples.unlink()
    file = next((results / "cache").rglob("norag.jsonl"))
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["meta"].pop("seconds")
    write_jsonl(file, rows)
    row = board(results)["NoRAG", 1]
    assert "seconds" not in row
    assert "corpus" not in row
    assert "corpus_digest" not in row
    with (results / "leaderboard.csv").open(newline="") as table:
        (line,) = csv.DictReader(table)
    assert line["seconds"] == ""
    assert line["corpus"] == ""
    assert float(line["pass_at_k"]) == row["pass_at_k"]


def test_equal_results_give_equal_files_and_the_first_page_links_to_them(results):
    build_report(results)
    names = ("leaderboard.csv", "leaderboard.json")
    first = [(results / name).read_bytes() for name in names]
    page = build_report(results).read_text("utf8")
    for name in names:
        assert f'href="{name}"' in page
    assert [(results / name).read_bytes() for name in names] == first


def test_page_shows_each_row_with_its_interval_and_filters(results):
    index = build_report(results)
    text = (index.parent / "site" / "leaderboard.html").read_text("utf8")
    assert text.count('<th scope="row"') == len(board(results)) == 3
    assert "is stored: 3 rows," in text
    assert "HumanEval: 3 rows" in text
    assert text.count(" data-choose>") == 3
    # The rate 0.666667 with its interval of 0.20766 to 0.938508.
    assert "66.7" in text
    assert "20.8–93.9" in text
    assert 'href="../leaderboard.csv"' in text


def test_rows_name_served_models_oracles_and_replayed_answers(tmp_path):
    row = {
        "benchmark": "humaneval",
        "corpus": "published",
        "k": 1,
        "pass_at_k": 0.5,
        "n": 1,
        "tasks": 1,
        "revision": "r",
        "column": "NoRAG",
    }
    rows = [
        row | {"model": "endpoint:a"},
        row | {"model": "endpoint:b", "column": "Ideal Reranker"},
        row | {"model": "gpt", "revision": "replay"},
    ]
    (tmp_path / "leaderboard.json").write_text(json.dumps(rows))
    write_json(tmp_path / "cache" / slug("endpoint:a") / "revision.json", {"model": "m.gguf"})
    entries = leaderboard.entries(tmp_path)
    models = [entry.model for entry in entries]
    assert models == ["m.gguf at endpoint:a", "gpt (replayed answers)", "endpoint:b"]
    methods = [entry.method for entry in entries]
    assert methods == ["NoRAG", "NoRAG", "Ideal Reranker (oracle)"]
    assert {entry.corpus for entry in entries} == {"authors' contexts"}


def test_complete_rates_precede_partial_ones_and_methods_precede_oracles(tmp_path):
    row = {"benchmark": "humaneval", "model": "m", "k": 1, "tasks": 9, "revision": "r"}
    rows = [
        row | {"column": "Block-PKG", "n": 3, "pass_at_k": 1.0},
        row | {"column": "Ideal Reranker", "n": 9, "pass_at_k": 0.9},
        row | {"column": "Func-PKG", "n": 9, "pass_at_k": 0.2},
        row | {"column": "NoRAG", "n": 9, "pass_at_k": 0.5},
    ]
    (tmp_path / "leaderboard.json").write_text(json.dumps(rows))
    methods = [entry.method for entry in leaderboard.entries(tmp_path)]
    assert methods == ["NoRAG", "Func-PKG", "Ideal Reranker (oracle)", "Block-PKG"]


def test_omits_an_interval_of_width_zero(results):
    """Both samples of the only task agree, so every resample is the same."""
    verdicts = pd.DataFrame({"a": [True], "b": [True]}, ["HumanEval/0"], dtype="boolean")
    samples = pd.concat({"NoRAG": verdicts}, axis="columns")
    (rate,) = pass_at_k(samples, 2).to_dict("records")
    assert rate["pass_at_k"] == 1
    assert math.isnan(rate["low"])
    assert math.isnan(rate["high"])


def test_reports_an_unreadable_experiment_and_keeps_the_others(results, caplog):
    add_unknown_model(results)
    assert ("NoRAG", 1) in board(results)
    assert "leaderboard without no-such-model | humaneval: unknown model" in caplog.text


@pytest.fixture
def written(results, monkeypatch):
    """List with one item for each time that the table was written."""
    calls = []
    csv_text = leaderboard.csv_text

    def record_and_write(*arguments, **options):
        calls.append(arguments)
        return csv_text(*arguments, **options)

    monkeypatch.setattr(leaderboard, "csv_text", record_and_write)
    return calls


def test_is_written_again_only_when_a_record_or_a_file_of_its_own_changes(results, written):
    before = board(results)
    assert board(results) == before
    assert len(written) == 1

    (results / "leaderboard.csv").write_text("model\n")
    assert board(results) == before
    assert len(written) == 2

    changed = [row | {"pass_at_k": 0.123} for row in before.values()]
    write_json(results / "leaderboard.json", changed)
    assert board(results) == before
    assert len(written) == 3
    assert len((results / "leaderboard.csv").read_text().splitlines()) == 4

    Results(MODEL, results=results).files(SAMPLES[1]).samples.unlink()
    assert (GROUP, 2) not in board(results)
    assert len(written) == 4


def test_reads_only_experiments_whose_records_changed(results, monkeypatch):
    try:
        other = Results(MODEL, "mbpp", limit=1, results=results)
    except BenchmarkMissingError as e:
        pytest.skip(str(e))
    backend = FakeBackend(lambda request: "def f(): pass", tokens=4)
    Evaluator(other, backend=backend).prepare(["NoRAG"])
    before = board(results)
    monkeypatch.setattr(leaderboard, "Results", Mock(wraps=Results))
    Results(MODEL, "mbpp", results=results).files("NoRAG").condition.touch()
    folder = results / "replay" / "closed" / "humaneval"
    folder.mkdir(parents=True)
    (folder / "other.json").write_text("{}")
    assert board(results) == before
    assert leaderboard.Results.call_count == 0
    Results(MODEL, results=results).files(SAMPLES[1]).samples.unlink()
    assert (GROUP, 2) not in board(results)
    benchmarks = [call.args[1] for call in leaderboard.Results.call_args_list]
    assert benchmarks == ["humaneval"]


@pytest.mark.parametrize("what", ["an experiment", "a replay"])
def test_reads_an_omitted_experiment_again_every_time(results, written, what, caplog):
    """It may be repaired without a changed record, as in the file of endpoints."""
    if what == "an experiment":
        add_unknown_model(results)
    else:
        folder = results / "replay" / "closed" / "humaneval"
        write_json(folder / "no_rag.done.json", {"protocol": "standard"})
        (folder / "no_rag.jsonl.gz").write_text("{damaged\n")
    assert board(results) == board(results)
    assert ("NoRAG", 1) in board(results)
    assert len(written) == 3
    assert "leaderboard without" in caplog.text


def test_unchecked_verdicts_are_checked_once_the_tasks_are_available(results, written, monkeypatch):
    with monkeypatch.context() as while_missing:
        while_missing.setattr(BENCHMARKS["humaneval"].__class__, "tasks", missing)
        leaderboard.write(results)
        leaderboard.write(results)
        assert len(written) == 1
    assert ("NoRAG", 1) in board(results)
    assert len(written) == 2
    leaderboard.write(results)
    assert len(written) == 2


def test_includes_replayed_answers(results, tmp_path):
    samples = tmp_path / "samples" / "humaneval" / "no_rag.jsonl"
    tasks = Results(MODEL, limit=4, results=results).tasks
    write_jsonl(samples, [{"task_id": t.id, "completion": t.solution} for t in tasks])
    assert ("NoRAG", 1) in board(results)
    replay(samples.parents[1], results / "replay" / "closed")
    leaderboard.write(results)
    *_, row = json.loads((results / "leaderboard.json").read_text())
    assert (row["model"], row["column"], row["revision"]) == ("closed", "NoRAG", "replay")
    assert (row["n"], row["tasks"], row["pass_at_k"]) == (4, 164, 1.0)


def test_without_measurements_no_file_is_written(tmp_path):
    leaderboard.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["leaderboard.json", "leaderboard.csv", "leaderboard.made.json"])
def test_reports_a_fifo_in_place_of_its_files(results, name, monkeypatch, no_waiting):
    monkeypatch.setenv("PKG_RESULTS", str(results))
    os.mkfifo(results / name)
    with pytest.raises(UserError, match=name):
        build_report(results)
    assert (results / name).is_fifo()


def test_reports_a_link_to_itself_among_the_answers(results, monkeypatch):
    (completions,) = (results / "cache").rglob("norag.jsonl")
    samples = Results(MODEL, results=results).files("NoRAG").samples
    for stored, read in ((completions, Results.completions), (samples, Results.outcomes)):
        kept = stored.read_bytes()
        stored.unlink()
        stored.symlink_to(stored.name)
        with pytest.raises(UserError, match=stored.name):
            read(Results(MODEL, limit=3, results=results), "NoRAG")
        build_report(results)
        stored.unlink()
        stored.write_bytes(kept)


@pytest.mark.parametrize("text", ["{", '{"name": 1}'])
def test_damaged_record_of_a_model_causes_only_one_warning(results, text, caplog):
    (path,) = (results / "cache").rglob("revision.json")
    path.write_text(text)
    leaderboard.write(results)
    (warning,) = caplog.messages
    assert str(path) in warning
    assert "unknown model" not in warning


def test_reports_answers_above_the_size_limit_once_per_file(results, caplog):
    (file,) = (results / "cache").rglob("norag.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows[:2]:
        row["raw"] += " " * MAX_ANSWER_BYTES
    write_jsonl(file, rows)
    GenerationCache(results / "cache" / slug(MODEL))
    (warning,) = caplog.messages
    assert f"{file}: answers longer than 1 MB" in warning
    assert warning.endswith(": 2")
