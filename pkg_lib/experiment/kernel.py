"""One notebook in a kernel: papermill executes it, and what is kept of it is the same at every run.

    python -m pkg_lib.experiment.kernel    executes the job on the first line of stdin, for `processes`

As a process of its own it lives as long as stdin stays open: when whoever started it ends, however that
happens, it takes its kernel along.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from pkg_lib.core.store import ROOT
from pkg_lib.core.types import NotAtHand, UserError

# The kernel's remark that it talks over TCP, on each start, would stand between the progress lines. A busy
# machine can take longer to start one than papermill's minute; one that has died is noticed at once.
KERNEL = {"kernel_name": "python3", "extra_arguments": ["--log-level=ERROR"], "start_timeout": 300}
# How a mistake begins in a notebook -> how its error begins here. IPython tells the name of a class and not
# of its bases.
MISTAKES = {f"{c.label}: ": f"{c.__name__}: " for c in (UserError, NotAtHand)}
# One thread a kernel, so that several at once share the cores and sums are formed in the same order however
# many run.
THREADS = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def mistake(error: str) -> str:
    """What a notebook's error says of a user's mistake; "" for an error of another kind."""
    return next((error.removeprefix(kind) for kind in MISTAKES.values() if error.startswith(kind)), "")


def not_at_hand(error: str) -> str:
    """What a notebook's error says that it lacks; "" for an error of another kind."""
    kind = f"{NotAtHand.__name__}: "
    return error.removeprefix(kind) if error.startswith(kind) else ""


def running_copy(target: Path) -> Path:
    """Where a notebook stands while it runs; git ignores it."""
    return target.with_name(f".{target.name}")


def execute(source: Path, target: Path, parameters: dict[str, Any]) -> str:
    """Runs one notebook; returns "" or the error that stopped it. The notebook is saved up to the failing
    cell.

    One that a user's mistake stopped is not saved: the mistake is told, and what an earlier run left stays.
    UserError where `target` cannot be written.
    """
    # Only a notebook that ran to its end, or to a failing cell, takes the place of the last one: Ctrl-C
    # leaves that alone.
    running = running_copy(target)
    try:
        running.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UserError(f"cannot make {running.parent}: {e.strerror}; move what stands in its place") from e
    # The kernel imports the same pkg_lib as this process, wherever it was started from.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)
    try:
        error = _papermill(source, running, parameters)
        if not mistake(error):
            _repeatable(running, error)
            running.replace(target)
    finally:
        running.unlink(missing_ok=True)
    return error


def _papermill(source: Path, target: Path, parameters: dict[str, Any]) -> str:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    try:
        papermill.execute_notebook(
            source, target, parameters, cwd=str(source.parent), progress_bar=False, **KERNEL
        )
    except PapermillExecutionError as e:
        (line, *others) = e.traceback or [""]
        for label, kind in MISTAKES.items():
            if not others and line.startswith(label):
                return kind + line.removeprefix(label)
        return f"{e.ename}: {(e.evalue.splitlines() or [''])[0]}"
    except DeadKernelError:
        return "DeadKernelError: the kernel was killed, perhaps for want of memory; try fewer --jobs"
    return ""


def _repeatable(path: Path, error: str) -> None:
    """Takes times, random ids and progress bars out of an executed notebook: the same results give the same
    file.

    An error that left no trace in the notebook, since its kernel was gone, is shown where it stopped.
    """
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    for name in ("papermill", "widgets"):
        notebook.metadata.pop(name, None)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    # Not by execution counts: a kernel that is killed at once may have sent its cell's, or not.
    started = [c for c in code if c.metadata.get("papermill", {}).get("start_time")]
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
    for cell in code:
        cell.outputs = [
            o for o in cell.outputs if "application/vnd.jupyter.widget-view+json" not in o.get("data", {})
        ]
    if error and not any(o.output_type == "error" for c in code for o in c.outputs):
        name, _, value = error.partition(": ")
        stopped = started[-1] if started else code[0]
        stopped.outputs.append(nbformat.v4.new_output("error", ename=name, evalue=value, traceback=[error]))
    nbformat.write(notebook, path)


def _end_with(stdin: Any, target: Path) -> None:
    """Waits until stdin is closed, which it is while a notebook runs only when its starter has ended or wants
    an end."""
    import psutil

    stdin.read()
    for child in psutil.Process().children(recursive=True):
        child.kill()
    running_copy(target).unlink(missing_ok=True)
    os._exit(130)


def main() -> int:
    """Reads {"source", "target", "parameters"}; writes {"error": ...}, or {"mistake": ...} for a
    UserError."""
    job = json.loads(sys.stdin.readline())
    target = Path(job["target"])
    threading.Thread(target=_end_with, args=(sys.stdin, target), daemon=True).start()
    try:
        told = {"error": execute(Path(job["source"]), target, job["parameters"])}
    except UserError as e:
        told = {"mistake": str(e)}
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the thread that waits for stdin would keep the interpreter from ending quietly
