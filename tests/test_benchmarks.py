"""Benchmarks by name, and through the sandbox: reference solutions pass, nothing passes nothing."""

from __future__ import annotations

import json
import os

import pytest

from pkg_lib.core.types import ProgramTests, Task, UserError
from pkg_lib.data import mbpp
from pkg_lib.data.benchmark import tasks_digest
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.data.evalplus import ExtendedTests
from pkg_lib.data.functions import NamedTests
from pkg_lib.execution.sandbox import run_jobs

HUMANEVAL, MBPP = BENCHMARKS["humaneval"], BENCHMARKS["mbpp"]
CHECK = "def check(c):\n    assert c(1) == 2\n"
TASK = Task(
    "HumanEval/x", "humaneval", "def f(x):\n", "f", ProgramTests(CHECK), "    return x + 1\n"
)
TESTS = mbpp.AssertionTests("one = 1", ("assert f(1) == 2", "assert f(one) == 2"))
PROSE = Task("MBPP/1", "mbpp", "Write a function.", "f", TESTS)
needs_mbpp = pytest.mark.skipif(
    mbpp.DATA.variable not in os.environ,
    reason=f"{mbpp.DATA.variable} names no directory with mbpp.jsonl",
)
ROWS = [
    {
        "task_id": n,
        "text": "Write a function to add one.",
        "code": "import math\r\ndef help(x):\r\n  return x\r\ndef inc(a, b=1):\r\n  return a + b",
        "test_setup_code": "one = 1" if n == 12 else "",
        "test_list": ["assert inc(1) == 2", "assert (inc(2)) == 3"],
    }
    for n in (10, 11, 12, 510, 511)
]


def errors(benchmark, task, *solutions, protocol="pkg-paper") -> list[str]:
    return [o.error for o in run_jobs([benchmark.job(task, s, protocol) for s in solutions])]


def test_mbpp_split_prompt_and_tests(tmp_path, monkeypatch):
    (tmp_path / "mbpp.jsonl").write_text("\n".join(map(json.dumps, ROWS)) + "\n")
    monkeypatch.setenv(mbpp.DATA.variable, str(tmp_path))
    tasks = load_benchmark("mbpp")
    assert [t.id for t in tasks] == ["MBPP/11", "MBPP/12", "MBPP/510"]
    assert len(load_benchmark("mbpp-all")) == 5
    task = tasks[1]
    assert (task.entry_point, task.prompt) == (
        "inc",
        "Write a function to add one.\nTest: assert inc(1) == 2",
    )
    assert load_benchmark("mbpp-signature", 1)[0].prompt.endswith("\nFunction: def inc(a, b=1)")
    (shown, *_) = load_benchmark("mbpp-all-asserts")
    tests = "Your code should pass these tests:\nassert inc(1) == 2\nassert (inc(2)) == 3"
    assert (
        shown.prompt == f"Write a function to add one.\n\n{tests}"
        and shown.hidden_tests == tasks[0].hidden_tests
    )
    assert task.hidden_tests == mbpp.AssertionTests(
        "one = 1", ("assert inc(1) == 2", "assert (inc(2)) == 3")
    )
    assert "\r" not in task.solution


def test_jobs_follow_the_protocol():
    job = HUMANEVAL.job(TASK, "    return 2\n")
    assert job.solution == "def f(x):\n    return 2\n"
    assert job.tests == ("def check(c):\n    assert c(1) == 2\n\ncheck(f)",)
    assert job == HUMANEVAL.job(TASK, "    return 2\n", "standard") and job.seconds == 3.0
    assert MBPP.job(PROSE, "s").tests == ("assert f(1) == 2", "assert f(one) == 2")
    assert MBPP.job(PROSE, "s", "standard").tests == (
        "one = 1\nassert f(1) == 2\nassert f(one) == 2",
    )
    assert MBPP.job(PROSE, "s").seconds == 20.0
    with pytest.raises(
        UserError, match="unknown protocol 'strict'; choose from: pkg-paper, standard"
    ):
        HUMANEVAL.job(TASK, "", "strict")


def test_setup_code_is_the_standard_protocols():
    assert errors(MBPP, PROSE, "def f(x): return 2", protocol="standard") == [""]
    assert errors(MBPP, PROSE, "def f(x): return 2") == ["NameError"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["humaneval", pytest.param("mbpp-all", marks=needs_mbpp)])
def test_control_rows(name):
    """Under the benchmark's own rule every reference passes, and a function that does nothing never."""
    benchmark, tasks = BENCHMARKS[name], load_benchmark(name)
    head = "" if name == "humaneval" else "def {}(*args):\n"
    solved = run_jobs([benchmark.job(t, t.solution, "standard") for t in tasks])
    empty = [
        benchmark.job(t, head.format(t.entry_point) + "    return None\n", "standard")
        for t in tasks
    ]
    assert {o.status for o in solved} == {"passed"} and {o.status for o in run_jobs(empty)} == {
        "failed"
    }


def test_user_mistakes():
    with pytest.raises(UserError, match=r"unknown benchmark .*list benchmarks"):
        load_benchmark("mpbb")
    for limit in (0, "ten", 2.5):  # papermill passes what its user wrote
        with pytest.raises(UserError, match="at least 1"):
            load_benchmark("humaneval", limit)


def test_digest_covers_tests():
    tasks = load_benchmark("humaneval", 2)
    assert tasks_digest(tasks) != tasks_digest(tasks[:1])
    assert tasks_digest(tasks) == tasks_digest(load_benchmark("humaneval", 2))


def test_stored_results_still_belong_to_these_tasks():
    """Results are stored with the digest of their tasks, in which the tests are one text."""
    assert tasks_digest(load_benchmark("humaneval")).startswith("d12e93b5a392311d")
    assert TESTS.text == "one = 1\n# ---\nassert f(1) == 2\n# ---\nassert f(one) == 2"
    extended = ExtendedTests(ProgramTests("assert f(1) == 2"), "assert f(2) == 3")
    assert extended.text == "assert f(1) == 2\n# +++\nassert f(2) == 3"
    assert NamedTests(("m:f", "m:T.g")).text == "m:f\nm:T.g"


def test_tests_of_another_kind_are_refused():
    assert PROSE.tests_as(mbpp.AssertionTests) is TESTS
    with pytest.raises(TypeError, match="MBPP/1 has AssertionTests, where NamedTests are needed"):
        PROSE.tests_as(NamedTests)


@needs_mbpp
def test_mbpp_as_published():
    tasks, everything = load_benchmark("mbpp"), load_benchmark("mbpp-all")
    assert [t.id for t in (tasks[0], tasks[-1])] == ["MBPP/11", "MBPP/510"]
    assert (len(tasks), len(everything)) == (500, 974)
    assert [t.id for t in everything if t.hidden_tests.setup] == ["MBPP/367", "MBPP/927"]
    assert all(t.entry_point in t.prompt.splitlines()[-1] for t in everything)
    assert all(f"def {t.entry_point}(" in t.prompt for t in load_benchmark("mbpp-signature"))
