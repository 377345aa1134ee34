"""The type graph (Section C.1): types, and edges from the type that refers to another one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import networkx as nx

Mode = Literal["resolved", "as-published"]
MODES: tuple[Mode, ...] = ("resolved", "as-published")
LABELS = ("injects", "extends", "implements", "arguments", "provides", "depends_on")  # the last is LLM-KB's
Direction = Literal["successors", "predecessors"]


@dataclass(frozen=True, slots=True)
class TypeNode:
    """A type. `name` is the key of the graph: package and enclosing types in `resolved`, simple in
    `as-published`.

    `path` is the defining file, lines count from 1 (0: unknown).
    """

    name: str
    kind: str
    path: str
    first: int = 0
    last: int = 0

    @property
    def simple(self) -> str:
        return self.name.rpartition(".")[2].partition("#")[0]


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
        """Type -> the types that it refers to."""
        return _adjacent(self.edges)

    @cached_property
    def predecessors(self) -> dict[str, list[str]]:
        """Type -> the types that refer to it."""
        return _adjacent((b, a) for a, b in self.edges)

    @cached_property
    def by_path(self) -> dict[str, list[TypeNode]]:
        """File -> its types, in the order of the file."""
        found: dict[str, list[TypeNode]] = defaultdict(list)
        for node in sorted(self.nodes.values(), key=lambda n: (n.path, n.first, n.name)):
            found[node.path].append(node)
        return dict(found)

    def within(self, start: str, depth: int, direction: Direction) -> list[str]:
        """Succ or Pred(G, v, d) of Algorithm 1: types up to `depth` edges away, nearest first."""
        adjacent, seen, edge = getattr(self, direction), {start}, [start]
        found: list[str] = []
        for _ in range(depth):
            if not edge:
                break
            edge = [n for v in edge for n in adjacent.get(v, ()) if not (n in seen or seen.add(n))]
            found += edge
        return found

    def cycles(self, labels: Iterable[str] = ("extends", "implements")) -> list[list[str]]:
        """Groups of types that reach each other by these labels; of inheritance, where Java allows none."""
        wanted = set(labels)
        part = nx.DiGraph(pair for pair, found in self.edges.items() if wanted & set(found))
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


def _adjacent(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for a, b in sorted(pairs):
        found[a].append(b)
    return dict(found)


def ordered(mode: str, nodes: dict[str, TypeNode], edges: dict[tuple[str, str], set[str]]) -> TypeGraph:
    """A graph in sorted order."""
    labelled = {pair: tuple(label for label in LABELS if label in edges[pair]) for pair in sorted(edges)}
    return TypeGraph(mode, dict(sorted(nodes.items())), labelled)
