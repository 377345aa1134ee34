"""The Programming Knowledge Graph as columns: node and edge tables, Parquet on disk, networkx views.

Nodes are numbered from 0 in document order: NAME, IMPL, then the BLOCKs of each function. Edges follow Equation 2:
NAME -HAS_IMPL-> IMPL, IMPL -HAS_BLOCK-> every block of the function, BLOCK -PARENT-> each direct child block.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pkg_lib.graph.code import Function, functions_of, sources_of
from pkg_lib.types import Document, UserError

NAME, IMPL, BLOCK, PATHVALUE, PATH = range(5)
NODE_TYPES = ("NAME", "IMPL", "BLOCK", "PATHVALUE", "PATH")
HAS_IMPL, HAS_BLOCK, PARENT, JSON_CHILD = range(4)
EDGE_TYPES = ("HAS_IMPL", "HAS_BLOCK", "PARENT", "JSON_CHILD")

_NODES = pa.schema(
    [
        ("type", pa.int8()),
        ("document", pa.int32()),
        ("parent", pa.int32()),
        ("first", pa.int32()),
        ("last", pa.int32()),
        ("payload", pa.string()),
    ]
)
_EDGES = pa.schema([("source", pa.int32()), ("target", pa.int32()), ("type", pa.int8())])


@dataclass(slots=True)
class Columns:
    """Tables under construction, one list a column."""

    nodes: dict[str, list] = field(default_factory=lambda: {n: [] for n in _NODES.names})
    edges: dict[str, list] = field(default_factory=lambda: {n: [] for n in _EDGES.names})

    def node(self, kind: int, document: int, parent: int, first: int, last: int, payload: str) -> int:
        for name, value in zip(_NODES.names, (kind, document, parent, first, last, payload), strict=True):
            self.nodes[name].append(value)
        return len(self.nodes["type"]) - 1

    def edge(self, source: int, target: int, kind: int) -> None:
        for name, value in zip(_EDGES.names, (source, target, kind), strict=True):
            self.edges[name].append(value)


@dataclass
class PKG:
    """A graph in memory. `documents` are ids in node order; `skipped` pairs a document with why (part of) it is missing.

    Arrays (one entry a node): `type` int8, `document`, `parent` (the node it refines, -1 for a NAME), `first`, `last`
    (1-based inclusive lines in the document) int32; `payload` the text of Equation 4.
    """

    nodes: pa.Table
    edges: pa.Table
    documents: list[str]
    skipped: list[tuple[str, str]]
    meta: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("type", "document", "parent", "first", "last"):
            setattr(self, name, self.nodes[name].to_numpy())

    def __len__(self) -> int:
        return self.nodes.num_rows

    def payload(self, node: int) -> str:
        return self.nodes["payload"][int(node)].as_py()

    def payloads(self, nodes: Iterable[int]) -> list[str]:
        return self.nodes["payload"].take(pa.array(nodes, pa.int64())).to_pylist()

    def of_type(self, kind: int) -> np.ndarray:
        """Node numbers of one type."""
        return np.flatnonzero(self.type == kind)

    @cached_property
    def _children(self) -> tuple[np.ndarray, np.ndarray]:
        """CSR over the tree: children of node v are targets[offsets[v]:offsets[v + 1]], in source order."""
        child = np.flatnonzero(self.parent >= 0)
        order = child[np.argsort(self.parent[child], kind="stable")]
        offsets = np.zeros(len(self) + 1, np.int64)
        np.add.at(offsets, self.parent[child] + 1, 1)
        return offsets.cumsum(), order

    def children(self, node: int) -> np.ndarray:
        """Direct children in the containment tree: a NAME's IMPL, an IMPL's outermost blocks, a block's own."""
        offsets, order = self._children
        return order[offsets[node] : offsets[node + 1]]

    def descendants(self, node: int) -> Iterator[int]:
        """All nodes below, parents before children."""
        for child in self.children(node):
            yield int(child)
            yield from self.descendants(int(child))

    def where(self, node: int) -> str:
        """document:first-last, as shown to a reader."""
        return f"{self.documents[self.document[node]]}:{self.first[node]}-{self.last[node]}"

    def subgraph(self, node: int) -> nx.DiGraph:
        """The node and all below it with their typed edges, for pruning and drawing (G_v* of Section 3.2)."""
        inside = np.array([node, *self.descendants(node)])
        graph = nx.DiGraph()
        for v in inside:
            graph.add_node(int(v), type=NODE_TYPES[self.type[v]], first=int(self.first[v]), last=int(self.last[v]))
        source, target, kind = (self.edges[n].to_numpy() for n in _EDGES.names)
        for i in np.flatnonzero(np.isin(source, inside) & np.isin(target, inside)):
            graph.add_edge(int(source[i]), int(target[i]), type=EDGE_TYPES[kind[i]])
        return graph

    def save(self, folder: Path) -> None:
        """nodes.parquet, edges.parquet and, last, graph.json: without it the directory holds no graph."""
        folder.mkdir(parents=True, exist_ok=True)
        marker = folder / "graph.json"
        marker.unlink(missing_ok=True)
        pq.write_table(self.nodes, folder / "nodes.parquet", compression="zstd")
        pq.write_table(self.edges, folder / "edges.parquet", compression="zstd")
        marker.write_text(json.dumps({"documents": self.documents, "skipped": self.skipped, "meta": self.meta}))

    @classmethod
    def load(cls, folder: Path) -> PKG:
        """Raises UserError when there is no complete graph or a file is damaged."""
        try:
            about = json.loads((folder / "graph.json").read_text())
            tables = (pq.read_table(folder / f"{n}.parquet").cast(s) for n, s in (("nodes", _NODES), ("edges", _EDGES)))
            return cls(*tables, about["documents"], [tuple(s) for s in about["skipped"]], about["meta"])
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as e:
            raise UserError(f"no readable graph in {folder} ({type(e).__name__}); delete the directory and build it again") from e


def build(documents: list[Document], meta: dict[str, str] | None = None) -> PKG:
    """The code-centric PKG of a corpus. Source that does not parse is named in `skipped`, the rest is built."""
    columns, skipped = Columns(), []
    for index, document in enumerate(documents):
        sources = sources_of(document)
        if not sources:
            skipped.append((document.id, "no Python code"))
        for offset, source in sources:
            try:
                functions = functions_of(source)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
                skipped.append((document.id, f"does not parse: {type(e).__name__}: {e}"))
                continue
            lines = split_lines(source)
            for function in functions:
                _add(columns, index, offset, lines, function)
    tables = (pa.table(columns.nodes, _NODES), pa.table(columns.edges, _EDGES))
    return PKG(*tables, [d.id for d in documents], skipped, meta or {})


def split_lines(source: str) -> list[str]:
    """Lines as Python's tokenizer counts them: \\n, \\r\\n and \\r end a line, form feeds and \\x1c to \\x1e do not."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _add(columns: Columns, document: int, offset: int, lines: list[str], function: Function) -> None:
    def text(first: int, last: int) -> str:
        return "\n".join(lines[first - 1 : last])

    span = (function.first + offset, function.last + offset)
    name = columns.node(NAME, document, -1, *span, function.name)
    impl = columns.node(IMPL, document, name, *span, text(function.first, function.last))
    columns.edge(name, impl, HAS_IMPL)
    for b in function.blocks:
        # Equation 2 links the IMPL to every block; the tree that pruning walks has the nearest one as parent.
        parent = impl if b.parent < 0 else impl + 1 + b.parent
        node = columns.node(BLOCK, document, parent, b.first + offset, b.last + offset, text(b.first, b.last))
        columns.edge(impl, node, HAS_BLOCK)
        if b.parent >= 0:
            columns.edge(parent, node, PARENT)
