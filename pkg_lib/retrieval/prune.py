"""Branch pruning (Equations 6 and 7): drop the branch whose removal brings the rest closest to q."""

import textwrap
from dataclasses import dataclass, replace

import numpy as np

from pkg_lib.graph.code import parses
from pkg_lib.graph.schema import PKG
from pkg_lib.retrieval.embed import Embedder

# As the authors do, the whole node competes; Equation 7 as printed, where a branch always goes; none goes.
GUARDED, LITERAL, UNPRUNED = PRUNINGS = ("guarded", "paper-literal", "unpruned")


@dataclass(frozen=True, slots=True)
class Pruned:
    """A node's text, its cosine to the query, the removed branch (-1: none was removed)."""

    text: str
    score: float
    branch: int = -1


def without(graph: PKG, node: int, branch: int) -> str:
    """phi(G minus T_u): the node's lines without the branch's; a suite left empty gets a `pass`, to parse."""
    lines = graph.payload(node).split("\n")
    start, stop = (
        graph.first[branch] - graph.first[node],
        graph.last[branch] - graph.first[node] + 1,
    )
    rest = "\n".join(lines[:start] + lines[stop:])
    if parses(rest) or not parses("\n".join(lines)):
        return rest
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    return "\n".join([*lines[:start], f"{indent}pass", *lines[stop:]])


def choices(
    graph: PKG, node: int, query: np.ndarray, embedder: Embedder, pruning: str
) -> list[Pruned]:
    """What Equation 7 chooses from for a unit vector [d]: the whole node (branch -1), or without each."""
    branches = [] if pruning == UNPRUNED else graph.branches(node).tolist()
    branches = branches if branches and pruning == LITERAL else [-1, *branches]
    texts = [without(graph, node, b) if b >= 0 else graph.payload(node) for b in branches]
    scores = embedder.encode(texts) @ query
    return [Pruned(t, float(s), b) for t, s, b in zip(texts, scores, branches, strict=True)]


def prune(
    graph: PKG, node: int, query: np.ndarray, embedder: Embedder, pruning: str = GUARDED
) -> Pruned:
    """The highest score for one node; the first among equals wins, so the whole before any branch."""
    best = max(choices(graph, node, query, embedder, pruning), key=lambda p: p.score)
    return replace(best, text=textwrap.dedent(best.text))
