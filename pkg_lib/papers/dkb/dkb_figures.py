"""DKB's figures: a type with its neighbours, all types of a repository, and recall by kind of question."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

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
)
from pkg_lib.papers.dkb.indexing_tables import KINDS
from pkg_lib.papers.dkb.measurement import READING

# Kind of type -> colour and marker.
TYPE_LOOKS = figures.distinct_styles(KINDS, (*figures.COLOURS, "#56B4E9"))
VIA = "via interface"
# Label of an edge -> line and colour.
EDGES = {
    "injects": ("-", "#555555"),
    "implements": ("--", "#E69F00"),
    "extends": (":", "#0072B2"),
    VIA: ("-.", "#CC79A7"),
}
PIPELINE_COLOURS = ("#B4BAC0", figures.QUIET, *figures.COLOURS)
MOST_TYPES = 150  # of the overview
# Shift of a name from its type in points -> its alignment.
SIDES = {
    (5, 0): "left",
    (-5, 0): "right",
    (0, 7): "center",
    (0, -7): "center",
}
Places = dict[str, tuple[float, float]]
Edges = dict[tuple[str, str], str]  # pair of types -> label of its edge


def _draw(
    axes: Axes,
    graph: TypeGraph,
    places: Places,
    edges: Edges,
    legend_columns: int,
) -> list[Line2D]:
    """Draw types at their places, and edges; return the types' marks."""
    for (first, second), label in edges.items():
        style, colour = EDGES[label]
        ends = zip(places[first], places[second], strict=True)
        axes.plot(
            *ends,
            style,
            color=colour,
            label=label,
            linewidth=0.7,
            zorder=1,
        )
    marks: list[Line2D] = []
    for name, place in places.items():
        kind = graph.nodes[name].kind
        colour, marker = TYPE_LOOKS[kind]
        marks += axes.plot(
            *place,
            marker,
            color=colour,
            label=kind,
            markersize=4.5,
            mec="white",
            mew=0.4,
            zorder=3,
        )
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
    digraph = graph.digraph
    used = {other: graph.edges[name, other][-1] for other in digraph.succ[name]}
    users = {other: graph.edges[other, name][-1] for other in digraph.pred[name]}
    through: set[str] = set()
    for interface in used:
        if "implements" in graph.edges[name, interface]:
            through.update(digraph.pred[interface])
    through.discard(name)
    for user in sorted(through):
        users.setdefault(user, VIA)
    return users, used


@figures.styled
def neighbourhood_figure(graph: TypeGraph, centre: str) -> Figure:
    """Draw one type with what uses it (left) and what it uses (right).

    Args:
        graph: The type graph.
        centre: Simple or full name of the type.

    Returns:
        The figure.

    Raises:
        UserError: The name means no type or several.
    """
    name = full_name(graph, centre, "centre")
    users, used = users_and_used(graph, name)
    figure, axes = figures.row_axes(
        count=max(len(users), len(used), 1),
        height=0.165,
        legend=0.1,
        left=0.05,
        right=0.05,
    )
    # A letter of 7 pt takes some 1.8 % of the width. Where both sides' names are long, letters are
    # smaller.
    left_width = _longest_name(graph, users) * 0.0175
    right_width = _longest_name(graph, used) * 0.0175
    scale = min(1, 0.8 / (left_width + right_width))
    left = 0.04 + left_width * scale
    right = 0.96 - right_width * scale
    places = _in_a_row(left, users) | _in_a_row(right, used)
    _write_names(axes, graph, places, left, 7 * scale)
    edges = {(name, other): label for other, label in (users | used).items()}
    places[name] = ((left + right) / 2, 0.5)
    _draw(axes, graph, places, edges, legend_columns=4)
    axes.set(xlim=(0, 1), ylim=(1, 0))
    axes.set_title(f"what uses {centre} (left), what it uses (right)")
    return figure


def _longest_name(graph: TypeGraph, names: Iterable[str]) -> int:
    """Return the number of letters of the longest simple name, 9 without types."""
    lengths = [len(graph.nodes[name].simple) for name in names]
    return max(lengths, default=9)


def _in_a_row(x: float, side: Collection[str]) -> Places:
    """Return the places of types one below the other."""
    places = {}
    for number, name in enumerate(side):
        places[name] = (x, (number + 0.5) / len(side))
    return places


def _write_names(
    axes: Axes,
    graph: TypeGraph,
    places: Places,
    left: float,
    size: float,
) -> None:
    """Write names beside their types, away from the middle."""
    for name, place in places.items():
        shift, alignment = 4, "left"
        if place[0] == left:
            shift, alignment = -4, "right"
        axes.annotate(
            graph.nodes[name].simple,
            place,
            (shift, 0),
            textcoords="offset points",
            ha=alignment,
            va="center_baseline",
            fontsize=size,
        )


# All types


@figures.styled
def overview_figure(graph: TypeGraph, title: str) -> Figure:
    """Draw all types: the connected parts side by side, and in a row the types without an edge.

    Args:
        graph: The type graph. Of a large one, the MOST_TYPES types with most edges are drawn.
        title: What is drawn.

    Returns:
        The figure. Types are named where there is room.
    """
    degrees = graph.digraph.degree
    by_name = sorted(graph.nodes)
    by_degree = sorted(by_name, key=lambda name: degrees[name], reverse=True)
    names = by_degree[:MOST_TYPES]
    shown = set(names)
    edges = {pair: labels[-1] for pair, labels in graph.edges.items() if shown.issuperset(pair)}
    figure, axes = figures.row_axes(
        count=1,
        height=3.7,
        legend=0.0,
        left=0.05,
        right=0.05,
    )
    figure.set_figwidth(6.69)
    places = _layout(names, edges)
    marks = _draw(axes, graph, places, edges, legend_columns=8)
    axes.autoscale()
    axes.autoscale_view()  # now, since names are placed by where the marks are
    simple_names = {name: graph.nodes[name].simple for name in names}
    named = _name_where_free(axes, simple_names, places, marks)
    drawn = "" if len(names) == len(graph.nodes) else f", {len(names)} drawn"
    axes.set_title(f"{title}{drawn}, {named} named", loc="left")
    return figure


def _layout(names: Sequence[str], edges: Edges) -> Places:
    """Return the places of types. All is sorted, since a layout follows the order of nodes and edges."""
    connected = nx.Graph(sorted(edges))
    parts = sorted(sorted(part) for part in nx.connected_components(connected))
    places: Places = {}
    left = 0.0
    for part in sorted(parts, key=len, reverse=True):
        radius = len(part) ** 0.5
        inner = nx.Graph()
        inner.add_nodes_from(part)
        inner.add_edges_from(sorted(edge for edge in edges if edge[0] in part))
        centre = (left + radius, 0)
        places |= nx.kamada_kawai_layout(inner, scale=radius, center=centre)
        left += 2 * radius + 1
    alone = sorted(set(names) - set(places))
    lowest = min((y for _, y in places.values()), default=0)
    width = max(left, 1)
    for number, name in enumerate(alone):
        x = number * width / len(alone)
        places[name] = (x, lowest - 1.5)
    return places


def _name_where_free(
    axes: Axes,
    names: Mapping[str, str],
    places: Places,
    marks: Sequence[Line2D],
) -> int:
    """Write names beside, above or below their types where nothing else is; return their number."""
    taken = [mark.get_window_extent() for mark in marks]
    for name, text in names.items():
        box = _free_label(axes, text, places[name], taken)
        if box:
            taken.append(box)
    return len(taken) - len(marks)


def _free_label(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    taken: Sequence[Bbox],
) -> Bbox | None:
    """Write a name at the first side of a place that is free; return its box, None for none."""
    room = axes.get_figure(root=True).bbox  # type: ignore[union-attr]
    background = {
        "facecolor": "white",
        "edgecolor": "none",
        "pad": 0.3,
        "alpha": 0.75,
    }
    for shift, alignment in SIDES.items():
        label = axes.annotate(
            text,
            place,
            shift,
            ha=alignment,
            va="center_baseline",
            fontsize=7,
            zorder=2,
            textcoords="offset points",
            bbox=background,
        )
        box = label.get_window_extent()
        inside = room.x0 < box.x0 and box.x1 < room.x1
        if inside and not box.count_overlaps(taken):
            return box
        label.remove()
    return None


# Recall


@figures.styled
def recall_figure(evidence: Evidence, repository: str) -> Figure:
    """Draw the recall by kind of question: means with intervals, and single questions.

    Args:
        evidence: The measured contexts.
        repository: Name of the repository.

    Returns:
        The figure, one row per kind and one point per pipeline.
    """
    points = _recall_points(evidence)
    rows = list(points["row"].unique())
    pipelines = pipelines_of(evidence)
    styles = figures.distinct_styles(pipelines, PIPELINE_COLOURS)
    figure, axes = figures.row_axes(
        count=len(rows),
        height=0.5,
        legend=0.5,
        left=0.8,
    )
    sns.stripplot(
        points,
        x="value",
        y="row",
        order=rows,
        hue="pipeline",
        hue_order=pipelines,
        palette=[colour for colour, _ in styles.values()],
        s=2.4,
        dodge=True,
        jitter=False,
        alpha=0.7,
        legend=False,
        ax=axes,
    )
    figures.interval_points(
        axes,
        points,
        rows,
        hue="pipeline",
        styles=styles,
        # As far apart as seaborn puts the single points: four fifths of a row.
        dodge=0.8 * (1 - 1 / len(styles)),
        mew=0.3,
        mec=figures.INK,
        # Fewer questions say nothing of others.
        errorbar=partial(figures.bootstrap_bar, least=10),
    )
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
