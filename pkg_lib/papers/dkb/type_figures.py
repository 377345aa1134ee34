"""Figures of a type graph: what uses one type and what it uses, and all types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import product

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.transforms import Bbox

from pkg_lib.analysis.figures import QUIET, styled
from pkg_lib.core.types import UserError
from pkg_lib.graph.types.typegraph import TypeGraph

KIND_LOOK = {
    "class": ("o", "#0072B2"),
    "interface": ("s", "#E69F00"),
    "enum": ("^", "#009E73"),
    "record": ("D", "#CC79A7"),
    "annotation": ("v", "#56B4E9"),
}
VIA = "via interface"
EDGE_LOOK = {"injects": ("-", "#555555"), "implements": ("--", "#E69F00"), "extends": (":", "#0072B2")}
EDGE_LOOK |= {VIA: ("-.", "#CC79A7")}
MOST, HUBS = 150, 12  # types of an overview; of them those whose names may stand away from them, on a line
WIDTH, PAGE = 3.35, 6.69  # inches of a figure, one and two columns wide
ROW, APART = 0.165, 0.085  # inches of one name; between the middles of two nodes
EDGE, STEP, GAP = 0.02, 0.018, 0.16  # of the width: a margin, node to name, the least between the two sides
AROUND = ((1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1))  # right and up
Place = tuple[float, float]


def by_simple_name(graph: TypeGraph, name: str) -> str:
    """The full name of a type; UserError where none, or more than one, has this simple name."""
    same = sorted(n.name for n in graph.nodes.values() if name in (n.simple, n.name))
    if len(same) > 1:
        raise UserError(f"type {name}: choose from {', '.join(same)}")
    if not same:
        close = dict.fromkeys(get_close_matches(name, [n.simple for n in graph.nodes.values()], 3, 0.5))
        near = f" ({', '.join(close)}?)" if close else ""
        raise UserError(f"type {name}: give a type of the repository{near}")
    return same[0]


@styled
def neighbourhood(graph: TypeGraph, centre: str) -> Figure:
    """A type; on its left what uses it, also through its interfaces; on its right what it uses."""
    below = {n: graph.edges[centre, n][-1] for n in graph.successors.get(centre, [])}
    above = {n: graph.edges[n, centre][-1] for n in graph.predecessors.get(centre, [])}
    through = [i for i in below if "implements" in graph.edges[centre, i]]
    users = {u for i in through for u in graph.predecessors[i]} - {centre, *above}
    above |= dict.fromkeys(sorted(users), VIA)
    rows = max(len(below), len(above), 1)
    tall = ROW * rows + 0.85
    figure = Figure(figsize=(WIDTH, tall))
    axes = figure.add_axes((0.0, 0.42 / tall, 1.0, (tall - 0.62) / tall))
    axes.set(xlim=(0, 1), ylim=(-1.0, rows + 0.2))
    axes.set_axis_off()
    # Long names end inside of the figure: smaller letters, columns further from the edge.
    wide = [max((_width(graph.nodes[n].simple) for n in side), default=0) / WIDTH for side in (above, below)]
    scale = min(1.0, (1 - 2 * (EDGE + STEP) - GAP) / (sum(wide) or 1))
    first, last = (w * scale + EDGE + STEP for w in wide)
    left, right = max(first, min(0.31, 1 - last - GAP)), min(1 - last, max(0.63, first + GAP))
    middle = ((left + right) / 2, rows / 2)
    for x, side, align in ((left, above, "right"), (right, below, "left")):
        for i, (name, label) in enumerate(side.items()):
            y = rows - (i + 0.5) * rows / len(side)
            _edge(axes, (x, y), middle, label, 0.8)
            _node(axes, graph, name, (x, y))
            text_at = x - STEP if align == "right" else x + STEP
            axes.text(
                text_at, y, graph.nodes[name].simple, ha=align, va="center_baseline", fontsize=7 * scale
            )
    _node(axes, graph, centre, middle)
    for x, text, align in ((0.02, "is used by", "left"), (0.98, "uses", "right")):
        figure.text(x, 1 - 0.12 / tall, text, va="center", ha=align, fontsize=8)
    name = graph.nodes[centre].simple
    figure.text(0.47, 1 - 0.12 / tall, name, va="center", ha="center", fontsize=8, fontweight="bold")
    _legend(figure, graph, [centre, *above, *below], {*above.values(), *below.values()}, 4)
    return figure


def _width(text: str) -> float:
    """Inches of a text in 7 pt."""
    return TextPath((0, 0), text, size=7).get_extents().width / 72


def _edge(axes: Axes, start: Place, end: Place, label: str, width: float) -> None:
    style, colour = EDGE_LOOK.get(label, EDGE_LOOK["injects"])
    axes.plot(*zip(start, end, strict=True), style, color=colour, linewidth=width, zorder=1)


def _node(axes: Axes, graph: TypeGraph, name: str, place: Place) -> None:
    marker, colour = KIND_LOOK.get(graph.nodes[name].kind, KIND_LOOK["class"])
    axes.plot(*place, marker, color=colour, markersize=4.5, zorder=3, mec="white", mew=0.4)


def _legend(figure: Figure, graph: TypeGraph, names: Iterable[str], labels: set[str], columns: int) -> None:
    kinds = {graph.nodes[n].kind for n in names}
    handles = [
        Line2D([], [], linestyle="none", marker=m, color=c, label=k)
        for k, (m, c) in KIND_LOOK.items()
        if k in kinds
    ]
    handles += [
        Line2D([], [], linestyle=s, color=c, label=k, linewidth=0.9)
        for k, (s, c) in EDGE_LOOK.items()
        if k in labels
    ]
    figure.legend(handles=handles, loc="lower left", ncols=columns, borderaxespad=0.2, handlelength=1.8)


@styled
def overview(graph: TypeGraph, title: str) -> Figure:
    """Types and edges, named as far as there is room; of a large graph the MOST types with most edges."""
    view = graph.nx()
    names = sorted(view, key=lambda n: (-view.degree[n], n))[:MOST]
    labels = {e: ls for e, ls in graph.edges.items() if {*e} <= set(names)}
    figure = Figure(figsize=(PAGE, 4.4))
    width, tall = 0.98 * PAGE, 4.4 - 0.3 - 0.42
    axes = figure.add_axes((0.01, 0.42 / 4.4, 0.98, tall / 4.4))
    axes.set(xlim=(-0.5, width - 0.5), ylim=(-0.2, tall - 0.2), xticks=[], yticks=[])  # inches
    axes.set_axis_off()
    places = _places(names, labels, width - 1.0, tall - 0.4)
    for (a, b), edge_labels in labels.items():
        _edge(axes, places[a], places[b], edge_labels[-1], 0.5)
    for name, place in places.items():
        _node(axes, graph, name, place)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.75}
    shown = _labelled({n: graph.nodes[n].simple for n in names}, places, axes.viewLim)
    for name, place in shown.items():
        axes.plot(*zip(places[name], place, strict=True), color=QUIET, linewidth=0.4, zorder=1)
        look = {"ha": "center", "va": "center", "fontsize": 7, "bbox": box, "zorder": 2}
        axes.text(*place, graph.nodes[name].simple, **look)
    drawn = "" if len(places) == len(graph.nodes) else f", {len(places)} drawn"
    axes.set_title(f"{title}{drawn}, {len(shown)} named", loc="left")
    _legend(figure, graph, names, {label for ls in labels.values() for label in ls}, 8)
    return figure


def _places(
    names: list[str], edges: Iterable[tuple[str, str]], width: float, height: float
) -> dict[str, Place]:
    """Type -> place in inches: connected parts side by side, types without edges in rows below."""
    graph = nx.Graph(sorted(map(sorted, edges)))  # in order, else the layout follows the hash seed
    places, left = {}, 0.0
    for part in sorted(map(sorted, nx.connected_components(graph)), key=lambda p: (-len(p), p)):
        size, inner = len(part) ** 0.5, nx.Graph()
        inner.add_nodes_from(part)
        inner.add_edges_from(e for e in graph.edges if e[0] in part)
        layout = nx.kamada_kawai_layout(inner)
        places |= {n: (left + size * (1 + layout[n][0]), size * layout[n][1]) for n in part}
        left += 2 * size + 1
    bottom = min((y for _, y in places.values()), default=0.0)
    alone = sorted(set(names) - places.keys())
    places |= {n: (i % 20 * max(left, 20) / 20, bottom - 1.5 * (1 + i // 20)) for i, n in enumerate(alone)}
    at = np.array([places[n] for n in names], float).reshape(-1, 2)
    span = np.ptp(at, axis=0) if names else np.ones(2)
    at = (at - (at.min(axis=0) if names else 0)) / np.where(span > 0, span, 1) * (width, height)
    for _ in range(100):
        away = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1))
        for a, b in (close := np.argwhere(np.triu(away < APART, 1))):
            step = at[b] - at[a]
            far = float(np.hypot(*step))
            push = (step / far if far > 1e-9 else np.array([1.0, 0.0])) * max(0.0, APART * 1.01 - far) / 2
            at[a], at[b] = at[a] - push, at[b] + push
        if not len(close):
            break
    return {n: (float(x), float(y)) for n, (x, y) in zip(names, at, strict=True)}


def _labelled(names: Mapping[str, str], places: Mapping[str, Place], room: Bbox) -> dict[str, Place]:
    """Type -> the middle of its name, where nothing else stands; of the first HUBS also far away."""
    half, labels = APART / 2, {}
    taken = [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in places.values()]
    for i, (name, text) in enumerate(names.items()):
        (x, y), wide = places[name], _width(text) / 2 + 0.02
        for far, (right, up) in product((0, 0.15, 0.3, 0.45) if i < HUBS else (0,), AROUND):
            dx, dy = right * (half + wide + far), up * ((0.06 if right else half + 0.07) + far)
            box = Bbox.from_extents(x + dx - wide, y + dy - 0.065, x + dx + wide, y + dy + 0.065)
            inside = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
            if inside and not box.count_overlaps(taken):
                labels[name] = (x + dx, y + dy)
                taken.append(box)
                break
    return labels
