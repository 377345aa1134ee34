"""Drawings of a type graph: legible, without overlaps, the same on every run."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from checks import legible
from matplotlib.backends.backend_agg import FigureCanvasAgg

from pkg_lib.core.types import UserError
from pkg_lib.graph.types.build import build
from pkg_lib.graph.types.java import facts_of
from pkg_lib.graph.types.resolve import graph_of
from pkg_lib.papers.dkb.type_figures import by_simple_name, neighbourhood, overview

SHOP = Path(__file__).parent.parent / "data" / "shop"


@pytest.fixture(scope="module")
def graph():
    return build(SHOP).graph


def test_figures_are_legible(graph):
    around = neighbourhood(graph, by_simple_name(graph, "OrderServiceImpl"))
    legible(around, 8.5)
    legible(overview(graph, "shop: 61 types"), 17)
    shown = {t.get_text() for t in around.axes[0].texts}
    assert {"CheckoutController", "OrderController", "OrderRepository", "EventPublisher"} <= shown


def test_the_longest_name_ends_inside_of_the_figure():
    used = "AbstractTransactionalRepositoryFactoryBeanDefinitionParser"
    source = f"class Centre {{ {used} a; }} class {used} {{}} class CheckoutControllerAdvice {{ Centre b; }}"
    figure = neighbourhood(graph_of({"A.java": facts_of(source.encode())}).graph, "Centre")
    figure.dpi = 300  # as it is saved; fewer dots round the letters' widths
    draw = FigureCanvasAgg(figure).get_renderer()
    boxes = [t.get_window_extent(draw) for t in figure.axes[0].texts]
    assert all(0.01 * figure.bbox.width < b.x0 and b.x1 < 0.99 * figure.bbox.width for b in boxes)
    nodes = sorted(line.get_xdata()[0] for line in figure.axes[0].lines if len(line.get_xdata()) == 1)
    assert len(nodes) == 3 and min(b - a for a, b in pairwise(nodes)) > 0.07


def test_the_overview_names_the_types_with_most_edges_and_no_nodes_overlap(graph):
    figure = overview(graph, "x")
    axes, degrees = figure.axes[0], graph.nx().degree
    most = sorted(degrees, key=lambda pair: (-pair[1], pair[0]))[:5]
    assert {graph.nodes[n].simple for n, _ in most} <= {t.get_text() for t in axes.texts}
    FigureCanvasAgg(figure).draw()
    nodes = [(x[0], y[0]) for x, y in (line.get_data() for line in axes.lines) if len(x) == 1]
    at = axes.transData.transform(nodes) / figure.dpi * 72  # points
    sizes = {line.get_markersize() for line in axes.lines if len(line.get_xdata()) == 1}
    assert len(nodes) == 61 and min(np.hypot(*(a - b)) for a, b in combinations(at, 2)) > max(sizes)


def test_types_without_an_edge_and_no_types_are_drawn():
    for source in ("class A {}", "interface I {} class B {}"):
        legible(overview(graph_of({"A.java": facts_of(source.encode())}).graph, "x"), 17)
    overview(graph_of({}).graph, "x")


def test_a_centre_that_is_none_or_several(graph):
    with pytest.raises(UserError, match=r"Address: choose from com\.example\.shop\.model\.Address"):
        by_simple_name(graph, "Address")
    with pytest.raises(UserError, match=r"type Nobody: give a type of the repository$"):
        by_simple_name(graph, "Nobody")
    with pytest.raises(UserError, match=r"give a type of the repository \(OrderService"):
        by_simple_name(graph, "OrderServise")


def test_the_drawing_is_the_same_for_every_hash_seed():
    program = (
        "from pkg_lib.papers.dkb.type_figures import _places\n"
        "edges = {(f't{i}', f't{i * 7 % 12}') for i in range(12)} | {('t1', 't2'), ('a', 'b')}\n"
        "print(_places([*'ab', *(f't{i}' for i in range(12))], edges, 6, 4))"
    )
    seeds = [os.environ | {"PYTHONHASHSEED": seed} for seed in ("1", "2")]
    runs = [
        subprocess.run([sys.executable, "-c", program], env=e, capture_output=True, check=True) for e in seeds
    ]
    assert len({r.stdout for r in runs}) == 1
