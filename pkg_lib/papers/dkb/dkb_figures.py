"""DKB's figures: a type with its neighbours, all types of a repository, and recall by kind of question."""

import math
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures
from pkg_lib.analysis.stats import FEWEST_FOR_BOOTSTRAP
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
RECALL_CAPTION = (
    "Share of the needed types whose source is in the context, or whose name the context lists from the "
    "graph. No-Graph takes the chunks nearest to the question. DKB and LLM-KB add types next to theirs in a "
    "graph that a parser or a language model builds. Questions are about what one or two types do (local), "
    "what code means (semantics), what uses a type (upstream), or a chain of calls (multi-hop)."
)
MOST_TYPES = 150  # of the overview
HUBS = 6  # types with most edges, numbered in the overview
CLOSEST = 0.11  # distance of two types in the overview, whose layout is 2 wide: a numbered marker and a gap
PUSHES = 100
HUB: dict[str, Any] = {
    "marker": "o",
    "markersize": 9,
    "mfc": "white",
    "mec": figures.INK,
    "mew": 1.0,
    "linestyle": "none",
    "zorder": 3,
}
Places = dict[str, tuple[float, float]]
Edges = dict[tuple[str, str], str]  # pair of types -> label of its edge


def _draw(
    axes: Axes,
    graph: TypeGraph,
    places: Places,
    edges: Edges,
    legend_columns: int,
) -> None:
    """Draw types at their places, and edges."""
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
    for name, place in places.items():
        kind = graph.nodes[name].kind
        colour, marker = TYPE_LOOKS[kind]
        axes.plot(
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


# One type


def users_and_used(graph: TypeGraph, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return what uses a type, also through its interfaces, and what it uses.

    A type uses another through an interface if it has an edge to an interface that the other
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
def neighbourhood_figure(
    graph: TypeGraph,
    centre: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw one type with what uses it (left) and what it uses (right).

    Args:
        graph: The type graph.
        centre: Simple or full name of the type.
        ax: Axes to draw into; None makes a figure.

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
        ax=ax,
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
    axes.set_title(_neighbourhood_title(centre, users, used))
    return figure


def _neighbourhood_title(centre: str, users: Collection[str], used: Collection[str]) -> str:
    """Say which types are on which side; an empty side is named."""
    if users and used:
        return f"Users of {centre} (left), what it uses (right)"
    if users:
        return f"Users of {centre}, which uses no type of the repository"
    if used:
        return f"What {centre} uses; no type of the repository uses it"
    return f"{centre} uses no type of the repository, and none uses it"


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
def overview_figure(
    graph: TypeGraph,
    title: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw the largest connected part of the types, and number its hubs.

    Args:
        graph: The type graph. Of a large one, the MOST_TYPES types with most edges are drawn.
        title: What is drawn.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure. The title counts the types of the part, and says how many of its edges the hubs
        have. The legend names the hubs with their numbers of edges.
    """
    degrees = graph.digraph.degree
    parts = [sorted(part) for part in nx.weakly_connected_components(graph.digraph)]
    part = max(parts, key=len)
    by_degree = sorted(part, key=lambda name: degrees[name], reverse=True)
    names = by_degree[:MOST_TYPES]
    hubs = by_degree[:HUBS]
    edges = [pair for pair in graph.edges if set(names).issuperset(pair)]
    hub_edges = [pair for pair in edges if not set(hubs).isdisjoint(pair)]
    figure, axes = figures.column_axes(3.4, (0.02, 0.18, 0.96, 0.71), ax)
    places = _layout(names, edges)
    for first, second in edges:
        ends = zip(places[first], places[second], strict=True)
        axes.plot(*ends, color=figures.QUIET, linewidth=0.6, zorder=1)
    for name in by_degree[HUBS:MOST_TYPES]:
        axes.plot(*places[name], "o", color=figures.COLOURS[0], markersize=3.6, zorder=2)
    for number, name in enumerate(hubs, start=1):
        label = f"{number}  {graph.nodes[name].simple} ({degrees[name]})"
        axes.plot(*places[name], label=label, **HUB)
        axes.annotate(str(number), places[name], ha="center", va="center_baseline", fontsize=7)
    axes.set_axis_off()
    drawn = "" if len(names) == len(part) else f" ({len(names)} drawn)"
    figures.write_title(
        axes,
        f"{title}: {len(part)} of {len(graph.nodes)} types in the largest part{drawn}.\n"
        f"Edges at the {len(hubs)} numbered types: {len(hub_edges)} of {len(edges)}.",
    )
    figures.legend_below(axes, handlelength=0, handletextpad=0, markerscale=0)
    return figure


def _layout(names: Sequence[str], edges: Iterable[tuple[str, str]]) -> Places:
    """Return the places of types. All is sorted, since a layout follows the order of nodes and edges."""
    graph = nx.Graph()
    graph.add_nodes_from(sorted(names))
    graph.add_edges_from(sorted(edges))
    return _apart(nx.kamada_kawai_layout(graph))


def _apart(places: Places) -> Places:
    """Push places apart until none is nearer to another than CLOSEST, so that no marker hides another."""
    points = np.array(list(places.values()), dtype=float)
    for _ in range(PUSHES):
        between = points[:, None] - points[None]
        distances = np.linalg.norm(between, axis=2)
        np.fill_diagonal(distances, math.inf)
        missing = np.clip(CLOSEST - distances, 0, None) / np.maximum(distances, 1e-9)
        points += (between * missing[:, :, None]).sum(axis=1) / 2
    return {name: (float(x), float(y)) for name, (x, y) in zip(places, points, strict=True)}


# Recall


@figures.styled
def recall_figure(
    evidence: Evidence,
    repository: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw the recall by kind of question: means with intervals, and single questions.

    Args:
        evidence: The measured contexts.
        repository: Name of the repository.
        ax: Axes to draw into; None makes a figure.

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
        ax=ax,
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
        errorbar=partial(figures.bootstrap_bar, least=FEWEST_FOR_BOOTSTRAP),
    )
    label = "recall of needed types: mean, single questions (small),\n"
    label += f"95 % bootstrap interval for {FEWEST_FOR_BOOTSTRAP} questions or more"
    axes.set(xlim=(-0.02, 1.02), xlabel=label)
    figures.ticks_inside(axes.xaxis)
    axes.set_title(f"Needed types ({READING}), {repository}", loc="left")
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
