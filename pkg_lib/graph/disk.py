"""A graph in a directory: saved whole, loaded without reading its payloads, with vectors per embedder.

    graph.json               the marker: which files make the graph, and what it is
    nodes-HASH.arrow, documents-HASH.arrow, payloads-HASH.arrow, vectors-EMBEDDER-HASH.npy

Tables and vectors are mapped into memory, so that a graph of 425,000 nodes is open in about a second. HASH is the start
of the file's SHA-256, so a damaged file no longer matches its own name. New files stand beside the old ones until the
marker is replaced (one rename): a crash at any time leaves the last complete version, and what no marker names is
cleared away by the next writer.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa

from pkg_lib.core.types import UserError
from pkg_lib.graph.schema import PKG, edges_of

FORM = 5  # of the files; a directory of another form is built again
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
    ids = pa.array([i.encode("utf8", "surrogatepass") for i in graph.documents], pa.binary())
    tables = {"nodes": graph.nodes, "documents": pa.table({"id": ids}), "payloads": graph.texts}
    with _writing(folder):
        files = {name: _store_table(folder, name, table) for name, table in tables.items()}
        try:
            old = _marker(folder)
        except UserError:  # no graph, or one that cannot be read and is about to be replaced
            old = {"files": {}}
        vectors = old["vectors"] if old["files"].get("payloads") == files["payloads"] else {}
        _publish(folder, files=files, vectors=vectors, skipped=graph.skipped, meta=graph.meta)


def load(folder: Path) -> PKG:
    """The graph of a directory. UserError when there is none or a file is damaged; the message names the file."""
    marker = _marker(folder)
    while True:
        try:
            return _load(folder, marker)
        except UserError:
            newer = _marker(folder)
            if newer == marker:
                raise
            marker = newer  # A writer has replaced the version while it was read.


def encode(folder: Path, encoder: Encoder) -> np.ndarray:
    """The vectors of the payloads: row `graph.text[v]` belongs to node v; computed where they are not stored.

    float32 [distinct payloads, d], read-only, mapped into memory. UserError for a graph without nodes, or a damaged file.
    """
    _marker(folder)
    with _writing(folder):
        marker, graph = _marker(folder), load(folder)
        if encoder.name not in marker["vectors"]:
            if not len(graph.texts):
                raise UserError(f"the graph in {folder} has no nodes, so there is nothing to encode")
            name = "vectors-" + re.sub(r"[^\w.+-]", "-", encoder.name)
            file = _store(folder, name, ".npy", lambda f: _write_vectors(graph.texts, encoder, f))
            marker["vectors"][encoder.name] = file
            _publish(folder, **marker)
    return np.load(_checked(folder, marker["vectors"][encoder.name]), mmap_mode="r")


def payloads_digest(texts: pa.Table) -> str:
    """What an index was made for: the payloads and their order."""
    return hashlib.sha256(b"".join(texts["key"].to_pylist())).hexdigest()[:16]


def _damaged(path: Path, why: object) -> UserError:
    return UserError(f"{path} is damaged ({why}); {AGAIN}")


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


def _temporary(folder: Path, write: Callable[[IO[bytes]], Any]) -> Path:
    """A file that is wholly on the disk, under a name that no marker has."""
    handle, name = tempfile.mkstemp(prefix="tmp-", dir=folder)
    with os.fdopen(handle, "wb") as f:
        write(f)
        f.flush()
        os.fsync(f.fileno())
    Path(name).chmod(0o644)
    return Path(name)


def _store(folder: Path, stem: str, suffix: str, write: Callable[[IO[bytes]], Any]) -> str:
    """Writes one file under the name of its contents; returns that name."""
    temporary = _temporary(folder, write)
    return temporary.replace(folder / f"{stem}-{_digest(temporary)}{suffix}").name


def _store_table(folder: Path, stem: str, table: pa.Table) -> str:
    def write(f: IO[bytes]) -> None:
        with pa.ipc.new_file(f, table.schema) as out:
            out.write_table(table.combine_chunks())

    return _store(folder, stem, ".arrow", write)


def _publish(folder: Path, **marker: Any) -> None:
    """Makes the files that the marker names the graph of this directory, then clears older ones away."""
    marker["form"] = FORM
    text = json.dumps(marker | {"check": _check(marker)}, sort_keys=True) + "\n"
    _temporary(folder, lambda f: f.write(text.encode())).replace(folder / MARKER)
    named = {*marker["files"].values(), *marker["vectors"].values()}
    for path in folder.iterdir():
        if path.name.startswith(_OURS) and path.name not in named:
            path.unlink()


def _marker(folder: Path) -> dict[str, Any]:
    """The marker; UserError when there is no graph, or none that this version reads."""
    path = folder / MARKER
    try:
        marker = json.loads(path.read_text())
    except OSError as e:
        raise UserError(f"no graph in {folder} ({e.strerror}); {AGAIN}") from e
    except ValueError as e:
        raise _damaged(path, e) from e
    if marker.get("form", FORM) != FORM:
        raise UserError(f"{path} is of form {marker['form']}, this version reads {FORM}; {AGAIN}")
    if marker.pop("check", None) != _check(marker):
        raise _damaged(path, "its contents have changed")
    return marker


def _check(marker: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(marker, sort_keys=True).encode()).hexdigest()[:16]


def _checked(folder: Path, name: str) -> Path:
    """The path of a file of the graph, if its contents are those that it is named after."""
    path = folder / name
    try:
        intact = _digest(path) in name
    except OSError as e:
        raise _damaged(path, e.strerror) from e
    if not intact:
        raise _damaged(path, "its contents have changed")
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()[:16]


def _write_vectors(texts: pa.Table, encoder: Encoder, f: IO[bytes]) -> None:
    """A matrix in runs of CHUNK rows, so that no more than one run is in memory."""
    starts = range(0, len(texts), CHUNK)
    runs = (encoder.encode(texts["text"][i : i + CHUNK].to_pylist()).astype("<f4") for i in starts)
    first = next(runs)
    shape = (len(texts), first.shape[1])
    np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": shape})
    for run in chain([first], runs):
        f.write(run.tobytes())


def _load(folder: Path, marker: dict[str, Any]) -> PKG:
    paths = [_checked(folder, marker["files"][name]) for name in ("nodes", "documents", "payloads")]
    nodes, documents, texts = (pa.ipc.open_file(pa.memory_map(str(p))).read_all() for p in paths)
    nodes = nodes.combine_chunks()
    ids = [i.decode("utf8", "surrogatepass") for i in documents["id"].to_pylist()]
    edges = edges_of(nodes["type"].to_numpy(), nodes["parent"].to_numpy())
    return PKG(nodes, edges, texts, ids, [tuple(s) for s in marker["skipped"]], marker["meta"])
