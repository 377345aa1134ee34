"""A graph in a directory: one Arrow file, saved whole and opened by mapping it into memory.

The file ends with the SHA-256 of what comes before, and gets its name when it is completely on the
disk. Indexes for searching are stored beside it.
"""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

from pkg_lib.core.reading import describe_obstacle, parse, shown
from pkg_lib.core.types import UserError, digest
from pkg_lib.graph.schema import NODES, Graph

GRAPH = "graph-6.arrow"  # version 6 of the format
_TEXT = NODES.get_field_index("text")
_DAMAGE = (
    pa.ArrowException,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
)
_DIGEST_SIZE = hashlib.sha256().digest_size


def save(graph: Graph, folder: Path) -> None:
    """Save a graph as the only one of a directory.

    Files that a killed process left ("tmp-" and its number) are removed, and so are the search indexes
    of other payloads ("index-*.hnsw").

    Args:
        graph: The graph to write, of code or of text.
        folder: The directory, which is created if it does not exist. A graph in it is replaced.

    Raises:
        UserError: The directory cannot be written.
    """
    positions = graph.nodes["text"].combine_chunks()
    payloads = pa.DictionaryArray.from_arrays(positions, graph.texts)
    about = {"about": json.dumps([graph.documents, graph.skipped, graph.meta])}
    table = graph.nodes.set_column(_TEXT, "text", payloads).replace_schema_metadata(about)
    temporary = folder / f"tmp-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary.open("w+b") as file:
            with pa.ipc.new_file(file, table.schema) as out:
                out.write_table(table)
            file.seek(0)
            file.write(hashlib.file_digest(file, "sha256").digest())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / GRAPH)
        for path in folder.glob("tmp-*"):
            if path.name.removeprefix("tmp-").isdigit():  # left by a process that was killed
                path.unlink()
        kept = payloads_digest(graph.texts)
        for path in folder.glob("index-*.hnsw"):
            if kept not in path.name:
                path.unlink()
    except OSError as e:
        advice = "free space or give another directory"
        raise UserError(f"cannot write the graph {folder}: {e.strerror or e}; {advice}") from e


def load(folder: Path) -> Graph:
    """Open the graph of a directory.

    Its file is mapped into memory, and its digest is checked.

    Args:
        folder: A directory to which `save` wrote a graph.

    Returns:
        The graph.

    Raises:
        UserError: There is no graph, or it is damaged or cannot be read.
    """
    path = folder / GRAPH
    data = _map(path)
    again = f"Build the graph again with: pkg-lib graph source:DIR --output {shown(str(folder))}"
    content = data[:-_DIGEST_SIZE].data
    if hashlib.sha256(content).digest() != data[-_DIGEST_SIZE:].tobytes():
        raise UserError(f"{path} is damaged: its contents have changed. {again}")
    try:
        table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
        table.validate(full=True)  # a file from elsewhere may have a correct digest
        documents, skipped, meta = parse(table.schema.metadata[b"about"])
        payloads = table["text"].combine_chunks()
        nodes = table.set_column(_TEXT, "text", payloads.indices).replace_schema_metadata()
        if nodes.schema.names != NODES.names:
            raise ValueError("its columns are not those of a graph")
        reasons = [(document, reason) for document, reason in skipped]
        return Graph(
            nodes,
            payloads.dictionary,
            documents,
            reasons,
            meta,
        )
    except _DAMAGE as e:
        why = " ".join(str(e)[:200].split())
        raise UserError(f"{path} is damaged: it is not a saved graph ({why}). {again}") from e


def _map(
    path: Path,
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Map the file of a graph into memory, as bytes."""
    name = shown(str(path.parent))
    try:
        obstacle = describe_obstacle(path)
        if obstacle:
            raise UserError(f"cannot read the graph: {obstacle}")
        if not path.stat().st_size:  # it cannot be mapped
            return np.zeros(0, np.uint8)
        return np.memmap(path, np.uint8, "r")
    except OSError as e:
        if path.exists():
            raise UserError(f"cannot read {path}: {e.strerror}; make it readable") from e
        if not path.parent.exists():
            command = f"pkg-lib graph source:DIR --output {name}"
            raise UserError(f"{name} does not exist; save a graph with: {command}") from e
        # The directory may be the user's source, which a graph must not be written into.
        command = "pkg-lib graph source:DIR --output OTHER_DIR, then search OTHER_DIR"
        raise UserError(f"{name} is not a saved graph. Build one with: {command}") from e


def payloads_digest(texts: pa.Array) -> str:
    """Return a short digest of the payloads and their order, which an index is made for.

    Args:
        texts: The distinct payloads of a graph, its `texts`.

    Returns:
        16 hexadecimal digits, which are part of the name of an index's file.
    """
    return digest(*texts.to_pylist())[:16]
