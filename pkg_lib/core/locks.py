"""Let one process write to a results directory, so that no answer is paid for twice."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pkg_lib.core.reading import absolute, describe_obstacle, shown
from pkg_lib.core.types import UserError

LOCK = ".pkg-lib.lock"  # the operating system frees it when its process ends for any reason
KERNEL_LOCK = ".pkg-lib.kernel.lock"  # among the notebooks of a run, which holds LOCK for them
HOLDER = "PKG_LOCK_HOLDER"  # in a kernel's environment: the directory that its run has locked

logger = logging.getLogger(__name__)


@contextmanager
def writing(results: Path) -> Iterator[None]:
    """Keep other processes from writing to a results directory.

    A process may enter the same directory several times. Commands that only read need no lock. A
    notebook executed by `run` may write to the directory that the run has locked. It waits only for
    other notebooks of the same run.

    Args:
        results: The directory, which is created if it does not exist.

    Raises:
        UserError: Another process writes to the directory, or the lock's file cannot be written.
    """
    # Imported here because only writing needs it.
    from filelock import FileLock, Timeout

    for_run = os.environ.get(HOLDER) == str(absolute(results))
    path = absolute(results) / (KERNEL_LOCK if for_run else LOCK)
    obstacle = describe_obstacle(path)
    if path.is_symlink():
        obstacle = f"{shown(str(path))} is a link; move it away"
    if obstacle:
        raise UserError(f"cannot lock {shown(str(results))}: {obstacle}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        timeout = -1 if for_run else 0  # -1 waits
        lock = FileLock(path, timeout=timeout, thread_local=False, is_singleton=True)
        lock.acquire()
    except Timeout:
        advice = "wait until it ends, or set PKG_RESULTS to another directory"
        raise UserError(f"another run is writing to {results}: {advice}") from None
    except OSError as e:
        advice = "set PKG_RESULTS to a writable directory"
        raise UserError(f"cannot write {path}: {e.strerror or e}; {advice}") from e
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            # Removed while it is held: another process that has opened it notices that, and opens a
            # new one.
            path.unlink(missing_ok=True)
        lock.release()


@contextmanager
def one_at_a_time(path: Path, waiting: str) -> Iterator[None]:
    """Let one process at a time do a piece of work whose result all of them share.

    Args:
        path: The file of the lock. The operating system frees it when its process ends.
        waiting: What is logged if another process does the work now.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, thread_local=False, is_singleton=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            logger.warning(waiting)
            lock.acquire(timeout=-1)
    except OSError:  # The work itself says that nothing can be written here.
        yield
        return
    try:
        yield
    finally:
        lock.release()
