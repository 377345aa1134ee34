"""Tracing finds a stored context in its document, or reports why it cannot."""

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


def documents_of(knowledge):
    return {document.id: document for document in knowledge.documents}


def retrieve(knowledge, column, query="apple apples core"):
    """Retrieve the context of one task."""
    (context,) = METHODS[column].make_retriever(knowledge).retrieve([Task("t", "", query, "")])
    return context


@pytest.mark.parametrize(
    ("column", "kind"), [("Func-BM25", IMPL), ("Func-PKG", IMPL), ("Block-PKG", BLOCK)]
)
def test_traces_nodes_with_text_lines_and_pruned_branch(knowledge, column, kind):
    context = retrieve(knowledge, column)
    traced = trace(replace(context, text=None), documents_of(knowledge))
    assert traced.text == context.text
    assert traced.graph.documents == ["a:1.py"]
    assert traced.graph.where(traced.node) == context.source
    assert traced.graph.type[traced.node] == kind
    payload = traced.graph.payload(traced.node)
    assert [line.text for line in traced.lines] == payload.split("\n")

    pruned = [line.number for line in traced.lines if line.pruned]
    expected = f"{pruned[0]}-{pruned[-1]}" if pruned else ""
    assert context.pruned == expected
    assert bool(traced.gone) == bool(context.pruned)
    assert traced.node not in traced.gone


def test_pruned_branch_includes_everything_below_it(knowledge):
    context = retrieve(knowledge, "Func-PKG", "while pears apples return")
    traced = trace(context, documents_of(knowledge))
    assert context.pruned == "3-5"
    assert len(traced.gone) == 2


@pytest.mark.parametrize("column", ["BM25", "VoyageEmb"])
def test_traces_whole_and_split_rows_without_a_graph(embedder, column):
    long = Document("long", "\n".join(f"apple = {i}" for i in range(400)))
    short = Document("short", "apple = 1\n")
    for document in (long, short):
        knowledge = Knowledge([document, Document("b.py", OTHER)], embedder)
        context = retrieve(knowledge, column)
        traced = trace(context, documents_of(knowledge))
        assert traced.text == context.text
        assert traced.graph is None
        assert traced.lines == []
        assert traced.gone == frozenset()


def test_published_contexts_are_whole_rows_for_every_method():
    source = "published/Func-PKG/T/1"
    text = OTHER * 200
    context = Context("T/1", "Func-PKG", text, source)
    assert trace(context, {source: Document(source, text)}).graph is None


def test_traces_leaves_of_text_by_document_and_path(embedder):
    page = "Pears\n=====\n\nGreen # fruit.\n\nApples\n======\n\nRed fruit.\n"
    knowledge = TextKnowledge(
        [Document("docs/fruit#apples", page, "rst"), Document("docs/fruit", page, "rst")], embedder
    )
    (context,) = JsonPKG(knowledge).retrieve([Task("t", "", "green fruit pears", "")])
    traced = trace(context, documents_of(knowledge))
    assert traced.text == context.text
    assert traced.graph.payload(traced.node) == context.text


def test_reports_another_version_and_a_missing_document(knowledge):
    context = retrieve(knowledge, "Block-PKG")
    changed = {"a:1.py": Document("a:1.py", CLASS.replace("apple", "pear"))}
    with pytest.raises(UserError, match=r"a:1\.py:.* another version"):
        trace(context, changed)
    with pytest.raises(UserError, match=r"no document of a:1\.py"):
        trace(context, {})
    with pytest.raises(UserError, match="another version"):
        trace(context, {"a:1.py": Document("a:1.py", "def f(:\n")})
