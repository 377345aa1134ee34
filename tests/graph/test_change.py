"""Adding and removing documents gives the graph that a build from scratch gives, and encodes only what is new."""

from __future__ import annotations

import pytest
from fakes import WordEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.disk import directory as store
from pkg_lib.graph.disk.change import added, removed
from pkg_lib.graph.schema import build
from pkg_lib.graph.text.documents import build_text
from pkg_lib.graph.text.structure import structured

from .source_trees import Expected, bodies, render


@st.composite
def corpora(draw):
    """A few documents that share functions; some do not parse, some are empty."""
    texts = ["", "def f(", "X = 1\n", *(draw(st.lists(bodies, min_size=1, max_size=2)))]
    chosen = draw(st.lists(st.sampled_from(range(len(texts))), min_size=1, max_size=6))
    return [
        Document(f"d{i}", texts[c] if isinstance(texts[c], str) else source(texts[c]))
        for i, c in enumerate(chosen)
    ]


def source(body) -> str:
    out = Expected()
    render(body, out)
    return "\n".join(out.lines) + "\n"


@settings(max_examples=25)
@given(corpora(), st.data())
def test_any_split_adds_up_to_the_whole(documents, data):
    cut = data.draw(st.integers(0, len(documents)))
    assert added(build(documents[:cut], {"a": "b"}), documents[cut:]).equals(build(documents, {"a": "b"}))


@settings(max_examples=25)
@given(corpora(), st.data())
def test_what_is_left_is_what_a_build_of_it_gives(documents, data):
    gone = data.draw(st.sets(st.sampled_from([d.id for d in documents])))
    assert removed(build(documents), gone).equals(build([d for d in documents if d.id not in gone]))


def test_on_disk_only_new_payloads_are_encoded(tmp_path, textbook):
    documents = textbook[0]
    embedder, some, rest = WordEmbedder(), documents[:40], documents[40:80]
    store.save(build(some), tmp_path / "g", embedder)
    known = len(embedder.seen)
    assert known == len(build(some).texts)
    whole = store.add(tmp_path / "g", rest, embedder)
    assert whole.equals(build(some + rest))
    assert sorted(embedder.seen) == sorted(whole.texts["text"].to_pylist())
    smaller = store.remove(tmp_path / "g", [d.id for d in some])
    assert smaller.equals(build(rest)) and len(embedder.seen) == len(whole.texts)
    store.save(build(rest), tmp_path / "scratch", WordEmbedder())
    assert {p.name: p.read_bytes() for p in (tmp_path / "g").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "scratch").iterdir()
    }


def test_mistakes():
    graph = build([Document("a", "def f(): pass\n")])
    with pytest.raises(UserError, match="document a is in the graph already; remove it first"):
        added(graph, [Document("b", ""), Document("a", "")])
    with pytest.raises(UserError, match=r"document c is not in the graph \(2 of the 3"):
        removed(graph, ["a", "d", "c"])
    with pytest.raises(UserError, match="document b is in the graph already"):
        added(graph, [Document("b", ""), Document("b", "def g(): pass\n")])
    with pytest.raises(UserError, match="code and text"):
        added(graph, [Document("b", ""), Document("c", "T\n=\n\ntext\n", "rst")])


def test_text_is_added_by_the_structurer_of_its_kind(tmp_path):
    documents = [Document(n, f"Title {n}\n=======\n\ntext\n\n    code of {n}\n", "rst") for n in "ab"]
    store.save(build_text(documents[:1], structured(documents[:1])), tmp_path)
    whole = store.add(tmp_path, documents[1:])
    assert whole.equals(build_text(documents, structured(documents))) and not whole.skipped
    assert store.remove(tmp_path, ["a"]).equals(build_text(documents[1:], structured(documents[1:])))


def test_a_changed_graph_does_not_claim_the_digest_of_the_corpus_it_came_from():
    graph = build([Document("a", "def f(): pass\n")], {"corpus": "x", "corpus_digest": "1"})
    whole = added(graph, [Document("b", "def g(): pass\n")])
    assert whole.meta == removed(whole, ["b"]).meta == {"corpus": "x"} and graph.meta["corpus_digest"] == "1"
