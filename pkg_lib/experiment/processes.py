"""Many notebooks at once, each in a process of its own (`kernel`), as many as cores and memory allow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import IO

import psutil

from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError
from pkg_lib.experiment.kernel import running_copy
from pkg_lib.experiment.study import NotebookJob

# Bytes for a process and its kernel: a third of that was measured, a larger model's cache takes more.
MEMORY = 1.5 * 2**30
PAUSE = 0.05  # seconds between two looks at the processes
GRACE = 5.0  # seconds that a process has to end its kernel


def workers(asked: int | None) -> int:
    """How many run at once: as asked, else one a core as long as each finds MEMORY. UserError for less than
    one."""
    if asked is not None:
        if asked < 1:
            raise UserError(f"--jobs {asked}: at least 1 notebook must run at a time")
        return asked
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(psutil.virtual_memory().available / MEMORY)))


class _Running:
    """A process that executes a notebook."""

    def __init__(self, cell: NotebookJob) -> None:
        self.cell, self.began, self.files = cell, time.monotonic(), ExitStack()
        self.out = self.files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (closed with the stack)
        self.err = self.files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (closed with the stack)
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        # In a session of its own, Ctrl-C reaches this process alone, which then ends the others.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pkg_lib.experiment.kernel"],
            stdin=subprocess.PIPE,
            stdout=self.out,
            stderr=self.err,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,
        )
        job = {"source": str(cell.source), "target": str(cell.target), "parameters": cell.parameters}
        with suppress(BrokenPipeError):  # it ended at once; `error` says how
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    def error(self) -> str:
        """ "" or what stopped the notebook; UserError for a user's mistake."""
        told = _last(self.out)
        try:
            answer = json.loads(told)
        except ValueError:
            return f"ended with exit code {self.process.returncode}: {_last(self.err) or 'no message'}"
        if "mistake" in answer:
            raise UserError(answer["mistake"])
        return str(answer["error"])

    def close(self) -> None:
        """Ends the process and its kernel where they still run; frees the pipes."""
        with suppress(BrokenPipeError):  # it ended before it had read its job
            self.process.stdin.close()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            for child in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                child.kill()
            self.process.wait()
            running_copy(self.cell.target).unlink(missing_ok=True)
        self.files.close()


def _last(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode("utf8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


def run_jobs(
    cells: Iterable[NotebookJob], at_once: int, done: Callable[[NotebookJob, str, float], None]
) -> None:
    """Executes the notebooks, `at_once` at a time; calls `done(cell, error, seconds)` as each ends, "" for no
    error.

    One that fails does not stop the others. UserError where a notebook cannot be written, after the others
    were stopped.
    """
    waiting, running = list(cells)[::-1], []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_Running(waiting.pop()))
            for one in [r for r in running if r.process.poll() is not None]:
                running.remove(one)
                seconds = time.monotonic() - one.began
                try:
                    error = one.error()
                finally:
                    one.close()
                done(one.cell, error, seconds)
            time.sleep(PAUSE)
    finally:
        for one in running:
            one.close()
