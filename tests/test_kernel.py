"""Notebooks in kernels: they run in parallel, failed ones are stored, and no kernel outlives the run."""

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

from pkg_lib.core.types import UnavailableError, UserError
from pkg_lib.evaluation import notebook_execution

# A cell that waits until another notebook executes such a cell.
MEET = """import pathlib, time
pathlib.Path({own!r}).write_text('')
while not pathlib.Path({other!r}).exists(): time.sleep(0.05)"""
# A program with a command that executes one notebook.
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
    """Make a notebook from the sources of its cells."""

    def make(name, *sources):
        source = tmp_path / f"{name}.ipynb"
        cells = [new_code_cell(text) for text in sources]
        nbformat.write(new_notebook(cells=cells), source)
        return SimpleNamespace(source=source, target=tmp_path / "out" / source.name, parameters={})

    return make


def execute(*jobs, at_once=2):
    """Execute notebooks; return the error, or None, and the seconds of each."""
    outcomes = {}

    def done(job, error, seconds):
        outcomes[job.source.stem] = (error, seconds)

    notebook_execution.run_jobs(jobs, at_once, done)
    return outcomes


def error_of(notebook):
    """Return the names of the errors that a stored notebook shows."""
    names = []
    for cell in nbformat.read(notebook, as_version=4).cells:
        outputs = cell.get("outputs", ())
        names += [output.ename for output in outputs if output.output_type == "error"]
    return names


def test_notebooks_run_in_parallel_and_a_failed_one_does_not_stop_others(tmp_path, job):
    """The first two notebooks wait for each other. The third starts after one of them."""
    a = str(tmp_path / "a")
    b = str(tmp_path / "b")
    first = job("first", MEET.format(own=a, other=b))
    fails = job("fails", MEET.format(own=b, other=a), "1 / 0", "'never'")
    killed = job("killed", "'seen'", "import os; os.kill(os.getpid(), 9)", "'never'")
    outcomes = execute(first, fails, killed)
    assert outcomes["first"][0] is None
    assert str(outcomes["fails"][0]) == "ZeroDivisionError: division by zero"
    assert "the kernel was killed" in str(outcomes["killed"][0])
    for _, seconds in outcomes.values():
        assert seconds > 0

    assert error_of(first.target) == []
    assert error_of(fails.target) == ["ZeroDivisionError"]
    assert error_of(killed.target) == ["DeadKernelError"]
    cells = nbformat.read(killed.target, as_version=4).cells
    assert [len(cell.outputs) for cell in cells if cell.source] == [1, 1, 0]
    assert not any("papermill" in str(cell.metadata) for cell in cells)
    stored = sorted(path.stem for path in (tmp_path / "out").iterdir())
    assert stored == ["fails", "first", "killed"]


def test_a_users_mistake_is_recognized_and_keeps_the_previous_executed_notebook(job):
    modules = {
        "UserError": "core.types",
        "ControlError": "evaluation.controls",
        "BenchmarkMissingError": "core.types",
    }
    jobs = [job(name, RAISES.format(module=module, name=name)) for name, module in modules.items()]
    for planned in jobs:
        planned.target.parent.mkdir(exist_ok=True)
        planned.target.write_text("the previous one")
    outcomes = execute(*jobs)
    assert outcomes.keys() == modules.keys()
    for name, (error, _) in outcomes.items():
        assert str(error) == "mend this"
        assert isinstance(error, UserError)
        assert isinstance(error, UnavailableError) == (name == "BenchmarkMissingError")
    for planned in jobs:
        assert planned.target.read_text() == "the previous one"


def test_reports_a_target_that_cannot_be_written(tmp_path, job):
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(UserError, match="cannot write"):
        notebook_execution.run_jobs([job("n", "1")], 1, lambda *_: pytest.fail("done"))


def wait(condition, seconds: float = 60) -> None:
    """Wait until a condition holds; fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_no_kernel_outlives_the_run(tmp_path, how, job):
    """Ctrl-C ends the run with exit code 130 and one line. The kernels end, too, if the run is killed."""
    pid = tmp_path / "pid"
    cell = f"""import os, pathlib, time
pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))
time.sleep(99)"""
    planned = job("n", cell)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            RUN.format(source=str(planned.source), target=str(planned.target)),
        ],
        stderr=subprocess.PIPE,
        text=True,
        # A background job of a shell ignores SIGINT, and its child processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait(lambda: (pid.exists() and pid.read_text()) or process.poll() is not None)
    kernel_id = int(pid.read_text())
    process.send_signal(how)
    _, error = process.communicate(timeout=30)

    def kernel_ended():
        if not psutil.pid_exists(kernel_id):
            return True
        return psutil.Process(kernel_id).status() == psutil.STATUS_ZOMBIE

    wait(kernel_ended)
    assert not planned.target.exists()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert error.startswith("stopped; ")
        assert error.count("\n") == 1
        assert "run the same command again, without --fresh" in error


def test_cores_and_memory_limit_the_default_parallelism(monkeypatch):
    def parallelism(cores, gigabytes):
        memory = SimpleNamespace(available=gigabytes * 2**30)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
        return notebook_execution.default_parallelism()

    assert parallelism(cores=8, gigabytes=64) == 8
    assert parallelism(cores=8, gigabytes=5) == 3
    assert parallelism(cores=8, gigabytes=0.2) == 1
    assert parallelism(cores=1, gigabytes=64) == 1


@pytest.mark.parametrize(
    ("name", "error"), [("limit", None), ("limmit", "unknown parameter 'limmit'")]
)
def test_papermill_refuses_a_parameter_that_the_notebook_does_not_have(tmp_path, name, error):
    defaults = new_code_cell("limit = None  # type: int", metadata={"tags": ["parameters"]})
    report = new_code_cell(
        "from pkg_lib.analysis.notebook_report import NotebookReport\nNotebookReport('name', 'Heading')"
    )
    source = tmp_path / "source.ipynb"
    target = tmp_path / "target.ipynb"
    language = {"language_info": {"name": "python"}}
    nbformat.write(new_notebook(cells=[defaults, report], metadata=language), source)
    expectation = nullcontext()
    expected_errors = []
    if error is not None:
        expectation = pytest.raises(PapermillExecutionError, match=error)
        expected_errors = ["UserError"]
    with expectation:
        papermill.execute_notebook(
            source, target, parameters={name: 3}, kernel_name="python3", progress_bar=False
        )
    assert error_of(target) == expected_errors
