"""An explained query as tables and HTML, and the panel that asks again."""

from __future__ import annotations

from functools import partial

import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Document
from pkg_lib.papers.pkg import explored
from pkg_lib.retrieval.explain import explain
from pkg_lib.retrieval.retrievers import Knowledge

SOURCE = """def f(a, b):
    for x in a < b:
        if x:
            number
    while prime:
        prime
    return helper(a)
"""


@pytest.fixture
def knowledge(embedder):
    return Knowledge([Document("d", SOURCE), Document("e", "def helper(x):\n    return x\n")], embedder)


def test_tables_hold_hits_and_branches(knowledge):
    found = explain(knowledge, "prime while")
    frame = explored.hits(found).frame
    assert frame.loc["1"].tolist() == [f"{found.chosen.cosine:.3f}", "f", "def f(a, b):", "d:1-7"]
    frame = explored.branches(found).frame
    assert frame.index.tolist() == ["2-4", "5-6", DASH]
    assert frame["pruning"].tolist() == ["removed", DASH, DASH]


def test_tree_marks_the_pruned_branch_and_all_below_it_and_escapes_code(knowledge):
    html = explored.tree(explain(knowledge, "prime while"))
    assert html.count("<del>") == 2 and html.count("pruned") == 1
    assert "a &lt; b" in html and "a < b" not in html
    assert html._repr_html_() == html


def test_context_names_its_source_and_what_was_left_out(knowledge):
    html = explored.context(explain(knowledge, "prime while", calls=3))
    assert "d:1-7" in html and "helper (over the budget)" in html
    assert "calls e:1-2" in explored.context(explain(knowledge, "prime while", calls=300))


def test_findings_say_what_pruning_did(knowledge):
    said = explored.findings(explain(knowledge, "prime while", calls=300))
    assert "lines 2-4 were removed" in said[1] and "rose" in said[1] and "e:1-2" in said[2]
    assert explored.findings(explain(knowledge, "x return helper", unit="function"))[1].startswith(
        ("Of 2", "It has no branch")
    )


def test_panel_asks_only_when_the_button_is_pressed(knowledge):
    asked = []

    def ask(*values):
        asked.append(values)
        return explain(knowledge, *values)

    box = explored.panel(ask, "prime", "function", False, 0)
    text, controls, shown = box.children
    assert (asked, shown.value) == ([], "")
    text.value, controls.children[0].value = "number", "block"
    controls.children[-1].click()
    assert asked == [("number", "block", False, 0)] and "The nearest blocks" in shown.value
    text.value = " "
    controls.children[-1].click()
    assert "the query is empty" in shown.value


def test_page_is_the_same_twice(knowledge):
    ask = partial(explain, knowledge, "prime while")
    assert explored.page(ask()) == explored.page(ask())
    assert explored.provenance(knowledge, ask())["embedder"] == "words"
