"""Benchmarks through the sandbox: reference solutions pass, nothing passes nothing."""

import os
from dataclasses import replace

import pytest

from pkg_lib.core.types import Task, UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.evaluate import evaluate, sanity_job, task_job, untested
from pkg_lib.execution.sandbox import run_jobs

CHECK = "def check(c):\n    assert c(1) == 2\n"
TASK = Task("HumanEval/x", "humaneval", "def f(x):\n", "f", CHECK, "    return x + 1\n")
TESTS = "one = 1\n# ---\nassert f(1) == 2\n# ---\nassert f(one) == 2"
MBPP = Task("MBPP/1", "mbpp", "Write a function.", "f", TESTS, "")
needs_mbpp = pytest.mark.skipif(
    "PKG_MBPP_DIR" not in os.environ, reason="PKG_MBPP_DIR names no directory with mbpp.jsonl"
)


def passed(tasks, solutions, protocol):
    return sum(o.status == "passed" for o in evaluate(tasks, solutions, protocol).values())


def nothing(task):
    head = "" if task.benchmark == "humaneval" else f"def {task.entry_point}(*args):\n"
    return f"{head}    return None\n"


def test_jobs_follow_the_protocol():
    job = task_job(TASK, "    return 2\n")
    assert job.solution == "def f(x):\n    return 2\n"
    assert job.tests == ("def check(c):\n    assert c(1) == 2\n\ncheck(f)",)
    assert job.seconds == 3.0
    assert task_job(MBPP, "s", "pkg-paper").tests == ("assert f(1) == 2", "assert f(one) == 2")
    assert task_job(MBPP, "s", "standard").tests == ("one = 1\nassert f(1) == 2\nassert f(one) == 2",)
    assert task_job(MBPP, "s").seconds == 20.0
    assert sanity_job(TASK, "x").tests == ()
    with pytest.raises(UserError, match="unknown protocol"):
        task_job(TASK, "", "strict")


def test_setup_code_is_the_standard_protocols():
    solution = {"MBPP/1": "def f(x): return 2"}
    assert evaluate([MBPP], solution, "standard")["MBPP/1"].status == "passed"
    assert evaluate([MBPP], solution, "pkg-paper")["MBPP/1"].error == "NameError"


def test_sanity_runs_the_solution_alone():
    jobs = [sanity_job(TASK, s) for s in ("    return 5\n", "    return (\n", "    return 1\nx = y\n")]
    assert [o.error for o in run_jobs(jobs)] == ["", "SyntaxError", "NameError"]


@pytest.mark.parametrize(
    "copy",
    [
        "assert f(1) == 2",
        "assert f( 1 )==2, 'no'",
        "def test():\n    assert f(one) == 2\ntest()",
        "if True: assert f(1) == 2",
    ],
)
def test_sanity_sees_no_copy_of_a_test(copy):
    wrong = f"one = 1\ndef f(x):\n    return 3\n{copy}\n"
    other = wrong + "assert f(2) == 3\n"
    solutions = (wrong, other, other + "assert f(1) == 4\n", f"{copy}\nreturn (")
    outcomes = run_jobs([sanity_job(MBPP, s) for s in solutions])
    assert [o.error for o in outcomes] == ["", "", "AssertionError", "SyntaxError"]
    assert [untested(MBPP, s) == s for s in (wrong, "def f(x):\n    assert x\n    return 2")] == [False, True]
    assert untested(TASK, "    assert f(1) == 2") == TASK.prompt + "    assert f(1) == 2"


def test_a_task_without_completion_is_not_measured():
    outcomes = evaluate([replace(TASK, id="HumanEval/y"), TASK], {TASK.id: TASK.solution})
    statuses = [(task, o.status) for task, o in outcomes.items()]
    assert statuses == [("HumanEval/y", "not_measured"), ("HumanEval/x", "passed")]


@pytest.mark.parametrize(("solve", "share"), [(lambda t: t.solution, 1), (nothing, 0), (lambda t: "", 0)])
def test_control_rows_of_humaneval(solve, share):
    tasks = load_benchmark("humaneval")
    assert passed(tasks, {t.id: solve(t) for t in tasks}, "standard") == share * 164


@needs_mbpp
@pytest.mark.parametrize(("solve", "share"), [(lambda t: t.solution, 1), (nothing, 0)])
def test_control_rows_of_mbpp(solve, share):
    tasks = load_benchmark("mbpp-all", protocol="standard")
    assert passed(tasks, {t.id: solve(t) for t in tasks}, "standard") == share * 974
