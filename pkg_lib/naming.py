"""Names of files for people: printable, and of many the first few."""

from __future__ import annotations

from collections.abc import Sequence

FEW = 5


def shown(path: str) -> str:
    """A path that can be printed, whatever bytes a file's name has."""
    safe = path.encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")
    return safe if safe.isprintable() else repr(safe)[1:-1]


def first_few(names: Sequence[str], most: int = FEW) -> str:
    """The first `most` names, with dots where there are more."""
    return ", ".join([*map(shown, names[:most]), *(["..."] if len(names) > most else [])])
