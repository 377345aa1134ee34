"""A stored context is found again in its one document, or it is said why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pkg_lib.core.types import Context, Document, Task, UserError
from pkg_lib.graph.schema import BLOCK, IMPL
from pkg_lib.retrieval.knowledge import Knowledge, TextKnowledge
from pkg_lib.retrieval.methods import METHODS
from pkg_lib.retrieval.retrievers import JsonPKG
from pkg_lib.retrieval.trace import trace

CLASS = """class A:
    def method(self, apples):
        for apple in apples:
            if apple:
                core(apple)
        while pears:
            pears = apples
        return apples
"""
OTHER = "def other(x):\n    return x\n"


@pytest.fixture
def knowledge(embedder):
    return Knowledge([Document("a:1.py", CLASS), Document("b.py", OTHER)], embedder)


def of(knowledge):
    return {d.id: d for d in knowledge.documents}


def retrieved(knowledge, column, query="apple apples core"):
    (context,) = METHODS[column].make_retriever(knowledge).retrieve([Task("t", "", query, "")])
    return context


@pytest.mark.parametrize(
    ("column", "kind"), [("Func-BM25", IMPL), ("Func-PKG", IMPL), ("Block-PKG", BLOCK)]
)
def test_nodes_are_found_with_text_lines_and_pruned_branch(knowledge, column, kind):
    context = retrieved(knowledge, column)
    found = trace(replace(context, text=None), of(knowledge))
    place = found.graph.where(found.node), found.graph.type[found.node]
    assert (found.text, *place) == (context.text, context.source, kind)
    removed = [number for number, _, gone in found.lines if gone]
    assert (f"{removed[0]}-{removed[-1]}" if removed else "") == context.pruned
    assert bool(found.gone) == bool(context.pruned) and found.node not in found.gone
    assert [line for _, line, _ in found.lines] == found.graph.payload(found.node).split("\n")
    assert found.graph.documents == ["a:1.py"]


def test_all_below_the_pruned_branch_is_gone(knowledge):
    context = retrieved(knowledge, "Func-PKG", "while pears apples return")
    found = trace(context, of(knowledge))
    assert context.pruned == "3-5" and len(found.gone) == 2


@pytest.mark.parametrize("column", ["BM25", "VoyageEmb"])
def test_rows_are_found_whole_or_cut_and_have_no_graph(embedder, column):
    long = Document("long", "\n".join(f"apple = {i}" for i in range(400)))
    for documents in ([long], [Document("short", "apple = 1\n")]):
        knowledge = Knowledge([*documents, Document("b.py", OTHER)], embedder)
        context = retrieved(knowledge, column)
        found = trace(context, of(knowledge))
        assert (found.text, found.graph, found.lines, found.gone) == (
            context.text,
            None,
            [],
            frozenset(),
        )


def test_published_contexts_are_whole_rows_whatever_their_column():
    documents = {"published/Func-PKG/T/1": Document("published/Func-PKG/T/1", OTHER * 200)}
    assert (
        trace(Context("T/1", "Func-PKG", OTHER * 200, "published/Func-PKG/T/1"), documents).graph
        is None
    )


def test_leaves_of_text_are_found_by_document_and_path(embedder):
    page = "Pears\n=====\n\nGreen # fruit.\n\nApples\n======\n\nRed fruit.\n"
    knowledge = TextKnowledge(
        [Document("docs/fruit#apples", page, "rst"), Document("docs/fruit", page, "rst")], embedder
    )
    (context,) = JsonPKG(knowledge).retrieve([Task("t", "", "green fruit pears", "")])
    found = trace(context, of(knowledge))
    assert found.text == context.text and found.graph.payload(found.node) == context.text


def test_another_version_and_a_missing_document_are_said(knowledge):
    context = retrieved(knowledge, "Block-PKG")
    changed = {"a:1.py": Document("a:1.py", CLASS.replace("apple", "pear"))}
    with pytest.raises(UserError, match=r"a:1\.py:.* another version"):
        trace(context, changed)
    with pytest.raises(UserError, match=r"no document of a:1\.py"):
        trace(context, {})
    with pytest.raises(UserError, match="another version"):
        trace(context, {"a:1.py": Document("a:1.py", "def f(:\n")})
