"""Notebooks in kernels: at once, what is kept of them, and no kernel that outlives the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace

import nbformat
import papermill
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from papermill.exceptions import PapermillExecutionError

from pkg_lib.core.types import Unavailable, UserError
from pkg_lib.evaluation import notebook_execution

MEET = """import pathlib, time
pathlib.Path({own!r}).write_text('')
while not pathlib.Path({other!r}).exists(): time.sleep(0.05)"""
# A command whose one notebook is this.
RUN = """import sys
from types import SimpleNamespace
from pathlib import Path
from pkg_lib import cli
from pkg_lib.evaluation import notebook_execution
job = SimpleNamespace(source=Path({source!r}), target=Path({target!r}), parameters={{}})
cli.app.command("wait")(lambda: notebook_execution.run_jobs([job], 1, print))
sys.argv = ['pkg_lib', 'wait']
sys.exit(cli.main())"""
RAISES = "from pkg_lib.{module} import {name}\nraise {name}('mend\\nthis')"


@pytest.fixture
def job(tmp_path):
    """Makes a notebook of these cells."""

    def make(name, *sources):
        source = tmp_path / f"{name}.ipynb"
        nbformat.write(new_notebook(cells=[new_code_cell(s) for s in sources]), source)
        return SimpleNamespace(source=source, target=tmp_path / "out" / source.name, parameters={})

    return make


def execute(*jobs, at_once=2):
    """Notebook -> (error, seconds)."""
    ends = {}
    notebook_execution.run_jobs(
        jobs, at_once, lambda job, *end: ends.update({job.source.stem: end})
    )
    return ends


def error_of(notebook):
    outputs = [o for c in nbformat.read(notebook, as_version=4).cells for o in c.get("outputs", ())]
    return [o.ename for o in outputs if o.output_type == "error"]


def test_notebooks_run_at_the_same_time_and_one_that_fails_stops_no_other(tmp_path, job):
    """The first two wait for each other; the third starts when one of them has ended."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    jobs = [
        job("first", MEET.format(own=a, other=b)),
        job("fails", MEET.format(own=b, other=a), "1 / 0", "'never'"),
        job("killed", "'seen'", "import os; os.kill(os.getpid(), 9)", "'never'"),
    ]
    ends = execute(*jobs)
    assert (
        ends["first"][0] is None and str(ends["fails"][0]) == "ZeroDivisionError: division by zero"
    )
    assert "the kernel was killed" in str(ends["killed"][0])
    assert all(seconds > 0 for _, seconds in ends.values())
    assert [error_of(j.target) for j in jobs] == [[], ["ZeroDivisionError"], ["DeadKernelError"]]
    stopped = nbformat.read(jobs[2].target, as_version=4).cells
    assert [len(c.outputs) for c in stopped if c.source] == [1, 1, 0]
    assert not any("papermill" in str(c.metadata) for c in stopped)
    assert sorted(p.stem for p in (tmp_path / "out").iterdir()) == ["fails", "first", "killed"]


def test_a_mistake_is_known_by_its_bases_and_leaves_the_last_executed_notebook(job):
    classes = {
        "UserError": "core.types",
        "ControlError": "analysis.stats",
        "BenchmarkMissing": "core.types",
    }
    jobs = [job(name, RAISES.format(module=module, name=name)) for name, module in classes.items()]
    for one in jobs:
        one.target.parent.mkdir(exist_ok=True)
        one.target.write_text("the last one")
    ends = execute(*jobs)
    assert [str(error) for error, _ in ends.values()] == ["mend this"] * 3
    assert all(isinstance(error, UserError) for error, _ in ends.values())
    assert [name for name, (error, _) in ends.items() if isinstance(error, Unavailable)] == [
        "BenchmarkMissing"
    ]
    assert all(one.target.read_text() == "the last one" for one in jobs)


def test_a_target_that_cannot_be_written_is_the_users_mistake(tmp_path, job):
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(UserError, match="cannot write"):
        notebook_execution.run_jobs([job("n", "1")], 1, lambda *a: pytest.fail("done"))


def wait(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_no_kernel_outlives_the_run(tmp_path, how, job):
    """Ctrl-C is exit code 130 and one line; even where the run itself is killed its kernels end."""
    pid = tmp_path / "pid"
    write = f"import os, pathlib, time\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))"
    planned = job("n", f"{write}\ntime.sleep(99)")
    code = RUN.format(source=str(planned.source), target=str(planned.target))
    # A shell's background job starts with the signal ignored, and hands that on.
    default = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, **default
    )
    wait(lambda: (pid.exists() and pid.read_text()) or process.poll() is not None)
    kernel_id = int(pid.read_text())
    process.send_signal(how)
    _, error = process.communicate(timeout=30)
    zombie = psutil.STATUS_ZOMBIE
    wait(lambda: not psutil.pid_exists(kernel_id) or psutil.Process(kernel_id).status() == zombie)
    assert not planned.target.exists()
    if how == signal.SIGINT:
        assert (
            process.returncode == 130 and error.startswith("stopped; ") and error.count("\n") == 1
        )
        assert "run the same command again, without --fresh" in error


def test_as_many_at_once_as_cores_and_memory_allow(monkeypatch):
    def machine(cores, gigabytes):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
        monkeypatch.setattr(
            psutil, "virtual_memory", lambda: SimpleNamespace(available=gigabytes * 2**30)
        )
        return notebook_execution.default_parallelism()

    assert (machine(8, 64), machine(8, 5), machine(8, 0.2), machine(1, 64)) == (8, 3, 1, 1)


@pytest.mark.parametrize(
    ("name", "error"), [("limit", None), ("limmit", "unknown parameter 'limmit'")]
)
def test_papermill_refuses_a_parameter_that_the_notebook_does_not_have(tmp_path, name, error):
    defaults = new_code_cell("limit = None  # type: int", metadata={"tags": ["parameters"]})
    report = new_code_cell(
        "from pkg_lib.analysis.notebook_report import NotebookReport\nNotebookReport('name', 'Heading')"
    )
    source, target = tmp_path / "source.ipynb", tmp_path / "target.ipynb"
    language = {"language_info": {"name": "python"}}
    nbformat.write(new_notebook(cells=[defaults, report], metadata=language), source)
    with nullcontext() if error is None else pytest.raises(PapermillExecutionError, match=error):
        papermill.execute_notebook(
            source, target, parameters={name: 3}, kernel_name="python3", progress_bar=False
        )
    assert error_of(target) == ([] if error is None else ["UserError"])
