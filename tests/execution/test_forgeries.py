"""Test forgeries: programs that deceive tests in the same process but fail tests in a separate process."""

import json
import os
from dataclasses import replace

import pytest
from test_attacks import ATTACKS, CHECK

from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.execution.sandbox import run_jobs
from pkg_lib.papers.pkg.replay import replay

# Walks from any frame of the sample to that of the runner and reports "passed" there. Then it either ends, or
# answers each call itself with one of `answers`; if `answers` is empty, with random bytes.
WIN = """
def win(frame, answers=()):
    import os, json, random
    while frame is not None:
        found = frame.f_locals
        frame = frame.f_back
        if 'nonce' in found and 'out' in found:
            os.write(found['out'], found['nonce'] + b'P')
            for n in range(1 if answers == () else 99):
                if answers == (): os._exit(0)
                if not os.read(found['out'], 1 << 16): break
                data = random.randbytes(99) if not answers else json.dumps(answers[n % len(answers)]).encode()
                os.write(found['out'], (len(data).to_bytes(4, 'big') if answers else b'') + data)
"""
FORGERIES = {
    name: (attack["code"].replace("{win}", WIN), attack.get("test", CHECK))
    for name, attack in ATTACKS["forgeries"].items()
}
WORST = (
    "an object that equals everything",
    "an answer that its object was compared with",
    "a finalizer replaces the checker",
    "frames by a trusted caller",
    "an answer of its own making",
    "an object of the import rule",
)


def test_there_are_at_least_forty_forgeries():
    assert len(FORGERIES) >= 40


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_pass_tests_that_share_the_process(judge, name):
    """Otherwise the next test would show nothing."""
    code, test = FORGERIES[name]
    outcome = judge(code, test, given=None)
    assert (outcome.status, outcome.detail) in (("passed", "shared"), ("passed", ""))


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_fail_tests_in_a_separate_process(judge, name):
    code, test = FORGERIES[name]
    assert judge(code, test).status == "failed"


@pytest.mark.parametrize("kind", ["I", "O", "L", "no such kind"])
def test_a_sample_cannot_report_itself_as_not_measured(judge, kind):
    """A task that counts as not measured would not count as failed."""
    code = WIN.replace("b'P')", f"b'{kind}')") + "\nimport sys\nwin(sys._getframe())"
    assert judge(code, CHECK).status == "failed"


# Deeply nested tuples, whose hash needs more stack than there is.
DEEP = """
import json
n = 400_000
deep = ['list', 0, ['tuple', 1, 5], *(['tuple', i, ['=', i - 1]] for i in range(2, n)), ['set', n, ['=', n - 1]]]
text = json.dumps(['value', None, deep])
def f(x):
    json.dumps = lambda *a: text
    return 0
"""
LIMIT = """
import resource
try: resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
except (OSError, ValueError): pass
while True: pass
"""


@pytest.mark.parametrize("code", [DEEP, LIMIT])
def test_a_sample_that_ends_itself_or_the_tests_process_fails(judge, code):
    assert judge(code, CHECK).status == "failed"
    assert judge("def f(x): return 2", "assert f(1) == 2").status == "passed"


# Loops as soon as it receives the tests.
SPINS = """
import json
loads = json.loads
def spinning(*a, **k):
    message = loads(*a, **k)
    while message[0] == '': pass
    return message
json.loads = spinning
def f(x): return """


def test_a_sample_that_already_failed_does_not_receive_the_tests(judge):
    """It could pass them on to the next sample, for example through the pages of files in memory."""
    assert judge(SPINS + "0", "assert f(1) == 2").error == "AssertionError"
    assert judge(SPINS + "2", "assert f(1) == 2").error == "Timeout"


# One program for every task: it replaces all functions that the prompt defines by the forged one.
EVERY = """
for name in [n for n, v in globals().items() if type(v) is type(f) and n not in ('f', 'win')]:
    globals()[name] = f
"""


@pytest.mark.parametrize("name", FORGERIES if os.environ.get("PKG_FORGERIES") == "all" else WORST)
def test_one_forgery_for_all_tasks_passes_no_task(tmp_path, name):
    text = "    pass\n" + FORGERIES[name][0].replace("def f(x)", "def f(*x, **k)") + EVERY
    tasks = load_benchmark("humaneval")
    benchmark = BENCHMARKS["humaneval"]
    if name in WORST:  # otherwise the forgery would show nothing
        shared = run_jobs(replace(benchmark.job(task, text), given=None) for task in tasks)
        assert sum(outcome.status == "passed" for outcome in shared) > 50
    path = tmp_path / "samples" / "humaneval" / "forged.jsonl"
    path.parent.mkdir(parents=True)
    lines = [json.dumps({"task_id": task.id, "completion": text}) for task in tasks]
    path.write_text("\n".join(lines))
    assert replay(tmp_path / "samples", tmp_path / "out").table.passed.tolist() == [0]
