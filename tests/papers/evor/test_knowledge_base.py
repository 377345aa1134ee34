"""K and R of Algorithm 1: how texts are ranked, and how a context is filled."""

import pytest

from pkg_lib.papers.evor import text_index
from pkg_lib.papers.evor.code_snippets import lines_with_calls, snippets_of
from pkg_lib.papers.evor.evor_methods import EvorMethod
from pkg_lib.papers.evor.knowledge_base import ContextRequest, KnowledgeBase
from pkg_lib.papers.evor.text_index import TextIndex
from tests.fakes import WordEmbedder

DOCUMENTS = {
    "m.root": "m.root(n)\nThe root of a number.\n\nMore of it.",
    "m.sort": "m.sort(list)\nSorts a list.\n\nMore of it.",
}
BUDGETS = {"context": 1000, "snippets": 1000, "feedback": 1000}


@pytest.fixture(autouse=True)
def _words_are_vectors(monkeypatch):
    monkeypatch.setattr(text_index, "Embedder", WordEmbedder)


def words(text):
    """Size of a text in words."""
    return len(text.split())


def retrieved(query, method=None, collected=None, budgets=BUDGETS, **request):
    """What a knowledge base returns for one query."""
    knowledge_base = KnowledgeBase(DOCUMENTS, collected or {})
    method = method or EvorMethod("m", retriever="BM25")
    requests = [ContextRequest((query,), **request)]
    (found,) = knowledge_base.retrieve(requests, method, budgets, words)
    return found


@pytest.mark.parametrize("retriever", ["BM25", "MiniLM", "both"])
def test_the_text_of_the_query_comes_first(retriever):
    index = TextIndex(["sort a list", "the root of a number", "add one"])
    rankings = index.rank(["root of a number", "sort a list"], retriever)
    assert [ranking[0] for ranking in rankings] == [1, 0]
    assert [sorted(ranking) for ranking in rankings] == [[0, 1, 2]] * 2


@pytest.mark.parametrize("retriever", ["BM25", "MiniLM", "both"])
def test_equal_texts_keep_their_order(retriever):
    index = TextIndex(["same words", "same words", "other"])
    assert index.rank(["same words"], retriever) == [[0, 1, 2]]


def test_nothing_is_ranked_without_texts_or_queries():
    assert TextIndex([]).rank(["a"], "both") == [[]]
    assert TextIndex(["a"]).rank([], "both") == []


def test_several_queries_of_a_task_take_turns():
    index = TextIndex(["sort a list", "the root of a number"])
    queries = [("root of a number", "sort a list"), ("sort a list", "sort a list")]
    assert index.rank_by_turns(queries, "BM25") == [[1, 0], [0, 1]]


def test_a_document_is_shown_by_its_head():
    found = retrieved("root of a number")
    assert found.documents == ["m.root", "m.sort"]
    assert "The root of a number." in found.text and "More of it" not in found.text
    whole = retrieved("root of a number", EvorMethod("m", retriever="BM25", brief=False))
    assert "More of it" in whole.text


def test_documents_take_what_the_other_sources_leave():
    method = EvorMethod("m", retriever="BM25")
    collected = {"snippets": ["m.root(1)", "m.sort([2, 1])"]}
    narrow = {"context": 14, "snippets": 2, "feedback": 0}
    found = retrieved("root", method, collected, narrow)
    assert "m.root(1)" in found.text and "m.sort([2, 1])" not in found.text
    assert found.documents == ["m.root"]
    alone = retrieved("root", method, {}, narrow)
    assert alone.documents == ["m.root", "m.sort"]


def test_a_source_that_the_method_does_not_use_is_not_searched():
    method = EvorMethod("m", retriever="BM25", sources=("snippets",))
    found = retrieved("root", method, {"snippets": ["m.root(1)"], "feedback": ["an error"]})
    assert found.documents == []
    assert "m.root(1)" in found.text and "an error" not in found.text


def test_the_best_document_is_nearest_to_the_error_that_follows():
    plain = retrieved("root of a number").text
    with_error = retrieved("root of a number", introduction="Steps.", ending="It failed.").text
    assert plain.index("m.root(n)") < plain.index("m.sort(list)")
    assert with_error.index("m.sort(list)") < with_error.index("m.root(n)")
    assert with_error.startswith("Steps.") and with_error.endswith("It failed.")


def test_a_failure_that_the_ending_repeats_is_shown_once():
    collected = {"feedback": ["`m.rot(1)`: an error", "`m.sor(1)`: another"]}
    found = retrieved("error", None, collected, ending="Failed: `m.rot(1)`: an error")
    assert found.text.count("an error") == 1 and "another" in found.text


def test_documents_near_a_missing_name_are_listed():
    knowledge_base = KnowledgeBase(DOCUMENTS, {})
    listing = EvorMethod("m", retriever="BM25", nearest=1)
    names = ["square_root", ""]
    assert knowledge_base.nearest_documents(names, listing)[0] == "m.root(n): The root of a number."
    assert knowledge_base.nearest_documents(names, EvorMethod("m")) == ["", ""]


def test_lines_that_call_a_library_are_snippets():
    program = "import m\n# m.root(1)\nx = m.root(4)\nm.sort([\n    x])\nx = m.root(4)\ny = x + 1"
    assert lines_with_calls(program) == ["x = m.root(4)"]
    assert lines_with_calls(program, given="x = m.root(4)") == []


def test_a_snippet_that_calls_the_same_functions_again_is_left_out():
    programs = [("m.root(1)\nm.sort([1])", ""), ("m.root(2)", "")]
    lines = snippets_of(programs, whole_programs=False)
    assert sorted(lines) == ["m.root(1)", "m.sort([1])"]
    whole = snippets_of(programs, whole_programs=True)
    assert whole == ["m.root(1)\nm.sort([1])", "m.root(2)"]
