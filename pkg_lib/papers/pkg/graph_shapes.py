"""Degrees and levels of a graph's nodes, and the tree that is drawn as an example (Section 3.1)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from pkg_lib.analysis.figures import COLOURS, styled, ticks_inside
from pkg_lib.core.types import UserError
from pkg_lib.graph import schema
from pkg_lib.graph.schema import Graph
from pkg_lib.papers.pkg.graph_building import CorpusGraph

DEEP = 4  # levels of an example
SIZES = {schema.NAME: (6, 9), schema.PATH: (9, 16)}  # nodes of an example
# Edges that leave a node -> type of the edge, type of the node.
OUTGOING = {
    "blocks of a function": (schema.HAS_BLOCK, schema.IMPL),
    "blocks in a block": (schema.PARENT, schema.BLOCK),
    "children of a path": (schema.JSON_CHILD, schema.PATH),
}
# Type of a node -> levels of the nodes above all of that type.
ABOVE = {schema.BLOCK: 1, schema.PATHVALUE: 0}


def out_degrees(graph: Graph) -> dict[str, np.ndarray]:
    """Return the number of edges that leave each node.

    Args:
        graph: A graph of code or text.

    Returns:
        What the edges lead to -> number of them for each node; of the types that the graph has.
    """
    source = graph.edges["source"].to_numpy()
    kind = graph.edges["type"].to_numpy()
    degrees = {}
    for meaning, (edge_type, node_type) in OUTGOING.items():
        nodes = graph.of_type(node_type)
        if len(nodes):
            counts = np.bincount(source[kind == edge_type], minlength=len(graph))
            degrees[meaning] = counts[nodes]
    return degrees


def depths(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Return how deep each node is in its tree, and the root of that tree.

    Args:
        graph: A graph of code or text.

    Returns:
        Levels below the root and the root, both by node. A NAME or a whole document has level 0 and is
        its own root.
    """
    depth = np.zeros(len(graph), int)
    root = np.arange(len(graph))
    above = graph.parent.copy()
    inner = above >= 0
    while inner.any():
        depth += inner
        root = np.where(inner, above, root)
        above = np.where(inner, graph.parent[above], -1)
        inner = above >= 0
    return depth, root


def example_root(graph: Graph) -> int:
    """Choose the tree that is drawn as an example.

    Args:
        graph: A graph of code or text.

    Returns:
        The root of the tree: of a fair size (SIZES), then deep (up to DEEP levels), large, short, first.

    Raises:
        UserError: The graph has no nodes.
    """
    if not len(graph):
        raise UserError(
            "a graph without nodes cannot be drawn; choose one with functions or documents"
        )
    depth, root = depths(graph)
    roots = np.flatnonzero(graph.parent < 0)
    low, high = SIZES[int(graph.type[roots[0]])]
    size = np.bincount(root, minlength=len(graph))[roots]
    deepest = pd.Series(depth).groupby(root).max().reindex(roots).to_numpy()
    outside = np.maximum(low - size, 0) + np.maximum(size - high, 0)
    lines = (graph.last - graph.first)[roots]
    order = np.lexsort((roots, lines, -size, -np.minimum(deepest, DEEP), outside))
    return int(roots[order[0]])


@styled
def shapes_figure(built: Sequence[CorpusGraph]) -> Figure:
    """Draw the outgoing edges of the nodes (above) and their levels (below).

    Args:
        built: The graphs.
    """
    figure = Figure(figsize=(3.35, 4.2))
    upper = figure.add_axes((0.15, 0.62, 0.81, 0.28))
    lower = figure.add_axes((0.15, 0.21, 0.81, 0.28))
    _draw_degrees(upper, built)
    _draw_levels(lower, built)
    upper.grid(axis="y")
    lower.grid(axis="y")
    upper.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, handlelength=1.8)
    sns.move_legend(lower, "upper left", bbox_to_anchor=(0, -0.3), title=None)
    return figure


def _draw_degrees(axes: Axes, built: Sequence[CorpusGraph]) -> None:
    """Draw the share of nodes with at least so many outgoing edges."""
    degrees: list[tuple[str, np.ndarray]] = []
    for corpus_graph in built:
        degrees += out_degrees(corpus_graph.graph).items()
    looks = zip(COLOURS, ("-", "--", ":"), strict=False)
    for (meaning, degree), (colour, line) in zip(degrees, looks, strict=False):
        values = np.unique(degree[degree > 0])
        shares = [100 * (degree >= value).mean() for value in values]
        axes.plot(values, shares, line, color=colour, label=meaning, linewidth=1.2)
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="outgoing edges, at least", ylabel="nodes (%)")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        # 0.01 and not a power: its exponent would be too small to read.
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
        ticks_inside(axis)


def _draw_levels(axes: Axes, built: Sequence[CorpusGraph]) -> None:
    """Draw the share of blocks, and of a document's leaves, on each level."""
    rows = []
    for corpus_graph in built:
        graph = corpus_graph.graph
        depth, _ = depths(graph)
        for kind, above in ABOVE.items():
            name = f"{schema.NODE_TYPES[kind]}, {graph.meta['corpus']}"
            levels = depth[graph.of_type(kind)] - above
            rows += [(level, name) for level in levels]
    shares = pd.DataFrame(rows, columns=["level", "kind"])
    style: dict[str, Any] = {
        "discrete": True,
        "multiple": "dodge",
        "shrink": 0.8,
        "alpha": 1,
        "edgecolor": "white",
        "linewidth": 0.3,
        "stat": "percent",
        "common_norm": False,
        "palette": COLOURS[: shares["kind"].nunique()],
    }
    sns.histplot(shares, x="level", hue="kind", ax=axes, **style)
    axes.set(xlabel="level below the function or the document", ylabel="nodes (%)")
