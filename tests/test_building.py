"""Graphs of corpora by name: counts, ledger, reasons."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Document, UserError
from pkg_lib.data.corpora import corpus_digest
from pkg_lib.graph.schema import build_code_graph
from pkg_lib.papers.pkg.graph_building import build_corpus, lines, unread, unread_lines


def test_code_and_its_ledger():
    built = build_corpus("textbook", processes=2)
    nodes, edges = built.nodes, built.edges
    assert nodes["NAME"] == nodes["IMPL"] == edges["HAS_IMPL"] == built.ledger.implementations
    assert edges["HAS_BLOCK"] == nodes["BLOCK"] and sum(nodes.values()) == len(built.graph)
    assert built.ledger.balanced and built.skipped == {}
    assert built.graph.meta == {
        "corpus": "textbook",
        "corpus_digest": corpus_digest(built.documents),
    }


def test_text_counts_what_gave_no_tree_by_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path))
    (tmp_path / "a.md").write_text("# Lists\n\nA list holds items.\n")
    (tmp_path / "b.md").write_text("")
    built = build_corpus("python-docs")
    assert built.ledger is None and built.skipped == {"nothing in it": 1}
    assert "skipped: nothing in it 1" in lines(built)


def test_mistakes_are_named():
    with pytest.raises(UserError, match="processes = 0"):
        build_corpus("textbook", 0)


def test_texts_that_are_too_long_for_the_encoder_are_counted():
    """Each node counts, even where several have one text; the texts' own tokens decide."""
    body = "".join(f"    x = {i} + 1\n" for i in range(200))
    middle = "".join(f"    x = {i} + 1\n" for i in range(70))
    sources = [
        f"def f():\n{body}",
        f"def f():\n{body}",
        f"def g():\n{middle}",
        "def h():\n    return 1\n",
    ]
    graph = build_code_graph([Document(str(i), text) for i, text in enumerate(sources)])
    functions, blocks = unread(graph)
    assert (functions.unit, functions.texts, blocks.unit, blocks.texts) == (
        "functions",
        4,
        "blocks",
        4,
    )
    assert [*functions.cut.values()] == [*blocks.cut.values()] == [3, 2]
    assert functions.row == ["4", "3 (75.0%)", "2 (50.0%)"]
    short, longer = unread_lines(graph)
    assert "all-MiniLM-L6-v2:" in short and "3 (75.0%) of 4 functions" in short
    assert "all-MiniLM-L6-v2-512:" in longer and "2 (50.0%) of 4 blocks" in longer
    assert unread_lines(build_code_graph([Document("empty", "")])) == []
