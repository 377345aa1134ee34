"""Draw a tree of a graph with the texts of its nodes: a function, a document, or what was retrieved."""

import base64
import io
from collections.abc import Collection
from typing import Any

import matplotlib.style
import networkx as nx
from matplotlib.figure import Figure

from pkg_lib.analysis.figures import COLOURS, INK, QUIET, STYLE, HouseFigure, legend_below, styled
from pkg_lib.analysis.tables import LOWER
from pkg_lib.graph.schema import BLOCK, IMPL, NAME, PATHVALUE, Graph
from pkg_lib.graph.text.documents import deserialize, steps
from pkg_lib.retrieval.explain import first_line
from pkg_lib.retrieval.trace import Traced

BLUE, ORANGE, GREEN, _ = COLOURS  # marker and line style say the same without colour
NODES = {
    "NAME": ("D", ORANGE),
    "IMPL": ("s", BLUE),
    "BLOCK": ("o", GREEN),
    "PATH": ("s", BLUE),
    "PATHVALUE": ("o", ORANGE),
    "pruned": ("X", LOWER),
}
EDGES = {
    "HAS_IMPL": (":", INK),
    "HAS_BLOCK": ("--", BLUE),
    "PARENT": ("-", INK),
    "JSON_CHILD": ("-", INK),
}
MONO: dict[str, Any] = {
    "family": "DejaVu Sans Mono",
    "fontsize": 7,
    "va": "center_baseline",
    "parse_math": False,
}
LETTER = 7 * 0.602  # width of a letter, in points
STEP = 13.0  # indentation of one level, in points
WIDTH = 3.35 * 72 - 6  # width of the drawing, in points
ROW = 0.165  # height of a row, in inches
MARGIN = 0.62  # height of the title and the legend, in inches
MOST = 40  # nodes that are drawn


def label(graph: Graph, node: int) -> str:
    """Return the text beside a node.

    Args:
        graph: The graph.
        node: One of its nodes.

    Returns:
        The first line of a statement, a name, or the last step of a path with its value.
    """
    kind = graph.type[node]
    if kind in (IMPL, BLOCK):
        return first_line(graph, node)
    text = graph.payload(node)
    if kind == NAME:
        return text
    path = text
    value = None
    if kind == PATHVALUE:
        path, value = deserialize(text)
    way = steps(path) or ["(document)"]
    last = way[-1]
    step = str(last)
    if isinstance(last, int):
        step = f"[{last}]"
    if value is None:
        return step
    words = str(value).split()
    return f"{step} = {' '.join(words)}"


@styled
def tree(graph: Graph, view: nx.DiGraph, title: str, pruned: Collection[int] = ()) -> Figure:
    """Draw a small tree with one node per row.

    A node is below its nearest parent and one level to the right.

    Args:
        graph: The graph.
        view: The part of it that is drawn.
        title: The title.
        pruned: The nodes that are crossed.

    Returns:
        A figure of one text column.
    """
    nearest: dict[int, int | None] = {}
    for node in sorted(view):
        nearest[node] = max(view.predecessors(node), default=None)
    levels: dict[int | None, int] = {None: -1}
    rows: dict[int, int] = {}
    for row, (node, parent) in enumerate(nearest.items()):  # parents precede their children
        levels[node] = levels[parent] + 1
        rows[node] = row
    height = ROW * len(view) + MARGIN
    figure = HouseFigure(figsize=(3.35, height))
    box = (0.02, 0.4 / height, 0.96, 1 - MARGIN / height)
    axes = figure.add_axes(box)
    axes.set(xlim=(-5, WIDTH - 5), ylim=(len(view) - 0.5, -0.5))
    axes.set_axis_off()
    node_types = nx.get_node_attributes(view, "type")
    for node, kind in node_types.items():
        x = STEP * levels[node]
        is_pruned = node in pruned
        look = kind
        if is_pruned:
            look = "pruned"
        marker, colour = NODES[look]
        axes.plot(x, rows[node], marker, color=colour, markersize=4.5, zorder=3, label=look)
        room = WIDTH - 12 - x
        text = _fitted(label(graph, node), int(room / LETTER))
        text_colour = QUIET if is_pruned else "black"
        axes.text(x + 6, rows[node], text, color=text_colour, **MONO)
    edge_types = nx.get_edge_attributes(view, "type")
    for (above, below), kind in edge_types.items():
        # An edge from further up runs beside the edge of the nearest parent.
        aside = above != nearest[below]
        x = STEP * levels[above]
        y = rows[below] - 0.2 * aside
        end = STEP * levels[below] - 3 * aside
        style, colour = EDGES[kind]
        start = rows[above]
        axes.plot(
            [x, x, end],
            [start, y, y],
            style,
            color=colour,
            lw=0.8,
            zorder=1,
            label=kind,
        )
    shown_title = _fitted(title, 52)
    figure.text(0.02, 1 - 0.14 / height, shown_title, va="center", fontsize=8)
    legend_below(axes, ncols=3, handlelength=1.8)
    return figure


def _fitted(text: str, room: int) -> str:
    """Cut a text to a number of letters, and replace control characters, which SVG does not allow."""
    printable = [c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text]
    shown = "".join(printable)
    if len(shown) <= room:
        return shown
    beginning = shown[: room - 1].rstrip()
    return beginning + "…"


@styled
def subgraph(traced: Traced) -> Figure:
    """Draw the retrieved node with all nodes below it; the pruned ones are crossed.

    A PATHVALUE node is drawn with its path.

    Args:
        traced: A context's place in a graph.

    Returns:
        The figure.

    Raises:
        ValueError: The context is a whole row, which has no subgraph.
    """
    graph, node = traced.graph, traced.node
    if graph is None:
        raise ValueError("a whole row has no subgraph")
    nodes = [node, *graph.descendants(node)]
    if graph.type[node] == PATHVALUE:
        parent = int(graph.parent[node])
        while parent >= 0:
            nodes.insert(0, parent)
            parent = int(graph.parent[parent])
    document = graph.document[node]
    title = graph.documents[document]
    if graph.last[node]:
        title = graph.where(node)
    if len(nodes) > MOST:
        title += f" ({MOST} of {len(nodes)} nodes)"
    drawn = nodes[:MOST]
    pruned = traced.gone.intersection(drawn)
    view = graph.view(drawn)
    return tree(graph, view, title, pruned)


def inline(figure: Figure) -> str:
    """Write a figure as the address of an SVG image.

    Equal figures give equal addresses. A browser executes nothing in an image.

    Args:
        figure: The figure.

    Returns:
        A data address.
    """
    data = io.BytesIO()
    nothing = {"Date": None, "Creator": None}
    with matplotlib.style.context(STYLE, after_reset=True):
        figure.savefig(data, format="svg", metadata=nothing)
    encoded = base64.b64encode(data.getvalue()).decode()
    return f"data:image/svg+xml;base64,{encoded}"
