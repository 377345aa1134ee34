"""Apply a function to many inputs in order, on this machine or on a Ray cluster.

`use` chooses the engine for a command (`--engine`). The engine changes no result and is part of no
key. On a Ray cluster:

- This machine is one of the nodes. pkg_lib is installed on each; a node with another version is
  refused.
- If a worker or node dies, its input is given to another one. The order of the results does not
  change.
- Every input is sent. Whatever else a function reads (weights, an interpreter) must be on the node.
"""

import gc
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pkg_lib.core.registry import unknown
from pkg_lib.core.store import package_digest
from pkg_lib.core.types import UserError

ENGINES = ("local", "ray", "ray:HOST:PORT")
ENGINE = ContextVar("engine", default="local")
PATIENCE = 3.0  # seconds within which a cluster's address must answer
HEALTH = 15.0  # seconds within which a cluster must report that it is healthy
AHEAD = 3  # inputs per processor that are submitted in advance, so that no processor waits
RETRIES = 5  # for an input whose worker died, before the input is considered the cause
START = "start it with `ray start --head --port=6379`"


def engine_name(name: str) -> str:
    """Check the name of an engine.

    Args:
        name: What the user wrote.

    Returns:
        The same name.

    Raises:
        UserError: The name is not an engine.
    """
    kind, _, address = name.partition(":")
    host, _, port = address.rpartition(":")
    is_address = kind == "ray" and host and port.isdecimal() and int(port) < 2**16
    if name in ("local", "ray") or is_address:
        return name
    raise unknown("engine", name, ENGINES)


def core_count() -> int:
    """Return how many processor cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # macOS has none
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def use(engine: str) -> None:
    """Choose the engine from now on.

    Args:
        engine: One of ENGINES.

    Raises:
        UserError: The engine is unknown or not available.
    """
    if engine_name(engine) != "local":
        _join(engine.partition(":")[2])
    ENGINE.set(engine)


def nodes_processors() -> int:
    """Return the number of processors of all nodes of the cluster; 0 if the engine is local."""
    return 0 if ENGINE.get() == "local" else int(_ray().cluster_resources().get("CPU", 1))


def ordered(
    function: Callable[[Any], Any], inputs: Iterable[Any], processes: int = 1
) -> Iterator[Any]:
    """Apply a function to each input with the chosen engine.

    Args:
        function: A function of one argument, which can be pickled.
        inputs: Its arguments.
        processes: Number of processes of the local engine.

    Returns:
        The results, in the order of the inputs.
    """
    if ENGINE.get() != "local":
        return _on_nodes(function, inputs)
    return map(function, inputs) if processes == 1 else in_processes(function, inputs, processes)


def in_processes(
    function: Callable[[Any], Any], inputs: Iterable[Any], processes: int
) -> Iterator[Any]:
    """Apply a function to each input in several processes of this machine.

    Args:
        function: A function of one argument, which can be pickled.
        inputs: Its arguments.
        processes: Number of processes. Unlike Python's, joblib's do not run the main script again.

    Yields:
        The results, in the order of the inputs.

    Raises:
        UserError: A worker died.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    try:
        yield from Parallel(processes, return_as="generator")(delayed(function)(x) for x in inputs)
    except BrokenProcessPool as e:
        raise UserError("a worker process died (out of memory?); use processes=1") from e


def _ray() -> Any:
    try:
        import ray
    except ImportError as e:
        raise UserError('engine ray needs the package ray: pip install -e ".[cluster]"') from e
    return ray


def _join(address: str) -> None:
    """Join the cluster at an address, or this machine's own, which is started if necessary."""
    if address:
        _check_answers(address)  # before Ray is loaded, which takes seconds
    ray = _ray()
    if ray.is_initialized():  # a process belongs to one cluster
        return
    if address:
        _check_healthy(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send statistics
    try:
        ray.init(
            address or None, log_to_driver=False, logging_level="ERROR", include_dashboard=False
        )
    except (OSError, RuntimeError, ValueError) as e:
        reason = (str(e).strip().splitlines() or [type(e).__name__])[0]
        raise UserError(
            f"cannot join the Ray cluster {address}: {reason}; run on one of its nodes"
        ) from e


def _check_answers(address: str) -> None:
    """Raise UserError if nothing answers at an address."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as e:
        raise UserError(f"no Ray cluster at {address} ({e.strerror or e}); {START}") from e


def _check_healthy(address: str) -> None:
    """Raise UserError if an address is not a Ray cluster; `ray.init` would wait for minutes."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        subprocess.run(command, capture_output=True, timeout=HEALTH, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as e:
        raise UserError(f"the server at {address} is not a healthy Ray cluster; {START}") from e


def _on_nodes(function: Callable[[Any], Any], inputs: Iterable[Any]) -> Iterator[Any]:
    """The results in order. A UserError of a node contains its name; other errors are unchanged."""
    from ray.exceptions import RayError, RayTaskError

    ray = _ray()
    waiting = deque[Any]()
    task = ray.remote(max_retries=RETRIES, scheduling_strategy="SPREAD")(_on_node)
    work = ray.put((function, package_digest()))
    most = AHEAD * nodes_processors()
    try:
        for x in inputs:
            waiting.append(task.remote(work, x))
            if len(waiting) == most:
                yield ray.get(waiting.popleft())
        while waiting:
            yield ray.get(waiting.popleft())
    except RayTaskError as e:
        raise e.cause from None
    except RayError as e:
        reason = str(e).splitlines()[0]
        raise UserError(f"a worker of the cluster died {RETRIES + 1} times: {reason}") from e
    finally:
        for reference in waiting:
            ray.cancel(reference)


def _on_node(work: tuple[Callable[[Any], Any], str], x: Any) -> Any:
    """The result of one input, in a worker of a node."""
    function, package = work
    try:
        if package_digest() != package:
            raise UserError("its pkg_lib is not that of this machine; install the same one there")
        return function(x)
    except UserError as e:
        ray = _ray()
        name = f"{ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:8]})"
        raise UserError(f"node {name}: {e}") from e


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause garbage collection.

    Syntax trees have no cycles, and scanning them takes a third of the time.

    Yields:
        Nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
