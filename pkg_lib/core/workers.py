"""The engine: a function over many inputs, answers in the order of the inputs; here, or on a Ray cluster.

`use` chooses it for a command (`--engine`). It changes no result and is part of no key. On a cluster:
- This machine is one of its nodes; pkg_lib is installed on each, and a node with another one is refused.
- A task whose worker or node dies is given to another one; its answer stands where it would have stood.
- Every input travels. What a function reads besides (weights, an interpreter) the node has itself.
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
HEALTH = 15.0  # and within which a cluster says that it is healthy
AHEAD = 3  # inputs handed out a processor, so that none waits for the next
RETRIES = 5  # of an input whose worker died, before it is taken for what kills them
START = "start it with `ray start --head --port=6379`"


def engine_name(name: str) -> str:
    """The same name; UserError for one that is no engine."""
    kind, _, address = name.partition(":")
    host, _, port = address.rpartition(":")
    if name in ENGINES[:2] or (kind == "ray" and host and port.isdecimal() and int(port) < 2**16):
        return name
    raise unknown("engine", name, ENGINES)


def use(engine: str) -> None:
    """From now on work is done by this engine; UserError where it cannot be had."""
    if engine_name(engine) != "local":
        _join(engine.partition(":")[2])
    ENGINE.set(engine)


def nodes_processors() -> int:
    """How many processors the cluster's nodes have together; 0 where the engine is local."""
    return 0 if ENGINE.get() == "local" else int(_ray().cluster_resources().get("CPU", 1))


def ordered(
    function: Callable[[Any], Any], inputs: Iterable[Any], processes: int = 1
) -> Iterator[Any]:
    """`function(x)` for each input, by the engine; the local one is `map`, or has several processes."""
    if ENGINE.get() != "local":
        return _on_nodes(function, inputs)
    return map(function, inputs) if processes == 1 else in_processes(function, inputs, processes)


def in_processes(
    function: Callable[[Any], Any], inputs: Iterable[Any], processes: int
) -> Iterator[Any]:
    """`function(x)` for each input; UserError when a worker dies. Unlike Python's, joblib's run no script."""
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
    """Joins the cluster at an address, or this machine's own, which is started where there is none."""
    if address:  # looked at before Ray is loaded, which takes seconds
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), PATIENCE).close()
        except OSError as e:
            raise UserError(f"no Ray cluster at {address} ({e.strerror or e}); {START}") from e
    if (ray := _ray()).is_initialized():  # a process belongs to one cluster
        return
    if address:  # of what is no cluster `init` would wait for minutes
        asked = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
        try:
            subprocess.run(asked, capture_output=True, timeout=HEALTH, check=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as e:
            raise UserError(f"what answers at {address} is no healthy Ray cluster; {START}") from e
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
    try:
        ray.init(
            address or None, log_to_driver=False, logging_level="ERROR", include_dashboard=False
        )
    except (OSError, RuntimeError, ValueError) as e:
        about = (str(e).strip().splitlines() or [type(e).__name__])[0]
        raise UserError(
            f"cannot join the Ray cluster {address}: {about}; run on one of its nodes"
        ) from e


def _on_nodes(function: Callable[[Any], Any], inputs: Iterable[Any]) -> Iterator[Any]:
    """`function(x)` for each input; a node's UserError bears its name, others come as they are."""
    from ray.exceptions import RayError, RayTaskError

    ray, waiting = _ray(), deque[Any]()
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
        raise UserError(
            f"a worker of the cluster died {RETRIES + 1} times: {str(e).splitlines()[0]}"
        ) from e
    finally:
        for left in waiting:
            ray.cancel(left)


def _on_node(work: tuple[Callable[[Any], Any], str], x: Any) -> Any:
    """The answer to one input, in a worker of a node."""
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
    """No garbage collection: syntax trees have no cycles, and walking them takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
