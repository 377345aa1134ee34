"""The Programming Knowledge Graph in memory: nodes, edges and texts as columns; networkx views.

The edges are those of Equation 2: NAME -HAS_IMPL-> IMPL, IMPL -HAS_BLOCK-> every block of the
function, BLOCK -PARENT-> each direct child block. In text, they are PATH -JSON_CHILD-> PATH or
PATHVALUE. Only node types and parents are stored, since they determine the edges.

Read next: code.py and nodes.py (code to nodes), text/documents.py (text to nodes), then disk.py and
bolt.py (where graphs are saved).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pkg_lib.core.types import Document
from pkg_lib.core.workers import paused_collector
from pkg_lib.graph.nodes import BLOCK as BLOCK
from pkg_lib.graph.nodes import IMPL as IMPL
from pkg_lib.graph.nodes import NAME as NAME
from pkg_lib.graph.nodes import NODE_TYPES as NODE_TYPES
from pkg_lib.graph.nodes import PATH as PATH
from pkg_lib.graph.nodes import PATHVALUE as PATHVALUE
from pkg_lib.graph.nodes import DocumentNodes, scan

if TYPE_CHECKING:
    import networkx as nx

HAS_IMPL, HAS_BLOCK, PARENT, JSON_CHILD = range(4)
EDGE_TYPES = ("HAS_IMPL", "HAS_BLOCK", "PARENT", "JSON_CHILD")
NODES = pa.schema(
    {
        "type": pa.int8(),
        "document": pa.int32(),
        "parent": pa.int32(),
        "first": pa.int32(),
        "last": pa.int32(),
        "text": pa.int32(),
    }
)
EDGES = pa.schema(
    {
        "source": pa.int32(),
        "target": pa.int32(),
        "type": pa.int8(),
    }
)

Column = NDArray[np.int32]
Nodes = NDArray[np.intp]


@dataclass(eq=False, repr=False)
class Graph:
    """A Programming Knowledge Graph of code or text.

    A node is a number from 0 to n - 1. Each node comes directly before all nodes below it.

    Attributes:
        nodes: Table with one row per node; its columns are the arrays below.
        texts: The distinct payloads of the nodes (Equation 4), [t].
        documents: Names of the documents.
        skipped: (document, reason) for documents, or sources in them, that gave no nodes.
        meta: What the graph was built from, such as the corpus and its digest.
        type: Type of each node as a position in NODE_TYPES, int8 [n].
        document: Position of each node's document in `documents`, int32 [n].
        parent: The node that each node refines, -1 for none, int32 [n].
        first: First line of each node in its document, counted from 1; 0 in a text, int32 [n].
        last: Last line of each node, inclusive, int32 [n].
        text: Position of each node's payload in `texts`, int32 [n].
    """

    nodes: pa.Table
    texts: pa.LargeStringArray
    documents: list[str]
    skipped: list[tuple[str, str]]
    meta: dict[str, str] = field(default_factory=dict)
    type: NDArray[np.int8] = field(init=False)
    document: Column = field(init=False)
    parent: Column = field(init=False)
    first: Column = field(init=False)
    last: Column = field(init=False)
    text: Column = field(init=False)

    def __post_init__(self) -> None:
        """Make each column of the table of nodes an attribute."""
        for name in NODES.names:
            setattr(self, name, self.nodes[name].to_numpy())

    @classmethod
    def from_nodes(
        cls,
        documents: list[Document],
        nodes: Iterable[DocumentNodes],
        meta: dict[str, str] | None = None,
    ) -> Graph:
        """Make the graph of several documents.

        Args:
            documents: The documents.
            nodes: The nodes of each, in the same order.
            meta: What the graph is built from.

        Raises:
            UnicodeEncodeError: A payload contains a lone surrogate.
        """
        rows: list[tuple[int, ...]] = []
        texts: dict[str, int] = {}
        skipped: list[tuple[str, str]] = []
        for number, (document, found) in enumerate(zip(documents, nodes, strict=True)):
            start = len(rows)
            for row in found.rows:
                parent = start + row.parent if row.parent >= 0 else -1
                text = texts.setdefault(row.payload, len(texts))
                values = (
                    row.type,
                    number,
                    parent,
                    row.first,
                    row.last,
                    text,
                )
                rows.append(values)
            skipped += [(document.id, reason) for reason in found.skipped]
        columns = np.array(rows, np.int32).reshape(-1, len(NODES)).T
        table = pa.table(list(columns), NODES.names).cast(NODES)
        payloads = pa.array(list(texts), pa.large_string())
        names = [document.id for document in documents]
        return cls(table, payloads, names, skipped, meta or {})

    def __len__(self) -> int:
        """Return the number of nodes."""
        return int(self.nodes.num_rows)

    @cached_property
    def edges(self) -> pa.Table:
        """All edges as (source, target, type), sorted by source, then target (Equation 2).

        The type is a position in EDGE_TYPES.
        """
        nodes = np.arange(len(self), dtype=np.int32)
        is_impl = self.type == IMPL
        is_block = self.type == BLOCK
        is_text = (self.type == PATH) | (self.type == PATHVALUE)
        # The blocks of a function follow its IMPL.
        impl = np.maximum.accumulate(np.where(is_impl, nodes, -1))
        is_nested_block = is_block & is_block[self.parent]
        parts = (
            (HAS_IMPL, self.parent, is_impl),
            (HAS_BLOCK, impl, is_block),
            (PARENT, self.parent, is_nested_block),
            (
                JSON_CHILD,
                self.parent,
                is_text & (self.parent >= 0),
            ),
        )
        tables = []
        for kind, source, mask in parts:
            targets = nodes[mask]
            types = np.full(len(targets), kind, np.int8)
            tables.append(pa.table([source[mask], targets, types], EDGES))
        order = [
            ("source", "ascending"),
            ("target", "ascending"),
        ]
        return pa.concat_tables(tables).combine_chunks().sort_by(order)

    def node_counts(self) -> dict[str, int]:
        """Count the nodes of each type that occurs."""
        return _counts(self.type, NODE_TYPES)

    def edge_counts(self) -> dict[str, int]:
        """Count the edges of each type that occurs."""
        return _counts(self.edges["type"].to_numpy(), EDGE_TYPES)

    def payload(self, node: int) -> str:
        """Return the text of a node (Equation 4).

        Args:
            node: The number of a node.

        Returns:
            The name of a NAME, the lines of an IMPL or BLOCK, the path of a PATH, or the path and
            the value of a PATHVALUE.
        """
        return str(self.texts[int(self.text[node])])

    def payloads(self, nodes: Iterable[int]) -> list[str]:
        """Return the texts of several nodes, which is faster than `payload` for each.

        Args:
            nodes: Numbers of nodes in any order; one may occur several times.

        Returns:
            One text per node, in their order.
        """
        positions = self.text[np.fromiter(nodes, np.int64)]
        texts: list[str] = self.texts.take(positions).to_pylist()
        return texts

    def of_type(self, kind: int) -> Nodes:
        """Return the nodes of one type.

        Args:
            kind: The type, as a position in NODE_TYPES.

        Returns:
            The nodes in ascending order, and so in the order of the documents; intp [m].
        """
        return np.flatnonzero(self.type == kind)

    def first_of_each_text(self, kind: int) -> Nodes:
        """Return the first node of each distinct text among the nodes of one type.

        These are the nodes to index: HNSW links equal vectors badly and misses what is behind them.

        Args:
            kind: The type, as a position in NODE_TYPES.

        Returns:
            The nodes in ascending order, intp [m].
        """
        nodes = self.of_type(kind)
        _, positions = np.unique(self.text[nodes], return_index=True)
        return nodes[np.sort(positions)]

    def descendants(self, node: int) -> range:
        """Return all nodes below a node, in source order.

        Args:
            node: The number of a node.

        Returns:
            The nodes, which directly follow it. The range is empty for a node that nothing is
            below.
        """
        stop = node + 1
        while stop < len(self) and self.parent[stop] >= node:
            stop += 1
        return range(node + 1, stop)

    def children(self, node: int) -> Nodes:
        """Return the nodes whose parent is a node.

        Args:
            node: The number of a node.

        Returns:
            A NAME's IMPL, an IMPL's body, the outermost blocks inside a block, or the members of a
            PATH, in source order; intp [m].
        """
        below = self.descendants(node)
        parents = self.parent[below.start : below.stop]
        return below.start + np.flatnonzero(parents == node)

    def branches(self, node: int) -> Nodes:
        """Return what pruning may remove (Equation 6).

        These are the children of a node. If the only child is the body of a function, or has the
        same text as the node, they are the children of that child.

        Args:
            node: The number of a node, usually an IMPL or BLOCK that was retrieved.

        Returns:
            The nodes in source order, intp [m]; empty if there is nothing to remove.
        """
        children = self.children(node)
        if len(children) != 1:
            return children
        child = int(children[0])
        is_whole = self.type[node] == IMPL or self.text[child] == self.text[node]
        return self.children(child) if is_whole else children

    def where(self, node: int) -> str:
        """Return the place of a node.

        Args:
            node: The number of a node.

        Returns:
            "document:first-last", with lines counted from 1 and the last one inclusive. In a text
            both are 0.
        """
        return f"{self.documents[self.document[node]]}:{self.first[node]}-{self.last[node]}"

    def subgraph(self, node: int) -> nx.DiGraph:
        """Return a node and all nodes below it with their edges (G_v* of Section 3.2).

        Args:
            node: The number of the node v*.

        Returns:
            A networkx graph with the attributes that `view` describes.
        """
        return self.view([node, *self.descendants(node)])

    def view(self, nodes: Iterable[int]) -> nx.DiGraph:
        """Return nodes and the edges among them as a networkx graph.

        The time grows only with the edges of these nodes.

        Args:
            nodes: Numbers of nodes. Edges to other nodes are left out.

        Returns:
            A graph whose keys are the nodes' numbers. Nodes have the attributes `type` (a name in
            NODE_TYPES), `first` and `last`; edges have the attribute `type` (a name in EDGE_TYPES).
        """
        import networkx as nx  # slow to import, and a search needs no view

        graph = nx.DiGraph()
        for node in map(int, nodes):
            first = int(self.first[node])
            last = int(self.last[node])
            graph.add_node(
                node,
                type=NODE_TYPES[self.type[node]],
                first=first,
                last=last,
            )
        sources = self.edges["source"].to_numpy()
        targets = self.edges["target"].to_numpy()
        kinds = self.edges["type"].to_numpy()
        inside = np.array(graph.nodes, sources.dtype)
        starts = np.searchsorted(sources, inside)
        stops = np.searchsorted(sources, inside, "right")
        for node, start, stop in zip(list(graph), starts, stops, strict=True):
            for i in range(start, stop):
                target = int(targets[i])
                if target in graph:
                    graph.add_edge(
                        node,
                        target,
                        type=EDGE_TYPES[kinds[i]],
                    )
        return graph


def _counts(
    kinds: NDArray[np.int8],
    names: tuple[str, ...],
) -> dict[str, int]:
    kinds, counts = np.unique(kinds, return_counts=True)
    return {names[kind]: int(n) for kind, n in zip(kinds, counts, strict=True)}


def build_code_graph(
    documents: list[Document],
    meta: dict[str, str] | None = None,
    processes: int = 1,
) -> Graph:
    """Build the graph of NAME, IMPL and BLOCK nodes of a corpus of code (Section 3.1.1).

    Args:
        documents: Python modules, or answers that contain Python.
        meta: What the graph is built from, such as the corpus and its digest.
        processes: Number of processes; the graph is the same for any number.

    Returns:
        The graph. Sources that do not parse are in its `skipped`.

    Raises:
        UserError: `processes` is less than 1, or a worker process died.
    """
    with paused_collector():
        return Graph.from_nodes(documents, scan(documents, processes), meta)
