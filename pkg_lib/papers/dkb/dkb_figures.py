"""DKB's figures: a type with its neighbours, all types of a repository, and recall by kind of question."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import networkx as nx
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from pkg_lib.analysis import figures
from pkg_lib.data.questions import full_name
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb.evidence_tables import (
    Evidence,
    in_one_reading,
    kinds_of,
    pipelines_of,
    sign_flip_difference,
)
from pkg_lib.papers.dkb.measurement import READING
from pkg_lib.papers.dkb.number_tables import NAN

# Kind of type -> marker and colour; label of an edge -> line and colour.
KINDS = {
    "class": ("o", "#0072B2"),
    "interface": ("s", "#E69F00"),
    "enum": ("^", "#009E73"),
    "record": ("D", "#CC79A7"),
    "annotation": ("v", "#56B4E9"),
}
VIA = "via interface"
EDGES = {
    "injects": ("-", "#555555"),
    "implements": ("--", "#E69F00"),
    "extends": (":", "#0072B2"),
    VIA: ("-.", "#CC79A7"),
}
COLOURS = ("#B4BAC0", "#6B6B6B", "#0072B2", "#E69F00")  # of the pipelines
MOST_TYPES = 150  # of the overview
# Shift of a name from its type in points -> its alignment.
SIDES = {(5, 0): "left", (-5, 0): "right", (0, 7): "center", (0, -7): "center"}
Places = dict[str, tuple[float, float]]
Edges = dict[tuple[str, str], str]  # pair of types -> label of its edge


def _draw(
    axes: Axes, graph: TypeGraph, places: Places, edges: Edges, legend_columns: int
) -> list[Line2D]:
    """Draw types at their places, and edges; return the types' marks."""
    for (first, second), label in edges.items():
        style, colour = EDGES[label]
        ends = zip(places[first], places[second], strict=True)
        axes.plot(*ends, style, color=colour, label=label, linewidth=0.7, zorder=1)
    marks: list[Line2D] = []
    look: dict[str, Any] = {"markersize": 4.5, "mec": "white", "mew": 0.4, "zorder": 3}
    for name, place in places.items():
        kind = graph.nodes[name].kind
        marker, colour = KINDS[kind]
        marks += axes.plot(*place, marker, color=colour, label=kind, **look)
    axes.set_axis_off()
    figures.legend_below(axes, ncols=legend_columns, handlelength=1.8)
    return marks


# One type


def users_and_used(graph: TypeGraph, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return what uses a type, also through its interfaces, and what it uses.

    A type uses another through an interface if it holds a field of an interface that the other
    implements. The paper calls this step interface-consumer expansion.

    Args:
        graph: The type graph.
        name: Full name of the type.

    Returns:
        Users and used types, each with the label of its edge.
    """
    used = {other: graph.edges[name, other][-1] for other in graph.digraph.succ[name]}
    users = {other: graph.edges[other, name][-1] for other in graph.digraph.pred[name]}
    through: set[str] = set()
    for interface in used:
        if "implements" in graph.edges[name, interface]:
            through.update(graph.digraph.pred[interface])
    through -= {name, *users}
    return users | dict.fromkeys(sorted(through), VIA), used


@figures.styled
def neighbourhood_figure(graph: TypeGraph, centre: str) -> Figure:
    """Draw one type with what uses it (left) and what it uses (right).

    Args:
        graph: The type graph.
        centre: Simple or full name of the type.
    """
    name = full_name(graph, centre, "centre")
    users, used = users_and_used(graph, name)
    rows = max(len(users), len(used), 1)
    figure, axes = figures.row_axes(rows, 0.165, legend=0.1, left=0.05, right=0.05)
    # A letter of 7 pt takes some 1.8 % of the width. Where both sides' names are long, letters are
    # smaller.
    widths = [_longest_name(graph, side) * 0.0175 for side in (users, used)]
    scale = min(1, 0.8 / sum(widths))
    left = 0.04 + widths[0] * scale
    right = 0.96 - widths[1] * scale
    places = _in_a_row(left, users) | _in_a_row(right, used)
    _write_names(axes, graph, places, left, 7 * scale)
    edges = {(name, other): label for other, label in (users | used).items()}
    places[name] = ((left + right) / 2, 0.5)
    _draw(axes, graph, places, edges, 4)
    axes.set(xlim=(0, 1), ylim=(1, 0))
    axes.set_title(f"what uses {centre} (left), what it uses (right)")
    return figure


def _longest_name(graph: TypeGraph, names: Iterable[str]) -> int:
    return max((len(graph.nodes[name].simple) for name in names), default=9)


def _in_a_row(x: float, side: Collection[str]) -> Places:
    """Return the places of types one below the other."""
    return {name: (x, (number + 0.5) / len(side)) for number, name in enumerate(side)}


def _write_names(axes: Axes, graph: TypeGraph, places: Places, left: float, size: float) -> None:
    """Write names beside their types, away from the middle."""
    for name, place in places.items():
        on_left = place[0] == left
        axes.annotate(
            graph.nodes[name].simple,
            place,
            (-4 if on_left else 4, 0),
            ha="right" if on_left else "left",
            va="center_baseline",
            fontsize=size,
            textcoords="offset points",
        )


# All types


@figures.styled
def overview_figure(graph: TypeGraph, title: str) -> Figure:
    """Draw all types: the connected parts side by side, and in a row the types without an edge.

    Args:
        graph: The type graph. Of a large one, the MOST_TYPES types with most edges are drawn.
        title: What is drawn.
    """
    degrees = graph.digraph.degree
    ordered = sorted(graph.nodes, key=lambda name: (-degrees[name], name))
    names = ordered[:MOST_TYPES]
    shown = set(names)
    edges = {pair: labels[-1] for pair, labels in graph.edges.items() if shown.issuperset(pair)}
    figure, axes = figures.row_axes(1, 3.7, legend=0.0, left=0.05, right=0.05)
    figure.set_figwidth(6.69)
    places = _layout(names, edges)
    marks = _draw(axes, graph, places, edges, 8)
    axes.autoscale()
    axes.autoscale_view()  # now, since names are placed by where the marks are
    taken = [mark.get_window_extent() for mark in marks]
    simple_names = {name: graph.nodes[name].simple for name in names}
    named = _name_where_free(axes, simple_names, places, taken)
    drawn = "" if len(names) == len(graph.nodes) else f", {len(names)} drawn"
    axes.set_title(f"{title}{drawn}, {named} named", loc="left")
    return figure


def _layout(names: Sequence[str], edges: Edges) -> Places:
    """Return the places of types. All is sorted, since a layout follows the order of nodes and edges."""
    connected = nx.Graph(sorted(edges))
    parts = [sorted(part) for part in nx.connected_components(connected)]
    places: Places = {}
    left = 0.0
    for part in sorted(parts, key=lambda part: (-len(part), part)):
        radius = len(part) ** 0.5
        inner = nx.Graph()
        inner.add_nodes_from(part)
        inner.add_edges_from(sorted(edge for edge in edges if edge[0] in part))
        places |= nx.kamada_kawai_layout(inner, scale=radius, center=(left + radius, 0))
        left += 2 * radius + 1
    alone = sorted(set(names) - set(places))
    bottom = min((y for _, y in places.values()), default=0) - 1.5
    width = max(left, 1)
    for number, name in enumerate(alone):
        places[name] = (number * width / len(alone), bottom)
    return places


def _name_where_free(
    axes: Axes, names: Mapping[str, str], places: Places, taken: list[Bbox]
) -> int:
    """Write names beside, above or below their types where nothing else is; return their number."""
    room = axes.get_figure(root=True).bbox  # type: ignore[union-attr]
    background = {"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.75}
    look: dict[str, Any] = {
        "va": "center_baseline",
        "fontsize": 7,
        "zorder": 2,
        "textcoords": "offset points",
        "bbox": background,
    }
    named: dict[str, Bbox] = {}
    for name, (shift, align) in product(names, SIDES.items()):
        label = axes.annotate(names[name], places[name], shift, ha=align, **look)
        box = label.get_window_extent()
        inside = room.x0 < box.x0 and box.x1 < room.x1
        free = not box.count_overlaps([*taken, *named.values()])
        if inside and free and name not in named:
            named[name] = box
        else:
            label.remove()
    return len(named)


# Recall


@figures.styled
def recall_figure(evidence: Evidence, repository: str) -> Figure:
    """Draw the recall by kind of question: means with intervals, and single questions.

    Args:
        evidence: The measured contexts.
        repository: Name of the repository.
    """
    points = _recall_points(evidence)
    rows = list(dict.fromkeys(points["row"]))
    looks = {}
    for number, pipeline in enumerate(pipelines_of(evidence)):
        marker = figures.MARKERS[number % len(figures.MARKERS)]
        looks[pipeline] = (COLOURS[number % len(COLOURS)], marker)
    figure, axes = figures.row_axes(len(rows), 0.5, legend=0.5, left=0.8)
    single: dict[str, Any] = {
        "order": rows,
        "hue": "pipeline",
        "hue_order": list(looks),
        "palette": [colour for colour, _ in looks.values()],
        "s": 2.4,
        "dodge": True,
        "jitter": False,
        "alpha": 0.7,
        "legend": False,
    }
    sns.stripplot(points, x="value", y="row", ax=axes, **single)
    means: dict[str, Any] = {
        # As far apart as seaborn puts the single points: four fifths of a row.
        "dodge": 0.8 * (1 - 1 / len(looks)),
        "mew": 0.3,
        "mec": figures.INK,
        "errorbar": _interval_of_many,
    }
    figures.interval_points(axes, points, rows, "pipeline", looks, **means)
    label = "evidence recall: mean, single questions (small),\n"
    label += "95 % bootstrap interval from 10 questions on"
    axes.set(xlim=(-0.02, 1.02), xlabel=label)
    figures.ticks_inside(axes.xaxis)
    axes.set_title(f"{repository}, reading: {READING}", loc="left")
    figures.legend_below(axes)
    return figure


def _recall_points(evidence: Evidence) -> pd.DataFrame:
    """Return the recall of each question, once among all and once among those of its kind."""
    listed = in_one_reading(evidence)
    parts = {"all": listed}
    for kind in kinds_of(evidence):
        parts[kind] = listed[listed["kind"] == kind]
    points = []
    for kind, part in parts.items():
        row = f"{kind} ({part['question'].nunique()})"
        points.append(part.assign(row=row, value=part["recall"]))
    return pd.concat(points)


def _interval_of_many(values: pd.Series) -> tuple[float, float]:
    """Return a bootstrap interval; none for fewer than ten questions, since it says nothing of others."""
    mean = sign_flip_difference(values, values * 0)
    return (mean.low, mean.high) if mean.n >= 10 else (NAN, NAN)
