"""The pool: verdicts, limits, packages, order, faults, early ends, layers."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest
from sandbox_settings import BARE

from pkg_lib.execution.errors import split_detail
from pkg_lib.execution.sandbox import Job, Limits, Worker, check_layers, layers, run_jobs
from pkg_lib.types import Outcome, UserError

ROOT = Path(__file__).resolve().parents[2]
TEST = "assert f(1) == 2"
RIGHT, WRONG = "def f(x): return x + 1", "def f(x): return x"
NAMES = {
    "network namespace", "process namespace", "mount namespace", "ipc namespace", "rlimits", "no new privileges",
    "capabilities dropped", "system call filter", "process-count limit",
}


def left_in(folder):
    """Processes of the sandbox whose work directory is below `folder`, orphans among them."""
    return [p.pid for p in psutil.process_iter(["cmdline"]) if any(str(folder) in a for a in p.info["cmdline"] or ())]


@pytest.fixture
def no_leak(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    end = time.monotonic() + 10
    while left_in(tmp_path) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left_in(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("code", "error", "line", "failing"),
    [
        (WRONG, "AssertionError", "AssertionError", TEST),
        ("def f(x): return y", "NameError", "NameError: name 'y' is not defined", TEST),
        ("def f(): pass", "TypeError", "TypeError: f() takes 0 positional arguments but 1 was given", TEST),
        ("def f(x:", "SyntaxError", "SyntaxError: '(' was never closed (<sample>, line 1)", ""),
        ("def f(x):\nreturn 1", "IndentationError",
         "IndentationError: expected an indented block after function definition on line 1 (<sample>, line 2)", ""),
        ("def f(x): return [][1]", "Others", "IndexError: list index out of range", TEST),
        ("def f(x):\n    y += 1", "NameError",
         "UnboundLocalError: cannot access local variable 'y' where it is not associated with a value", TEST),
        ("import sympy", "ForbiddenImport", "ModuleNotFoundError: No module named 'sympy'", ""),
        ("from scipy.stats import norm", "ForbiddenImport", "ModuleNotFoundError: No module named 'scipy'", ""),
        ("from math import nothing", "Others", "", ""),
        ("x = [0] * 10**10", "Memory", "MemoryError", ""),
        ("import os; os.abort()", "Others", "", ""),
        ("while True: pass", "Timeout", "no verdict within 2 s", ""),
    ],
)
def test_error_types_keep_the_last_line_and_the_assertion(judge, code, error, line, failing):
    outcome = judge(code, TEST, seconds=2.0)
    assert (outcome.status, outcome.error) == ("failed", error)
    last, assertion = split_detail(outcome.detail)
    assert last.startswith(line) if line else last
    assert assertion == failing


def test_the_failing_assertion_is_the_innermost_statement(judge):
    check = "def check(c):\n    assert c(0) == 0\n    for i in (1, 2):\n        assert c(i) == (\n            2)\n\ncheck(f)"
    assert split_detail(judge(WRONG, check).detail)[1] == "assert c(i) == (\n            2)".replace("\n", " ")


def test_a_pass_needs_every_test_and_each_is_a_fresh_process(judge):
    assert judge(RIGHT, TEST, "assert f(2) == 3").status == "passed"
    assert judge(RIGHT, TEST, "assert f(2) == 4").error == "AssertionError"
    state = "n = []\ndef f(x):\n    n.append(x)\n    return len(n)"
    assert judge(state, "assert f(1) == 1", "assert f(1) == 1").status == "passed"


def test_without_tests_the_solution_is_executed(judge):
    assert judge("x = 1").status == "passed"
    assert judge("x = y").error == "NameError"


def test_names_are_those_of_a_bare_exec(judge):
    """As the published verdicts were reached: `__name__` is builtins', so a main guard does not run."""
    assert judge("if __name__ == '__main__': raise SystemExit\nassert __name__ == 'builtins'").status == "passed"
    assert judge("def f(x: undefined): return 2", TEST).error == "NameError"


@pytest.mark.parametrize(
    ("packages", "code", "error"),
    [
        ("stdlib", "import numpy", "ForbiddenImport"),
        ("stdlib", "import json, sysconfig; sysconfig.get_config_vars()", ""),
        ("stdlib+numpy", "import numpy.polynomial, numpy.random", ""),
        ("stdlib+numpy", "import numpy, os, sys\nsys.path.insert(0, os.path.dirname(os.path.dirname(numpy.__file__)))\n"
                         "sys.meta_path.reverse()\nimport pandas", "ForbiddenImport"),
        ("stdlib+numpy", "import importlib\nimportlib.import_module('six')", "ForbiddenImport"),
        ("stdlib+numpy", "import importlib\nimportlib.import_module('numpy').zeros(1)", ""),
        ("stdlib", "import importlib, sys\nsys.path.append(f'{sys.prefix}/lib/python3.%d/site-packages' % sys.version_info[1])\n"
                   "importlib.import_module('six')", "ForbiddenImport"),
        ("all", "import importlib\nimportlib.import_module('six')", ""),
        ("stdlib+numpy", "try:\n    import scipy\nexcept ImportError:\n    pass", ""),
        ("all", "import scipy.stats", ""),
        ("all", "import no_such_package", "Others"),
    ],
)  # fmt: skip
def test_packages(judge, packages, code, error):
    assert judge(code, packages=packages, seconds=30).error == error


def test_outcomes_come_in_order_and_progress_counts(no_leak):
    jobs = [Job(str(i), f"def f(x): return {i % 3}", (TEST,)) for i in range(30)]
    seen = []
    outcomes = list(run_jobs(jobs, Limits(packages="stdlib"), 2, seen.append))
    assert [o.status == "passed" for o in outcomes] == [i % 3 == 2 for i in range(30)]
    assert seen == list(range(1, 31))
    assert list(run_jobs([])) == []


def test_an_early_end_leaves_nothing(no_leak):
    outcomes = run_jobs([Job("a", "x = 1"), *[Job("b", "while True: pass", seconds=60)] * 3], Limits(packages="stdlib"))
    assert next(outcomes).status == "passed"
    outcomes.close()


def test_a_sample_whose_server_ends_at_once_is_not_left_alone(no_leak):
    """The server is killed at every moment of a sample's start."""
    for delay in range(8):
        worker = Worker(Limits(packages="stdlib"))
        worker.stopped = True
        thread = threading.Thread(target=worker.run, args=(Job("b", "while True: pass", seconds=60),))
        thread.start()
        time.sleep(delay / 1000)
        worker.process.kill()
        thread.join()
        worker.close()


def test_a_fork_server_that_ends_is_not_measured_and_replaced(no_leak, monkeypatch):
    worker = Worker(Limits(packages="stdlib"))
    try:
        worker.process.kill()
        assert worker.run(Job("a", "x = 1")).status == "passed"  # the retry
        once = Worker._once
        monkeypatch.setattr(Worker, "_once", lambda w, job: (w.process.kill(), once(w, job))[1])
        outcome = worker.run(Job("a", "x = 1"))
        assert outcome.status == "not_measured"
        assert "fork server ended" in outcome.detail
    finally:
        worker.close()


def test_a_fault_before_the_sample_is_not_measured(pool, tmp_path):
    worker = pool(BARE, "stdlib")
    os.rmdir(worker.work)
    try:
        outcome = worker.run(Job("a", "x = 1"))
    finally:
        os.mkdir(worker.work)
    assert outcome == Outcome("not_measured", "", outcome.detail, outcome.seconds)
    assert "sandbox setup" in outcome.detail


def test_a_stopped_sample_is_no_fault_of_the_sandbox(judge):
    assert judge("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass", seconds=0.5).error in (
        "Timeout", "Others"
    )


def test_limits_are_checked():
    for bad in ({"packages": "numpy"}, {"seconds": 0}, {"memory_mb": 1}):
        with pytest.raises(UserError):
            Limits(**bad)
    with pytest.raises(UserError, match="workers"):
        next(run_jobs([Job("a", "x")], workers=0))


def test_layers_name_what_is_missing(monkeypatch, caplog):
    monkeypatch.setenv("PKG_SANDBOX_DENY", "namespaces,filter")
    found = layers()
    assert set(found) == NAMES
    missing = {n for n, v in found.items() if v is not True}
    assert missing >= {"network namespace", "process namespace", "mount namespace", "ipc namespace", "system call filter"}
    with caplog.at_level(logging.WARNING):
        check_layers(found)
    assert all(name in caplog.text for name in missing)
    caplog.clear()
    check_layers(dict.fromkeys(NAMES, True))
    assert not caplog.text


def test_unknown_switches_are_refused(monkeypatch):
    monkeypatch.setenv("PKG_SANDBOX_DENY", "namespace")
    with pytest.raises(UserError, match="PKG_SANDBOX_DENY"):
        layers()


PROBE = """
import sys, logging
sys.path.insert(0, {root!r})
logging.basicConfig(level=logging.WARNING)
from pkg_lib.execution import confine, syscalls
confine._prctl(confine.PR_SET_NO_NEW_PRIVS, 1)
assert confine._filter(confine.loadable(syscalls.refusing([272]))) is True  # unshare
from pkg_lib.execution.sandbox import Job, run_jobs
codes = ["def f(x): return x + 1", "import os; os.mkdir({canary!r})", "import socket; socket.socket()", "while True: pass"]
print([o.error or o.status for o in run_jobs([Job(c, c, ("assert f(1) == 2",), seconds=0.5) for c in codes])])
"""


def run_probe(tmp_path, **kwargs):
    canary = tmp_path / "canary"
    code = PROBE.format(root=str(ROOT), canary=str(canary))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, **kwargs)
    assert done.returncode == 0, done.stderr
    assert not canary.exists()
    return done


def test_namespaces_denied_by_the_kernel(tmp_path):
    """No switch here: the kernel itself refuses unshare, as containers do. The filter then covers what they would."""
    done = run_probe(tmp_path)
    assert done.stdout.strip() == "['passed', 'Others', 'Others', 'Timeout']"
    assert "process namespace (unshare: Operation not permitted)" in done.stderr
    assert "system call filter" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="the whole suite runs as an ordinary user already")
def test_as_an_ordinary_user(tmp_path):
    code = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(ROOT)!r})
        from pkg_lib.execution.sandbox import Job, layers, run_jobs
        print(all(v is True for n, v in layers().items() if "namespace" not in n))
        codes = ["def f(x): return x + 1", "import os\\nwhile True: os.fork()", "import socket; socket.socket()"]
        print([o.error or o.status for o in run_jobs([Job(c, c, ("assert f(1) == 2",), seconds=0.5) for c in codes])])
    """)
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, user=65534, group=65534, extra_groups=[], cwd="/"
        )
    except PermissionError:
        pytest.skip("an ordinary user cannot read this Python; run the suite as one instead")
    if "No module named" in done.stderr or "Permission denied" in done.stderr:
        pytest.skip("an ordinary user cannot read this Python or checkout; run the suite as one instead")
    assert done.stdout.split("\n")[:2] == ["True", "['passed', 'Others', 'Others']"], done.stderr


def test_a_killed_parent_takes_everything_along():
    code = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(ROOT)!r})
        from pkg_lib.execution.sandbox import *
        worker = Worker(Limits(packages="stdlib"))
        print(worker.process.pid, worker.work, flush=True)
        worker.run(Job("a", "while True: pass", seconds=60))
    """)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pid, work = parent.stdout.readline().split()
        server = psutil.Process(int(pid))
        for _ in range(200):
            if server.children():
                break
            time.sleep(0.05)
        started = [server, *server.children(recursive=True)]
        assert len(started) == 2
        parent.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(started, timeout=10)
    os.rmdir(work)  # empty; nobody was left to remove it
    assert not alive
