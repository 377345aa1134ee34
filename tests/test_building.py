"""Graphs of corpora by name: counts, ledger, reasons."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import UserError
from pkg_lib.data.corpora import corpus_digest
from pkg_lib.papers.pkg.graph_building import build_corpus, lines


def test_code_and_its_ledger():
    built = build_corpus("textbook", processes=2)
    nodes, edges = built.nodes, built.edges
    assert nodes["NAME"] == nodes["IMPL"] == edges["HAS_IMPL"] == built.ledger.implementations
    assert edges["HAS_BLOCK"] == nodes["BLOCK"] and sum(nodes.values()) == len(built.graph)
    assert built.ledger.balanced and built.skipped == {}
    assert built.graph.meta == {"corpus": "textbook", "corpus_digest": corpus_digest(built.documents)}


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
