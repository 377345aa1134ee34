"""One matrix of vectors per embedder beside a graph's payloads: float32 [distinct payloads, d], mapped into memory.

A row is NaN while its payload waits to be encoded; `vectors` in store.py gives a matrix out only when none does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa

from pkg_lib.core.types import UserError
from pkg_lib.graph.disk.change import positions
from pkg_lib.graph.disk.parts import checked, damaged, store

CHUNK = 4096  # payloads encoded between two writes


class Encoder(Protocol):
    """Texts -> unit vectors [n, d], under a name that stands for the model."""

    name: str

    def encode(self, texts: list[str]) -> np.ndarray: ...


def payloads_digest(texts: pa.Table) -> str:
    """What a matrix was made for: the payloads and their order."""
    return hashlib.sha256(b"".join(texts["key"].to_pylist())).hexdigest()[:16]


def read(folder: Path, about: dict[str, Any], rows: int) -> np.ndarray:
    """The matrix of a marker's entry; UserError when its file is damaged. Checking 600 MB takes about half a second."""
    path = checked(folder, about)
    try:
        matrix = np.load(path, mmap_mode="r")
    except ValueError as e:
        raise damaged(path, e) from e
    if matrix.shape != (rows, about["dimension"]) or matrix.dtype != np.float32:
        raise damaged(
            path, f"it holds {matrix.dtype} {matrix.shape}, not float32 {(rows, about['dimension'])}"
        )
    return matrix


def kept_rows(matrix: np.ndarray, old: pa.Table, texts: pa.Table) -> np.ndarray:
    """For each payload its row in the matrix of the payloads `old`, -1 where it has no vector there."""
    rows = positions(texts, old)
    return np.where(np.isnan(matrix[:, 0])[rows], -1, rows) if len(matrix) else rows


def write(
    folder: Path,
    name: str,
    texts: pa.Table,
    kept: tuple[np.ndarray, np.ndarray] | None,
    encoder: Encoder | None,
) -> dict[str, Any] | None:
    """Writes the matrix of `texts` and returns the marker's entry: rows from `kept` (matrix, rows), others from the encoder.

    Without an encoder they wait as NaN. None when there is nothing to write: no payload, or no dimension to be known.
    UserError when the encoder's dimension is not that of the kept matrix.
    """
    if not len(texts) or (kept is None and encoder is None):
        return None
    matrix, rows = kept or (None, np.full(len(texts), -1))
    pieces = _pieces(texts, matrix, rows, encoder, name)
    first = next(pieces)
    shape = (len(texts), first.shape[1])
    entry = store(
        folder, f"vectors-{_clean(name)}", ".npy", lambda f: _matrix(f, shape, chain([first], pieces))
    )
    missing = 0 if encoder else int((rows < 0).sum())
    return entry | {"dimension": shape[1], "missing": missing, "payloads": payloads_digest(texts)}


def _clean(name: str) -> str:
    return "".join(c if c.isalnum() or c in "+._" else "-" for c in name)


def _pieces(
    texts: pa.Table, matrix: np.ndarray | None, rows: np.ndarray, encoder: Encoder | None, name: str
) -> Iterator[np.ndarray]:
    """The matrix in runs of CHUNK rows, so that no more than one run is in memory."""
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        old, new = part >= 0, np.flatnonzero(part < 0)
        found = (
            encoder.encode(texts["text"].take(pa.array(new + start)).to_pylist())
            if encoder and len(new)
            else None
        )
        dimension = (matrix if matrix is not None else found).shape[1]
        if found is not None and found.shape[1] != dimension:
            raise UserError(
                f"the stored vectors of {name} have {dimension} dimensions, not {found.shape[1]}: another model"
            )
        piece = np.full((len(part), dimension), np.nan, np.float32)
        if matrix is not None:
            piece[old] = matrix[part[old]]
        if found is not None:
            piece[new] = found
        yield piece


def _matrix(f: IO[bytes], shape: tuple[int, int], pieces: Iterable[np.ndarray]) -> None:
    np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": shape})
    for piece in pieces:
        f.write(piece.tobytes())
