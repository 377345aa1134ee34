"""A graph on disk: saved whole, loaded without reading its payloads, changed by documents, with vectors per embedder.

Node and edge tables are Parquet; payloads are an Arrow file and vectors an array, both mapped into memory, so that a graph
of 425,000 nodes is open in about a second and takes memory only for what is read. A graph and vectors that do not belong
together are refused with the reason. How a version replaces the one before: `files.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.disk import vectors as matrices
from pkg_lib.graph.disk.change import added, removed
from pkg_lib.graph.disk.parts import checked, damaged, marker_of, publish, store, writing
from pkg_lib.graph.disk.vectors import Encoder
from pkg_lib.graph.schema import EDGES, NODES, PKG, TEXTS

FORM = 3  # of the files; a directory of another form is built again
_DOCUMENTS = pa.schema([("id", pa.binary())])  # file names need not be UTF-8


def save(graph: PKG, folder: Path, encoder: Encoder | None = None) -> None:
    """Makes `graph` the graph of the directory; with an encoder, its vectors too.

    Vectors that the directory holds are kept for the payloads that stay; the encoder sees only payloads without one.
    Other embedders' new payloads wait for their own `encode`. A crash leaves what was there before.
    """
    with writing(folder):
        _save(graph, folder, encoder)


def load(folder: Path) -> PKG:
    """The graph of a directory. Raises UserError when there is none or a file is damaged; the message names the file."""
    marker = marker_of(folder, FORM)
    while True:
        try:
            return _load(folder, marker)
        except UserError:
            newer = marker_of(folder, FORM)
            if newer == marker:
                raise
            marker = newer  # A writer has replaced the version while it was read.


def add(folder: Path, documents: list[Document], encoder: Encoder | None = None, processes: int = 1) -> PKG:
    """Adds documents to the graph of a directory and returns it; equal to a build of all of them from scratch.

    Only payloads that no document had before are encoded. UserError for an id that is there already.
    """
    marker_of(folder, FORM)
    with writing(folder):
        _save(added(load(folder), documents, processes), folder, encoder)
        return load(folder)


def remove(folder: Path, ids: Iterable[str]) -> PKG:
    """Removes documents by id and returns the graph; equal to a build of the others. UserError for an unknown id."""
    marker_of(folder, FORM)
    with writing(folder):
        _save(removed(load(folder), ids), folder, None)
        return load(folder)


def encode(folder: Path, encoder: Encoder) -> np.ndarray:
    """The vectors of every payload [distinct payloads, d], mapped into memory; only missing ones are computed."""
    marker_of(folder, FORM)
    with writing(folder):
        graph, marker = load(folder), marker_of(folder, FORM)
        if not len(graph.texts):
            raise UserError(f"the graph in {folder} has no nodes, so there is nothing to encode")
        if marker["vectors"].get(encoder.name, {}).get("missing", 1):
            _publish(graph, folder, marker["files"], encoder)
        return vectors(folder, graph, encoder.name)


def vectors(folder: Path, graph: PKG, embedder: str, dimension: int | None = None) -> np.ndarray:
    """The stored matrix: row `graph.text[v]` belongs to node v. float32, read-only, mapped into memory.

    Raises UserError with the reason when the directory has no vectors of this embedder, or of another dimension, or of
    another graph, or not yet of every payload, or when the file is damaged.
    """
    held = marker_of(folder, FORM)["vectors"]
    if embedder not in held:
        raise UserError(
            f"{folder} has no vectors of {embedder} (it has: {', '.join(held) or 'none'}); encode the graph with it"
        )
    about = held[embedder]
    if about["payloads"] != matrices.payloads_digest(graph.texts):
        raise UserError(
            f"the vectors of {embedder} in {folder} belong to another graph; load the graph of this directory"
        )
    if dimension not in (None, about["dimension"]):
        raise UserError(
            f"the vectors of {embedder} in {folder} have {about['dimension']} dimensions, not {dimension}"
        )
    if about["missing"]:
        raise UserError(
            f"{about['missing']} payloads in {folder} have no vector of {embedder} yet; encode the graph with it"
        )
    return matrices.read(folder, about, len(graph.texts))


def _save(graph: PKG, folder: Path, encoder: Encoder | None) -> None:
    files = {
        "nodes": store(
            folder, "nodes", ".parquet", lambda f: pq.write_table(graph.nodes, f, compression="zstd")
        ),
        "edges": store(
            folder, "edges", ".parquet", lambda f: pq.write_table(graph.edges, f, compression="zstd")
        ),
        "documents": store(folder, "documents", ".parquet", lambda f: _write_documents(graph.documents, f)),
        "payloads": store(folder, "payloads", ".arrow", lambda f: _write_texts(graph.texts, f)),
    }
    _publish(graph, folder, files, encoder)


def _publish(graph: PKG, folder: Path, files: dict[str, Any], encoder: Encoder | None) -> None:
    """Writes the vectors of the graph's payloads, then the marker that names all files."""
    old, held = _previous(folder), {}
    for name in sorted({*old["vectors"], *([encoder.name] if encoder else ())}):
        chosen = encoder if encoder and encoder.name == name else None
        entry = matrices.write(folder, name, graph.texts, _kept(folder, graph, old, name), chosen)
        held |= {name: entry} if entry else {}
    publish(
        folder, {"form": FORM, "files": files, "vectors": held, "skipped": graph.skipped, "meta": graph.meta}
    )


def _previous(folder: Path) -> dict[str, Any]:
    """The marker of the version that is there; an empty one where it cannot be read, since it is about to be replaced."""
    try:
        return marker_of(folder, FORM)
    except UserError:
        return {"vectors": {}}


def _kept(folder: Path, graph: PKG, old: dict[str, Any], name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """(the stored matrix, each payload's row in it or -1), None where there is none."""
    if name not in old["vectors"]:
        return None
    texts = _texts(folder, old["files"])
    matrix = matrices.read(folder, old["vectors"][name], len(texts))
    return matrix, matrices.kept_rows(matrix, texts, graph.texts)


def _write_documents(ids: list[str], f: IO[bytes]) -> None:
    pq.write_table(
        pa.table([[i.encode("utf8", "surrogatepass") for i in ids]], _DOCUMENTS), f, compression="zstd"
    )


def _write_texts(texts: pa.Table, f: IO[bytes]) -> None:
    with pa.ipc.new_file(f, TEXTS) as out:
        out.write_table(texts.combine_chunks())


def _load(folder: Path, marker: dict[str, Any]) -> PKG:
    files = marker["files"]
    nodes, edges = _parquet(folder, files, "nodes", NODES), _parquet(folder, files, "edges", EDGES)
    ids = [
        i.decode("utf8", "surrogatepass")
        for i in _parquet(folder, files, "documents", _DOCUMENTS)["id"].to_pylist()
    ]
    return PKG(
        nodes, edges, _texts(folder, files), ids, [tuple(s) for s in marker["skipped"]], marker["meta"]
    )


def _parquet(folder: Path, files: dict[str, Any], name: str, schema: pa.Schema) -> pa.Table:
    path = checked(folder, files[name])
    try:
        with pq.ParquetFile(path) as file:
            return file.read().cast(schema).combine_chunks()
    except (OSError, ValueError, pa.ArrowException) as e:
        raise damaged(path, type(e).__name__) from e


def _texts(folder: Path, files: dict[str, Any]) -> pa.Table:
    path = checked(folder, files["payloads"])
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, ValueError, pa.ArrowException) as e:
        raise damaged(path, type(e).__name__) from e
    if table.schema != TEXTS:
        raise damaged(path, "other columns")
    return table
