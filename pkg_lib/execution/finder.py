"""Imports in a sample's process: which modules are refused, and which are adapted.

A sample cannot start a process. `multiprocessing` and `ProcessPoolExecutor` therefore run their
workers as threads, and shared memory has no tracker process. Nothing here protects anything: a
sample may undo it. The system call filter and Landlock do not depend on it.
"""

from __future__ import annotations

import _thread
import os
import resource
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any


class Finder:
    """A finder of modules that is asked before Python's own."""

    def __init__(
        self,
        allowed: frozenset[str] | None,
        own: str,
    ) -> None:
        """Store the setting.

        Args:
            allowed: Top-level modules that may be imported; None for all.
            own: Directory below which a sample may write modules of its own, and import them.
        """
        self.allowed = allowed
        self.own = own

    def find_spec(
        self,
        name: str,
        path: Any = None,
        target: Any = None,
    ) -> ModuleSpec | None:
        """Find a module that is adapted, and leave all others to the next finder.

        Args:
            name: Full name of the module.
            path: Search path of its package.
            target: Unused; part of the protocol of finders.

        Returns:
            How to load the module, or None for the next finder.

        Raises:
            ModuleNotFoundError: The setting forbids the package. The text is Python's own.
        """
        top = name.partition(".")[0]
        free = self.allowed is None or top in self.allowed or top.startswith("_sysconfigdata")
        if not free:
            spec = PathFinder.find_spec(name, path, target)
            origin = os.path.abspath(spec.origin or "") if spec else ""  # noqa: PTH100
            if origin.startswith(self.own + "/"):
                return spec
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)
        if name not in ADAPTED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _AdaptingLoader(name, spec.loader.path)
        return spec


def give_large_stacks() -> None:
    """Give programs that choose the size of stacks the address space reserved for these."""
    choose = threading.stack_size

    def stack_size(size: int = 0, /) -> int:
        before = choose(size)
        if size:
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        return before

    threading.stack_size = _thread.stack_size = stack_size


class _AdaptingLoader(SourceFileLoader):
    """Adapts a module after it has been executed."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        ADAPTED[module.__name__](module)


def _without_tracker(module: Any) -> None:
    """Discard messages to the tracker. Shared memory ends with the sample's process."""
    module._resource_tracker._fd = 0  # standard input is the null device


def _threads_as_processes(module: Any) -> None:
    """Replace `multiprocessing.Process` by a thread with its interface."""
    from multiprocessing import context
    from multiprocessing.dummy import DummyProcess

    class Process(DummyProcess):
        """A thread with the interface of a process."""

        sentinel = property(lambda self: self.native_id)
        pid = property(lambda self: os.getpid() if self._start_called else None)

        def __init__(
            self,
            group: None = None,
            target: Callable[..., Any] | None = None,
            name: str | None = None,
            args: Any = (),
            kwargs: Any = None,
            *,
            daemon: bool | None = None,
        ) -> None:
            super().__init__(group, target, name, args, kwargs or {})
            self._code = 0
            if daemon is not None:
                self.daemon = daemon

        def start(self) -> None:
            work = self.run

            def run() -> None:
                try:
                    work()
                except SystemExit as e:
                    self._code = e.code if isinstance(e.code, int) else int(e.code is not None)
                except BaseException:  # noqa: BLE001  as a process reports whatever ends it
                    self._code = 1
                    sys.excepthook(*sys.exc_info())

            self.run = run  # type: ignore[method-assign]  # as Process.start calls it
            super().start()

        @property
        def exitcode(self) -> int | None:  # type: ignore[override]  # a thread's is always 0
            return self._code if self._start_called and not self.is_alive() else None

        def close(self) -> None:
            """Do nothing: a thread has nothing to release."""

    module.Process = Process
    for name in ("DefaultContext", "ForkContext", "SpawnContext", "ForkServerContext"):
        getattr(context, name).Process = Process


def _pool_of_threads(module: Any) -> None:
    """Replace `multiprocessing.Pool` by a pool of threads."""
    original = module.Pool

    class Pool(module.ThreadPool):  # type: ignore[misc]  # known when it is imported
        """A ThreadPool.

        The code of ThreadPool refers to the global name `Pool`, which is now this class. What it
        needs of the original is therefore called here.
        """

        _handle_workers = original._handle_workers

        def __init__(
            self,
            processes: int | None = None,
            initializer: Callable[..., Any] | None = None,
            initargs: Any = (),
            maxtasksperchild: int | None = None,
            context: Any = None,
        ) -> None:
            original.__init__(self, processes, initializer, initargs)

    module.Pool = Pool


def _executor_of_threads(module: Any) -> None:
    """Replace `ProcessPoolExecutor` by a pool of threads."""
    from concurrent.futures.thread import ThreadPoolExecutor

    class ProcessPoolExecutor(ThreadPoolExecutor):
        def __init__(
            self,
            max_workers: int | None = None,
            mp_context: Any = None,
            initializer: Callable[..., Any] | None = None,
            initargs: Any = (),
            *,
            max_tasks_per_child: int | None = None,
        ) -> None:
            super().__init__(max_workers, "", initializer, initargs)

    module.ProcessPoolExecutor = ProcessPoolExecutor


ADAPTED: dict[str, Callable[[Any], None]] = {
    "multiprocessing": _threads_as_processes,
    "multiprocessing.pool": _pool_of_threads,
    "multiprocessing.resource_tracker": _without_tracker,
    "concurrent.futures.process": _executor_of_threads,
}
