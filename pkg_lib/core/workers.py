"""A function over many inputs in worker processes, answers in the order of the inputs.

Workers are plain child interpreters that import one module. Python's own pools import the caller's script
again in each of them, which takes seconds where it loads torch, and fails without an `if __name__ ==
"__main__"`.
"""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from pkg_lib.core.types import UserError

_ROOT = Path(__file__).resolve().parents[2]
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from pkg_lib.core.workers import serve; serve()"


def ordered(function: Callable[[Any], Any], inputs: Iterable[Any], processes: int) -> Iterator[Any]:
    """`function(x)` for each input; the function is a module's own, inputs and answers can be pickled.

    Raises UserError when a worker dies. An exception in the function kills its worker.
    """
    idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def ask(value: Any) -> Any:
        worker = idle.get()
        try:
            pickle.dump((function, value), worker.stdin, pickle.HIGHEST_PROTOCOL)
            worker.stdin.flush()
            return pickle.load(worker.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as e:
            raise UserError(
                f"a worker process died ({type(e).__name__}; out of memory?); use processes=1"
            ) from e
        finally:
            idle.put(worker)

    with ExitStack() as stack:
        for _ in range(processes):
            idle.put(stack.enter_context(_worker()))
        pool = stack.enter_context(ThreadPoolExecutor(processes))
        stack.callback(pool.shutdown, cancel_futures=True)
        yield from pool.map(ask, inputs)


@contextmanager
def _worker() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", _CODE, str(_ROOT)]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield worker
    finally:
        worker.kill()  # It holds nothing that is worth a farewell.
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            with suppress(OSError):  # what a dead worker has not read cannot be flushed
                pipe.close()


def serve() -> None:
    """The worker's side: answers until the parent closes the pipe."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # what a function prints is no answer
    while True:
        try:
            function, value = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(function(value), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


@contextmanager
def paused_collector() -> Iterator[None]:
    """No cyclic garbage collection inside: syntax trees have no cycles, and walking them takes a third of the
    time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
