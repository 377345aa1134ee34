"""EVOR-BENCH's own form, on a hand-made task; its pickles are unpickled in the sandbox alone."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from pkg_lib.core.types import BenchmarkMissingError, UserError
from pkg_lib.execution.sandbox import run_jobs
from pkg_lib.papers.evor.evor_bench import EvorBench, ScipyM
from pkg_lib.papers.evor.execution_feedback import read_feedback

CONTEXT = """\
import argparse, pickle
parser = argparse.ArgumentParser()
parser.add_argument("--test_case", type=int)
case = parser.parse_args().test_case
with open(f"input/input{case}.pkl", "rb") as f:
    numbers = pickle.load(f)
[insert]
with open(f"result/result_{case}.pkl", "wb") as f:
    pickle.dump(total, f)
"""
JUDGE = """\
def test(result, answer):
    return 1 if abs(result - answer) < 1e-9 else 0
def stringTest(solution):
    return "sum" in solution
"""
DOCS = (
    "# Sums\n\nWhat adds.\n\n## total\n\nAdds.\n\n### Notes\n\nFast.\n\n## product\n\nMultiplies.\n"
)


class Hostile:
    """A pickle that runs code where it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EvorBench:
    for number, cases in (
        ("1", [([1, 2], 3), ([], 0)]),
        ("10", [([5], 5)]),
        ("2", [([0.1, 0.2], 0.3)]),
    ):
        add(tmp_path, number, cases)
    docs = tmp_path / "ScipyM/docs"
    docs.mkdir()
    (docs / "sums.md").write_text(DOCS)
    monkeypatch.setenv("PKG_EVOR_DIR", str(tmp_path))
    return EvorBench("ScipyM", "a library")


def add(root: Path, number: str, cases: list[tuple[object, object]]) -> Path:
    folder = root / "ScipyM/examples" / f"q{number}"
    for kind in ("input", "ans"):
        (folder / kind).mkdir(parents=True)
    for n, pair in enumerate(cases, 1):
        for kind, value in zip(("input", "ans"), pair, strict=True):
            (folder / kind / f"{kind}{n}.pkl").write_bytes(pickle.dumps(value))
    (folder / "code_context.txt").write_text(CONTEXT)
    (folder / "test_code.py").write_text(JUDGE)
    (folder / "example.json").write_text(json.dumps({"problem_description": f"Add up ({number})."}))
    return folder


def statuses(bench: EvorBench, *solutions: str) -> list[str]:
    tasks = bench.tasks()
    jobs = (
        [bench.job(tasks[0], s) for s in solutions]
        if len(solutions) > 1
        else [bench.job(t, *solutions) for t in tasks]
    )
    return [o.status for o in run_jobs(jobs, bench.limits(tasks[0]), workers=1)]


def test_programs_run_on_every_input_and_the_tasks_own_test_judges(bench):
    assert [t.id for t in bench.tasks()] == ["ScipyM/q1", "ScipyM/q2", "ScipyM/q10"]
    assert statuses(bench, "total = sum(numbers)") == ["passed"] * 3
    nothing = bench.control(bench.tasks()[0], "return None")
    wrong = [
        "total = 3 # sum",
        "total = numbers[0] + numbers[1]",
        "raise SystemExit(0) # sum",
        nothing,
    ]
    assert statuses(bench, *wrong) == ["failed"] * 4


def test_a_pickle_that_runs_code_stays_in_the_sandbox_and_the_rest_goes_on(bench, tmp_path):
    mark = tmp_path / "touched"
    add(tmp_path, "3", [(Hostile(mark), 1)])
    add(tmp_path, "4", [([1], Hostile(mark))])
    assert statuses(bench, "total = sum(numbers)") == [
        "passed",
        "passed",
        "failed",
        "failed",
        "passed",
    ]
    assert not mark.exists()


def test_a_draft_sees_inputs_of_the_model_alone(bench):
    task = bench.tasks()[0]
    calls = bench.input_calls("Inputs:\nnumbers = [7, 8]\n>>> x\nnumbers == 3", task)
    assert calls == ("numbers = [7, 8]",)
    drafts = ["total = sum(numbers)", "total = 1\ntotal.sum(numbers)"]
    jobs = [bench.draft_job(task, draft, calls) for draft in drafts]
    assert not any("fromhex" in job.tests[0] or "test_case" in job.tests[0] for job in jobs)
    right, wrong = (read_feedback(o) for o in run_jobs(jobs, bench.limits(task), workers=1))
    assert right.ok
    assert (wrong.ok, wrong.line) == (False, "total.sum(numbers)")
    assert wrong.error == "AttributeError: 'int' object has no attribute 'sum'"


def test_documentation_is_cut_at_its_headings(bench):
    documents = bench.documents()
    assert list(documents) == ["sums.md#0", "sums.md#1", "sums.md#2", "sums.md#3"]
    assert documents["sums.md#1"] == "## total\n\nAdds."


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("code_context.txt", "no place"),
        ("code_context.txt", "[insert][insert]"),
        ("example.json", "{}"),
        ("example.json", "{"),
    ],
)
def test_a_broken_example_is_named(bench, tmp_path, name, text):
    (tmp_path / "ScipyM/examples/q2" / name).write_text(text)
    with pytest.raises(UserError, match="examples/q2 is no example"):
        bench.tasks()


def test_no_data_is_one_line_of_advice(monkeypatch, tmp_path):
    bench = EvorBench("ScipyM", "a library")
    monkeypatch.setenv("PKG_EVOR_DIR", str(tmp_path))
    with pytest.raises(BenchmarkMissingError, match="PKG_EVOR_DIR"):
        bench.tasks()
    monkeypatch.delenv("PKG_EVOR_DIR")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BenchmarkMissingError, match="set PKG_EVOR_DIR"):
        bench.documents()


@pytest.fixture
def with_library(bench, tmp_path, monkeypatch):
    """SciPy-M with a task whose program imports the authors' library."""
    package = tmp_path / "library/newScience"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def total_of(xs):\n    return sum(xs)\n")
    monkeypatch.setenv("PKG_SCIPYM_DIR", str(package.parent))
    return ScipyM("ScipyM", "a library")


def test_programs_and_drafts_import_the_library_of_the_directory(with_library):
    solution = "import newScience as ns  # sum\ntotal = ns.total_of(numbers)"
    assert statuses(with_library, solution) == ["passed"] * 3
    task = with_library.tasks()[0]
    job = with_library.draft_job(task, solution, ("numbers = [7, 8]",))
    (outcome,) = run_jobs([job], with_library.limits(task), workers=1)
    assert read_feedback(outcome).ok


def test_without_the_library_nothing_is_measured(with_library, monkeypatch):
    monkeypatch.delenv("PKG_SCIPYM_DIR")
    monkeypatch.delenv("PKG_DATA", raising=False)
    with pytest.raises(BenchmarkMissingError, match="set PKG_SCIPYM_DIR"):
        ScipyM("ScipyM", "a library").tasks()
