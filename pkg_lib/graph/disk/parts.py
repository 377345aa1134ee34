"""Files of a graph directory: named by their contents, published by replacing one marker.

    graph.json               the marker: which files make the graph, and what it is
    nodes-HASH.parquet, edges-HASH.parquet, documents-HASH.parquet, payloads-HASH.arrow, vectors-EMBEDDER-HASH.npy

New files stand beside the old ones until the marker is replaced (one rename), so a crash at any time leaves the last
complete version; what no marker names is cleared away by the next writer. HASH is the start of the file's SHA-256: the same
contents have the same name, and a damaged file no longer matches its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pkg_lib.core.types import UserError

MARKER = "graph.json"
AGAIN = "delete the directory and build it again"
_OURS = ("nodes-", "edges-", "documents-", "payloads-", "vectors-", "index-", "tmp-")


def damaged(path: Path, why: object) -> UserError:
    return UserError(f"{path} is damaged ({why}); {AGAIN}")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """One writer at a time; UserError when the directory cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as e:
        raise UserError(
            f"cannot write the graph {folder}: {e.strerror or e}; free space or give another directory"
        ) from e


def store(folder: Path, stem: str, suffix: str, write: Callable[[IO[bytes]], None]) -> dict[str, Any]:
    """Writes one file under the name of its contents; returns the marker's entry for it."""
    handle, name = tempfile.mkstemp(prefix="tmp-", dir=folder)
    with os.fdopen(handle, "wb") as f:
        write(f)
        f.flush()
        os.fsync(f.fileno())
    temporary = Path(name)
    temporary.chmod(0o644)
    path = folder / f"{stem}-{_digest(temporary)}{suffix}"
    temporary.replace(path)
    return {"file": path.name, "bytes": path.stat().st_size}


def publish(folder: Path, marker: dict[str, Any]) -> None:
    """Makes the files that the marker names the graph of this directory, then clears older ones away."""
    handle, name = tempfile.mkstemp(prefix="tmp-", dir=folder)
    with os.fdopen(handle, "w") as f:
        f.write(json.dumps(marker | {"check": _check(marker)}, sort_keys=True) + "\n")
        f.flush()
        os.fsync(f.fileno())
    temporary = Path(name)
    temporary.chmod(0o644)
    temporary.replace(folder / MARKER)
    named = {entry["file"] for part in ("files", "vectors") for entry in marker[part].values()}
    for path in folder.iterdir():
        if path.name.startswith(_OURS) and path.name not in named:
            path.unlink()


def marker_of(folder: Path, form: int) -> dict[str, Any]:
    """The marker; UserError when there is no graph, or none that this version reads."""
    path = folder / MARKER
    try:
        marker = json.loads(path.read_text())
    except OSError as e:
        raise UserError(f"no graph in {folder} ({e.strerror}); {AGAIN}") from e
    except ValueError as e:
        raise damaged(path, e) from e
    if not isinstance(marker, dict) or "form" not in marker:
        raise damaged(path, "it lacks what a graph needs")
    if marker["form"] != form:
        raise UserError(f"{path} is of form {marker['form']}, this version reads {form}; {AGAIN}")
    if marker.pop("check", None) != _check(marker):
        raise damaged(path, "its contents have changed")
    return marker


def _check(marker: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(marker, sort_keys=True).encode()).hexdigest()[:16]


def checked(folder: Path, entry: dict[str, Any]) -> Path:
    """The path of a marker's entry, if its size and its contents, read in pieces, are what they were."""
    path = folder / entry["file"]
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise damaged(path, f"{size} bytes where {entry['bytes']} were written")
        if _digest(path) not in path.name:
            raise damaged(path, "its contents have changed")
    except OSError as e:
        raise damaged(path, e.strerror) from e
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()[:16]
