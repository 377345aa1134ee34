"""A graph in a directory: one Arrow file, saved whole, opened by mapping it into memory.

The file ends in the SHA-256 of what stands before, and gets its name when it is wholly on the disk. The index
of a search lies beside it.
"""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

from pkg_lib.core.reading import in_the_way, parse, shown
from pkg_lib.core.types import UserError, digest
from pkg_lib.graph.schema import NODES, PKG

GRAPH = "graph-6.arrow"  # 6: of the sixth form
_TEXT = NODES.get_field_index("text")
_END = hashlib.sha256().digest_size


def save(graph: PKG, folder: Path) -> None:
    """Makes `graph` the graph of the directory; indexes stay where its payloads are the same."""
    payloads = pa.DictionaryArray.from_arrays(graph.nodes["text"].combine_chunks(), graph.texts)
    about = {"about": json.dumps([graph.documents, graph.skipped, graph.meta])}
    table = graph.nodes.set_column(_TEXT, "text", payloads).replace_schema_metadata(about)
    temporary = folder / f"tmp-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary.open("w+b") as f:
            with pa.ipc.new_file(f, table.schema) as out:
                out.write_table(table)
            f.seek(0)
            f.write(hashlib.file_digest(f, "sha256").digest())
            f.flush()
            os.fsync(f.fileno())
        temporary.replace(folder / GRAPH)
        for path in folder.glob("tmp-*"):  # of a process that was killed
            path.unlink()
        for path in folder.glob("index-*"):
            if payloads_digest(graph.texts) not in path.name:
                path.unlink()
    except OSError as e:
        advice = f"{e.strerror or e}; free space or give another directory"
        raise UserError(f"cannot write the graph {folder}: {advice}") from e


def load(folder: Path) -> PKG:
    """The graph of a directory. UserError when there is none, or one that is damaged."""
    path, name = folder / GRAPH, shown(str(folder))
    again = f"pkg-lib graph source:DIR --output {name}"
    try:
        if obstacle := in_the_way(path):
            raise UserError(f"cannot read the graph: {obstacle}")
        data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
    except OSError as e:
        if path.exists():
            raise UserError(f"cannot read {path}: {e.strerror}; make it readable") from e
        if not folder.exists():
            raise UserError(f"{name} does not exist; save a graph with: {again}") from e
        # The directory may be the user's source, which a graph must not be written into.
        build = f"pkg-lib graph source:{name} --output OTHER_DIR, then search OTHER_DIR"
        raise UserError(f"{name} does not contain a saved graph. Build one with: {build}") from e
    if hashlib.sha256(data[:-_END]).digest() != data[-_END:].tobytes():
        raise UserError(
            f"{path} is damaged: its contents have changed. Build the graph again with: {again}"
        )
    try:
        table = pa.ipc.open_file(pa.py_buffer(data[:-_END])).read_all()
        table.validate(full=True)  # a file that somebody else made may have the right digest
        documents, skipped, meta = parse(table.schema.metadata[b"about"])
        payloads = table["text"].combine_chunks()
        nodes = table.set_column(_TEXT, "text", payloads.indices).replace_schema_metadata()
        if nodes.schema.names != NODES.names:
            raise ValueError("its columns are others")
        reasons = [(document, why) for document, why in skipped]
        return PKG(nodes, payloads.dictionary, documents, reasons, meta)
    except (pa.ArrowException, LookupError, ValueError, TypeError, AttributeError) as e:
        why = " ".join(str(e)[:200].split())
        raise UserError(
            f"{path} is damaged: it is not a saved graph ({why}). Build the graph again with: {again}"
        ) from e


def payloads_digest(texts: pa.Array) -> str:
    """What an index is made for: the payloads and their order."""
    return digest(*texts.to_pylist())[:16]
