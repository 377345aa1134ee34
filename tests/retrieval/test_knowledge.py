"""Nearest nodes of a stored graph in a fake database. test_stored_graph.py uses a real one."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from pkg_lib.core.store import slug, write_jsonl
from pkg_lib.core.types import Document, Task, UserError, digest
from pkg_lib.graph import bolt
from pkg_lib.graph.schema import IMPL, build_code_graph
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.methods import METHODS
from pkg_lib.retrieval.stored_graph import StoredKnowledge

DOCUMENTS = [
    Document("a.py", "def f(x):\n    if x:\n        return 1\n"),
    Document("b.py", "def g(x):\n    for y in x:\n        print(y)\n"),
]
GRAPH = build_code_graph(DOCUMENTS)
NODES = GRAPH.first_of_each_text(IMPL)


class Database:
    """A database with given neighbours (None if it has no vector index) and given vectors."""

    def __init__(self, found, vectors):
        self.found, self.stored = found, vectors

    def load(self):
        return GRAPH

    def nearest(self, *_):
        return self.found

    def vectors(self, *_):
        return self.stored


def test_enhanced_functions_of_a_stored_graph_equal_those_of_the_corpus(
    embedder, tmp_path, monkeypatch
):
    """They form a separate graph beside the stored one."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    monkeypatch.setattr(bolt, "opened", lambda place: nullcontext(Database(None, None)))
    place = "bolt://host/name"
    tasks = [Task("q", "humaneval", "print each item", "f")]
    found = []
    for knowledge in (
        Knowledge(DOCUMENTS, embedder, corpus="own"),
        StoredKnowledge(DOCUMENTS, embedder, corpus=place, place=place),
    ):
        file = tmp_path / "enhanced" / "m" / f"{slug(knowledge.corpus)}.jsonl"
        rows = []
        for node in NODES.tolist():
            sha = digest(GRAPH.payload(node))
            docstring = "Print each item."
            rows.append({"payload_sha256": sha, "form": "", "docstring": docstring, "reason": ""})
        write_jsonl(file, rows)
        found.append(METHODS["Func-PKG, enhanced"].make_retriever(knowledge).retrieve(tasks))
    assert found[0] == found[1] and "Print each item." in found[0][0].text


@pytest.fixture
def nearest(embedder, monkeypatch):
    def search(found, vectors=None):
        monkeypatch.setattr(bolt, "opened", lambda place: nullcontext(Database(found, vectors)))
        stored = StoredKnowledge(DOCUMENTS, embedder, place="bolt://host/name")
        return stored.nearest(IMPL, embedder.encode(["print y"]), 1, NODES)

    return search


def test_ranks_stored_vectors_like_those_of_the_corpus(nearest, embedder):
    vectors = embedder.encode(GRAPH.payloads(NODES))
    own = Knowledge(DOCUMENTS, embedder).nearest(IMPL, embedder.encode(["print y"]), 1, NODES)
    for mine, theirs in zip(own, nearest(None, vectors), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_uses_the_neighbours_that_the_server_finds(nearest):
    found = np.array([[NODES[1]]]), np.array([[0.5]], np.float32)
    assert nearest(found) == found


def test_rejects_vectors_that_do_not_fit_the_graph(nearest, embedder):
    vectors = embedder.encode(GRAPH.payloads(NODES))
    name_node = np.array([[0]]), np.array([[0.5]], np.float32)
    for found, stored in ((name_node, None), (None, vectors[:1]), (None, vectors[:, :3])):
        with pytest.raises(UserError, match="do not fit the graph"):
            nearest(found, stored)
