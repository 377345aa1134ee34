"""Drawn trees show every node and edge, are legible at 8.5 cm, and cross out pruned branches."""

from __future__ import annotations

import base64
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from checks import legible

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.schema import IMPL, PATHVALUE, build_code_graph
from pkg_lib.graph.text.documents import Structured, build_text_graph
from pkg_lib.papers.pkg import graph_figures as draw
from pkg_lib.papers.pkg.graph_shapes import depths, example_root
from pkg_lib.retrieval.trace import Traced

OUTER = "@cache\ndef outer(\n    a,\n    b):\n    for x in a:\n        if x < '<b>':\n            pass\n"
SOURCE = OUTER + "    while b:\n        b -= 1\n"
JSON = {"title": "$x$ and a long line " * 9, "parts": [{"code": "a\nb"}, {}], "n": None}


@pytest.fixture(scope="module")
def code():
    return build_code_graph([Document("d", SOURCE), Document("e", "def g():\n    return 1\n")])


@pytest.fixture(scope="module")
def text():
    return build_text_graph([Document("t", "", "rst")], [Structured("t", JSON)])


def test_depths_equal_those_computed_by_hand(code, text):
    depth, root = depths(code)
    assert depth.tolist() == [0, 1, 2, 3, 4, 3, 0, 1, 2] and root.tolist() == [0] * 6 + [6] * 3
    assert depths(text)[0][text.of_type(PATHVALUE)].tolist() == [1, 3, 2, 1]


@pytest.mark.parametrize("which", ["code", "text"])
def test_trees_are_legible_and_show_every_node_and_edge(which, request):
    graph = request.getfixturevalue(which)
    view = graph.subgraph(example_root(graph))
    figure = draw.tree(graph, view, "where it is " * 9)
    shown = legible(figure)
    assert len(figure.axes[0].get_lines()) == view.number_of_nodes() + view.number_of_edges()
    assert (
        {"HAS_BLOCK", "PARENT"} <= set(shown) if which == "code" else {"JSON_CHILD"} <= set(shown)
    )
    if which == "code":  # children stand one level right of their nearest parent
        places = [line.get_xydata()[0] for line in figure.axes[0].get_lines()[:6]]
        assert [(x / draw.STEP, y) for x, y in places] == [
            *zip(range(5), range(5), strict=True),
            (3, 5),
        ]


def test_labels_name_the_statement_or_the_step(code, text):
    names = [draw.label(code, v) for v in range(6)]  # a body is called by its first line
    assert names == [
        "outer",
        "def outer(a, b):",
        "for x in a:",
        "for x in a:",
        "if x < '<b>':",
        "while b:",
    ]
    names = [draw.label(text, v) for v in range(5)]
    assert names[0] == "(document)" and names[2:] == ["parts", "[0]", "code = a b"]


def test_examples_have_a_moderate_size_and_an_empty_graph_is_reported(textbook):
    assert 6 <= textbook[1].subgraph(example_root(textbook[1])).number_of_nodes() <= 9
    with pytest.raises(UserError, match="without nodes"):
        example_root(build_code_graph([Document("d", "x = 1\n")]))


def svg(figure):
    return base64.b64decode(draw.inline(figure).partition("base64,")[2]).decode()


def test_drawing_of_a_retrieved_node_is_complete_xml_and_crosses_out_the_pruned_branch(code):
    traced = Traced("", code, 1, 2)
    drawn = svg(draw.subgraph(traced))
    texts = [e.text for e in ElementTree.fromstring(drawn).iter() if e.tag.endswith("}text")]
    assert {"def outer(a, b):", "if x < '<b>':", "while b:", "pruned"} <= set(
        texts
    ) and "outer" not in texts
    assert drawn == svg(draw.subgraph(traced))
    assert "pruned" not in svg(draw.subgraph(replace(traced, removed=-1)))


def test_leaf_of_text_is_drawn_below_its_path(text):
    leaf = int(text.of_type(PATHVALUE)[1])
    shown = legible(draw.subgraph(Traced("", text, leaf)))
    assert shown[:4] == ["(document)", "parts", "[0]", "code = a b"]


def test_draws_control_characters_and_very_large_nodes():
    body = "".join(f"    if x == {i}:\n        pass\n" for i in range(90))
    graph = build_code_graph([Document("d\x07", f"def f(x='\x01'):\n{body}")])
    figure = draw.subgraph(Traced("", graph, int(graph.of_type(IMPL)[0])))
    ElementTree.fromstring(svg(figure))
    shown = legible(figure)
    assert (
        any("40 of 92 nodes" in t for t in shown)
        and sum(t.startswith("if x ==") for t in shown) == 39
    )
    with pytest.raises(ValueError, match="no subgraph"):
        draw.subgraph(Traced("a row"))
