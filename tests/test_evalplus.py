"""HumanEval+ and MBPP+: prompts and completions of the benchmark below, verdicts by their own tests."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import replace

import pytest

from pkg_lib.core.types import BenchmarkMissing, Task, Unavailable, UserError
from pkg_lib.data import evalplus, mbpp
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.execution.sandbox import run_jobs

PLUS, MODEL = BENCHMARKS["humaneval+"], "qwen2.5-coder-0.5b-instruct"
TEST = "def check(candidate):\n    assert candidate([1.0, 2.0], 0.5) is False\n"
MORE = TEST + "    assert candidate([3.0, 3.0], 0.5) is True\n"
SOLUTION = "    return len(numbers) > len(set(numbers))\n"  # enough for these tests
ROWS = [
    {
        "task_id": "HumanEval/0",
        "prompt": "",
        "canonical_solution": SOLUTION,
        "entry_point": "",
        "test": MORE,
    },
    {"task_id": "HumanEval/2", "canonical_solution": "", "test": f"def ref_func(x): ...\n{TEST}"},
]


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """A directory with the plus tests of two tasks."""
    monkeypatch.setenv(evalplus.VARIABLE, str(tmp_path))
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / PLUS.file).write_bytes(gzip.compress(lines.encode()))
    return tmp_path


def test_tasks_are_those_of_the_benchmark_below(rows):
    first, second = load_benchmark("humaneval+")
    below = load_benchmark("humaneval", 1)[0]
    assert (first.id, first.prompt, first.entry_point) == (
        below.id,
        below.prompt,
        below.entry_point,
    )
    assert PLUS.tests(first, "pkg-paper") == (f"{MORE}\ncheck(has_close_elements)",)
    assert below.hidden_tests.text.strip() not in PLUS.fingerprint(first, "")
    assert PLUS.job(second, "").seconds > PLUS.job(first, "").seconds == PLUS.seconds
    assert PLUS.limits(second).memory_mb > PLUS.limits(first).memory_mb
    # Where only verdicts are stored, a task has no tests.
    assert PLUS.limits(Task(first.id, PLUS.name, "", "")) == PLUS.limits(first)


def test_more_tests_decide(rows):
    task = PLUS.tasks()[0]
    jobs = [PLUS.job(task, PLUS.control(task, name)) for name in PLUS.controls]
    jobs.append(PLUS.job(task, "    return False\n"))
    assert [o.error for o in run_jobs(jobs)] == ["AssertionError", "", "AssertionError"]


def test_stored_completions_are_judged_and_none_is_made(rows, committed):
    below, run = (
        Results(MODEL, limit=1, results=committed),
        Results(MODEL, "humaneval+", limit=1, results=committed),
    )
    assert run.solutions("NoRAG") == below.solutions("NoRAG") != {}
    assert run.contexts("Func-PKG") == below.contexts("Func-PKG")
    assert run.stored_methods() == below.stored_methods()
    Evaluator(run).prepare(["NoRAG"])
    assert run.files("NoRAG").samples.exists()
    assert not (committed / "cache" / MODEL / run.benchmark).exists()
    assert run.outcomes("NoRAG")["HumanEval/0"].status in ("passed", "failed")
    shutil.rmtree(committed / "contexts" / "humaneval")
    with pytest.raises(Unavailable, match="complete benchmark humaneval on corpus"):
        Evaluator(Results(MODEL, "humaneval+", limit=1, results=committed)).contexts("Func-PKG")


def test_changed_tasks_of_mbpp_are_left_out(tmp_path, monkeypatch):
    plus = BENCHMARKS["mbpp+"]
    monkeypatch.setenv(evalplus.VARIABLE, str(tmp_path))
    monkeypatch.setenv(mbpp.DATA.variable, str(tmp_path))
    changed = int(min(evalplus.CHANGED).removeprefix("MBPP/"))
    shared = {"code": "def f(): return 1", "text": "", "test_setup_code": ""}
    base = [shared | {"task_id": n, "test_list": ["assert f() == 1"]} for n in (12, changed)]
    rows = [shared | {"task_id": n, "test": "assert f() <= 1"} for n in (12, changed)]
    (tmp_path / "mbpp.jsonl").write_text("\n".join(map(json.dumps, base)))
    (tmp_path / plus.file).write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    (task,) = plus.tasks()
    assert (task.id, task.solution) == ("MBPP/12", shared["code"])
    assert plus.tests(task, "standard") == ("assert f() <= 1",)


CLOSE = """import numpy as np
def assertion(out, exp, atol):
    if atol == 0: atol = 1e-6
    if out != exp and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert out == exp
def check(candidate):
    assertion(candidate([1.0], 0.5), {expected}, 0)
"""


@pytest.mark.parametrize(
    ("answer", "expected", "status"),
    [
        ("[]", "[0.3, 0.3]", "failed"),
        ("[]", "0.3", "failed"),
        ("[0.3]", "[0.3, 0.3]", "failed"),
        ("[np.empty((0, 1))] * 2", "[0.3, 0.3]", "failed"),
        ("[0.3 + 1e-9] * 2", "[0.3, 0.3]", "passed"),
        ("0.3 + 1e-9", "0.3", "passed"),
        ("0.4", "0.3", "failed"),
    ],
)
def test_floats_are_near_only_where_type_and_length_are_the_same(rows, answer, expected, status):
    """`np.allclose` alone compares nothing with an empty list, and one with all."""
    row = ROWS[0] | {"test": CLOSE.format(expected=expected)}
    (rows / PLUS.file).write_bytes(gzip.compress(json.dumps(row).encode()))
    (task,) = PLUS.tasks()
    (outcome,) = run_jobs([PLUS.job(task, f"    import numpy as np\n    return {answer}\n")])
    assert outcome.status == status


def test_without_the_tests(tmp_path, monkeypatch):
    monkeypatch.setenv(evalplus.VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=r"holds no HumanEvalPlus-OriginFmt.jsonl.gz"):
        load_benchmark("humaneval+")
    monkeypatch.delenv(evalplus.VARIABLE)
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: False)
    with pytest.raises(BenchmarkMissing, match=r"HumanEval\+"):
        load_benchmark("humaneval+")


@pytest.mark.skipif(
    not {evalplus.VARIABLE, mbpp.DATA.variable} <= os.environ.keys(),
    reason="the data sets are not here",
)
def test_changed_are_those_whose_shown_test_the_new_reference_fails(monkeypatch):
    changed = evalplus.CHANGED
    monkeypatch.setattr(evalplus, "CHANGED", frozenset())
    base = BENCHMARKS["mbpp"]
    tasks = BENCHMARKS["mbpp+"].tasks()
    shown = [
        replace(t, hidden_tests=mbpp.AssertionTests("", (t.prompt.rpartition("\nTest: ")[2],)))
        for t in tasks
    ]
    outcomes = run_jobs([base.job(t, t.solution) for t in shown])
    failed = {t.id for t, o in zip(tasks, outcomes, strict=True) if o.status != "passed"}
    assert len(tasks) == 224 and failed == changed


@pytest.mark.skipif(evalplus.VARIABLE not in os.environ, reason="the data set is not here")
def test_whether_a_context_passes_is_kept_apart_from_the_benchmark_below(tmp_path):
    base, plus = (
        Results("qwen2.5-coder-0.5b-instruct", name, "published", results=tmp_path)
        for name in ("humaneval", "humaneval+")
    )
    assert base.files("Func-PKG").contexts == plus.files("Func-PKG").contexts
    assert base.files("Func-PKG").validity != plus.files("Func-PKG").validity
