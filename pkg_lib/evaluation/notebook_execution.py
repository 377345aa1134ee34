"""Executes notebooks with papermill, several at once.

A kernel ends with this process, however the process ends: ipykernel watches its parent.
"""

import atexit
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import papermill
import psutil
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import remove_error_markers

from pkg_lib.core.endpoints import endpoints_path
from pkg_lib.core.locks import HOLDER
from pkg_lib.core.reading import absolute
from pkg_lib.core.store import IS_CHECKOUT, ROOT, results_path, write_text
from pkg_lib.core.types import UnavailableError, UserError
from pkg_lib.core.workers import core_count
from pkg_lib.evaluation.study import NotebookJob

ENGINE = "pkg_lib"  # name under which papermill knows `KernelEngine`
KERNEL_MEMORY = 1.5 * 2**30  # bytes; a third was measured, the cache of a larger model takes more
START_TIMEOUT = 300  # seconds; a busy machine is slow, and a kernel that dies is noticed at once
# With one thread a kernel, notebooks share the cores, and sums do not depend on how many run.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
HTML, PLAIN_TEXT = "text/html", "text/plain"
PROGRESS_BAR = "application/vnd.jupyter.widget-view+json"
DEAD_KERNEL = "the kernel was killed, perhaps because memory ran out; try fewer --jobs"


class KernelEngine(NBClientEngine):  # type: ignore[misc]  # papermill has no types
    """Runs a notebook in a silent kernel of one thread.

    The engine of papermill cannot set the environment and the streams of a kernel. It also loses
    the outputs of a notebook whose kernel dies.
    """

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: NotebookExecutionManager,
        kernel_name: str,
        *,
        stop: threading.Event,
        folder: Path,
        **_: Any,
    ) -> None:
        """Execute the cells of a notebook up to the first that fails.

        Args:
            nb_man: papermill's view of the notebook, which receives the outputs.
            kernel_name: The kernel to start.
            stop: Once set, no further cell is executed.
            folder: The working directory of the kernel.
            **_: Options of papermill that have no effect here.
        """

        def before_cell(**_: object) -> None:
            if stop.is_set():  # for a kernel that was starting when the others were killed
                raise RuntimeError("stopped")

        client = PapermillNotebookClient(
            nb_man,
            kernel_name=kernel_name,
            startup_timeout=START_TIMEOUT,
            record_timing=False,
            store_widget_state=False,
            on_cell_start=before_cell,
        )
        client.log.setLevel(logging.CRITICAL)  # a dead kernel is reported by the error below
        variables = ONE_THREAD | os.environ
        # The kernel starts in another directory, where a relative place would be another one.
        variables["PKG_ENDPOINTS"] = str(endpoints_path().absolute())
        variables["PKG_RESULTS"] = str(results_path().absolute())
        variables[HOLDER] = str(absolute(results_path()))  # this process has locked the directory
        if IS_CHECKOUT:
            path = os.environ.get("PYTHONPATH")
            variables["PYTHONPATH"] = f"{ROOT}{os.pathsep}{path}" if path else str(ROOT)
        try:
            client.execute(
                cwd=str(folder),
                env=variables,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except RuntimeError:
            atexit.unregister(client._cleanup_kernel)  # registered even if the kernel never started
            _add_dead_kernel_error(nb_man.nb)


def _add_dead_kernel_error(notebook: nbformat.NotebookNode) -> None:
    """Add an error output to the cell that was running, from which papermill raises its error."""
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    running = code_cells[0]
    for cell in code_cells:
        if cell.metadata.papermill["start_time"]:
            running = cell
    error = nbformat.v4.new_output(
        "error", ename="DeadKernelError", evalue=DEAD_KERNEL, traceback=[]
    )
    running.outputs.append(error)


papermill_engines.register(ENGINE, KernelEngine)


@dataclass(frozen=True, slots=True)
class Execution:
    """How the execution of a notebook ended.

    Attributes:
        text: The executed notebook, up to the cell that failed.
        error: What went wrong; None if every cell ran. A user's mistake is a UserError.
        seconds: The time that it took.
    """

    text: str
    error: Exception | None
    seconds: float


def default_parallelism() -> int:
    """Return how many notebooks run at once: one per core, as far as the memory allows."""
    kernels = int(psutil.virtual_memory().available / KERNEL_MEMORY)
    return max(1, min(core_count(), kernels))


def run_jobs(
    jobs: Iterable[NotebookJob],
    at_once: int,
    done: Callable[[NotebookJob, Exception | None, float], None],
) -> None:
    """Execute notebooks, and write each to its target as it ends.

    If a notebook raises a UserError, its last executed copy stays. A notebook with any other error
    is kept up to the cell that failed. After Ctrl-C, nothing is kept and no kernel goes on.

    Args:
        jobs: The notebooks.
        at_once: The number of notebooks that run at the same time.
        done: Called with the notebook, its error or None, and its seconds, as each ends.

    Raises:
        UserError: A target cannot be written.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            futures = {pool.submit(_execute, job, stop): job for job in jobs}
            for future in as_completed(futures):
                job, execution = futures[future], future.result()
                if not isinstance(execution.error, UserError):
                    write_text(job.target, execution.text)
                done(job, execution.error, execution.seconds)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            _kill_kernels()
            raise


def _kill_kernels() -> None:
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # a process that has just ended
            if "ipykernel_launcher" in child.cmdline():
                child.kill()


def _execute(job: NotebookJob, stop: threading.Event) -> Execution:
    started = time.monotonic()
    error = None
    source = nbformat.read(job.source, as_version=4)  # papermill would format braces in a path
    with TemporaryDirectory() as folder:
        executed = Path(folder, "executed.ipynb")
        try:
            papermill.execute_notebook(
                source,
                executed,
                job.parameters,
                engine_name=ENGINE,
                kernel_name="python3",
                request_save_on_cell_execute=False,
                progress_bar=False,
                stop=stop,
                folder=job.source.parent,
            )
        except PapermillExecutionError as e:
            error = _error_of(e)
        notebook = nbformat.read(executed, as_version=4)
    _remove_volatile_parts(notebook)
    return Execution(nbformat.writes(notebook) + "\n", error, time.monotonic() - started)


def _error_of(error: PapermillExecutionError) -> Exception:
    """Return a UserError or UnavailableError if the notebook raised one, else a RuntimeError in one line.

    IPython reports the name of a class but not its bases, so the shown line tells the two apart.
    """
    for kind in (UserError, UnavailableError):
        label = f"{kind.label}: "
        if len(error.traceback) == 1 and error.traceback[0].startswith(label):
            return kind(error.traceback[0].removeprefix(label))
    first_line = error.evalue.partition("\n")[0]
    return RuntimeError(f"{error.ename}: {first_line}")


def _remove_volatile_parts(notebook: nbformat.NotebookNode) -> None:
    """Remove random ids, times, progress bars and papermill's marks: same results, same file."""
    remove_error_markers(notebook)
    notebook.metadata.pop("papermill")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        cell.metadata.pop("papermill")
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if PROGRESS_BAR not in o.get("data", {})]
            for output in cell.outputs:
                _remove_repeated_text(output.get("data", {}))


def _remove_repeated_text(data: dict[str, Any]) -> None:
    """Remove the plain text of an output that is also there as HTML: together they fill megabytes."""
    if HTML in data:
        data.pop(PLAIN_TEXT, None)
