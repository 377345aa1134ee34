"""A graph in a directory: saved whole, opened by mapping its files into memory, with vectors per embedder.

    graph.json     the marker: documents, what was skipped, and which files make the graph
    nodes-HASH.arrow, payloads-HASH.arrow, vectors-EMBEDDER-HASH.npy

HASH is the start of the file's SHA-256, so a damaged file no longer matches its own name. New files stand
beside the old ones until the marker is replaced (one rename): a crash at any time leaves the last complete
version, and what no marker names is cleared away by the next writer.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa

from pkg_lib.core.store import slug
from pkg_lib.core.types import UserError
from pkg_lib.graph.schema import PKG

FORM = 6  # of the files; a directory of another form is built again
CHUNK = 4096  # payloads encoded at once
MARKER = "graph.json"
AGAIN = "delete the directory and build it again"
_OURS = ("nodes-", "edges-", "documents-", "payloads-", "vectors-", "index-", "tmp-")


class Encoder(Protocol):
    """Texts -> unit vectors [n, d], under a name that stands for the model."""

    name: str

    def encode(self, texts: list[str]) -> np.ndarray: ...


def save(graph: PKG, folder: Path) -> None:
    """Makes `graph` the graph of the directory; vectors stay where its payloads are the same."""
    with _writing(folder):
        nodes = _store(folder, "nodes-HASH.arrow", lambda f: _write_table(graph.nodes, f))
        payloads = _store(folder, "payloads-HASH.arrow", lambda f: _write_table(graph.texts, f))
        vectors = {}
        with suppress(UserError):  # no graph, or one that cannot be read and is about to be replaced
            old = _marker(folder)
            vectors = old["vectors"] if old["payloads"] == payloads else {}
        about = {"documents": graph.documents, "skipped": graph.skipped, "meta": graph.meta}
        _publish(folder, about | {"nodes": nodes, "payloads": payloads, "vectors": vectors})


def load(folder: Path) -> PKG:
    """The graph of a directory. UserError when there is none, or with the name of a damaged file."""
    marker = _marker(folder)
    try:
        paths = [_checked(folder, marker[name]) for name in ("nodes", "payloads")]
    except UserError:
        if _marker(folder) == marker:
            raise
        return load(folder)  # a writer has replaced the version while it was read
    nodes, texts = (pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in paths)
    skipped = [(document, why) for document, why in marker["skipped"]]
    return PKG(nodes.combine_chunks(), texts, marker["documents"], skipped, marker["meta"])


def encode(folder: Path, encoder: Encoder) -> np.ndarray:
    """The vectors of the payloads: row `graph.text[v]` belongs to node v; computed where they are not stored.

    float32 [distinct payloads, d], read-only, mapped into memory. UserError without nodes or for a damaged
    file.
    """
    _marker(folder)
    with _writing(folder):
        marker, texts = _marker(folder), load(folder).texts
        if encoder.name not in marker["vectors"]:
            if not len(texts):
                raise UserError(f"the graph in {folder} has no nodes, so there is nothing to encode")
            name = f"vectors-{slug(encoder.name)}-HASH.npy"
            file = _store(folder, name, lambda f: _write_vectors(texts, encoder, f))
            marker["vectors"][encoder.name] = file
            _publish(folder, marker)
    return np.load(_checked(folder, marker["vectors"][encoder.name]), mmap_mode="r")


def payloads_digest(texts: pa.Table) -> str:
    """What an index was made for: the payloads and their order."""
    return hashlib.sha256(b"".join(texts["key"].to_pylist())).hexdigest()[:16]


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
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


def _store(folder: Path, name: str, write: Callable[[IO[bytes]], Any]) -> str:
    """Writes one file wholly to the disk before it gets its name, in which HASH is that of its contents."""
    temporary = folder / "tmp-file"
    with temporary.open("wb") as f:
        write(f)
        f.flush()
        os.fsync(f.fileno())
    return temporary.replace(folder / name.replace("HASH", _digest(temporary))).name


def _write_table(table: pa.Table, f: IO[bytes]) -> None:
    with pa.ipc.new_file(f, table.schema) as out:
        out.write_table(table.combine_chunks())


def _write_vectors(texts: pa.Table, encoder: Encoder, f: IO[bytes]) -> None:
    """A matrix in runs of CHUNK rows, so that no more than one run is in memory."""
    starts = range(0, len(texts), CHUNK)
    runs = (encoder.encode(texts["text"][i : i + CHUNK].to_pylist()).astype("<f4") for i in starts)
    first = next(runs)
    shape = (len(texts), first.shape[1])
    np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": shape})
    for run in chain([first], runs):
        f.write(run.tobytes())


def _publish(folder: Path, graph: dict[str, Any]) -> None:
    """Makes the files that it names the graph of this directory, then clears older ones away."""
    text = json.dumps({"form": FORM, "check": _check(graph), "graph": graph}, sort_keys=True) + "\n"
    _store(folder, MARKER, lambda f: f.write(text.encode()))
    named = {graph["nodes"], graph["payloads"], *graph["vectors"].values()}
    for path in folder.iterdir():
        if path.name.startswith(_OURS) and path.name not in named:
            path.unlink()


def _marker(folder: Path) -> dict[str, Any]:
    """What `_publish` was given; UserError when there is no graph, or none that this version reads."""
    path = folder / MARKER
    try:
        marker = json.loads(path.read_bytes())
    except OSError as e:
        raise UserError(f"no graph in {folder} ({e.strerror}); {AGAIN}") from e
    except ValueError as e:
        raise _damaged(path, e) from e
    if marker.get("form", FORM) != FORM:
        raise UserError(f"{path} is of form {marker['form']}, this version reads {FORM}; {AGAIN}")
    if marker.get("check") != _check(marker.get("graph")):
        raise _damaged(path, "its contents have changed")
    return marker["graph"]


def _check(graph: Any) -> str:
    return hashlib.sha256(json.dumps(graph, sort_keys=True).encode()).hexdigest()[:16]


def _checked(folder: Path, name: str) -> Path:
    """The path of a file of the graph, if its contents are those that it is named after."""
    path = folder / name
    try:
        if _digest(path) in name:
            return path
        raise _damaged(path, "its contents have changed")
    except OSError as e:
        raise _damaged(path, e.strerror) from e


def _digest(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()[:16]


def _damaged(path: Path, why: object) -> UserError:
    return UserError(f"{path} is damaged ({why}); {AGAIN}")
