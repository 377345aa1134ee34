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

MEET = "import pathlib, time\npathlib.Path({own!r}).write_text('')\nwhile not pathlib.Path({other!r}).exists(): time.sleep(0.05)"


def job(folder, name, *sources):
    source = folder / f"{name}.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(s) for s in sources]), source)
    return processes.Job(source, folder / "out" / source.name, {})


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
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "fails.ipynb",
        "first.ipynb",
        "killed.ipynb",
    ]


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
    source = job(tmp_path, "n", cell)
    code = "import sys\nfrom pathlib import Path\nfrom pkg_lib import cli\nfrom pkg_lib.experiment import batch, processes\n"
    code += f"job = processes.Job(Path({str(source.source)!r}), Path({str(source.target)!r}), {{}})\n"
    code += "batch.run = lambda *a, **k: processes.run_jobs([job], 1, print)\nsys.argv = ['pkg_lib', 'run']\nsys.exit(cli.main())"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    kernel = int(pid.read_text())
    process.send_signal(how)
    _, said = process.communicate(timeout=30)
    while psutil.pid_exists(kernel) and psutil.Process(kernel).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    deadline = time.monotonic() + 10
    while running_copy(source.target).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not source.target.exists()
    if how == signal.SIGINT:
        assert process.returncode == 130 and said.startswith("stopped; ") and said.count("\n") == 1


def test_as_many_at_once_as_cores_and_memory_allow(monkeypatch):
    def machine(cores, gigabytes):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=gigabytes * 2**30))
        return processes.workers(None)

    assert (machine(8, 64), machine(8, 5), machine(8, 0.2), machine(1, 64)) == (8, 3, 1, 1)
    assert processes.workers(5) == 5
    with pytest.raises(UserError, match="at least 1"):
        processes.workers(0)
