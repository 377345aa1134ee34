"""Timing and rounding helpers that the benchmark scripts share."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any


def cpu() -> float:
    """Return the processor seconds of this process and of its ended child processes."""
    seconds = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        seconds += usage.ru_utime + usage.ru_stime
    return seconds


def timed(act: Callable[[], Any]) -> tuple[float, float, Any]:
    """Call a function and measure how long it takes.

    Args:
        act: Function without arguments.

    Returns:
        Wall seconds, processor seconds (child processes included), and the result of the function.
    """
    wall_start = time.perf_counter()
    cpu_start = cpu()
    result = act()
    wall_s = time.perf_counter() - wall_start
    cpu_s = cpu() - cpu_start
    return wall_s, cpu_s, result


def rounded(value: Any, digits: int = 4) -> Any:
    """Round every float of a value, in nested dictionaries too.

    Args:
        value: A number, a dictionary, or anything else, which is returned unchanged.
        digits: Number of digits after the decimal point.

    Returns:
        The value with rounded floats.
    """
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, float):
        return round(value, digits)
    return value
