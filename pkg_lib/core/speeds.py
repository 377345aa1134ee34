"""Speeds that this machine reached, kept in the cache directory for the forecasts of dry runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pkg_lib.core.models import cache_dir
from pkg_lib.core.reading import NUMBER
from pkg_lib.core.store import read_json, write_json
from pkg_lib.core.types import UserError

SHORTEST = 2.0  # seconds of work; a shorter measurement says little


def _file() -> Path:
    return cache_dir() / "speeds.json"


def speeds() -> dict[str, float]:
    """Return the last speed of each worker on this machine.

    Returns:
        Units per second by name: new tokens of a model, executions of a notebook. Empty if nothing
        was measured yet or the file is damaged.
    """
    path = _file()
    if not path.exists():
        return {}
    try:
        stored = read_json(path, {})
    except UserError:
        return {}
    return {name: float(speed) for name, speed in stored.items() if isinstance(speed, NUMBER)}


def notebook_speed(notebook: str) -> str:
    """Return the name under which the speed of executing a notebook is kept.

    Args:
        notebook: Name of the notebook.
    """
    return f"notebook:{notebook}"


def record_speed(name: str, units: float, seconds: float) -> None:
    """Store how fast something worked.

    Args:
        name: A model, or `notebook_speed` of a notebook.
        units: What was produced: new tokens, or executed notebooks.
        seconds: How long it took. Below ``SHORTEST`` nothing is stored.
    """
    if seconds < SHORTEST or units <= 0:
        return
    with suppress(UserError, OSError):  # only a forecast becomes less exact
        write_json(_file(), speeds() | {name: round(units / seconds, 4)})
