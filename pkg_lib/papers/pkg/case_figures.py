"""The drawings of case studies: the retrieved subgraph with its pruned branch, and all tasks by their retrieval score."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence

import matplotlib.style
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from pkg_lib.analysis.figures import (
    INK,
    QUIET,
    STYLE,
    beside,
    hex_colour,
    legend_below,
    row_axes,
    styled,
    ticks_inside,
)
from pkg_lib.analysis.tables import HIGHER, LOWER
from pkg_lib.graph.schema import PATHVALUE, PKG
from pkg_lib.papers.pkg.graph_figures import labels, tree
from pkg_lib.retrieval.trace import Traced

MOST = 40  # nodes that are drawn
ROOM = 0.38  # half the height of a median's bar, in rows
LOOK = {"helped": hex_colour(HIGHER), "hurt": hex_colour(LOWER), "both pass": QUIET, "both fail": QUIET}


@styled
def subgraph(traced: Traced) -> Figure:
    """The retrieved node and all below it, the pruned branch crossed; a leaf of text with the path above it.

    ValueError for a whole row, which has no node.
    """
    if traced.graph is None:
        raise ValueError("a whole row has no subgraph")
    graph, nodes = traced.graph, _drawn(traced.graph, traced.node)
    texts = {v: _printable(t) for v, t in labels(graph, nodes[0]).items()}
    more = f" ({MOST} of {len(nodes)} nodes)" if len(nodes) > MOST else ""
    where = (
        graph.where(traced.node) if graph.last[traced.node] else graph.documents[graph.document[traced.node]]
    )
    return tree(
        graph.view(nodes[:MOST]), texts, f"{_printable(where)}{more}", traced.gone & set(nodes[:MOST])
    )


def _drawn(graph: PKG, node: int) -> list[int]:
    """The node and its descendants; for a leaf the way from the root to it."""
    if graph.type[node] != PATHVALUE:
        return [node, *graph.descendants(node)]
    way = [node]
    while (above := int(graph.parent[way[0]])) >= 0:
        way.insert(0, above)
    return way


def _printable(text: str) -> str:
    """Without control characters, which an SVG may not hold."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def inline(figure: Figure) -> str:
    """A figure as a data: address of an SVG, the same at each run; in an <img> nothing that it holds is executed."""
    data = io.BytesIO()
    with matplotlib.style.context(STYLE, after_reset=True):
        figure.savefig(data, format="svg", metadata={"Date": None, "Creator": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(data.getvalue()).decode()}"


@styled
def scores(
    groups: Mapping[str, Mapping[str, float | None]], picked: Sequence[str], title: str, measure: str
) -> Figure:
    """The retrieval score of each task, one row a group of LOOK; the bar is the median, rings are the cases shown.

    `groups` maps group -> task id -> score, None where there is none.
    """
    figure, axes = row_axes(len(LOOK), 0.52, legend=0.22)
    known = {name: {t: s for t, s in groups.get(name, {}).items() if s is not None} for name in LOOK}
    values = [s for found in known.values() for s in found.values()]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    edge = 0.04 * (high - low) or 0.05
    axes.set(xlim=(low - edge, high + edge), ylim=(len(LOOK) - 0.5, -0.5))
    axes.locator_params(axis="x", nbins=6)
    ticks_inside(axes.xaxis)
    rows = pd.DataFrame(
        [(name, s) for name, found in known.items() for s in found.values()], columns=["group", "score"]
    )
    look = {"order": list(LOOK), "hue": "group", "palette": LOOK, "s": 2.6, "warn_thresh": 1, "legend": False}
    sns.swarmplot(rows, x="score", y="group", ax=axes, **look)
    figure.draw_without_rendering()  # the dots find their places when they are drawn
    dots = iter([c.get_offsets() for c in axes.collections if len(c.get_offsets())])
    for place, name in enumerate(LOOK):
        beside(axes, place, str(len(groups.get(name, {}))))
        if known[name]:
            middle = float(np.median(list(known[name].values())))
            axes.plot([middle, middle], [place - ROOM, place + ROOM], color=INK, linewidth=1.2, zorder=1)
            ringed = np.array([t in picked for t in known[name]])
            axes.plot(*next(dots)[ringed].T, "o", mfc="none", color=INK, markersize=5.5, markeredgewidth=0.8)
        else:
            text = "no score" if groups.get(name) else "no task"
            axes.text(
                0.01, place, text, va="center_baseline", color=QUIET, transform=axes.get_yaxis_transform()
            )
    axes.set(xlabel=f"{measure} of the context", ylabel="")
    axes.grid(axis="x")
    axes.set_title(title, loc="left")
    axes.plot([], [], color=INK, linewidth=1.2, label="median")
    axes.plot([], [], "o", markerfacecolor="none", color=INK, markersize=5.5, label="shown as a case")
    legend_below(axes, handlelength=1.2)
    return figure
