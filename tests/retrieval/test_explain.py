"""The output of `explain` agrees with the retrievers."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.data.corpora import CONTEXT_CHARS
from pkg_lib.retrieval.explain import explain
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.retrievers import BlockPKG, FuncPKG

SOURCE = """def helper(sentence):
    return sentence.strip()


def count_sentences(text):
    boring = exciting = 0
    for sentence in text.split("."):
        if helper(sentence).startswith("I"):
            boring += 1
    while exciting:
        exciting -= 1
    return boring
"""
QUERY = "count boring sentence: boring sentence starts"


@pytest.fixture
def knowledge(embedder):
    return Knowledge(
        [Document("d", SOURCE), Document("e", "def other(x):\n    return x\n")], embedder
    )


@pytest.mark.parametrize(("unit", "column"), [("function", FuncPKG), ("block", BlockPKG)])
@pytest.mark.parametrize(("pruning", "calls"), [("paper-literal", 0), ("guarded", 500)])
def test_shows_the_context_of_the_method(knowledge, unit, column, pruning, calls):
    explained, graph = explain(knowledge, QUERY, unit, pruning, calls), knowledge.graph
    context = explained.context
    assert [context] == column(knowledge, pruning, calls).retrieve([Task("query", "", QUERY, "")])
    assert (
        context.source.startswith(graph.where(explained.nodes[0]))
        and len(context.text) <= CONTEXT_CHARS
    )
    removed = explained.removed
    assert context.pruned == (
        "" if removed < 0 else f"{graph.first[removed]}-{graph.last[removed]}"
    )


def test_ranks_nodes_and_removes_the_branch_with_the_highest_score(knowledge):
    explained, graph = explain(knowledge, QUERY, pruning="paper-literal"), knowledge.graph
    assert graph.where(explained.nodes[0]) == "d:5-12"
    assert explained.cosines == sorted(explained.cosines, reverse=True)
    assert explained.without.pop(-1) == pytest.approx(explained.cosines[0])
    assert [graph.first[b] for b in explained.without] == [7, 10]  # the children of the function
    assert explained.removed == max(explained.without, key=explained.without.get)


def test_guarded_pruning_keeps_a_node_that_is_nearest_when_whole(embedder):
    knowledge = Knowledge([Document("d", "def f():\n    if prime:\n        number\n")], embedder)
    assert explain(knowledge, "prime number", pruning="paper-literal").removed == 3
    assert explain(knowledge, "prime number").removed == -1


def test_names_called_functions(knowledge):
    explained = explain(knowledge, QUERY, "block", calls=500)
    assert [knowledge.graph.where(v) for v in explained.called.added] == ["d:1-2"]
    assert "def helper" in explained.context.text
    assert explain(knowledge, QUERY, "block", calls=5).called.left_out == {
        "helper": "over the budget"
    }


def test_reports_mistakes(knowledge):
    with pytest.raises(UserError, match="unknown unit 'file'; choose from: function, block"):
        explain(knowledge, "x", "file")
    with pytest.raises(UserError, match="empty"):
        explain(knowledge, " ", "block")
    with pytest.raises(
        UserError, match="unknown pruning 'none'; choose from: guarded, paper-literal, unpruned"
    ):
        explain(knowledge, "x", pruning="none")
