"""Figures of graphs: degree and depth distributions, one tree drawn with its nodes' texts, and what pruning weighs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import networkx as nx
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from pkg_lib.analysis.figures import COLOURS, INK, QUIET, beside, hex_colour, row_axes, styled, ticks_inside
from pkg_lib.analysis.tables import LOWER
from pkg_lib.core.types import UserError
from pkg_lib.graph.schema import (
    BLOCK,
    HAS_BLOCK,
    IMPL,
    JSON_CHILD,
    NAME,
    NODE_TYPES,
    PARENT,
    PATH,
    PATHVALUE,
    PKG,
)
from pkg_lib.graph.text.documents import deserialize, steps
from pkg_lib.retrieval.explain import Explanation, first_line

# Okabe and Ito's colours; marker and line style say the same without colour.
NODE_LOOK = {
    "NAME": ("D", "#E69F00"),
    "IMPL": ("s", "#0072B2"),
    "BLOCK": ("o", "#009E73"),
    "PATH": ("s", "#0072B2"),
    "PATHVALUE": ("o", "#E69F00"),
}
PRUNED_LOOK = ("X", hex_colour(LOWER))
EDGE_LOOK = {
    "HAS_IMPL": (":", INK),
    "HAS_BLOCK": ("--", "#0072B2"),
    "PARENT": ("-", INK),
    "JSON_CHILD": ("-", INK),
}
LINES = (("#0072B2", "-"), ("#E69F00", "--"), ("#009E73", ":"))
MONO, POINTS = {"family": "DejaVu Sans Mono", "fontsize": 7}, 7 * 0.602  # the width of one letter of it
STEP, WIDTH = 13.0, 3.35 * 72 - 6  # points: one level to the right; the drawing
DEEP = 4
SIZES = {NAME: (6, 9), PATH: (9, 16)}  # nodes of a tree that is worth drawing


def depths(graph: PKG) -> tuple[np.ndarray, np.ndarray]:
    """(levels below its root, root) of each node; 0 and itself for a NAME or a whole document."""
    depth, root = np.zeros(len(graph), np.int32), np.arange(len(graph))
    above = graph.parent.copy()
    while (inner := above >= 0).any():
        depth += inner
        root = np.where(inner, above, root)
        above = np.where(inner, graph.parent[above], -1)
    return depth, root


def out_degrees(graph: PKG) -> dict[str, np.ndarray]:
    """Edges that leave each node, by what they are; of the types that the graph has."""
    source, kind = graph.edges["source"].to_numpy(), graph.edges["type"].to_numpy()
    found = {}
    for name, edge, node in (
        ("blocks of a function", HAS_BLOCK, IMPL),
        ("blocks in a block", PARENT, BLOCK),
        ("children of a path", JSON_CHILD, PATH),
    ):
        if len(nodes := graph.of_type(node)):
            found[name] = np.bincount(source[kind == edge], minlength=len(graph))[nodes]
    return found


@styled
def distributions(graphs: Mapping[str, PKG]) -> Figure:
    """Above: share of nodes with at least so many outgoing edges. Below: share of BLOCKs and leaves on each level."""
    figure = Figure(figsize=(3.35, 4.2))
    upper = figure.add_axes((0.15, 0.62, 0.81, 0.28))
    lower = figure.add_axes((0.15, 0.21, 0.81, 0.28))
    degrees = {name: d for graph in graphs.values() for name, d in out_degrees(graph).items()}
    for (name, found), (colour, style) in zip(degrees.items(), LINES, strict=False):
        values = np.unique(found[found > 0])
        upper.plot(
            values,
            [100 * (found >= v).mean() for v in values],
            style,
            color=colour,
            label=name,
            linewidth=1.2,
        )
    upper.set(xscale="log", yscale="log", xlabel="outgoing edges, at least", ylabel="nodes (%)")
    upper.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (upper.xaxis, upper.yaxis):  # 0.01 and not a power: its exponent would be too small to read
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
        ticks_inside(axis)
    levels = {}
    for name, graph in graphs.items():
        depth, _ = depths(graph)
        for kind, above in ((BLOCK, 1), (PATHVALUE, 0)):
            if len(nodes := graph.of_type(kind)):
                levels[f"{NODE_TYPES[kind]}, {name}"] = depth[nodes] - above
    rows = pd.concat([pd.DataFrame({"level": found, "kind": name}) for name, found in levels.items()])
    sns.histplot(
        rows,
        x="level",
        hue="kind",
        palette=COLOURS[: len(levels)],
        discrete=True,
        stat="percent",
        common_norm=False,
        multiple="dodge",
        shrink=0.8,
        alpha=1,
        edgecolor="white",
        linewidth=0.3,
        ax=lower,
    )
    lower.set(xlabel="level below the function or the document", ylabel="nodes (%)")
    first, last = min(map(np.min, levels.values())), max(map(np.max, levels.values()))
    lower.set_xticks(range(int(first), int(last) + 1, 1 + int(last - first) // 12))
    for axes in (upper, lower):
        axes.grid(axis="y")
        axes.set_title(" ")
    figure.legend(
        *upper.get_legend_handles_labels(), loc="upper left", ncols=2, borderaxespad=0.2, handlelength=1.8
    )
    sns.move_legend(
        lower,
        "lower left",
        bbox_to_anchor=(0, 0),
        bbox_transform=figure.transFigure,
        title=None,
        borderaxespad=0.2,
    )
    return figure


def example(graph: PKG) -> int:
    """The root of the tree to draw: of a fair size, of DEEP levels or nearly, then the largest, the shortest, the first.

    UserError for a graph without nodes.
    """
    if not len(graph):
        raise UserError(
            "a graph without nodes cannot be drawn; choose a corpus with functions, or with documents"
        )
    depth, root = depths(graph)
    roots = np.flatnonzero(graph.parent < 0)
    low, high = SIZES[int(graph.type[roots[0]])]
    size = np.bincount(root, minlength=len(graph))[roots]
    deepest = np.zeros(len(graph), np.int32)
    np.maximum.at(deepest, root, depth)
    outside = np.maximum(low - size, 0) + np.maximum(size - high, 0)
    lines = (graph.last - graph.first)[roots]
    return int(roots[np.lexsort((roots, lines, -size, -np.minimum(deepest[roots], DEEP), outside))[0]])


def labels(graph: PKG, root: int) -> dict[int, str]:
    """Node -> what is written beside it: the statement's first line, or the last step of the path and the value."""
    return {v: _label(graph, v) for v in (root, *graph.descendants(root))}


def _label(graph: PKG, node: int) -> str:
    if graph.type[node] in (IMPL, BLOCK):
        return first_line(graph, node)
    text = graph.payload(node)
    if graph.type[node] == NAME:
        return text
    path, value = deserialize(text) if graph.type[node] == PATHVALUE else (text, None)
    way = steps(path)
    step = f"[{way[-1]}]" if way and isinstance(way[-1], int) else str(way[-1]) if way else "(document)"
    return step if value is None else f"{step} = {' '.join(str(value).split())}"


def layers(view: nx.DiGraph) -> dict[int, tuple[int, int]]:
    """Node -> (its level, its row): one row a node, children below their parent, each level further to the right.

    The parent is the nearest one: a block's own, where it has one beside its function's.
    """
    found: dict[int, tuple[int, int]] = {}
    for row, node in enumerate(sorted(view)):  # nodes are numbered in source order, parents first
        found[node] = (found[parent][0] + 1 if (parent := nearest(view, node)) is not None else 0, row)
    return found


def nearest(view: nx.DiGraph, node: int) -> int | None:
    return max(view.predecessors(node), default=None)


@styled
def tree(view: nx.DiGraph, texts: Mapping[int, str], title: str, pruned: Collection[int] = ()) -> Figure:
    """All nodes and edges of a small tree, each node with its text; nothing can overlap, since a row holds one node.

    What pruning took out is crossed and grey.
    """
    places = layers(view)
    types = {
        t: None for t in dict.fromkeys(NODE_TYPES) if t in set(nx.get_node_attributes(view, "type").values())
    }
    tall = 0.165 * len(places) + 0.62
    figure = Figure(figsize=(3.35, tall))
    axes = figure.add_axes((0.02, 0.4 / tall, 0.96, 0.165 * len(places) / tall))
    axes.set(xlim=(-5, WIDTH - 5), ylim=(len(places) - 0.5, -0.5))
    axes.set_axis_off()
    edges = nx.get_edge_attributes(view, "type")
    for (a, b), kind in edges.items():
        _elbow(axes, places[a], places[b], kind, beside=a != nearest(view, b))
    for node, (level, row) in places.items():
        marker, colour = PRUNED_LOOK if node in pruned else NODE_LOOK[view.nodes[node]["type"]]
        axes.plot(STEP * level, row, marker, color=colour, markersize=4.5, zorder=3)
        room = int((WIDTH - 5 - STEP * level - 7) / POINTS)
        axes.text(
            STEP * level + 6,
            row,
            _short(texts[node], room),
            va="center_baseline",
            parse_math=False,
            color=QUIET if node in pruned else "black",
            **MONO,
        )
    figure.text(0.02, 1 - 0.14 / tall, _short(title, 52), va="center", fontsize=8)
    look = {"linestyle": "none", "markersize": 4.5}
    shown = [Line2D([], [], marker=NODE_LOOK[t][0], color=NODE_LOOK[t][1], label=t, **look) for t in types]
    shown += [
        Line2D([], [], linestyle=EDGE_LOOK[k][0], color=EDGE_LOOK[k][1], label=k, linewidth=0.9)
        for k in EDGE_LOOK
        if k in edges.values()
    ]
    if pruned:
        shown.append(Line2D([], [], marker=PRUNED_LOOK[0], color=PRUNED_LOOK[1], label="pruned", **look))
    figure.legend(handles=shown, loc="lower left", ncols=3, borderaxespad=0.2, handlelength=1.8)
    return figure


def _elbow(axes: Axes, start: tuple[int, int], end: tuple[int, int], kind: str, beside: bool) -> None:
    """Down from the parent, then right to the child; an edge from further up runs beside the nearest parent's."""
    style, colour = EDGE_LOOK[kind]
    x, y = STEP * start[0], end[1] - (0.2 if beside else 0)
    axes.plot(
        [x, x, STEP * end[0] - (3 if beside else 0)],
        [start[1], y, y],
        style,
        color=colour,
        linewidth=0.8,
        zorder=1,
    )


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


@styled
def branch_scores(found: Explanation) -> Figure:
    """The cosine of what remains without each branch of the best node; the dashed line is the whole node's."""
    branches = found.branches
    figure, axes = row_axes(max(1, len(branches)), 0.26, legend=0.2, left=1.45, right=0.46)
    for place, branch in enumerate(branches):
        gone = branch.node == found.removed
        look = (
            {"marker": "X", "markersize": 6, "color": hex_colour(LOWER)}
            if gone
            else {"marker": "o", "color": "#0072B2"}
        )
        axes.plot([found.whole, branch.score], [place, place], color=QUIET, linewidth=0.8, zorder=1)
        axes.plot(branch.score, place, linestyle="none", label="removed" if gone else None, **look)
        beside(axes, place, f"{branch.score:.3f}")
    axes.axvline(found.whole, color=INK, linestyle="--", linewidth=0.9, label=f"whole: {found.whole:.3f}")
    scores = [found.whole, *(b.score for b in branches)]
    edge = 0.02 + 0.1 * (max(scores) - min(scores))
    low, high = min(scores) - edge, max(scores) + edge
    axes.set(xlim=(low, high), xlabel="cosine without the branch")
    axes.locator_params(axis="x", nbins=4)
    ticks_inside(axes.xaxis)
    names = [f"{b.first}-{b.last}: {b.line}" for b in branches] or ["no branch"]
    axes.set_yticks(range(len(names)), [_short(n, 24) for n in names], parse_math=False, **MONO)
    axes.set_title(_short(found.chosen.function, 36), loc="left")
    figure.legend(loc="lower left", ncols=2, borderaxespad=0.2, handlelength=1.6)
    return figure
