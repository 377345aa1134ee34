"""Several notebooks at once: each in a process of its own, which ends with whoever started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from pkg_lib.core.types import UserError
from pkg_lib.experiment import processes
from pkg_lib.experiment.kernel import running_copy

MEET = """import pathlib, time
pathlib.Path({own!r}).write_text('')
while not pathlib.Path({other!r}).exists(): time.sleep(0.05)"""
# `run` with one notebook, a kernel of which sleeps.
RUN = """import sys
from types import SimpleNamespace
from pathlib import Path
from pkg_lib import cli
from pkg_lib.experiment import batch, processes
job = SimpleNamespace(source=Path({source!r}), target=Path({target!r}), parameters={{}})
batch.run = lambda *a, **k: processes.run_jobs([job], 1, print)
sys.argv = ['pkg_lib', 'run']
sys.exit(cli.main())"""


def job(folder, name, *sources):
    source = folder / f"{name}.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(s) for s in sources]), source)
    return SimpleNamespace(source=source, target=folder / "out" / source.name, parameters={})


def error_of(notebook):
    outputs = [o for c in nbformat.read(notebook, as_version=4).cells for o in c.get("outputs", ())]
    return [o.ename for o in outputs if o.output_type == "error"]


def test_notebooks_run_at_the_same_time_and_one_that_fails_stops_no_other(tmp_path):
    """The first two wait for each other; the third starts when one of them has ended."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    jobs = [
        job(tmp_path, "first", MEET.format(own=a, other=b)),
        job(tmp_path, "fails", MEET.format(own=b, other=a), "1 / 0", "'never'"),
        job(tmp_path, "killed", "'seen'", "import os; os.kill(os.getpid(), 9)", "'never'"),
    ]
    told = {}
    processes.run_jobs(jobs, 2, lambda job, error, seconds: told.update({job.source.stem: (error, seconds)}))
    assert told["first"][0] == "" and told["fails"][0] == "ZeroDivisionError: division by zero"
    assert told["killed"][0].startswith("DeadKernelError: the kernel was killed")
    assert all(seconds > 0 for _, seconds in told.values())
    assert [error_of(j.target) for j in jobs] == [[], ["ZeroDivisionError"], ["DeadKernelError"]]
    stopped = nbformat.read(jobs[2].target, as_version=4).cells
    assert [len(c.outputs) for c in stopped] == [1, 1, 0]
    left = sorted(p.stem for p in (tmp_path / "out").iterdir())
    assert left == ["fails", "first", "killed"]


def wait(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_target_that_cannot_be_written_is_the_users_mistake(tmp_path):
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(UserError, match="move what stands in its place"):
        processes.run_jobs([job(tmp_path, "n", "1")], 1, lambda *a: pytest.fail("done"))


def test_a_process_that_cannot_start_is_an_error_of_its_notebook(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    told = []
    processes.run_jobs([job(tmp_path, "n", "1")], 1, lambda job, error, seconds: told.append(error))
    assert told == ["ended with exit code 1: no message"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_no_kernel_outlives_the_run(tmp_path, how):
    """Ctrl-C is exit code 130 and one line; even where the run itself is killed its kernels end."""
    pid = tmp_path / "pid"
    cell = (
        f"import os, pathlib, time\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(99)"
    )
    planned = job(tmp_path, "n", cell)
    code = RUN.format(source=str(planned.source), target=str(planned.target))
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    wait(lambda: (pid.exists() and pid.read_text()) or process.poll() is not None)
    kernel = int(pid.read_text())
    process.send_signal(how)
    _, error = process.communicate(timeout=30)
    wait(lambda: not psutil.pid_exists(kernel) or psutil.Process(kernel).status() == psutil.STATUS_ZOMBIE)
    wait(lambda: not running_copy(planned.target).exists(), 10)
    assert not planned.target.exists()
    if how == signal.SIGINT:
        assert process.returncode == 130 and error.startswith("stopped; ") and error.count("\n") == 1


def test_as_many_at_once_as_cores_and_memory_allow(monkeypatch):
    def machine(cores, gigabytes):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=gigabytes * 2**30))
        return processes.workers(None)

    assert (machine(8, 64), machine(8, 5), machine(8, 0.2), machine(1, 64)) == (8, 3, 1, 1)
    assert processes.workers(5) == 5
    with pytest.raises(UserError, match="at least 1"):
        processes.workers(0)
