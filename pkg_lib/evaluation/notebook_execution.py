"""Notebooks in kernels, as many at once as cores and memory allow.

A kernel ends with this process, however that happens: ipykernel itself looks after its parent.
"""

import atexit
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any

import psutil

from pkg_lib.core.store import ROOT, write_text
from pkg_lib.core.types import Unavailable, UserError
from pkg_lib.evaluation.study import NotebookJob

MEMORY = 1.5 * 2**30  # bytes for a kernel: a third was measured, a larger model's cache takes more
# One thread a kernel: several share the cores, and sums are formed in the same order however many run.
THREADS = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
# How a mistake begins in a notebook: IPython tells the name of a class and not of its bases.
MISTAKES = {f"{kind.label}: ": kind for kind in (UserError, Unavailable)}


def workers(asked: int | None) -> int:
    """How many notebooks run at once: as asked, else one a core as long as each finds MEMORY."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return asked or max(1, min(cores, int(psutil.virtual_memory().available / MEMORY)))


def run_jobs(
    jobs: Iterable[NotebookJob],
    at_once: int,
    done: Callable[[NotebookJob, Exception | None, float], None],
) -> None:
    """Executes notebooks, `at_once` at a time; calls `done(job, error, seconds)` as each ends.

    Where a notebook raises a UserError, its last executed copy stays; any other is kept up to its failing
    cell. After Ctrl-C nothing is kept and no kernel runs on.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            futures = {pool.submit(_execute, job, stop): job for job in jobs}
            for future in as_completed(futures):
                job, (text, error, seconds) = futures[future], future.result()
                if not isinstance(error, UserError):
                    write_text(job.target, text)
                done(job, error, seconds)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for child in psutil.Process().children():
                with suppress(psutil.Error):  # one that has just ended
                    if "ipykernel_launcher" in child.cmdline():
                        child.kill()
            raise


def _execute(job: NotebookJob, stop: threading.Event) -> tuple[str, Exception | None, float]:
    """The executed notebook, up to the cell that fails, its error, and the seconds that it took."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    began, error, started = time.monotonic(), None, []

    def start(cell: Any, cell_index: int) -> None:
        if stop.is_set():  # also a kernel that was just starting when the others were ended
            raise RuntimeError("stopped")
        started.append(cell)

    notebook = load_notebook_node(str(job.source))
    if job.parameters:
        notebook = parameterize_notebook(notebook, job.parameters)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        startup_timeout=300,  # a busy machine takes long; a kernel that died is noticed at once
        record_timing=False,
        store_widget_state=False,
        on_cell_start=start,
    )
    client.log.setLevel("CRITICAL")  # what it would log of a kernel that died is the error below
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        client.execute(
            cwd=str(job.source.parent), env=THREADS | os.environ | {"PYTHONPATH": path}, **quiet
        )
    except CellExecutionError as e:
        error = _error(next(o for o in started[-1].outputs if o.output_type == "error"), e)
    except RuntimeError:
        atexit.unregister(client._cleanup_kernel)  # nbclient leaves it where a kernel did not start
        name, text = (
            "DeadKernelError",
            "the kernel was killed, perhaps for want of memory; try fewer --jobs",
        )
        error = RuntimeError(f"{name}: {text}")
        stopped = (
            started[-1] if started else next(c for c in notebook.cells if c.cell_type == "code")
        )
        stopped.outputs.append(
            nbformat.v4.new_output("error", ename=name, evalue=text, traceback=[])
        )
    notebook.metadata.pop("papermill")
    for number, cell in enumerate(
        notebook.cells
    ):  # no random ids and progress bars: same results, same file
        cell["id"] = f"cell-{number}"
        cell.metadata.pop("papermill", None)
        if cell.cell_type == "code":
            bars = "application/vnd.jupyter.widget-view+json"
            cell.outputs = [o for o in cell.outputs if bars not in o.get("data", {})]
    return nbformat.writes(notebook) + "\n", error, time.monotonic() - began


def _error(output: Any, error: Any) -> Exception:
    """UserError or Unavailable where the notebook raised one, with its message."""
    (line, *others) = output.traceback or [""]
    for start, kind in MISTAKES.items():
        if line.startswith(start) and not others:
            return kind(line.removeprefix(start))
    return RuntimeError(f"{error.ename}: {(error.evalue.splitlines() or [''])[0]}")
