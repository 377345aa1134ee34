"""Benchmarks by name; MBPP's own data is read only where PKG_MBPP_DIR names it."""

import json
import os
import sys

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.data import benchmarks
from pkg_lib.data.benchmarks import (
    MBPP_DIR,
    PROTOCOLS,
    SEPARATOR,
    before_tests,
    benchmark_digest,
    load_benchmark,
    named_protocol,
    program,
)

needs_mbpp = pytest.mark.skipif(
    MBPP_DIR not in os.environ, reason=f"{MBPP_DIR} names no directory with mbpp.jsonl"
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


@pytest.fixture
def small(tmp_path, monkeypatch):
    (tmp_path / "mbpp.jsonl").write_text("\n".join(map(json.dumps, ROWS)) + "\n")
    monkeypatch.setenv(MBPP_DIR, str(tmp_path))


def test_humaneval():
    tasks = load_benchmark("humaneval")
    assert len(tasks) == 164
    assert tasks[0].id == "HumanEval/0"
    assert benchmarks.tests_of(tasks[0], PROTOCOLS["pkg-paper"]) == benchmarks.tests_of(
        tasks[0], PROTOCOLS["standard"]
    )
    assert program(tasks[0], "S") == f"{tasks[0].prompt}S\n{tasks[0].test}\ncheck(has_close_elements)"


def test_mbpp_split_prompt_and_tests(small):
    tasks = load_benchmark("mbpp")
    assert [t.id for t in tasks] == ["MBPP/11", "MBPP/12", "MBPP/510"]
    assert len(load_benchmark("mbpp-all")) == 5
    task = tasks[1]
    assert (task.entry_point, task.prompt) == (
        "inc",
        "Write a function to add one.\nTest: assert inc(1) == 2",
    )
    assert benchmarks.needs_setup(task)
    assert load_benchmark("mbpp-signature", 1)[0].prompt.endswith("\nFunction: def inc(a, b=1)")
    assert task.test == SEPARATOR.join(["one = 1", "assert inc(1) == 2", "assert (inc(2)) == 3"])
    assert load_benchmark("mbpp", 1, "standard")[0].prompt.endswith("\nTest: assert inc(1) == 2")
    assert "\r" not in task.solution
    assert before_tests(task, "S") == "S"
    assert benchmarks.tests_of(task, PROTOCOLS["pkg-paper"]) == ("assert inc(1) == 2", "assert (inc(2)) == 3")
    assert benchmarks.tests_of(task, PROTOCOLS["standard"]) == (
        "one = 1\nassert inc(1) == 2\nassert (inc(2)) == 3",
    )


def test_protocols():
    assert [(p.apart, p.setup, p.hint) for p in PROTOCOLS.values()] == [
        (True, False, "first test"),
        (False, True, "first test"),
    ]
    with pytest.raises(UserError, match="choose from: pkg-paper, standard"):
        named_protocol("strict")


def test_user_mistakes(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="choose from: humaneval, mbpp, mbpp-all"):
        load_benchmark("mpbb")
    with pytest.raises(UserError, match="at least 1"):
        load_benchmark("humaneval", 0)
    monkeypatch.setenv(MBPP_DIR, str(tmp_path))
    with pytest.raises(UserError, match=r"holds no mbpp\.jsonl"):
        load_benchmark("mbpp")
    (tmp_path / "mbpp.jsonl").write_text('{"task_id": 11}\n{"task')
    with pytest.raises(UserError, match=r"mbpp\.jsonl"):
        load_benchmark("mbpp")


def test_an_unreachable_hub_fails_fast(monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.delenv(MBPP_DIR, raising=False)

    def unreachable(*args, **kwargs):
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(UserError, match=f"set {MBPP_DIR}"):
        load_benchmark("mbpp")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match="package datasets"):
        load_benchmark("mbpp")


def test_digest_covers_tests():
    tasks = load_benchmark("humaneval", 2)
    assert benchmark_digest(tasks) != benchmark_digest(tasks[:1])
    assert benchmark_digest(tasks) == benchmark_digest(load_benchmark("humaneval", 2))


@needs_mbpp
def test_mbpp_as_published():
    tasks = load_benchmark("mbpp")
    assert [t.id for t in (tasks[0], tasks[-1])] == ["MBPP/11", "MBPP/510"]
    assert len(tasks) == 500
    everything = load_benchmark("mbpp-all")
    assert len(everything) == 974
    assert [t.id for t in everything if t.test.split(SEPARATOR)[0]] == ["MBPP/367", "MBPP/927"]
    assert all(t.entry_point in t.prompt.splitlines()[-1] for t in everything)
    assert all(f"def {t.entry_point}(" in t.prompt for t in load_benchmark("mbpp-signature"))
    assert benchmarks.is_mbpp(everything[0])
