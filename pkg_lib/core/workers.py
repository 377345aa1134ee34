"""A function over many inputs in worker processes, answers in the order of the inputs."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pkg_lib.core.types import UserError


def ordered(function: Callable[[Any], Any], inputs: Iterable[Any], processes: int) -> Iterator[Any]:
    """`function(x)` for each input; UserError when a worker dies. Unlike Python's, joblib's run no script."""
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    try:
        yield from Parallel(processes, return_as="generator")(delayed(function)(x) for x in inputs)
    except BrokenProcessPool as e:
        raise UserError("a worker process died (out of memory?); use processes=1") from e


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
