"""The type graph (Section C.1): types, and edges from the type that refers to another one."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import networkx as nx

MODES = ("resolved", "as-published")
LABELS = (
    "injects",
    "extends",
    "implements",
    "arguments",
    "provides",
    "depends_on",
)  # the last is LLM-KB's


def simple_name(name: str) -> str:
    """The last part of a type's name, without the number of a local class."""
    return name.rpartition(".")[2].partition("#")[0]


@dataclass(frozen=True, slots=True)
class TypeNode:
    """A type. `name`: full in `resolved`, simple in `as-published`; lines count from 1 (0: unknown)."""

    name: str
    kind: str
    path: str
    first: int = 0
    last: int = 0

    @property
    def simple(self) -> str:
        return simple_name(self.name)


@dataclass
class TypeGraph:
    """Nodes by name; edges (source, target) -> labels; both in sorted order."""

    mode: str
    nodes: dict[str, TypeNode] = field(default_factory=dict)
    edges: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def node_counts(self) -> dict[str, int]:
        """Kind -> how many nodes, of the kinds that occur."""
        return dict(sorted(Counter(n.kind for n in self.nodes.values()).items()))

    def edge_counts(self) -> dict[str, int]:
        """Label -> how many edges; a pair with two labels is two edges."""
        return dict(
            sorted(Counter(label for labels in self.edges.values() for label in labels).items())
        )

    @cached_property
    def digraph(self) -> nx.DiGraph:
        """For networkx, as in the paper: `type` and `path` of nodes, `relation` of edges."""
        graph = nx.DiGraph()
        graph.add_nodes_from(
            (n.name, {"type": n.kind, "path": n.path}) for n in self.nodes.values()
        )
        graph.add_edges_from(
            (*pair, {"relation": " and ".join(of)}) for pair, of in self.edges.items()
        )
        return graph

    @cached_property
    def by_path(self) -> dict[str, list[TypeNode]]:
        """File -> its types, in the order of the file."""
        nodes = sorted(self.nodes.values(), key=lambda n: (n.path, n.first, n.name))
        return {path: list(group) for path, group in groupby(nodes, key=lambda n: n.path)}

    def within_lines(self, path: str, first: int, last: int) -> list[TypeNode]:
        """The types of a file that have lines from `first` to `last`, or lines that are not known."""
        types = self.by_path.get(path, [])
        return [n for n in types if n.first <= last and first <= (n.last or first)]

    @cached_property
    def by_simple(self) -> dict[str, list[str]]:
        """Simple name -> the full names of its types."""
        names = sorted(self.nodes, key=simple_name)
        return {simple: list(group) for simple, group in groupby(names, simple_name)}

    def within(self, start: str, depth: int, direction: str) -> list[str]:
        """Succ ("successors") or Pred of Algorithm 1: types up to `depth` edges away, nearest first."""
        graph = self.digraph if direction == "successors" else self.digraph.reverse(copy=False)
        return list(nx.single_source_shortest_path_length(graph, start, depth))[1:]

    def cycles(self) -> list[list[str]]:
        """Groups of types that reach each other by inheritance, where Java allows none."""
        inherits = {"extends", "implements"}
        part = nx.DiGraph(pair for pair, labels in self.edges.items() if inherits & set(labels))
        groups = nx.strongly_connected_components(part)
        return sorted(sorted(g) for g in groups if len(g) > 1 or part.has_edge(*g, *g))


def ordered(
    mode: str, nodes: dict[str, TypeNode], edges: dict[tuple[str, str], set[str]]
) -> TypeGraph:
    """A graph in sorted order."""
    labelled = {
        pair: tuple(label for label in LABELS if label in edges[pair]) for pair in sorted(edges)
    }
    return TypeGraph(mode, dict(sorted(nodes.items())), labelled)
