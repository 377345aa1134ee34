"""The Programming Knowledge Graph as columns in memory: nodes, edges, distinct payloads, networkx views.

Edges follow Equation 2: NAME -HAS_IMPL-> IMPL, IMPL -HAS_BLOCK-> every block of the function, BLOCK -PARENT->
each direct child block; and for text, PATH -JSON_CHILD-> PATH or PATHVALUE. Types and parents say them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx
import numpy as np
import pyarrow as pa

from pkg_lib.core.types import Document
from pkg_lib.core.workers import paused_collector
from pkg_lib.graph.nodes import BLOCK, IMPL, NODE_TYPES, PATH, PATHVALUE, Rows, scan
from pkg_lib.graph.nodes import NAME as NAME

HAS_IMPL, HAS_BLOCK, PARENT, JSON_CHILD = range(4)
EDGE_TYPES = ("HAS_IMPL", "HAS_BLOCK", "PARENT", "JSON_CHILD")
_COLUMNS = ("type", "document", "parent", "first", "last", "text")
NODES = pa.schema([(name, pa.int8() if name == "type" else pa.int32()) for name in _COLUMNS])
EDGES = pa.schema([("source", pa.int32()), ("target", pa.int32()), ("type", pa.int8())])


@dataclass(eq=False)
class PKG:
    """A graph; `texts` are the distinct payloads (Equation 4), `skipped` pairs a document with a reason.

    Arrays, one entry a node, which stands right before all below it: `type`; `document`; `parent`, -1 for a
    root; `first`, `last`, 1-based inclusive lines; `text`, the position of its payload in `texts`.
    """

    nodes: pa.Table
    texts: pa.LargeStringArray
    documents: list[str]
    skipped: list[tuple[str, str]]
    meta: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _COLUMNS:
            setattr(self, name, self.nodes[name].to_numpy())

    @classmethod
    def of(
        cls, documents: list[Document], parts: Iterable[Rows], meta: dict[str, str] | None = None
    ) -> PKG:
        """The graph of each document's rows; UnicodeEncodeError for a lone surrogate in a payload."""
        nodes: list[tuple[int, ...]] = []
        texts: dict[str, int] = {}
        skipped: list[tuple[str, str]] = []
        for index, (document, (rows, reasons)) in enumerate(zip(documents, parts, strict=True)):
            start = len(nodes)
            for kind, parent, first, last, payload in rows:
                above = start + parent if parent >= 0 else -1
                nodes.append(
                    (kind, index, above, first, last, texts.setdefault(payload, len(texts)))
                )
            skipped += ((document.id, why) for why in reasons)
        columns = np.array(nodes, np.int32).reshape(-1, len(NODES)).T
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, NODES, strict=True)], NODES)
        payloads = pa.array(list(texts), pa.large_string())
        return cls(table, payloads, [d.id for d in documents], skipped, meta or {})

    def __len__(self) -> int:
        return self.nodes.num_rows

    @cached_property
    def edges(self) -> pa.Table:
        """All edges, sorted by source, then target; HAS_BLOCK links the IMPL to every block (Equation 2)."""
        kind, parent, nodes = self.type, self.parent, np.arange(len(self), dtype=np.int32)
        impl = np.maximum.accumulate(
            np.where(kind == IMPL, nodes, -1)
        )  # a function's blocks follow its IMPL
        block, text = kind == BLOCK, (kind == PATHVALUE) | (kind == PATH)
        parts = [
            (HAS_IMPL, parent, kind == IMPL),
            (HAS_BLOCK, impl, block),
            (PARENT, parent, block & (kind[parent] == BLOCK)),
            (JSON_CHILD, parent, text & (parent >= 0)),
        ]
        edges = [
            (s[mask], nodes[mask], np.full(mask.sum(), number, np.int8))
            for number, s, mask in parts
        ]
        columns = [np.concatenate(column) for column in zip(*edges, strict=True)]
        return pa.table(columns, EDGES).sort_by([("source", "ascending"), ("target", "ascending")])

    def payload(self, node: int) -> str:
        return self.texts[int(self.text[node])].as_py()

    def payloads(self, nodes: Iterable[int]) -> list[str]:
        return self.texts.take(pa.array(self.text[np.fromiter(nodes, np.int64)])).to_pylist()

    def of_type(self, kind: int) -> np.ndarray:
        """Node numbers of one type."""
        return np.flatnonzero(self.type == kind)

    def first_of_each_text(self, kind: int) -> np.ndarray:
        """Node numbers of one type, one a text: HNSW links twins badly, and misses what lies beyond them."""
        nodes = self.of_type(kind)
        return nodes[np.sort(np.unique(self.text[nodes], return_index=True)[1])]

    def descendants(self, node: int) -> range:
        """All nodes below, in source order: what follows, up to one whose parent stands before `node`."""
        stop = node + 1
        while stop < len(self) and self.parent[stop] >= node:
            stop += 1
        return range(node + 1, stop)

    def children(self, node: int) -> np.ndarray:
        """Direct children: a NAME's IMPL, an IMPL's body, the outermost blocks inside a block."""
        below = self.descendants(node)
        return below.start + np.flatnonzero(self.parent[below.start : below.stop] == node)

    def branches(self, node: int) -> np.ndarray:
        """What pruning may remove (Equation 6): the children, or those of a body or lone statement."""
        children = self.children(node)
        alone = len(children) == 1 and (
            self.type[node] == IMPL or self.text[children[0]] == self.text[node]
        )
        return self.children(int(children[0])) if alone else children

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
            graph.add_node(
                v, type=NODE_TYPES[self.type[v]], first=int(self.first[v]), last=int(self.last[v])
            )
        source, target, kind = (self.edges[n].to_numpy() for n in EDGES.names)
        inside = np.array(graph.nodes, source.dtype)
        bounds = zip(
            np.searchsorted(source, inside), np.searchsorted(source, inside, "right"), strict=True
        )
        for i in (i for start, stop in bounds for i in range(start, stop) if target[i] in graph):
            graph.add_edge(int(source[i]), int(target[i]), type=EDGE_TYPES[kind[i]])
        return graph


def build(documents: list[Document], meta: dict[str, str] | None = None, processes: int = 1) -> PKG:
    """The code-centric PKG of a corpus, the same from any number of processes; UserError when one dies."""
    with paused_collector():
        return PKG.of(documents, scan(documents, processes), meta)
