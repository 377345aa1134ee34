"""Construction of a corpus's graph: counts, ledger, and reasons for skipped documents."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Document, UserError
from pkg_lib.data.corpora import corpus_digest
from pkg_lib.graph.schema import build_code_graph
from pkg_lib.papers.pkg.graph_building import build_corpus, lines, unread, unread_lines


def test_the_ledger_of_a_code_graph_adds_up():
    built = build_corpus("textbook", processes=2)
    nodes = built.nodes
    edges = built.edges
    implementations = built.ledger.implementations
    assert nodes["NAME"] == implementations
    assert nodes["IMPL"] == implementations
    assert edges["HAS_IMPL"] == implementations
    assert edges["HAS_BLOCK"] == nodes["BLOCK"]
    assert sum(nodes.values()) == len(built.graph)
    assert built.ledger.balanced
    assert built.skipped == {}
    assert built.graph.meta == {
        "corpus": "textbook",
        "corpus_digest": corpus_digest(built.documents),
    }


def test_counts_skipped_texts_by_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path))
    (tmp_path / "a.md").write_text("# Lists\n\nA list holds items.\n")
    (tmp_path / "b.md").write_text("")
    built = build_corpus("python-docs")
    assert built.ledger is None
    assert built.skipped == {"nothing in it": 1}
    assert "skipped: nothing in it 1" in lines(built)


def test_refuses_zero_processes():
    with pytest.raises(UserError, match="processes = 0"):
        build_corpus("textbook", 0)


def body(lines: int) -> str:
    """Return the body of a function."""
    return "".join(f"    x = {number} + 1\n" for number in range(lines))


def test_counts_texts_that_are_too_long_for_the_encoder():
    """Every node counts, even if several have the same text. The number of tokens decides."""
    sources = [
        f"def f():\n{body(200)}",
        f"def f():\n{body(200)}",
        f"def g():\n{body(70)}",
        "def h():\n    return 1\n",
    ]
    graph = build_code_graph([Document(str(i), text) for i, text in enumerate(sources)])
    functions, blocks = unread(graph)
    assert (functions.unit, functions.texts) == ("functions", 4)
    assert (blocks.unit, blocks.texts) == ("blocks", 4)
    assert list(functions.cut.values()) == [3, 2]
    assert list(blocks.cut.values()) == [3, 2]
    assert functions.row == ["4", "3 (75.0%)", "2 (50.0%)"]
    short, longer = unread_lines(graph)
    assert "all-MiniLM-L6-v2:" in short
    assert "3 (75.0%) of 4 functions" in short
    assert "all-MiniLM-L6-v2-512:" in longer
    assert "2 (50.0%) of 4 blocks" in longer
    assert unread_lines(build_code_graph([Document("empty", "")])) == []
