"""Branch pruning (Section 3.2, Equations 6 and 7): drop the one child branch whose removal brings the rest closest to q."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import numpy as np

from pkg_lib.graph.code import parses
from pkg_lib.graph.schema import PKG
from pkg_lib.retrieval.embed import Embedder


@dataclass(frozen=True, slots=True)
class Pruned:
    """The serialised graph: its text, its cosine to the query, the removed branch (-1: the node has none)."""

    text: str
    score: float
    branch: int = -1


def without(graph: PKG, node: int, branch: int) -> str:
    """phi(G minus T_u): the node's lines without the branch's lines.

    A suite that the removal leaves empty gets a `pass`, so that the text parses where the original did.
    """
    lines = graph.payload(node).split("\n")
    start, stop = graph.first[branch] - graph.first[node], graph.last[branch] - graph.first[node] + 1
    rest = "\n".join(lines[:start] + lines[stop:])
    if parses(rest) or not parses("\n".join(lines)):
        return rest
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    return "\n".join([*lines[:start], f"{indent}pass", *lines[stop:]])


def prune(graph: PKG, node: int, query: np.ndarray, embedder: Embedder) -> Pruned:
    """Equation 7 for one retrieved node; always removes one branch where there is one, as the paper's argmax does.

    `query` is the unit vector [d] of the task.
    """
    branches = [int(c) for c in graph.children(node)]
    texts = [without(graph, node, b) for b in branches] or [graph.payload(node)]
    scores = embedder.encode(texts) @ query
    best = int(scores.argmax())
    return Pruned(textwrap.dedent(texts[best]), float(scores[best]), branches[best] if branches else -1)
