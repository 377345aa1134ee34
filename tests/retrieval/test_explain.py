"""What `explain` shows is what the columns do."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.retrieval.explain import explain
from pkg_lib.retrieval.retrievers import CONTEXT_CHARS, BlockPKG, FuncPKG, Knowledge

SOURCE = """def helper(sentence):
    return sentence.strip()


def count_sentences(text):
    boring = exciting = 0
    for sentence in text.split("."):
        if helper(sentence).startswith("I"):
            boring += 1
        if sentence.endswith("!"):
            if sentence:
                exciting += 1
    while exciting:
        exciting -= 1
    return boring
"""
QUERY = "count boring sentence: boring sentence starts"


@pytest.fixture
def knowledge(embedder):
    return Knowledge([Document("d", SOURCE), Document("e", "def other(x):\n    return x\n")], embedder)


@pytest.mark.parametrize(("unit", "column"), [("function", FuncPKG), ("block", BlockPKG)])
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("calls", [0, 500])
def test_context_is_the_columns_own(knowledge, unit, column, guarded, calls):
    found = explain(knowledge, QUERY, unit, guarded, calls)
    task = Task("query", "", QUERY, "", "", "")
    assert [found.context] == column(knowledge, guarded, calls).retrieve([task])
    assert found.context.source.startswith(found.chosen.where) and len(found.context.text) <= CONTEXT_CHARS
    assert found.context.pruned == (
        "" if found.removed < 0 else next(f"{b.first}-{b.last}" for b in found.tree if b.removed)
    )


def test_hits_are_ranked_and_named(knowledge):
    found = explain(knowledge, QUERY)
    assert found.hits[0] == found.chosen and found.chosen.function == "count_sentences"
    assert [h.cosine for h in found.hits] == sorted((h.cosine for h in found.hits), reverse=True)
    assert found.chosen.line == "def count_sentences(text):" and found.chosen.where == "d:5-15"
    assert found.whole == pytest.approx(found.chosen.cosine)


def test_the_removed_branch_has_the_highest_score_and_takes_all_below_it_along(knowledge):
    found = explain(knowledge, "exciting text split while")
    assert [b.first for b in found.branches] == [7, 13]  # the children of the function
    assert [b.depth for b in found.tree] == [1, 2, 2, 3, 1]
    best = max(found.branches, key=lambda b: b.score)
    assert best.node == found.removed and found.pruned == pytest.approx(best.score)
    assert [b.first for b in found.tree if b.removed] == ([7, 8, 10, 11] if best.first == 7 else [13])
    assert all((b.score is None) == (b.depth > 1) for b in found.tree)


def test_guarded_keeps_a_node_whole_that_is_nearest_as_it_is(embedder):
    knowledge = Knowledge([Document("d", "def f():\n    if prime:\n        number\n")], embedder)
    assert explain(knowledge, "prime number").removed == 2
    kept = explain(knowledge, "prime number", guarded=True)
    assert kept.removed == -1 and kept.pruned == kept.whole and not any(b.removed for b in kept.tree)


def test_called_functions_are_named(knowledge):
    found = explain(knowledge, QUERY, "block", calls=500)
    assert found.added == ["d:1-2"] and "def helper" in found.context.text
    assert explain(knowledge, QUERY, "block", calls=5).left_out == {"helper": "over the budget"}


@pytest.mark.parametrize(
    ("query", "unit", "says"),
    [("x", "file", "unknown unit 'file'; choose from: function, block"), (" ", "block", "empty")],
)
def test_mistakes_are_named(knowledge, query, unit, says):
    with pytest.raises(UserError, match=says):
        explain(knowledge, query, unit)


def test_a_corpus_without_blocks_is_named(embedder):
    with pytest.raises(UserError, match="no BLOCK nodes"):
        explain(Knowledge([Document("d", "def f(): pass\n")], embedder), "x", "block")
