"""Figures of type graphs: markers that can be told apart."""

from __future__ import annotations

from itertools import combinations
from math import dist
from pathlib import Path

from pkg_lib.graph.types.build import build
from pkg_lib.papers.dkb.dkb_figures import HUB, HUBS, overview_figure

SHOP = Path(__file__).parent.parent / "data" / "shop"


def test_no_numbered_type_of_the_overview_covers_another_type():
    figure = overview_figure(build(SHOP, "resolved", 1).graph, "small shop")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    markers = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert sum(marker.get_markersize() == HUB["markersize"] for marker in markers) == HUBS
    for first, second in combinations(markers, 2):
        places = [axes.transData.transform(marker.get_xydata()[0]) for marker in (first, second)]
        radii = (first.get_markersize() + second.get_markersize()) / 2
        assert dist(*places) > radii * figure.dpi / 72
