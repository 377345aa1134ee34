"""One tree of a graph, drawn with its nodes' texts: a function, a document, what was retrieved and pruned."""

import base64
import io
from collections.abc import Collection

import matplotlib.style
import networkx as nx
from matplotlib.figure import Figure

from pkg_lib.analysis.figures import COLOURS, INK, QUIET, STYLE, legend_below, styled
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
MONO = {"family": "DejaVu Sans Mono", "fontsize": 7, "va": "center_baseline", "parse_math": False}
LETTER = 7 * 0.602  # points: the width of a letter of it
STEP, WIDTH, ROW = (
    13.0,
    3.35 * 72 - 6,
    0.165,
)  # points: one level to the right, the drawing; inches: one row
MOST = 40  # nodes that are drawn


def label(graph: Graph, node: int) -> str:
    """What stands beside a node: the statement's first line, or the last step of the path and the value."""
    if graph.type[node] in (IMPL, BLOCK):
        return first_line(graph, node)
    text = graph.payload(node)
    if graph.type[node] == NAME:
        return text
    path, value = deserialize(text) if graph.type[node] == PATHVALUE else (text, None)
    way = steps(path) or ["(document)"]
    step = f"[{way[-1]}]" if isinstance(way[-1], int) else str(way[-1])
    return step if value is None else f"{step} = {' '.join(str(value).split())}"


@styled
def tree(graph: Graph, view: nx.DiGraph, title: str, pruned: Collection[int] = ()) -> Figure:
    """A small tree, one node a row, below its nearest parent one level to the right; `pruned` are crossed."""
    nearest = {node: max(view.predecessors(node), default=None) for node in sorted(view)}
    places: dict[int | None, tuple[int, int]] = {None: (-1, 0)}
    for row, node in enumerate(nearest):  # in the order of the source: parents come first
        places[node] = (places[nearest[node]][0] + 1, row)
    tall = ROW * len(view) + 0.62
    figure = Figure(figsize=(3.35, tall))
    axes = figure.add_axes((0.02, 0.4 / tall, 0.96, 1 - 0.62 / tall))
    axes.set(xlim=(-5, WIDTH - 5), ylim=(len(view) - 0.5, -0.5))
    axes.set_axis_off()
    for node, kind in nx.get_node_attributes(view, "type").items():
        (level, row), gone = places[node], node in pruned
        marker, colour = NODES[kind := "pruned" if gone else kind]
        axes.plot(STEP * level, row, marker, color=colour, markersize=4.5, zorder=3, label=kind)
        text = _short(_printable(label(graph, node)), int((WIDTH - 12 - STEP * level) / LETTER))
        axes.text(STEP * level + 6, row, text, color=QUIET if gone else "black", **MONO)
    for (above, below), kind in nx.get_edge_attributes(view, "type").items():
        aside = above != nearest[below]  # an edge from further up runs beside the nearest parent's
        x, y = STEP * places[above][0], places[below][1] - 0.2 * aside
        end, (style, colour) = STEP * places[below][0] - 3 * aside, EDGES[kind]
        axes.plot(
            [x, x, end], [places[above][1], y, y], style, color=colour, lw=0.8, zorder=1, label=kind
        )
    figure.text(0.02, 1 - 0.14 / tall, _short(_printable(title), 52), va="center", fontsize=8)
    legend_below(axes, ncols=3, handlelength=1.8)
    return figure


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def _printable(text: str) -> str:
    """Without control characters, which an SVG may not hold."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


@styled
def subgraph(traced: Traced) -> Figure:
    """The retrieved node and all below it, the pruned crossed; a leaf with its path. ValueError for a row."""
    graph, node = traced.graph, traced.node
    if graph is None:
        raise ValueError("a whole row has no subgraph")
    nodes = [node, *graph.descendants(node)]
    while graph.type[node] == PATHVALUE and (above := int(graph.parent[nodes[0]])) >= 0:
        nodes.insert(0, above)
    where = graph.where(node) if graph.last[node] else graph.documents[graph.document[node]]
    more = f" ({MOST} of {len(nodes)} nodes)" if len(nodes) > MOST else ""
    drawn = nodes[:MOST]
    return tree(graph, graph.view(drawn), f"{where}{more}", traced.gone & set(drawn))


def inline(figure: Figure) -> str:
    """A figure as the address of an SVG, always the same; in an <img> nothing that it holds is executed."""
    data = io.BytesIO()
    with matplotlib.style.context(STYLE, after_reset=True):
        figure.savefig(data, format="svg", metadata={"Date": None, "Creator": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(data.getvalue()).decode()}"
