"""The leaderboard: rates by hand, draws by the unbiased estimator, what is not measured absent, the same bytes."""

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
from pkg_lib.core.types import BenchmarkMissing, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import condition_fields, method_files
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.papers.pkg.replay import replay
from pkg_lib.retrieval.methods import Sampling, sampled_name

MODEL = "endpoint:mine"  # whose server is described nowhere any more
GROUP = "NoRAG, T0.8"
DRAWS = [sampled_name("NoRAG", Sampling(0.8, 0.95, sample=n)) for n in (1, 2)]
# task -> which of (greedy, first draw, second draw) are right
RIGHT = {"HumanEval/0": (1, 1, 0), "HumanEval/1": (0, 0, 0), "HumanEval/2": (1, 1, 1)}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Three tasks of column None and of two draws of it."""
    monkeypatch.setenv("PKG_ENDPOINTS", str(tmp_path / "none.toml"))
    record = {"name": MODEL, "revision": "endpoint-sha256-0"}
    write_json(tmp_path / "cache" / slug(MODEL) / "revision.json", record)
    run = Results(MODEL, limit=3, results=tmp_path)
    tasks = {t.id: t for t in run.tasks}

    def answer(request):
        task = tasks[request.task_id]
        body = task.solution if RIGHT[task.id][request.sample] else "    return None\n"
        return f"```python\n{task.prompt}{body}```"

    preparer = Evaluator(run, backend=FakeBackend(answer, tokens=4))
    preparer.generate(["NoRAG", *DRAWS])
    for column in ("NoRAG", *DRAWS):
        preparer._judge(run.files(column).samples, run.solutions(column), run.benchmark_spec.job)
    return tmp_path


def add_unknown_model(results):
    """A condition of a model that this version does not know."""
    files = method_files(results, "no-such-model", "humaneval", "", "NoRAG")
    write_json(files.condition, condition_fields("no-such-model", "humaneval", "", "NoRAG"))


def missing(*_):
    raise BenchmarkMissing("no data")


def board(results):
    """(column, k) -> row of the JSON file."""
    leaderboard.write(results)
    return {
        (r["column"], r["k"]): r for r in json.loads((results / "leaderboard.json").read_text())
    }


def test_rates_are_those_by_hand(results):
    rows = board(results)
    assert list(rows) == [("NoRAG", 1), (GROUP, 1), (GROUP, 2)]
    greedy, one, two = rows.values()
    about = {
        "model": MODEL,
        "revision": "endpoint-sha256-0",
        "benchmark": "humaneval",
        "protocol": "pkg-paper",
    }
    assert all(about.items() <= row.items() for row in rows.values())
    assert (greedy["pass_at_k"], greedy["n"], greedy["tasks"], greedy["samples"]) == (
        0.666667,
        3,
        164,
        1,
    )
    assert (greedy["low"], greedy["high"]) == (0.20766, 0.938508)  # Wilson's, of 2 among 3, by hand
    assert (one["pass_at_k"], one["samples"]) == (0.5, 2)  # (1/2 + 0 + 1) / 3
    assert (two["pass_at_k"], two["samples"]) == (0.666667, 2)  # (1 + 0 + 1) / 3
    assert (greedy["prompt_tokens"], greedy["new_tokens"]) == (9, 4) and greedy["seconds"] >= 0
    assert len(greedy["verdicts_sha256"]) == 64 and greedy["commit"]


def test_what_is_not_measured_is_absent(results):
    run = Results(MODEL, results=results)
    for column in DRAWS:
        run.files(column).samples.unlink()
    file = next((results / "cache").rglob("norag.jsonl"))
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["meta"].pop("seconds")
    write_jsonl(file, rows)
    row = board(results)["NoRAG", 1]
    assert "seconds" not in row and "corpus" not in row and "corpus_digest" not in row
    with (results / "leaderboard.csv").open(newline="") as table:
        (line,) = csv.DictReader(table)
    assert line["seconds"] == line["corpus"] == "" and float(line["pass_at_k"]) == row["pass_at_k"]


def test_the_same_results_give_the_same_bytes_and_the_first_page_leads_there(results):
    build_report(results)
    names = ("leaderboard.csv", "leaderboard.json")
    first = [(results / name).read_bytes() for name in names]
    page = build_report(results).read_text("utf8")
    assert all(f'href="{name}"' in page for name in names)
    assert [(results / name).read_bytes() for name in names] == first


def test_the_page_has_each_row_with_its_interval_and_what_can_be_chosen(results):
    text = build_report(results).parent.joinpath("site", "leaderboard.html").read_text("utf8")
    assert text.count('<th scope="row">') == len(board(results)) == 3
    assert "experiment, 3 rows," in text and "HumanEval: 3 rows" in text
    assert text.count(" data-choose>") == 3
    assert "66.7" in text and "20.8–93.9" in text  # 0.666667, and its ends 0.20766 and 0.938508
    assert 'href="../leaderboard.csv"' in text


def test_rows_say_what_an_endpoint_serves_and_which_answers_are_oracles_or_replayed(tmp_path):
    row = {"benchmark": "humaneval", "corpus": "published", "k": 1, "pass_at_k": 0.5}
    row |= {"n": 1, "tasks": 1, "revision": "r", "column": "NoRAG"}
    rows = [
        row | {"model": "endpoint:a"},
        row | {"model": "endpoint:b", "column": "Ideal Reranker"},
        row | {"model": "gpt", "revision": "replay"},
    ]
    (tmp_path / "leaderboard.json").write_text(json.dumps(rows))
    write_json(tmp_path / "cache" / slug("endpoint:a") / "revision.json", {"model": "m.gguf"})
    shown = leaderboard.entries(tmp_path)
    assert [e.model for e in shown] == [
        "m.gguf at endpoint:a",
        "gpt (replayed answers)",
        "endpoint:b",
    ]
    assert [e.method for e in shown] == ["NoRAG", "NoRAG", "Ideal Reranker (oracle)"]
    assert {e.corpus for e in shown} == {"authors' contexts"}


def test_rates_of_all_tasks_come_first_then_those_of_some_and_oracles_after_methods(tmp_path):
    row = {"benchmark": "humaneval", "model": "m", "k": 1, "tasks": 9, "revision": "r"}
    rows = [
        row | {"column": "Block-PKG", "n": 3, "pass_at_k": 1.0},
        row | {"column": "Ideal Reranker", "n": 9, "pass_at_k": 0.9},
        row | {"column": "Func-PKG", "n": 9, "pass_at_k": 0.2},
        row | {"column": "NoRAG", "n": 9, "pass_at_k": 0.5},
    ]
    (tmp_path / "leaderboard.json").write_text(json.dumps(rows))
    shown = [e.method for e in leaderboard.entries(tmp_path)]
    assert shown == ["NoRAG", "Func-PKG", "Ideal Reranker (oracle)", "Block-PKG"]


def test_an_interval_without_width_is_left_out(results):
    """Both samples of one task agree: every resample is the same."""
    verdicts = pd.DataFrame({"a": [True], "b": [True]}, ["HumanEval/0"], dtype="boolean")
    (rate,) = pass_at_k(pd.concat({"NoRAG": verdicts}, axis="columns"), 2).to_dict("records")
    assert rate["pass_at_k"] == 1 and math.isnan(rate["low"]) and math.isnan(rate["high"])


def test_an_experiment_that_cannot_be_read_is_named_and_the_others_stay(results, caplog):
    add_unknown_model(results)
    assert ("NoRAG", 1) in board(results)
    assert "leaderboard without no-such-model | humaneval: unknown model" in caplog.text


@pytest.fixture
def built(results, monkeypatch):
    """A list that grows when the rows are made, once for each table that is written."""
    made, write_csv = [], leaderboard.csv_text
    monkeypatch.setattr(
        leaderboard, "csv_text", lambda *of, **how: made.append(of) or write_csv(*of, **how)
    )
    return made


def test_it_is_made_again_only_when_a_record_changes_or_itself(results, built):
    before = board(results)
    assert board(results) == before and len(built) == 1
    (results / "leaderboard.csv").write_text("model\n")
    assert board(results) == before and len(built) == 2
    changed = [row | {"pass_at_k": 0.123} for row in before.values()]
    write_json(results / "leaderboard.json", changed)
    assert board(results) == before and len(built) == 3
    assert len((results / "leaderboard.csv").read_text().splitlines()) == 4
    Results(MODEL, results=results).files(DRAWS[1]).samples.unlink()
    assert (GROUP, 2) not in board(results) and len(built) == 4


def test_only_experiments_whose_records_changed_are_read_again(results, monkeypatch):
    try:
        other = Results(MODEL, "mbpp", limit=1, results=results)
    except BenchmarkMissing as e:
        pytest.skip(str(e))
    Evaluator(other, backend=FakeBackend(lambda request: "def f(): pass", tokens=4)).prepare(
        ["NoRAG"]
    )
    before = board(results)
    monkeypatch.setattr(leaderboard, "Results", Mock(wraps=Results))
    (Results(MODEL, "mbpp", results=results).files("NoRAG").condition).touch()
    folder = results / "replay" / "closed" / "humaneval"
    folder.mkdir(parents=True)
    (folder / "other.json").write_text("{}")
    assert board(results) == before and leaderboard.Results.call_count == 0
    Results(MODEL, results=results).files(DRAWS[1]).samples.unlink()
    assert (GROUP, 2) not in board(results)
    assert [call.args[1] for call in leaderboard.Results.call_args_list] == ["humaneval"]


@pytest.mark.parametrize("what", ["an experiment", "a replay"])
def test_what_was_left_out_is_looked_for_again(results, built, what, caplog):
    """It may be repaired where no record tells, as in the file of endpoints."""
    if what == "an experiment":
        add_unknown_model(results)
    else:
        folder = results / "replay" / "closed" / "humaneval"
        write_json(folder / "no_rag.done.json", {"protocol": "standard"})
        (folder / "no_rag.jsonl.gz").write_text("{damaged\n")
    assert board(results) == board(results) and ("NoRAG", 1) in board(results)
    assert len(built) == 3 and "leaderboard without" in caplog.text


def test_verdicts_that_no_task_checked_are_checked_when_the_tasks_are_there(
    results, built, monkeypatch
):
    with monkeypatch.context() as then:
        then.setattr(BENCHMARKS["humaneval"].__class__, "tasks", missing)
        leaderboard.write(results)
        leaderboard.write(results)
        assert len(built) == 1
    assert ("NoRAG", 1) in board(results) and len(built) == 2
    leaderboard.write(results)
    assert len(built) == 2


def test_what_was_replayed_stands_beside_it(results, tmp_path):
    samples = tmp_path / "samples" / "humaneval" / "no_rag.jsonl"
    right = {t.id: t.solution for t in Results(MODEL, limit=4, results=results).tasks}
    write_jsonl(samples, ({"task_id": i, "completion": text} for i, text in right.items()))
    assert ("NoRAG", 1) in board(results)
    replay(samples.parents[1], results / "replay" / "closed")
    leaderboard.write(results)
    *_, row = json.loads((results / "leaderboard.json").read_text())
    assert (row["model"], row["column"], row["revision"]) == ("closed", "NoRAG", "replay")
    assert (row["n"], row["tasks"], row["pass_at_k"]) == (4, 164, 1.0)


def test_nothing_measured_makes_no_file(tmp_path):
    leaderboard.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["leaderboard.json", "leaderboard.csv", "leaderboard.made.json"])
def test_a_fifo_in_place_of_its_files_is_named(results, name, monkeypatch, no_waiting):
    monkeypatch.setenv("PKG_RESULTS", str(results))
    os.mkfifo(results / name)
    with pytest.raises(UserError, match=name):
        build_report(results)
    assert (results / name).is_fifo()


def test_a_link_to_itself_among_the_answers_is_named(results, monkeypatch):
    (file,) = (results / "cache").rglob("norag.jsonl")
    for stored in [file, Results(MODEL, results=results).files("NoRAG").samples]:
        kept = stored.read_bytes()
        stored.unlink()
        stored.symlink_to(stored.name)
        with pytest.raises(UserError, match=stored.name):
            Results(MODEL, limit=3, results=results).completions("NoRAG")
            Results(MODEL, limit=3, results=results).outcomes("NoRAG")
        build_report(results)
        stored.unlink()
        stored.write_bytes(kept)


@pytest.mark.parametrize("text", ["{", '{"name": 1}'])
def test_a_damaged_record_of_a_model_is_the_only_warning_about_it(results, text, caplog):
    (path,) = (results / "cache").rglob("revision.json")
    path.write_text(text)
    leaderboard.write(results)
    (warning,) = caplog.messages
    assert str(path) in warning and "unknown model" not in warning


def test_answers_beyond_the_limit_are_reported_once_for_each_file(results, caplog):
    (file,) = (results / "cache").rglob("norag.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows[:2]:
        row["raw"] += " " * MAX_ANSWER_BYTES
    write_jsonl(file, rows)
    GenerationCache(results / "cache" / slug(MODEL))
    (warning,) = caplog.messages
    assert f"{file}: answers longer than 1 MB" in warning and warning.endswith(": 2")
