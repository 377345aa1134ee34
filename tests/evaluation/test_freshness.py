"""What decides whether a notebook is executed again: contents, not times, and all that it may read."""

from __future__ import annotations

import os

import pytest

from pkg_lib.core import store
from pkg_lib.evaluation import freshness, study
from pkg_lib.evaluation.freshness import Records
from pkg_lib.evaluation.study import NotebookJob

MODEL, STEM = "m", "m.humaneval.textbook.n"
PARAMETERS = {"model": MODEL, "benchmark": "humaneval", "corpus": "textbook", "limit": None}
READ = [
    "contexts/humaneval/textbook/bm25/contexts.jsonl",
    "contexts/humaneval/none/norag/contexts.jsonl",
    "cache/m/humaneval/none/norag.jsonl",
    "cache/m/mbpp/none/norag.jsonl",
    "runs/humaneval/m/textbook/bm25/condition.json",
    "replay/gpt/table.csv",
    "runs/humaneval/m/none/norag/samples.jsonl",
    "runs/humaneval/controls/return-None/samples.jsonl",
    "benchmarks/graph.json",
]
OTHERS = [
    "contexts/mbpp/textbook/bm25/contexts.jsonl",
    "runs/humaneval/m/stdlib/bm25/samples.jsonl",
    "cache/n/humaneval/none.jsonl",
]
LEFT = [
    f"tables/{STEM}.csv",
    f"tables/{STEM}.json",
    f"figures/{STEM}.rates.png",
    f"notebooks/{STEM}.ipynb",
]


@pytest.fixture
def results(tmp_path):
    for name in [*READ, *OTHERS, *LEFT, "source.ipynb"]:
        path = tmp_path / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "results"


@pytest.fixture
def job(results, monkeypatch):
    """A job with these parameters changed; its notebook lies in the results."""
    monkeypatch.setattr(study, "NOTEBOOKS", results)
    return lambda **changed: NotebookJob("source", PARAMETERS | changed, STEM)


def unchanged(results, job):
    return Records(results).is_current(job)


def keep(results, job):
    """Records a job as a run does."""
    records = Records(results)
    records.is_current(job)
    records.keep(job)


def test_unchanged_after_a_run_and_in_a_clone_with_other_times(results, job):
    assert not unchanged(results, job())
    keep(results, job())
    for path in results.rglob("*.*"):
        os.utime(path, (1, 1))
    assert unchanged(results, job())
    (results / "notebooks" / f"{STEM}.made.json").write_text('{"from"')  # a damaged record
    assert not unchanged(results, job())
    keep(results, job())
    Records(results).forget(job())
    assert not unchanged(results, job())


@pytest.mark.parametrize("name", [*READ, *LEFT, "source.ipynb"])
def test_what_is_read_or_left_decides(results, job, name):
    keep(results, job())
    (results / name).write_text("else")
    assert not unchanged(results, job())
    if name != "source.ipynb":
        (results / name).write_text(name)
        assert unchanged(results, job())
        (results / name).unlink()
        assert not unchanged(results, job())


def test_a_new_file_decides_and_that_of_another_experiment_does_not(results, job):
    keep(results, job())
    for name in OTHERS:
        (results / name).write_text("else")
    for suffix in (".tmp", ".part"):
        (results / f"contexts/humaneval/textbook/bm25/validity.jsonl{suffix}").write_text("half")
    assert unchanged(results, job())
    (results / "contexts/humaneval/textbook/bm25/validity.jsonl").write_text("whole")
    assert not unchanged(results, job())


def test_a_notebook_about_no_model_reads_every_experiment(results, job):
    whole = NotebookJob("source", {"limit": None}, STEM)
    keep(results, whole)
    (results / OTHERS[0]).write_text("else")
    assert not unchanged(results, whole)


def test_parameters_and_the_program_decide(results, job, tmp_path, monkeypatch):
    keep(results, job())
    assert not unchanged(results, job(limit=3))
    (tmp_path / "pkg_lib").mkdir()
    (tmp_path / "requirements.txt").write_text("")
    monkeypatch.setattr(store, "ROOT", tmp_path)
    monkeypatch.setattr(freshness, "package_digest", store.package_digest.__wrapped__)
    first = Records(results).made_from(job())
    (tmp_path / "pkg_lib" / "style.mplstyle").write_text("font.size: 99")
    assert first != Records(results).made_from(job()) and not unchanged(results, job())


def test_the_contents_of_the_users_own_corpus_decide(results, job, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "a.py").write_text("x = 1\n")
    own = job(corpus=f"source:{code}")
    keep(results, own)
    assert unchanged(results, own)
    (code / "a.py").write_text("x = 2\n")
    assert not unchanged(results, own)


def test_a_corpus_of_the_users_own_that_is_not_there_is_not_known_to_be_unchanged(
    results, job, tmp_path
):
    for own in (job(corpus=f"source:{tmp_path}/none"), job(corpus="bolt://127.0.0.1:9/name")):
        keep(results, own)
        assert not unchanged(results, own)


def test_the_contents_of_a_file_that_a_parameter_names_decide(results, job, tmp_path):
    priced = job(prices=str(tmp_path / "prices.csv"))
    (tmp_path / "prices.csv").write_text("1")
    keep(results, priced)
    assert unchanged(results, priced)
    (tmp_path / "prices.csv").write_text("2")
    assert not unchanged(results, priced)
