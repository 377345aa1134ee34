"""Values that are kept until what they were computed from changes.

A notebook reads the verdicts of one method for many tables.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """The last value of each key, with the version of what it was computed from."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._values: dict[K, tuple[object, V]] = {}

    def get(self, key: K, version: object, compute: Callable[[], V]) -> V:
        """Return the value of a key, which is computed if its version is a new one.

        Args:
            key: What the value is called.
            version: Something that differs whenever the value may differ.
            compute: Computes the value.

        Returns:
            The value, which callers must not change.
        """
        known = self._values.get(key)
        if known is None or known[0] != version:
            known = (version, compute())
            self._values[key] = known
        return known[1]


def file_signature(path: Path) -> tuple[int, ...]:
    """Return numbers that differ once a file was written again.

    Args:
        path: The file.

    Returns:
        Its inode, size and time of change; empty if it cannot be found.
    """
    try:
        status = path.stat()
    except OSError:
        return ()  # reading the file reports the fault
    return (status.st_ino, status.st_size, status.st_mtime_ns)
