"""What the benchmarks share: time of a call, and figures cut to what was measured."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any


def cpu() -> float:
    """Processor seconds of this process and of its ended children."""
    return sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def timed(act: Callable[[], Any]) -> tuple[float, float, Any]:
    """(wall seconds, processor seconds with those of child processes, result)."""
    wall, processor = time.perf_counter(), cpu()
    result = act()
    return time.perf_counter() - wall, cpu() - processor, result


def rounded(value: Any, digits: int = 4) -> Any:
    """Floats to so many digits after the point, wherever they stand."""
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    return round(value, digits) if isinstance(value, float) else value
