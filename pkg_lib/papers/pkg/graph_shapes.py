"""Degrees and levels of a graph's nodes, and the tree that is drawn as an example (Section 3.1)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from pkg_lib.analysis.figures import COLOURS, WIDTH, HouseFigure, styled, ticks_inside
from pkg_lib.core.types import UserError
from pkg_lib.graph import schema
from pkg_lib.graph.schema import Graph
from pkg_lib.papers.pkg.graph_building import CorpusGraph

LINES = ("-", "--", ":")
DEEP = 4  # levels of an example
# Fewest and most nodes of an example.
SIZES = {
    schema.NAME: (6, 9),
    schema.PATH: (9, 16),
}
# Edges that leave a node -> type of the edge, type of the node.
OUTGOING = {
    "blocks of a function": (schema.HAS_BLOCK, schema.IMPL),
    "blocks in a block": (schema.PARENT, schema.BLOCK),
    "children of a path": (schema.JSON_CHILD, schema.PATH),
}
# Type of a node -> levels of the nodes above all of that type.
ABOVE = {
    schema.BLOCK: 1,
    schema.PATHVALUE: 0,
}


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
        if not len(nodes):
            continue
        sources = source[kind == edge_type]
        counts = np.bincount(sources, minlength=len(graph))
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
        next_above = graph.parent[above]
        above = np.where(inner, next_above, -1)
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
    by_root = pd.Series(depth).groupby(root)
    columns = {
        "size": by_root.size(),
        "deepest": by_root.max(),
    }
    trees = pd.DataFrame(columns)
    roots = trees.index
    kind = int(graph.type[roots[0]])
    low, high = SIZES[kind]
    fair_size = trees["size"].clip(low, high)
    lines = graph.last - graph.first
    distance = trees["size"] - fair_size
    trees["outside"] = distance.abs()
    trees["shallow"] = -trees["deepest"].clip(upper=DEEP)
    trees["small"] = -trees["size"]
    trees["lines"] = lines[roots]
    trees["root"] = roots
    ordered = trees.sort_values(["outside", "shallow", "small", "lines", "root"])
    return int(ordered["root"].iloc[0])


@styled
def shapes_figure(built: Sequence[CorpusGraph]) -> Figure:
    """Draw the outgoing edges of the nodes (above) and their levels (below).

    Args:
        built: The graphs.

    Returns:
        A figure of one text column.
    """
    figure = HouseFigure(figsize=(WIDTH, 4.2))
    upper_box = (0.15, 0.62, 0.81, 0.28)
    lower_box = (0.15, 0.21, 0.81, 0.28)
    upper = figure.add_axes(upper_box)
    lower = figure.add_axes(lower_box)
    _draw_degrees(upper, built)
    _draw_levels(lower, built)
    for axes in (upper, lower):
        axes.grid(axis="y")
    above = (0, 1)
    below = (0, -0.3)
    upper.legend(loc="lower left", bbox_to_anchor=above, ncols=2, handlelength=1.8)
    sns.move_legend(lower, "upper left", bbox_to_anchor=below, title=None)
    return figure


def _draw_degrees(axes: Axes, built: Sequence[CorpusGraph]) -> None:
    """Draw the share of nodes with at least so many outgoing edges."""
    degrees: list[tuple[str, np.ndarray]] = []
    for corpus_graph in built:
        graph_degrees = out_degrees(corpus_graph.graph)
        degrees += graph_degrees.items()
    looks = zip(degrees, COLOURS, LINES, strict=False)
    for (meaning, degree), colour, line in looks:
        has_edges = degree > 0
        values = np.unique(degree[has_edges])
        shares = [100 * (degree >= value).mean() for value in values]
        axes.plot(values, shares, line, color=colour, label=meaning, linewidth=1.2)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="outgoing edges, at least",
        ylabel="nodes (%)",
    )
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
            node_type = schema.NODE_TYPES[kind]
            name = f"{node_type}, {graph.meta['corpus']}"
            nodes = graph.of_type(kind)
            levels = depth[nodes] - above
            rows += [(level, name) for level in levels]
    shares = pd.DataFrame(rows, columns=["level", "kind"])
    kinds = shares["kind"].nunique()
    style: dict[str, Any] = {
        "discrete": True,
        "multiple": "dodge",
        "shrink": 0.8,
        "alpha": 1,
        "edgecolor": "white",
        "linewidth": 0.3,
        "stat": "percent",
        "common_norm": False,
        "palette": COLOURS[:kinds],
    }
    sns.histplot(shares, x="level", hue="kind", ax=axes, **style)
    axes.set(xlabel="level below the function or the document", ylabel="nodes (%)")
