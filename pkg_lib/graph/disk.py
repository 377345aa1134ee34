"""A graph in a directory: saved whole, opened by mapping it into memory, with vectors per embedder.

    graph-6.arrow                     nodes, payloads, documents; 6 is the form of the file
    vectors-EMBEDDER-PAYLOADS.npy     a row a payload; PAYLOADS is the digest of those it was made for

Each file ends in the SHA-256 of what stands before, and gets its name when it is wholly on the disk: a crash
at any time leaves the last complete version.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import pyarrow as pa

from pkg_lib.core.store import slug
from pkg_lib.core.types import UserError, digest
from pkg_lib.graph.schema import NODES, PKG

GRAPH = "graph-6.arrow"
CHUNK = 4096  # payloads encoded at once
AGAIN = "delete the directory and build it again"
_TEXT = NODES.get_field_index("text")
_END = hashlib.sha256().digest_size


class Encoder(Protocol):
    """Texts -> unit vectors [n, d], under a name that stands for the model."""

    name: str

    def encode(self, texts: list[str]) -> np.ndarray: ...


def save(graph: PKG, folder: Path) -> None:
    """Makes `graph` the graph of the directory; vectors stay where its payloads are the same."""
    payloads = pa.DictionaryArray.from_arrays(graph.nodes["text"].combine_chunks(), graph.texts)
    about = {"about": json.dumps([graph.documents, graph.skipped, graph.meta])}
    table = graph.nodes.set_column(_TEXT, "text", payloads).replace_schema_metadata(about)

    def write(f: IO[bytes]) -> None:
        with pa.ipc.new_file(f, table.schema) as out:
            out.write_table(table)

    with _writing(folder):
        _store(folder / GRAPH, write)
        for path in folder.iterdir():
            made = path.name.startswith(("vectors-", "index-"))
            if made and payloads_digest(graph.texts) not in path.name:
                path.unlink()


def load(folder: Path) -> PKG:
    """The graph of a directory. UserError when there is none, or one that is damaged."""
    if not (folder / GRAPH).exists():
        raise UserError(f"no graph in {folder} (no {GRAPH}); {AGAIN}")
    table = pa.ipc.open_file(pa.py_buffer(_checked(folder / GRAPH))).read_all()
    documents, skipped, meta = json.loads(table.schema.metadata[b"about"])
    payloads = table["text"].combine_chunks()
    nodes = table.set_column(_TEXT, "text", payloads.indices).replace_schema_metadata()
    return PKG(nodes, payloads.dictionary, documents, [(document, why) for document, why in skipped], meta)


def encode(folder: Path, encoder: Encoder) -> np.ndarray:
    """The vectors of the payloads: row `graph.text[v]` belongs to node v; computed where they are not stored.

    float32 [distinct payloads, d], read-only, mapped into memory. UserError without nodes or for a damaged
    file.
    """
    texts = load(folder).texts
    if not len(texts):
        raise UserError(f"the graph in {folder} has no nodes, so there is nothing to encode")
    path = folder / f"vectors-{slug(encoder.name)}-{payloads_digest(texts)}.npy"
    with _writing(folder):
        if not path.exists():
            _store(path, lambda f: _write_vectors(texts, encoder, f))
    _checked(path)
    return np.load(path, mmap_mode="r")


def payloads_digest(texts: pa.Array) -> str:
    """What vectors and an index are made for: the payloads and their order."""
    return digest(*texts.to_pylist())[:16]


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """One writer at a time; UserError when the directory cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as e:
        advice = f"{e.strerror or e}; free space or give another directory"
        raise UserError(f"cannot write the graph {folder}: {advice}") from e


def _store(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """One file with its digest behind it; it has another name until it is wholly on the disk."""
    temporary = path.with_name("tmp")
    with temporary.open("w+b") as f:
        write(f)
        f.seek(0)
        sha256 = hashlib.file_digest(f, "sha256").digest()
        f.write(sha256)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)


def _checked(path: Path) -> np.ndarray:
    """The bytes of a file, mapped into memory, if they are those that were stored; UserError if not."""
    try:
        data = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as e:  # of an empty file there is no map
        raise UserError(f"{path} is damaged ({e}); {AGAIN}") from e
    if hashlib.sha256(data[:-_END]).digest() != data[-_END:].tobytes():
        raise UserError(f"{path} is damaged (its contents have changed); {AGAIN}")
    return data[:-_END]


def _write_vectors(texts: pa.Array, encoder: Encoder, f: IO[bytes]) -> None:
    """A matrix in runs of CHUNK rows, so that no more than one run is in memory."""
    starts = range(0, len(texts), CHUNK)
    runs = (encoder.encode(texts[i : i + CHUNK].to_pylist()).astype("<f4") for i in starts)
    first = next(runs)
    shape = (len(texts), first.shape[1])
    np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": shape})
    for run in chain([first], runs):
        f.write(run.tobytes())
