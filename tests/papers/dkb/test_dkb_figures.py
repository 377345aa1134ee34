"""DKB's figures of the graph: what is drawn, and what the title and the legend say of it."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from pkg_lib.graph.types.build import build
from pkg_lib.papers.dkb import dkb_figures
from tests.analysis.checks import legible

SHOP = Path(__file__).parents[2] / "data" / "shop"
# A hub with three neighbours, a pair apart, and a type alone.
SOURCE = """package a;
class Hub { One one; Two two; Three three; }
class One {} class Two {} class Three {}
class Left { Right right; } class Right {}
class Alone {}
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "All.java").write_text(SOURCE)
    return build(tmp_path).graph


def test_the_overview_draws_the_largest_part_and_numbers_its_hubs(small, monkeypatch):
    monkeypatch.setattr(dkb_figures, "HUBS", 1)
    figure = dkb_figures.overview_figure(small, "repo")
    shown = legible(figure)
    assert (
        "repo: 4 of 7 types in the largest part.\nEdges at the 1 numbered types: 3 of 3." in shown
    )
    assert {"1", "1  Hub (3)"} <= set(shown)
    markers = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert len(markers) == 4


def test_of_a_large_graph_the_types_with_most_edges_are_drawn(small, monkeypatch):
    monkeypatch.setattr(dkb_figures, "HUBS", 1)
    monkeypatch.setattr(dkb_figures, "MOST_TYPES", 2)
    figure = dkb_figures.overview_figure(small, "repo")
    assert any("4 of 7 types in the largest part (2 drawn)" in text for text in legible(figure))
    markers = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert len(markers) == 2


def test_figures_of_the_shop_are_legible_and_can_be_drawn_into_other_axes():
    graph = build(SHOP).graph
    assert "OrderServiceImpl (11)" in " ".join(legible(dkb_figures.overview_figure(graph, "shop")))
    assert "OrderController" in legible(dkb_figures.neighbourhood_figure(graph, "OrderServiceImpl"))
    users = Figure(figsize=(8, 4))
    left, right = users.subplots(1, 2)
    assert dkb_figures.overview_figure(graph, "shop", ax=left) is users
    assert dkb_figures.neighbourhood_figure(graph, "OrderServiceImpl", ax=right) is users
    assert left.lines and right.lines and not users.legends


@pytest.mark.parametrize(
    ("centre", "title"),
    [
        ("Middle", "Users of Middle (left), what it uses (right)"),
        ("Used", "Users of Used, which uses no type of the repository"),
        ("User", "What User uses; no type of the repository uses it"),
        ("Alone", "Alone uses no type of the repository, and none uses it"),
    ],
)
def test_the_title_of_a_neighbourhood_names_an_empty_side(tmp_path, centre, title):
    sources = {
        "User": "class User { Middle middle; }",
        "Middle": "class Middle { Used used; }",
        "Used": "class Used { }",
        "Alone": "class Alone { }",
    }
    for name, text in sources.items():
        (tmp_path / f"{name}.java").write_text(text)
    figure = dkb_figures.neighbourhood_figure(build(tmp_path).graph, centre)
    assert figure.axes[0].get_title(loc="left") + figure.axes[0].get_title() == title
