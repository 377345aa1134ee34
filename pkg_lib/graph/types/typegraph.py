"""The type graph (Section C.1): Java types and the references among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

import networkx as nx

MODES = ("resolved", "as-published")
# The last label is used by LLM-KB only.
LABELS = (
    "injects",
    "extends",
    "implements",
    "arguments",
    "provides",
    "depends_on",
)
_INHERITANCE = {"extends", "implements"}


def simple_name(name: str) -> str:
    """Return the last part of a type's name, without the number of a local class.

    Args:
        name: A full or simple name, such as "org.shop.Outer.Local#2".

    Returns:
        The name as it is written in the declaration, such as "Local".
    """
    return name.rpartition(".")[2].partition("#")[0]


@dataclass(frozen=True, slots=True)
class TypeNode:
    """A type.

    Attributes:
        name: Its full name; in the mode as-published its simple name.
        kind: class, interface, enum, record or annotation.
        path: Printable path of its file.
        first: First line, counted from 1; 0 if unknown.
        last: Last line, inclusive; 0 if unknown.
    """

    name: str
    kind: str
    path: str
    first: int = 0
    last: int = 0

    @property
    def simple(self) -> str:
        """The simple name."""
        return simple_name(self.name)


@dataclass
class TypeGraph:
    """Types and the references among them.

    Attributes:
        mode: How names were resolved, one of MODES.
        nodes: The types by name, in sorted order.
        edges: The labels of each (source, target), in sorted order.
    """

    mode: str
    nodes: dict[str, TypeNode] = field(default_factory=dict)
    edges: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        mode: str,
        nodes: Mapping[str, TypeNode],
        edges: Mapping[tuple[str, str], Set[str]],
    ) -> TypeGraph:
        """Make a graph with nodes, edges and labels in their order.

        Args:
            mode: How names were resolved: one of MODES, or "llm-kb" for a graph that a model
                extracted.
            nodes: The types by name, in any order.
            edges: The labels of each (source, target). Both must be names in `nodes`, and only
                LABELS are kept.

        Returns:
            A new graph, whose nodes and edges are sorted.
        """
        graph = cls(mode, dict(sorted(nodes.items())))
        for pair, labels in sorted(edges.items()):
            graph.edges[pair] = tuple(label for label in LABELS if label in labels)
        return graph

    def node_counts(self) -> dict[str, int]:
        """Count the nodes of each kind that occurs."""
        counts = Counter(node.kind for node in self.nodes.values())
        return dict(sorted(counts.items()))

    def edge_counts(self) -> dict[str, int]:
        """Count the edges of each label that occurs; a pair with two labels is two edges."""
        counts = Counter[str]()
        for labels in self.edges.values():
            counts.update(labels)
        return dict(sorted(counts.items()))

    @cached_property
    def digraph(self) -> nx.DiGraph:
        """The graph for networkx, as in the paper.

        Nodes have the attributes `type` and `path`, edges the attribute `relation`.
        """
        graph = nx.DiGraph()
        for node in self.nodes.values():
            graph.add_node(node.name, type=node.kind, path=node.path)
        for (source, target), labels in self.edges.items():
            graph.add_edge(source, target, relation=" and ".join(labels))
        return graph

    @cached_property
    def by_path(self) -> dict[str, list[TypeNode]]:
        """The types of each file, in the order of the file."""
        types: dict[str, list[TypeNode]] = {}
        in_order = attrgetter("path", "first", "name")
        for node in sorted(self.nodes.values(), key=in_order):
            types.setdefault(node.path, []).append(node)
        return types

    def within_lines(self, path: str, first: int, last: int) -> list[TypeNode]:
        """Find the types of a file that overlap lines.

        Args:
            path: Path of the file, as in `TypeNode.path`.
            first: First line, counted from 1.
            last: Last line, inclusive.

        Returns:
            The types in the order of the file, outer types before those inside them. A type whose
            end is unknown counts if it does not begin after `last`. Empty for a file without types.
        """
        types = self.by_path.get(path, [])
        return [n for n in types if n.first <= last and first <= (n.last or first)]

    @cached_property
    def by_simple(self) -> dict[str, list[str]]:
        """The full names of each simple name."""
        names: dict[str, list[str]] = {}
        for name in sorted(self.nodes, key=simple_name):
            names.setdefault(simple_name(name), []).append(name)
        return names

    def within(self, start: str, depth: int, direction: str) -> list[str]:
        """Return Succ or Pred of Algorithm 1.

        Args:
            start: Name of a type.
            depth: Largest number of edges.
            direction: "successors", or anything else for predecessors.

        Returns:
            Names of the types up to `depth` edges away, nearest first.
        """
        graph = self.digraph if direction == "successors" else self.digraph.reverse(copy=False)
        return list(nx.single_source_shortest_path_length(graph, start, depth))[1:]

    def cycles(self) -> list[list[str]]:
        """Return groups of types that inherit from each other, which Java does not allow."""
        inheritance = nx.DiGraph()
        for pair, labels in self.edges.items():
            if not _INHERITANCE.isdisjoint(labels):
                inheritance.add_edge(*pair)
        groups = map(
            sorted,
            nx.strongly_connected_components(inheritance),
        )
        loops = set(nx.nodes_with_selfloops(inheritance))
        return sorted(group for group in groups if len(group) > 1 or group[0] in loops)
