"""Forgeries: texts that lie to tests in their own process, and are found out by tests that stand apart."""

import json
import os
from dataclasses import replace

import pytest
from test_attacks import ATTACKS, CHECK

from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.execution.sandbox import run_jobs
from pkg_lib.papers.pkg.replay import replay

# From any frame of the sample to the runner's: says "passed" there, and then either ends or answers each call
# itself, with one of `answers` or, where there are none, with bytes of no meaning.
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
    name: (a["code"].replace("{win}", WIN), a.get("test", CHECK))
    for name, a in ATTACKS["forgeries"].items()
}
WORST = (
    "an object that equals everything",
    "an answer that its object was compared with",
    "a finalizer replaces the checker",
    "frames by a trusted caller",
    "an answer of its own making",
    "an object of the import rule",
)


def test_there_are_at_least_forty():
    assert len(FORGERIES) >= 40


@pytest.mark.parametrize("name", FORGERIES)
def test_the_shared_judge_is_forged(judge, name):
    """Else the next test would show nothing."""
    code, test = FORGERIES[name]
    outcome = judge(code, test, given=None)
    assert (outcome.status, outcome.detail) in (("passed", "shared"), ("passed", ""))


@pytest.mark.parametrize("name", FORGERIES)
def test_no_forgery_passes_tests_that_stand_apart(judge, name):
    code, test = FORGERIES[name]
    assert judge(code, test).status == "failed"


@pytest.mark.parametrize("kind", ["I", "O", "L", "no such kind"])
def test_a_sample_cannot_have_itself_not_measured(judge, kind):
    """Whatever it says with the nonce: a task that is left out would be none that it failed."""
    code = WIN.replace("b'P')", f"b'{kind}')") + "\nimport sys\nwin(sys._getframe())"
    assert judge(code, CHECK).status == "failed"


# A tuple in a tuple, and so on: to take its hash needs more of the stack than there is.
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
def test_a_sample_that_ends_itself_or_the_tests_process_has_failed(judge, code):
    assert judge(code, CHECK).status == "failed"
    assert judge("def f(x): return 2", "assert f(1) == 2").status == "passed"


# Spins as soon as it is given the tests.
SPINS = """
import json
loads = json.loads
def spinning(*a, **k):
    message = loads(*a, **k)
    while message[0] == '': pass
    return message
json.loads = spinning
def f(x): return """


def test_a_sample_that_failed_is_not_given_the_tests(judge):
    """It could leave them to the next sample of the task, such as in which pages of files are in memory."""
    assert judge(SPINS + "0", "assert f(1) == 2").error == "AssertionError"
    assert judge(SPINS + "2", "assert f(1) == 2").error == "Timeout"


# One text for every task: all functions that the prompt defines, whatever their names, are the one that lies.
EVERY = """
for name in [n for n, v in globals().items() if type(v) is type(f) and n not in ('f', 'win')]:
    globals()[name] = f
"""


@pytest.mark.parametrize("name", FORGERIES if os.environ.get("PKG_FORGERIES") == "all" else WORST)
def test_one_text_for_all_tasks_passes_none(tmp_path, name):
    text = "    pass\n" + FORGERIES[name][0].replace("def f(x)", "def f(*x, **k)") + EVERY
    tasks, rules = load_benchmark("humaneval"), BENCHMARKS["humaneval"]
    if name in WORST:  # else the forgery would show nothing
        shared = run_jobs(replace(rules.job(t, text), given=None) for t in tasks)
        assert sum(o.status == "passed" for o in shared) > 50
    path = tmp_path / "samples" / "humaneval" / "forged.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(json.dumps({"task_id": t.id, "completion": text}) for t in tasks))
    assert replay(tmp_path / "samples", tmp_path / "out").table.passed.tolist() == [0]
