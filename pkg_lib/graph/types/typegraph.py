"""The type graph (Section C.1): types, and edges from the type that refers to another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import networkx as nx

MODES = ("resolved", "as-published")
LABELS = ("injects", "extends", "implements", "arguments", "provides", "depends_on")  # the last is LLM-KB's


def simple_name(name: str) -> str:
    """The last part of a type's name, without the number of a local class."""
    return name.rpartition(".")[2].partition("#")[0]


@dataclass(frozen=True, slots=True)
class TypeNode:
    """A type. `name`: with package and enclosing types in `resolved`, simple in `as-published`.

    `path` is the defining file, lines count from 1 (0: unknown).
    """

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
    """Nodes by name; edges (source, target) -> labels. All is in sorted order, whatever the run."""

    mode: str
    nodes: dict[str, TypeNode] = field(default_factory=dict)
    edges: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def node_counts(self) -> dict[str, int]:
        """Kind -> how many nodes, of the kinds that occur."""
        return dict(sorted(Counter(n.kind for n in self.nodes.values()).items()))

    def edge_counts(self) -> dict[str, int]:
        """Label -> how many edges; a pair with two labels is two edges."""
        return dict(sorted(Counter(label for labels in self.edges.values() for label in labels).items()))

    @cached_property
    def successors(self) -> dict[str, list[str]]:
        return _grouped(self.edges)

    @cached_property
    def predecessors(self) -> dict[str, list[str]]:
        return _grouped((b, a) for a, b in self.edges)

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
        return _grouped((n.simple, n.name) for n in self.nodes.values())

    def within(self, start: str, depth: int, direction: str) -> list[str]:
        """Succ or Pred(G, v, d) of Algorithm 1: types up to `depth` edges away, nearest first.

        `direction`: "successors" or "predecessors".
        """
        adjacent, seen, edge = getattr(self, direction), {start: None}, [start]
        while edge and depth > 0:
            around = (n for v in edge for n in adjacent.get(v, ()))
            edge, depth = list(dict.fromkeys(n for n in around if n not in seen)), depth - 1
            seen |= dict.fromkeys(edge)
        return list(seen)[1:]

    def cycles(self) -> list[list[str]]:
        """Groups of types that reach each other by inheritance, where Java allows none."""
        inherits = {"extends", "implements"}
        part = nx.DiGraph(pair for pair, labels in self.edges.items() if inherits & set(labels))
        groups = [sorted(g) for g in nx.strongly_connected_components(part) if len(g) > 1]
        return sorted(groups + [[a] for a, b in part.edges if a == b and not any(a in g for g in groups)])

    def nx(self) -> nx.DiGraph:
        """For networkx, as in the paper: `type` and `path` of nodes, `relation` of edges."""
        view = nx.DiGraph()
        view.add_nodes_from((n.name, {"type": n.kind, "path": n.path}) for n in self.nodes.values())
        view.add_edges_from(
            (a, b, {"relation": " and ".join(labels)}) for (a, b), labels in self.edges.items()
        )
        return view


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """First -> its seconds, all in sorted order."""
    return {a: [b for _, b in group] for a, group in groupby(sorted(pairs), key=lambda pair: pair[0])}


def ordered(mode: str, nodes: dict[str, TypeNode], edges: dict[tuple[str, str], set[str]]) -> TypeGraph:
    """A graph in sorted order."""
    labelled = {pair: tuple(label for label in LABELS if label in edges[pair]) for pair in sorted(edges)}
    return TypeGraph(mode, dict(sorted(nodes.items())), labelled)
