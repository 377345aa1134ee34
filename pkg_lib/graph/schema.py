"""The Programming Knowledge Graph as columns in memory: nodes, edges, distinct payloads, networkx views.

Edges follow Equation 2: NAME -HAS_IMPL-> IMPL, IMPL -HAS_BLOCK-> every block of the function, BLOCK -PARENT->
each direct child block; and for text, PATH -JSON_CHILD-> PATH or PATHVALUE. Types and parents say them all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx
import numpy as np
import pyarrow as pa

from pkg_lib.core.types import Document
from pkg_lib.graph.nodes import BLOCK, IMPL, NODE_TYPES, PATH, PATHVALUE, Columns, scan
from pkg_lib.graph.nodes import NAME as NAME

HAS_IMPL, HAS_BLOCK, PARENT, JSON_CHILD = range(4)
EDGE_TYPES = ("HAS_IMPL", "HAS_BLOCK", "PARENT", "JSON_CHILD")
_ARRAYS = ("type", "document", "parent", "first", "last", "text")
NODES = pa.schema([(name, pa.int8() if name == "type" else pa.int32()) for name in _ARRAYS])
EDGES = pa.schema([("source", pa.int32()), ("target", pa.int32()), ("type", pa.int8())])
TEXTS = pa.schema([("key", pa.binary(16)), ("text", pa.large_string())])


@dataclass(eq=False)
class PKG:
    """A graph. `documents` are ids in node order; `skipped` pairs a document with why a part is missing.

    `texts` are the distinct payloads (Equation 4) in order of first appearance, each with its key: the first
    16 bytes of its SHA-256. Arrays (one entry a node): `type` int8; `document`, `parent` (the node it
    refines, -1 for a NAME), `first`, `last` (1-based inclusive lines in the document), `text` (the row of its
    payload in `texts`) int32. `edges` are sorted by source, then target.
    """

    nodes: pa.Table
    edges: pa.Table
    texts: pa.Table
    documents: list[str]
    skipped: list[tuple[str, str]]
    meta: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            setattr(self, name, self.nodes[name].to_numpy())

    @classmethod
    def of(cls, columns: Columns, documents: list[str], meta: dict[str, str] | None = None) -> PKG:
        """The graph of finished columns; UnicodeEncodeError for a lone surrogate in a payload."""
        arrays = [np.frombuffer(getattr(columns, n), np.int8 if n == "type" else np.int32) for n in _ARRAYS]
        keys = pa.array(map(payload_key, columns.texts), pa.binary(16), size=len(columns.texts))
        texts = pa.table([keys, pa.array(list(columns.texts), pa.large_string())], TEXTS)
        nodes = pa.table([pa.array(a) for a in arrays], NODES)
        return cls(nodes, edges_of(arrays[0], arrays[2]), texts, documents, columns.skipped, meta or {})

    def __len__(self) -> int:
        return self.nodes.num_rows

    def equals(self, other: PKG) -> bool:
        """Whether two graphs are the same in every table, document and reason."""
        tables = (self.nodes, self.edges, self.texts), (other.nodes, other.edges, other.texts)
        about = (self.documents, self.skipped, self.meta) == (other.documents, other.skipped, other.meta)
        return about and all(a.equals(b) for a, b in zip(*tables, strict=True))

    def payload(self, node: int) -> str:
        return self.texts["text"][int(self.text[node])].as_py()

    def payloads(self, nodes: Iterable[int]) -> list[str]:
        rows = self.text[np.fromiter(nodes, np.int64)]
        return self.texts["text"].take(pa.array(rows)).to_pylist()

    def of_type(self, kind: int) -> np.ndarray:
        """Node numbers of one type."""
        return np.flatnonzero(self.type == kind)

    def first_of_each_text(self, kind: int) -> np.ndarray:
        """Node numbers of one type, one a text: HNSW links twins badly, and misses what lies beyond them."""
        nodes = self.of_type(kind)
        return nodes[np.sort(np.unique(self.text[nodes], return_index=True)[1])]

    @cached_property
    def _children(self) -> tuple[np.ndarray, np.ndarray]:
        """CSR over the tree: children of node v are targets[offsets[v]:offsets[v + 1]], in source order."""
        child = np.flatnonzero(self.parent >= 0).astype(np.int32)
        order = child[np.argsort(self.parent[child], kind="stable")]
        counts = np.bincount(self.parent[child], minlength=len(self))
        return np.concatenate([[0], counts.cumsum()]).astype(np.int32), order

    def children(self, node: int) -> np.ndarray:
        """Direct children: a NAME's IMPL, an IMPL's outermost blocks, a block's own."""
        offsets, order = self._children
        return order[offsets[node] : offsets[node + 1]]

    def descendants(self, node: int) -> Iterator[int]:
        """All nodes below, in source order. No recursion: an `elif` chain may be 900 deep."""
        stack = self.children(node)[::-1].tolist()
        while stack:
            node = stack.pop()
            yield node
            stack += self.children(node)[::-1].tolist()

    def where(self, node: int) -> str:
        """document:first-last, as shown to a reader."""
        return f"{self.documents[self.document[node]]}:{self.first[node]}-{self.last[node]}"

    def subgraph(self, node: int) -> nx.DiGraph:
        """The node and all below it with their typed edges, for pruning and drawing (G_v* of Section 3.2)."""
        return self.view([node, *self.descendants(node)])

    def view(self, nodes: Iterable[int]) -> nx.DiGraph:
        """Any nodes with the typed edges among them, in time that grows with these edges alone."""
        graph = nx.DiGraph()
        for v in map(int, nodes):
            graph.add_node(v, type=NODE_TYPES[self.type[v]], first=int(self.first[v]), last=int(self.last[v]))
        source, target, kind = (self.edges[n].to_numpy() for n in EDGES.names)
        inside = np.array(graph.nodes, source.dtype)
        bounds = zip(np.searchsorted(source, inside), np.searchsorted(source, inside, "right"), strict=True)
        for start, stop in bounds:
            for i in range(start, stop):
                if target[i] in graph:
                    graph.add_edge(int(source[i]), int(target[i]), type=EDGE_TYPES[kind[i]])
        return graph


def payload_key(text: str) -> bytes:
    """What a payload is known by: 16 bytes of its SHA-256, the key of the embedder's vector cache as well."""
    return hashlib.sha256(text.encode()).digest()[:16]


def edges_of(kind: np.ndarray, parent: np.ndarray) -> pa.Table:
    """All edges (Equation 2) of nodes with these types and parents.

    Equation 2 links the IMPL to every block; the tree that pruning walks has the nearest one as parent.
    """
    nodes = np.arange(len(kind), dtype=np.int32)
    impl = np.maximum.accumulate(np.where(kind == IMPL, nodes, -1))  # a function's blocks follow its IMPL
    block = kind == BLOCK
    parts = [
        (parent, kind == IMPL, HAS_IMPL),
        (impl, block, HAS_BLOCK),
        (parent, block & (kind[parent] == BLOCK), PARENT),
        (parent, ((kind == PATHVALUE) | (kind == PATH)) & (parent >= 0), JSON_CHILD),
    ]
    source = np.concatenate([s[mask] for s, mask, _ in parts]).astype(np.int32)
    target = np.concatenate([nodes[mask] for _, mask, _ in parts])
    types = np.concatenate([np.full(mask.sum(), t, np.int8) for _, mask, t in parts])
    order = np.lexsort((target, source))
    return pa.table([source[order], target[order], types[order]], EDGES)


def build(documents: list[Document], meta: dict[str, str] | None = None, processes: int = 1) -> PKG:
    """The code-centric PKG of a corpus. Source that does not parse is named in `skipped`, the rest is built.

    The same graph whatever the number of processes. Raises UserError when a worker process dies.
    """
    return PKG.of(scan(documents, processes), [d.id for d in documents], meta)
