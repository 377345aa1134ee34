"""Figures of dkb.ipynb: one type's neighbourhood, the whole graph, and evidence by kind of question."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

import networkx as nx
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.transforms import Bbox

from pkg_lib.analysis.figures import (
    INK,
    MARKERS,
    QUIET,
    interval_points,
    legend_below,
    row_axes,
    styled,
    ticks_inside,
)
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb.dkb import READING, Study
from pkg_lib.papers.dkb.evidence import paired

KIND_LOOK = {
    "class": ("o", "#0072B2"),
    "interface": ("s", "#E69F00"),
    "enum": ("^", "#009E73"),
    "record": ("D", "#CC79A7"),
    "annotation": ("v", "#56B4E9"),
}
EDGE_LOOK = {"injects": ("-", "#555555"), "implements": ("--", "#E69F00"), "extends": (":", "#0072B2")}
VIA = "via interface"
EDGE_LOOK |= {VIA: ("-.", "#CC79A7")}
Place = tuple[float, float]
COLOURS = ("#B4BAC0", "#6B6B6B", "#0072B2", "#E69F00")
MOST = 150  # types of an overview
HUBS = 12  # types of an overview whose names may stand away from them, on a line
AROUND = ((1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1))  # right and up
ROW = 0.165  # inches of one name
WIDTH, PAGE = 3.35, 6.69  # inches of a figure, one and two columns wide
FEW = 10  # questions that an interval needs
EDGE, STEP, GAP = (
    0.02,
    0.018,
    0.16,
)  # of the width: a free margin, node to name, least room between the two sides
APART, ROUNDS = 0.085, 100  # inches between the middles of two nodes; how often overlaps are looked for


@styled
def neighbourhood(graph: TypeGraph, centre: str) -> Figure:
    """A type in the middle; on the left what uses it, also through an interface that it implements; on the right what it uses."""
    below = [(n, graph.edges[centre, n]) for n in graph.successors.get(centre, [])]
    above = [(n, graph.edges[n, centre]) for n in graph.predecessors.get(centre, [])]
    through = [i for i, labels in below if "implements" in labels]
    users = {u for i in through for u in graph.predecessors.get(i, []) if u != centre} - {n for n, _ in above}
    above += [(u, (VIA,)) for u in sorted(users)]
    tall = ROW * max(len(below), len(above), 1) + 0.85
    figure = Figure(figsize=(WIDTH, tall))
    axes = figure.add_axes((0.0, 0.42 / tall, 1.0, (tall - 0.62) / tall))
    axes.set(xlim=(0, 1), ylim=(-1.0, max(len(below), len(above), 1) + 0.2))
    axes.set_axis_off()
    left, right, size = _columns(*([graph.nodes[n].simple for n, _ in side] for side in (above, below)))
    middle = ((left + right) / 2, max(len(below), len(above)) / 2)
    _side(axes, graph, above, middle, left, "right", size)
    _side(axes, graph, below, middle, right, "left", size)
    _node(axes, graph, centre, *middle)
    name = graph.nodes[centre].simple
    heads = (
        (0.02, "is used by", "left", "normal"),
        (0.47, name, "center", "bold"),
        (0.98, "uses", "right", "normal"),
    )
    for x, text, side, weight in heads:
        figure.text(x, 1 - 0.12 / tall, text, va="center", ha=side, fontsize=8, fontweight=weight)
    _legend(
        figure,
        graph,
        [centre, *(n for n, _ in above + below)],
        {label for _, labels in above + below for label in labels},
    )
    return figure


def _columns(left: list[str], right: list[str]) -> tuple[float, float, float]:
    """(x of the left nodes, of the right nodes, size of the names) so that the longest name ends inside of the figure."""
    wide = [
        max((TextPath((0, 0), n, size=7).get_extents().width for n in names), default=0.0)
        for names in (left, right)
    ]
    wide = [w / 72 / WIDTH for w in wide]
    size = 7 * min(1.0, (1 - 2 * (EDGE + STEP) - GAP) / (sum(wide) or 1))
    first, last = (w * size / 7 + EDGE + STEP for w in wide)
    return max(first, min(0.31, 1 - last - GAP)), min(1 - last, max(0.63, first + GAP)), size


def _side(
    axes: Axes,
    graph: TypeGraph,
    nodes: list[tuple[str, tuple[str, ...]]],
    middle: tuple[float, float],
    x: float,
    side: str,
    size: float,
) -> None:
    height = middle[1] * 2
    for i, (name, labels) in enumerate(nodes):
        y = height - (i + 0.5) * height / len(nodes)
        style, colour = EDGE_LOOK.get(labels[-1], EDGE_LOOK["injects"])
        axes.plot([x, middle[0]], [y, middle[1]], style, color=colour, linewidth=0.8, zorder=1)
        _node(axes, graph, name, x, y)
        step = -STEP if side == "right" else STEP
        axes.text(x + step, y, graph.nodes[name].simple, ha=side, va="center_baseline", fontsize=size)


def _node(axes: Axes, graph: TypeGraph, name: str, x: float, y: float) -> None:
    marker, colour = KIND_LOOK.get(graph.nodes[name].kind, KIND_LOOK["class"])
    axes.plot(
        x, y, marker, color=colour, markersize=4.5, zorder=3, markeredgecolor="white", markeredgewidth=0.4
    )


def _legend(figure: Figure, graph: TypeGraph, names: list[str], labels: set[str], columns: int = 4) -> None:
    kinds = {graph.nodes[n].kind for n in names}
    shown = [
        Line2D([], [], linestyle="none", marker=m, color=c, label=k)
        for k, (m, c) in KIND_LOOK.items()
        if k in kinds
    ]
    shown += [
        Line2D([], [], linestyle=s, color=c, label=k, linewidth=0.9)
        for k, (s, c) in EDGE_LOOK.items()
        if k in labels
    ]
    figure.legend(handles=shown, loc="lower left", ncols=columns, borderaxespad=0.2, handlelength=1.8)


@styled
def overview(graph: TypeGraph, title: str) -> Figure:
    """Types and edges, named as far as there is room, those with most edges first. Types without an edge stand in rows below; of
    a large graph the MOST types with most edges are drawn."""
    view = graph.nx()
    view = view.subgraph(sorted(view, key=lambda n: (-view.degree[n], n))[:MOST])
    figure = Figure(figsize=(PAGE, 4.4))
    width, tall = 0.98 * PAGE, 4.4 - 0.3 - 0.42
    axes = figure.add_axes((0.01, 0.42 / 4.4, 0.98, tall / 4.4))
    axes.set(
        xlim=(-0.5, width - 0.5), ylim=(-0.2, tall - 0.2), xticks=[], yticks=[]
    )  # inches, with room for names at the edges
    axes.set_axis_off()
    places = _apart(_places(view), width - 1.0, tall - 0.4)
    for (a, b), labels in graph.edges.items():
        if a not in places or b not in places:
            continue
        style, colour = EDGE_LOOK.get(labels[-1], EDGE_LOOK["injects"])
        axes.plot(*zip(places[a], places[b], strict=True), style, color=colour, linewidth=0.5, zorder=1)
    for name, place in places.items():
        _node(axes, graph, name, *place)
    names = sorted(places, key=lambda n: (-view.degree[n], n))
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.75}
    shown = _labelled({n: graph.nodes[n].simple for n in names}, places, axes.viewLim)
    look = {"ha": "center", "va": "center", "fontsize": 7, "bbox": box, "zorder": 2}
    for name, place in shown.items():
        axes.plot(*zip(places[name], place, strict=True), color=QUIET, linewidth=0.4, zorder=1)
        axes.text(*place, graph.nodes[name].simple, **look)
    drawn = "" if len(places) == len(graph.nodes) else f", {len(places)} drawn"
    axes.set_title(f"{title}{drawn}, {len(shown)} named", loc="left")
    _legend(
        figure, graph, list(places), {label for labels in graph.edges.values() for label in labels}, columns=8
    )
    return figure


def _labelled(names: Mapping[str, str], places: Mapping[str, Place], room: Bbox) -> dict[str, Place]:
    """Node -> the middle of its text (7 pt), in inches: beside its node, of the first HUBS also further away, where nothing else
    stands."""
    half, found = APART / 2, {}
    taken = [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in places.values()]
    for i, (name, text) in enumerate(names.items()):
        (x, y), wide = places[name], TextPath((0, 0), text, size=7).get_extents().width / 72 / 2 + 0.02
        for far, (right, up) in product((0, 0.15, 0.3, 0.45) if i < HUBS else (0,), AROUND):
            dx, dy = right * (half + wide + far), up * ((0.06 if right else half + 0.07) + far)
            box = Bbox.from_extents(x + dx - wide, y + dy - 0.065, x + dx + wide, y + dy + 0.065)
            inside = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
            if inside and not box.count_overlaps(taken):
                found[name] = (x + dx, y + dy)
                taken.append(box)
                break
    return found


def _in_order(view: nx.DiGraph, part: list[str]) -> nx.Graph:
    """The part as an undirected graph whose nodes and edges stand in sorted order: a subgraph's own follows the hash seed."""
    graph = nx.Graph()
    graph.add_nodes_from(part)
    graph.add_edges_from(sorted(tuple(sorted(e)) for e in view.subgraph(part).edges()))
    return graph


def _places(view: nx.DiGraph) -> dict[str, tuple[float, float]]:
    """Connected parts side by side, each as wide as it has types, isolated types in rows of 20 below."""
    parts = sorted((sorted(p) for p in nx.weakly_connected_components(view)), key=lambda p: (-len(p), p))
    found: dict[str, tuple[float, float]] = {}
    left = 0.0
    for part in (p for p in parts if len(p) > 1):
        size = len(part) ** 0.5
        layout = nx.kamada_kawai_layout(_in_order(view, part))
        found |= {n: (left + size * (1 + x), size * y) for n, (x, y) in sorted(layout.items())}
        left += 2 * size + 1
    bottom = min((y for _, y in found.values()), default=0.0)
    for i, (name,) in enumerate(p for p in parts if len(p) == 1):
        found[name] = ((i % 20) * max(left, 20) / 20, bottom - 1.5 * (1 + i // 20))
    return found


def _apart(
    places: dict[str, tuple[float, float]], width: float, height: float
) -> dict[str, tuple[float, float]]:
    """The places in inches of a width and height, those that overlap pushed apart, pair by pair in the order of the names."""
    names = sorted(places)
    at = np.array([places[n] for n in names], float).reshape(-1, 2)
    span = np.ptp(at, axis=0) if names else np.ones(2)
    at = (at - (at.min(axis=0) if names else 0)) / np.where(span > 0, span, 1) * (width, height)
    for _ in range(ROUNDS):
        away = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1))
        close = np.argwhere(np.triu(away < APART, 1))
        for a, b in close:
            step = at[b] - at[a]
            far = float(np.hypot(*step))
            if far < APART:
                push = (step / far if far > 1e-9 else np.array([1.0, 0.0])) * (APART * 1.01 - far) / 2
                at[a], at[b] = at[a] - push, at[b] + push
        if not len(close):
            break
    return {n: (float(x), float(y)) for n, (x, y) in zip(names, at, strict=True)}


@styled
def recall_by_kind(found: Study) -> Figure:
    """Evidence recall of each question (small) and its mean (large) by kind of question, one marker a pipeline.

    A bootstrap of a handful of questions repeats them and says nothing of others, so that only FEW or more have an interval.
    """
    kinds = {"all": (), **{k: (k,) for k in found.kinds}}
    names = {
        k: f"{k} ({len(found.values(found.columns[0], 'recall', chosen))})" for k, chosen in kinds.items()
    }
    long = pd.concat(
        pd.DataFrame(
            {"value": found.values(column, "recall", chosen, READING), "row": names[kind], "pipeline": column}
        )
        for column in found.columns
        for kind, chosen in kinds.items()
    )
    looks = {
        column: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)])
        for i, column in enumerate(found.columns)
    }
    figure, axes = row_axes(len(kinds), 0.5, legend=0.5, left=0.8, top=0.24)
    rows, colours = list(names.values()), [colour for colour, _ in looks.values()]
    sns.stripplot(
        long,
        x="value",
        y="row",
        order=rows,
        hue="pipeline",
        hue_order=list(looks),
        palette=colours,
        s=2.4,
        dodge=True,
        jitter=False,
        alpha=0.7,
        legend=False,
        ax=axes,
    )
    # As far apart as seaborn puts the single points: four fifths of a row.
    apart = 0.8 * (1 - 1 / len(looks))
    interval_points(axes, long, rows, "pipeline", looks, errorbar=_interval, dodge=apart, mew=0.3, mec=INK)
    label = (
        f"evidence recall: mean, single questions (small),\n95 % bootstrap interval from {FEW} questions on"
    )
    axes.set(xlim=(-0.02, 1.02), xlabel=label)
    ticks_inside(axes.xaxis)
    axes.set_title(f"{found.name}, reading: {READING}", loc="left")
    legend_below(axes)
    return figure


def _interval(values: pd.Series) -> tuple[float, float]:
    shown = paired(values, values * 0)
    return (shown.low, shown.high) if shown.n >= FEW else (math.nan, math.nan)
