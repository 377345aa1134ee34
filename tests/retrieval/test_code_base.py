"""User-supplied code: the cached graph and index, and the results of a search."""

from __future__ import annotations

import pytest
from fakes import WordEmbedder

from pkg_lib.core.types import UserError
from pkg_lib.graph import disk
from pkg_lib.retrieval import code_base
from pkg_lib.retrieval.explain import search_code
from pkg_lib.retrieval.methods import knowledge_of, make_retriever
from pkg_lib.retrieval.retrievers import BlockPKG, BM25Rows, DenseRows, FuncBM25, FuncPKG

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


@pytest.fixture
def builds(monkeypatch):
    """List with one item for each time that a graph was built."""
    calls = []
    build = code_base.build_code_graph

    def record_and_build(*arguments):
        calls.append(arguments)
        return build(*arguments)

    monkeypatch.setattr(code_base, "build_code_graph", record_and_build)
    return calls


def search(folder, query):
    """Return the printed lines of a search for one unit."""
    return list(search_code(knowledge(folder), query, top=1))


def test_builds_the_graph_once_and_again_after_an_edit(code, builds):
    first = knowledge(code).graph
    second = knowledge(code).graph
    assert len(builds) == 1
    assert first.texts == second.texts
    (code / "a.py").write_text(SORT.replace("length", "size"))
    assert any("size" in text for text in knowledge(code).graph.texts.to_pylist())
    assert len(builds) == 2


def test_builds_a_damaged_graph_again(code, builds):
    texts = knowledge(code).graph.texts.to_pylist()
    (path,) = (code.parent / "cache" / "graphs").glob(f"*/{disk.GRAPH}")
    path.write_bytes(path.read_bytes()[:-40])
    assert knowledge(code).graph.texts.to_pylist() == texts
    assert len(builds) == 2


def test_another_version_of_the_program_builds_the_graph_again(code, builds, monkeypatch):
    assert knowledge(code).graph
    monkeypatch.setattr(code_base, "_builder_digest", lambda: "another")
    assert knowledge(code).graph
    assert len(builds) == 2


def test_searches_by_words_and_by_meaning(code):
    for _ in range(2):  # the second search reads the stored index
        lines = search(code, "sort words by length")
        assert [line.split("  ")[-1] for line in lines] == [
            "by words (BM25):",
            "def sort_words(words):",
            "by meaning (words):",
            "def sort_words(words):",
        ]
    lines = search(code, "zzz")
    assert lines[1] == "  no word of the query is in the code"


def test_search_finds_edited_code(code):
    assert "read_file" not in search(code, "lengths")[1]
    (code / "b.py").write_text(READ.replace("path", "lengths"))
    assert "read_file" in search(code, "lengths")[1]


@pytest.mark.parametrize(
    ("query", "unit", "why"), [(" ", "function", "query is empty"), ("x", "leaf", "unknown unit")]
)
def test_rejects_an_empty_query_and_an_unknown_unit(code, query, unit, why):
    with pytest.raises(UserError, match=why):
        list(search_code(knowledge(code), query, unit))


def test_after_an_edit_only_the_new_text_is_encoded(code):
    embedder = WordEmbedder()
    embedder.encode(FuncPKG(knowledge(code)).encoded_texts())
    edited = READ.replace("path", "name")
    (code / "b.py").write_text(edited)
    texts = FuncPKG(knowledge(code)).encoded_texts()
    assert embedder.missing(texts) == [edited.strip()]


def test_texts_that_each_method_encodes(code):
    base = knowledge(code)
    assert BM25Rows(base).encoded_texts() == []
    assert FuncBM25(base).encoded_texts() == []
    assert len(FuncPKG(base).encoded_texts()) == 2
    assert len(DenseRows(base).encoded_texts()) == 2
    assert any("with open" in text for text in BlockPKG(base).encoded_texts())


def test_recognises_folders_corpora_and_saved_graphs(code, tmp_path):
    disk.save(knowledge(code).graph, tmp_path / "saved")
    assert code_base.corpus_at(str(tmp_path / "saved")) == ""
    assert code_base.corpus_at("bolt://host/name") == ""
    assert code_base.corpus_at(str(code)) == f"source:{code}"
    assert code_base.corpus_at("textbook") == "textbook"
    assert code_base.corpus_at("/no/such/graph") == ""


def test_retriever_of_the_api_uses_the_cached_graph(code, builds):
    from pkg_lib import Task, load_corpus

    task = Task("Mine/0", "humaneval", "sort words by length", "")
    for _ in range(2):
        retriever = make_retriever("Func-BM25", load_corpus(code))
        (context,) = retriever.retrieve([task])
        assert "sort_words" in context.text
    assert len(builds) == 1


def test_unwritable_cache_only_costs_time(code, builds):
    (code.parent / "cache").write_text("a file where the directory would be")
    assert knowledge(code).graph
    assert knowledge(code).graph
    assert len(builds) == 2
    lines = search(code, "sort words by length")
    assert lines[1].endswith("def sort_words(words):")


@pytest.mark.parametrize("content", [b"", b"no index"])
def test_rebuilds_a_damaged_index(code, content):
    lines = search(code, "sort words")
    files = list((code.parent / "cache" / "graphs").glob("*/bm25-*/*"))
    assert files
    for path in files:
        path.write_bytes(content)
        assert search(code, "sort words") == lines
