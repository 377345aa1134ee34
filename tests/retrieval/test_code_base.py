"""A user's own code: what is kept between commands, and what one search finds."""

from __future__ import annotations

import pytest
from fakes import WordEmbedder

from pkg_lib.core.types import UserError
from pkg_lib.graph import disk
from pkg_lib.retrieval import code_base
from pkg_lib.retrieval.explain import search_code
from pkg_lib.retrieval.methods import knowledge_of, make_retriever

SORT = (
    'def sort_words(words):\n    """Sort words by length."""\n    return sorted(words, key=len)\n'
)
READ = "def read_file(path):\n    with open(path) as file:\n        return file.read()\n"


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text(SORT)
    (folder / "b.py").write_text(READ)
    return folder


def knowledge(folder):
    found = knowledge_of(f"source:{folder}")
    found.embedder = WordEmbedder()
    return found


def counted(monkeypatch):
    """Count how often a graph is built."""
    built = []
    build = code_base.build_code_graph
    monkeypatch.setattr(
        code_base, "build_code_graph", lambda *given: built.append(1) or build(*given)
    )
    return built


def test_the_graph_is_built_once_and_again_after_an_edit(code, monkeypatch):
    built = counted(monkeypatch)
    first, second = knowledge(code).graph, knowledge(code).graph
    assert len(built) == 1 and first.texts == second.texts
    (code / "a.py").write_text(SORT.replace("length", "size"))
    assert any("size" in text for text in knowledge(code).graph.texts.to_pylist())
    assert len(built) == 2


def test_a_damaged_graph_is_built_again(code, monkeypatch):
    built = counted(monkeypatch)
    texts = knowledge(code).graph.texts.to_pylist()
    (path,) = (code.parent / "cache" / "graphs").glob(f"*/{disk.GRAPH}")
    path.write_bytes(path.read_bytes()[:-40])
    assert knowledge(code).graph.texts.to_pylist() == texts and len(built) == 2


def test_a_graph_is_built_again_by_another_version_of_the_program(code, monkeypatch):
    built = counted(monkeypatch)
    assert knowledge(code).graph
    monkeypatch.setattr(code_base, "_builder_digest", lambda: "another")
    assert knowledge(code).graph and len(built) == 2


def test_a_search_finds_by_words_and_by_meaning(code):
    for _ in range(2):  # the second search reads the stored index
        shown = list(search_code(knowledge(code), "sort words by length", top=1))
        assert [line.split("  ")[-1] for line in shown] == [
            "by words (BM25):",
            "def sort_words(words):",
            "by meaning (words):",
            "def sort_words(words):",
        ]
    shown = list(search_code(knowledge(code), "zzz", top=1))
    assert shown[1] == "  no word of the query is in the code"


def test_the_stored_index_is_that_of_the_code_as_it_is_now(code):
    assert "read_file" not in list(search_code(knowledge(code), "lengths", top=1))[1]
    (code / "b.py").write_text(READ.replace("path", "lengths"))
    assert "read_file" in list(search_code(knowledge(code), "lengths", top=1))[1]


@pytest.mark.parametrize(
    ("query", "unit", "why"), [(" ", "function", "query is empty"), ("x", "leaf", "unknown unit")]
)
def test_a_mistake_is_one_line(code, query, unit, why):
    with pytest.raises(UserError, match=why):
        list(search_code(knowledge(code), query, unit))


def test_after_an_edit_only_the_new_text_is_encoded(code):
    embedder = WordEmbedder()
    before = knowledge(code)
    texts = make_texts(before)
    embedder.encode(texts)
    (code / "b.py").write_text(READ.replace("path", "name"))
    assert embedder.missing(make_texts(knowledge(code))) == [READ.replace("path", "name").strip()]


def make_texts(of):
    from pkg_lib.retrieval.retrievers import FuncPKG

    return FuncPKG(of).encoded_texts()


def test_what_a_method_encodes(code):
    of = knowledge(code)
    from pkg_lib.retrieval import retrievers

    assert retrievers.BM25Rows(of).encoded_texts() == []
    assert retrievers.FuncBM25(of).encoded_texts() == []
    assert len(retrievers.FuncPKG(of).encoded_texts()) == 2
    assert len(retrievers.DenseRows(of).encoded_texts()) == 2
    assert any("with open" in text for text in retrievers.BlockPKG(of).encoded_texts())


def test_what_a_place_is(code, tmp_path):
    disk.save(knowledge(code).graph, tmp_path / "saved")
    assert code_base.corpus_at(str(tmp_path / "saved")) == ""
    assert code_base.corpus_at("bolt://host/name") == ""
    assert code_base.corpus_at(str(code)) == f"source:{code}"
    assert code_base.corpus_at("textbook") == "textbook"
    assert code_base.corpus_at("/no/such/graph") == ""


def test_a_retriever_of_the_api_uses_the_kept_graph(code, monkeypatch):
    from pkg_lib import Task, load_corpus

    built = counted(monkeypatch)
    task = Task("Mine/0", "humaneval", "sort words by length", "")
    for _ in range(2):
        retriever = make_retriever("Func-BM25", load_corpus(code))
        (context,) = retriever.retrieve([task])
        assert "sort_words" in context.text
    assert len(built) == 1


def test_a_cache_that_cannot_be_written_only_costs_time(code, monkeypatch):
    (code.parent / "cache").write_text("a file where the directory would be")
    built = counted(monkeypatch)
    assert knowledge(code).graph and knowledge(code).graph and len(built) == 2
    shown = list(search_code(knowledge(code), "sort words by length", top=1))
    assert shown[1].endswith("def sort_words(words):")


@pytest.mark.parametrize("content", [b"", b"no index"])
def test_a_damaged_index_is_made_again(code, content):
    first = list(search_code(knowledge(code), "sort words", top=1))
    files = list((code.parent / "cache" / "graphs").glob("*/bm25-*/*"))
    assert files
    for path in files:
        path.write_bytes(content)
        assert list(search_code(knowledge(code), "sort words", top=1)) == first
