"""A notebook is executed again when anything that it may read has changed, whatever the file times."""

from __future__ import annotations

import os

import pytest

from pkg_lib.core import store
from pkg_lib.evaluation import freshness, study
from pkg_lib.evaluation.freshness import Records
from pkg_lib.evaluation.study import NotebookJob

MODEL = "m"
STEM = "m.humaneval.textbook.n"
PARAMETERS = {"model": MODEL, "benchmark": "humaneval", "corpus": "textbook", "limit": None}
INPUTS = [
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
OF_OTHER_EXPERIMENTS = [
    "contexts/mbpp/textbook/bm25/contexts.jsonl",
    "runs/humaneval/m/stdlib/bm25/samples.jsonl",
    "cache/n/humaneval/none.jsonl",
]
OUTPUTS = [
    f"tables/{STEM}.csv",
    f"tables/{STEM}.json",
    f"figures/{STEM}.rates.png",
    f"notebooks/{STEM}.ipynb",
]


@pytest.fixture
def results(tmp_path):
    """Results with every input and output of the notebook, and files of other experiments."""
    folder = tmp_path / "results"
    for name in [*INPUTS, *OF_OTHER_EXPERIMENTS, *OUTPUTS, "source.ipynb"]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


@pytest.fixture
def make_job(results, monkeypatch):
    """Function that makes a job with some parameters changed. Its notebook is in the results."""
    monkeypatch.setattr(study, "NOTEBOOKS", results)

    def make(**changed):
        return NotebookJob("source", PARAMETERS | changed, STEM)

    return make


def is_current(results, job):
    return Records(results).is_current(job)


def record(results, job):
    """Record a job as a run does."""
    records = Records(results)
    records.is_current(job)
    records.keep(job)


def test_recorded_job_stays_current_when_only_file_times_change(results, make_job):
    assert not is_current(results, make_job())
    record(results, make_job())
    for path in results.rglob("*.*"):
        os.utime(path, (1, 1))
    assert is_current(results, make_job())


def test_job_with_a_damaged_or_removed_record_is_not_current(results, make_job):
    record(results, make_job())
    (results / "notebooks" / f"{STEM}.made.json").write_text('{"from"')
    assert not is_current(results, make_job())
    record(results, make_job())
    Records(results).forget(make_job())
    assert not is_current(results, make_job())


@pytest.mark.parametrize("name", [*INPUTS, *OUTPUTS, "source.ipynb"])
def test_changed_input_or_output_makes_a_job_stale(results, make_job, name):
    record(results, make_job())
    (results / name).write_text("else")
    assert not is_current(results, make_job())
    if name != "source.ipynb":
        (results / name).write_text(name)
        assert is_current(results, make_job())
        (results / name).unlink()
        assert not is_current(results, make_job())


def test_new_input_makes_a_job_stale_but_files_of_other_experiments_do_not(results, make_job):
    record(results, make_job())
    for name in OF_OTHER_EXPERIMENTS:
        (results / name).write_text("else")
    new_input = results / "contexts/humaneval/textbook/bm25/validity.jsonl"
    for suffix in (".tmp", ".part"):
        new_input.with_name(new_input.name + suffix).write_text("half")
    assert is_current(results, make_job())
    new_input.write_text("whole")
    assert not is_current(results, make_job())


def test_notebook_without_a_model_reads_every_experiment(results, make_job):
    job = NotebookJob("source", {"limit": None}, STEM)
    record(results, job)
    (results / OF_OTHER_EXPERIMENTS[0]).write_text("else")
    assert not is_current(results, job)


def test_changed_parameters_or_package_make_a_job_stale(results, make_job, tmp_path, monkeypatch):
    record(results, make_job())
    assert not is_current(results, make_job(limit=3))
    (tmp_path / "pkg_lib").mkdir()
    (tmp_path / "requirements.txt").write_text("")
    monkeypatch.setattr(store, "ROOT", tmp_path)
    monkeypatch.setattr(freshness, "package_digest", store.package_digest.__wrapped__)
    before = Records(results).made_from(make_job())
    (tmp_path / "pkg_lib" / "style.mplstyle").write_text("font.size: 99")
    assert Records(results).made_from(make_job()) != before
    assert not is_current(results, make_job())


def test_changed_user_supplied_corpus_makes_a_job_stale(results, make_job, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "a.py").write_text("x = 1\n")
    job = make_job(corpus=f"source:{code}")
    record(results, job)
    assert is_current(results, job)
    (code / "a.py").write_text("x = 2\n")
    assert not is_current(results, job)


def test_job_with_an_unavailable_user_supplied_corpus_is_never_current(results, make_job, tmp_path):
    for corpus in (f"source:{tmp_path}/none", "bolt://127.0.0.1:9/name"):
        job = make_job(corpus=corpus)
        record(results, job)
        assert not is_current(results, job)


def test_changed_file_named_by_a_parameter_makes_a_job_stale(results, make_job, tmp_path):
    prices = tmp_path / "prices.csv"
    prices.write_text("1")
    job = make_job(prices=str(prices))
    record(results, job)
    assert is_current(results, job)
    prices.write_text("2")
    assert not is_current(results, job)
