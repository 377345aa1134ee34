"""Branch pruning (Equations 6 and 7): remove the branch that most lowers the cosine."""

import textwrap
from dataclasses import dataclass, replace

from pkg_lib.graph.code import parses
from pkg_lib.graph.schema import Graph
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.ranking import Vectors

GUARDED = "guarded"  # the whole node competes with its pruned forms, as in the authors' code
LITERAL = "paper-literal"  # Equation 7 as printed: one branch is always removed
UNPRUNED = "unpruned"  # no branch is removed
PRUNINGS = (GUARDED, LITERAL, UNPRUNED)
NO_BRANCH = -1


@dataclass(frozen=True, slots=True)
class Pruned:
    """A node's text without one of its branches.

    Attributes:
        text: The remaining text.
        score: Its cosine to the query.
        branch: The removed branch, or ``NO_BRANCH``.
    """

    text: str
    score: float
    branch: int = NO_BRANCH


def without_branch(
    graph: Graph,
    node: int,
    branch: int,
) -> str:
    """Remove a branch from a node's text (Equation 6).

    Args:
        graph: The graph of both.
        node: An IMPL or BLOCK node.
        branch: A node below it; ``NO_BRANCH`` removes nothing.

    Returns:
        The node's lines without those of the branch. A suite that would be empty gets a ``pass``,
        so that the text still parses.
    """
    payload = graph.payload(node)
    if branch == NO_BRANCH:
        return payload
    lines = payload.split("\n")
    start = graph.first[branch] - graph.first[node]
    stop = graph.last[branch] - graph.first[node] + 1
    rest = "\n".join(lines[:start] + lines[stop:])
    if parses(rest) or not parses(payload):
        return rest
    indent = lines[start].removesuffix(lines[start].lstrip())
    lines[start:stop] = [f"{indent}pass"]
    return "\n".join(lines)


def pruning_options(
    graph: Graph,
    node: int,
    query: Vectors,
    embedder: Embedder,
    pruning: str,
) -> list[Pruned]:
    """List what Equation 7 selects from.

    Args:
        graph: The graph of the node.
        node: An IMPL or BLOCK node.
        query: The query's unit vector [d].
        embedder: The embedder of the query.
        pruning: A name in ``PRUNINGS``.

    Returns:
        The node without each of its branches, in source order. The whole node comes first, except
        where ``LITERAL`` pruning has branches to select from.
    """
    branches = [] if pruning == UNPRUNED else graph.branches(node).tolist()
    if pruning != LITERAL or not branches:
        branches.insert(0, NO_BRANCH)
    texts = [without_branch(graph, node, branch) for branch in branches]
    scores = (embedder.encode(texts) @ query).tolist()
    return [Pruned(*option) for option in zip(texts, scores, branches, strict=True)]


def prune(
    graph: Graph,
    node: int,
    query: Vectors,
    embedder: Embedder,
    pruning: str = GUARDED,
) -> Pruned:
    """Select the form of a node that is closest to the query (Equation 7).

    Args:
        graph: The graph of the node.
        node: An IMPL or BLOCK node.
        query: The query's unit vector [d].
        embedder: The embedder of the query.
        pruning: A name in ``PRUNINGS``.

    Returns:
        The selected form, its text dedented. Among equal cosines the first option wins, so that the
        whole node is preferred to any branch.
    """
    options = pruning_options(graph, node, query, embedder, pruning)
    best = max(options, key=lambda option: option.score)
    return replace(best, text=textwrap.dedent(best.text))
