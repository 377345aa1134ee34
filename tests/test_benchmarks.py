"""Benchmarks: tasks, jobs for the sandbox, and control solutions."""

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

HUMANEVAL = BENCHMARKS["humaneval"]
MBPP = BENCHMARKS["mbpp"]
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
        "task_id": number,
        "text": "Write a function to add one.",
        "code": "import math\r\ndef help(x):\r\n  return x\r\ndef inc(a, b=1):\r\n  return a + b",
        "test_setup_code": "one = 1" if number == 12 else "",
        "test_list": ["assert inc(1) == 2", "assert (inc(2)) == 3"],
    }
    for number in (10, 11, 12, 510, 511)
]


def errors(benchmark, task, *solutions, protocol="pkg-paper") -> list[str]:
    """Run solutions of a task; return the name of each one's error, or an empty text."""
    jobs = [benchmark.job(task, solution, protocol) for solution in solutions]
    return [outcome.error for outcome in run_jobs(jobs)]


def test_mbpp_has_the_split_the_prompts_and_the_tests_of_its_variants(tmp_path, monkeypatch):
    lines = [json.dumps(row) for row in ROWS]
    (tmp_path / "mbpp.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv(mbpp.DATA.variable, str(tmp_path))
    tasks = load_benchmark("mbpp")
    assert [task.id for task in tasks] == ["MBPP/11", "MBPP/12", "MBPP/510"]
    assert len(load_benchmark("mbpp-all")) == 5

    (with_signature,) = load_benchmark("mbpp-signature", 1)
    assert with_signature.prompt.endswith("\nFunction: def inc(a, b=1)")

    with_asserts = load_benchmark("mbpp-all-asserts")[0]
    tests = "Your code should pass these tests:\nassert inc(1) == 2\nassert (inc(2)) == 3"
    assert with_asserts.prompt == f"Write a function to add one.\n\n{tests}"
    assert with_asserts.hidden_tests == tasks[0].hidden_tests

    task = tasks[1]
    assert task.entry_point == "inc"
    assert task.prompt == "Write a function to add one.\nTest: assert inc(1) == 2"
    assert task.hidden_tests == mbpp.AssertionTests(
        "one = 1", ("assert inc(1) == 2", "assert (inc(2)) == 3")
    )
    assert "\r" not in task.solution


def test_a_job_follows_the_protocol():
    job = HUMANEVAL.job(TASK, "    return 2\n")
    assert job.solution == "def f(x):\n    return 2\n"
    assert job.tests == ("def check(c):\n    assert c(1) == 2\n\ncheck(f)",)
    assert job == HUMANEVAL.job(TASK, "    return 2\n", "standard")
    assert job.seconds == 3.0
    assert MBPP.job(PROSE, "s").tests == ("assert f(1) == 2", "assert f(one) == 2")
    assert MBPP.job(PROSE, "s", "standard").tests == (
        "one = 1\nassert f(1) == 2\nassert f(one) == 2",
    )
    assert MBPP.job(PROSE, "s").seconds == 20.0
    message = "unknown protocol 'strict'; choose from: pkg-paper, standard"
    with pytest.raises(UserError, match=message):
        HUMANEVAL.job(TASK, "", "strict")


def test_only_the_standard_protocol_executes_the_setup_code():
    assert errors(MBPP, PROSE, "def f(x): return 2", protocol="standard") == [""]
    assert errors(MBPP, PROSE, "def f(x): return 2") == ["NameError"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["humaneval", pytest.param("mbpp-all", marks=needs_mbpp)])
def test_reference_solutions_pass_and_empty_functions_fail(name):
    """By the standard protocol, every reference solution passes, and no empty function does."""
    benchmark = BENCHMARKS[name]
    head = "" if name == "humaneval" else "def {}(*args):\n"
    references = []
    empty = []
    for task in load_benchmark(name):
        references.append(benchmark.job(task, task.solution, "standard"))
        nothing = head.format(task.entry_point) + "    return None\n"
        empty.append(benchmark.job(task, nothing, "standard"))
    assert {outcome.status for outcome in run_jobs(references)} == {"passed"}
    assert {outcome.status for outcome in run_jobs(empty)} == {"failed"}


def test_reports_an_unknown_benchmark_and_an_invalid_limit():
    with pytest.raises(UserError, match=r"unknown benchmark .*list benchmarks"):
        load_benchmark("mpbb")
    for limit in (0, "ten", 2.5):  # papermill passes any value on
        with pytest.raises(UserError, match="at least 1"):
            load_benchmark("humaneval", limit)


def test_the_digest_depends_on_the_tasks():
    tasks = load_benchmark("humaneval", 2)
    assert tasks_digest(tasks) != tasks_digest(tasks[:1])
    assert tasks_digest(tasks) == tasks_digest(load_benchmark("humaneval", 2))


def test_digests_of_tasks_are_unchanged():
    """Results are stored with the digest of their tasks. The digest contains the tests as one text."""
    assert tasks_digest(load_benchmark("humaneval")).startswith("d12e93b5a392311d")
    assert TESTS.text == "one = 1\n# ---\nassert f(1) == 2\n# ---\nassert f(one) == 2"
    extended = ExtendedTests(ProgramTests("assert f(1) == 2"), "assert f(2) == 3")
    assert extended.text == "assert f(1) == 2\n# +++\nassert f(2) == 3"
    assert NamedTests(("m:f", "m:T.g")).text == "m:f\nm:T.g"


def test_refuses_tests_of_another_kind():
    assert PROSE.tests_as(mbpp.AssertionTests) is TESTS
    with pytest.raises(TypeError, match="MBPP/1 has AssertionTests, where NamedTests are needed"):
        PROSE.tests_as(NamedTests)


@needs_mbpp
def test_mbpp_equals_the_published_data_set():
    tasks = load_benchmark("mbpp")
    assert len(tasks) == 500
    assert tasks[0].id == "MBPP/11"
    assert tasks[-1].id == "MBPP/510"

    every_task = load_benchmark("mbpp-all")
    assert len(every_task) == 974
    with_setup = [task.id for task in every_task if task.hidden_tests.setup]
    assert with_setup == ["MBPP/367", "MBPP/927"]
    for task in every_task:
        assert task.entry_point in task.prompt.splitlines()[-1]
    for task in load_benchmark("mbpp-signature"):
        assert f"def {task.entry_point}(" in task.prompt
