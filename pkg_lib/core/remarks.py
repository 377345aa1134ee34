"""What is said of files wherever trees of them are read: printable names, the first few, what is odd."""

from __future__ import annotations

from collections.abc import Sequence

FEW = 5
LARGE = 2**20  # bytes from which a file is remarked upon
LARGER = f"larger than {LARGE // 2**20} MB"
LINK = "symbolic link, not followed"


def shown(path: str) -> str:
    """A path that can be printed, whatever bytes a file's name has."""
    safe = path.encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")
    return safe if safe.isprintable() else repr(safe)[1:-1]


def first_few(names: Sequence[str], most: int = FEW) -> str:
    """The first `most` names, with dots where there are more."""
    return ", ".join([*map(shown, names[:most]), *(["..."] if len(names) > most else [])])
