"""HumanEval+ and MBPP+ share prompts and completions with their base benchmarks, but have other tests."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import replace

import pytest

from pkg_lib.core.types import BenchmarkMissingError, Task, UnavailableError, UserError
from pkg_lib.data import evalplus, mbpp
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.execution.sandbox import run_jobs

PLUS = BENCHMARKS["humaneval+"]
MODEL = "qwen2.5-coder-0.5b-instruct"
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
    """Return the data directory of HumanEval+, with the tests of two tasks."""
    monkeypatch.setenv(evalplus.VARIABLE, str(tmp_path))
    write_rows(tmp_path / PLUS.file, ROWS)
    return tmp_path


def write_rows(path, rows):
    """Write rows to a compressed JSONL file."""
    lines = [json.dumps(row) + "\n" for row in rows]
    path.write_bytes(gzip.compress("".join(lines).encode()))


def test_tasks_have_the_prompts_of_the_base_benchmark_and_other_tests(rows):
    first, second = load_benchmark("humaneval+")
    base = load_benchmark("humaneval", 1)[0]
    assert first.id == base.id
    assert first.prompt == base.prompt
    assert first.entry_point == base.entry_point
    assert PLUS.tests(first, "pkg-paper") == (f"{MORE}\ncheck(has_close_elements)",)
    assert base.hidden_tests.text.strip() not in PLUS.fingerprint(first, "")
    assert PLUS.job(first, "").seconds == PLUS.seconds
    assert PLUS.job(second, "").seconds > PLUS.seconds
    assert PLUS.limits(second).memory_mb > PLUS.limits(first).memory_mb
    # If only verdicts are stored, a task has no tests.
    assert PLUS.limits(Task(first.id, PLUS.name, "", "")) == PLUS.limits(first)


def test_the_additional_tests_decide(rows):
    task = PLUS.tasks()[0]
    jobs = [PLUS.job(task, PLUS.control(task, name)) for name in PLUS.controls]
    jobs.append(PLUS.job(task, "    return False\n"))
    errors = [outcome.error for outcome in run_jobs(jobs)]
    assert errors == ["AssertionError", "", "AssertionError"]


def test_evaluates_stored_completions_without_generating_any(rows, committed):
    base = Results(MODEL, limit=1, results=committed)
    plus = Results(MODEL, "humaneval+", limit=1, results=committed)
    assert plus.solutions("NoRAG")
    assert plus.solutions("NoRAG") == base.solutions("NoRAG")
    assert plus.contexts("Func-PKG") == base.contexts("Func-PKG")
    assert plus.stored_methods() == base.stored_methods()
    Evaluator(plus).prepare(["NoRAG"])
    assert plus.files("NoRAG").samples.exists()
    assert not (committed / "cache" / MODEL / plus.benchmark).exists()
    assert plus.outcomes("NoRAG")["HumanEval/0"].status in ("passed", "failed")
    shutil.rmtree(committed / "contexts" / "humaneval")
    with pytest.raises(UnavailableError, match="complete benchmark humaneval on corpus"):
        Evaluator(Results(MODEL, "humaneval+", limit=1, results=committed)).contexts("Func-PKG")


def test_leaves_out_the_changed_tasks_of_mbpp(tmp_path, monkeypatch):
    plus = BENCHMARKS["mbpp+"]
    monkeypatch.setenv(evalplus.VARIABLE, str(tmp_path))
    monkeypatch.setenv(mbpp.DATA.variable, str(tmp_path))
    changed = int(min(evalplus.CHANGED).removeprefix("MBPP/"))
    shared = {"code": "def f(): return 1", "text": "", "test_setup_code": ""}
    base_lines = []
    plus_rows = []
    for number in (12, changed):
        row = shared | {"task_id": number}
        base_lines.append(json.dumps(row | {"test_list": ["assert f() == 1"]}))
        plus_rows.append(row | {"test": "assert f() <= 1"})
    (tmp_path / "mbpp.jsonl").write_text("\n".join(base_lines))
    write_rows(tmp_path / plus.file, plus_rows)
    (task,) = plus.tasks()
    assert task.id == "MBPP/12"
    assert task.solution == shared["code"]
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
def test_close_numbers_pass_only_with_the_same_type_and_length(rows, answer, expected, status):
    """`np.allclose` alone accepts an empty list and broadcasts a list of one number."""
    row = ROWS[0] | {"test": CLOSE.format(expected=expected)}
    write_rows(rows / PLUS.file, [row])
    (task,) = PLUS.tasks()
    (outcome,) = run_jobs([PLUS.job(task, f"    import numpy as np\n    return {answer}\n")])
    assert outcome.status == status


def test_reports_missing_tests(tmp_path, monkeypatch):
    monkeypatch.setenv(evalplus.VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=r"holds no HumanEvalPlus-OriginFmt.jsonl.gz"):
        load_benchmark("humaneval+")
    monkeypatch.delenv(evalplus.VARIABLE)
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: False)
    with pytest.raises(BenchmarkMissingError, match=r"HumanEval\+"):
        load_benchmark("humaneval+")


@pytest.mark.skipif(
    not {evalplus.VARIABLE, mbpp.DATA.variable} <= os.environ.keys(),
    reason="the data sets are not available",
)
def test_the_new_reference_of_a_changed_task_fails_the_test_in_the_prompt(monkeypatch):
    changed = evalplus.CHANGED
    monkeypatch.setattr(evalplus, "CHANGED", frozenset())
    base = BENCHMARKS["mbpp"]
    tasks = BENCHMARKS["mbpp+"].tasks()
    assert len(tasks) == 224
    jobs = []
    for task in tasks:
        shown_test = task.prompt.rpartition("\nTest: ")[2]
        shown = replace(task, hidden_tests=mbpp.AssertionTests("", (shown_test,)))
        jobs.append(base.job(shown, shown.solution))
    pairs = zip(tasks, run_jobs(jobs), strict=True)
    failed = {task.id for task, outcome in pairs if outcome.status != "passed"}
    assert failed == changed


@pytest.mark.skipif(evalplus.VARIABLE not in os.environ, reason="the data set is not available")
def test_stores_the_validity_of_contexts_apart_from_the_base_benchmark(tmp_path):
    base = Results(MODEL, "humaneval", "published", results=tmp_path)
    plus = Results(MODEL, "humaneval+", "published", results=tmp_path)
    assert base.files("Func-PKG").contexts == plus.files("Func-PKG").contexts
    assert base.files("Func-PKG").validity != plus.files("Func-PKG").validity
