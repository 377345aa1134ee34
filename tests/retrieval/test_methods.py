"""The methods that a corpus offers, and the contexts that the authors published."""

from __future__ import annotations

import json

import pytest

from pkg_lib.core.registry import load_plugins
from pkg_lib.core.types import Task, UserError
from pkg_lib.data import published
from pkg_lib.data.corpora import check_name, load_corpus
from pkg_lib.retrieval.knowledge import TextKnowledge
from pkg_lib.retrieval.methods import (
    METHODS,
    Method,
    knowledge_of,
    methods_of,
    retrieving_methods,
    rounds_of,
    rounds_together,
)
from pkg_lib.retrieval.retrievers import NoRetrieval


@pytest.fixture
def authors(tmp_path, monkeypatch):
    """Published contexts of two HumanEval tasks and one of MBPP.

    The second task has no function, and the rows of the files are not in order.
    """
    first, second, eleven = "HumanEval/0", "HumanEval/1", "MBPP/0"
    rows = {
        "voyage_code_relevant_context_human_eval": {1: "answer one", 0: "answer zero"},
        "voyage_code_relevant_context_mbpp": {0: "answer eleven"},
        "bm25_relevant_context_humaneval": {
            first: ["def first(): 1", "def second(): 2"],
            second: [],
        },
        "bm25_relevant_context_mbpp": {eleven: ["def eleven(): 1"]},
        "humaneval_function_wise_relevant_context": {
            first: [[0.9, "def best(): 1"], [0.8, "f"]],
            second: 0,
        },
        "mbpp_function_wise_relevant_context": {eleven: [[0.7, "def f(): 1"]]},
        "humaneval_blockwise_relevant_context": {
            first: [[0.9, "    x = 1"]],
            second: [[0.5, "    y = 2"]],
        },
        "mbpp_blockwise_relevant_context": {eleven: [[0.4, "    z = 3"]]},
    }
    folder = tmp_path / "contexts"
    folder.mkdir()
    for name, contexts in rows.items():
        key = "content" if name.startswith("bm25") and "mbpp" in name else "problem"
        lines = (json.dumps({"task_id": i, key: value}) for i, value in contexts.items())
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("PKG_PAPER_DIR", str(tmp_path))


def task(i, benchmark="humaneval"):
    return Task(i, benchmark, "", "f")


def test_methods_by_corpus():
    assert list(methods_of("python-docs+docstrings:json")) == [
        "NoRAG",
        "BM25",
        "VoyageEmb",
        "JSON-PKG",
    ]
    assert list(methods_of("published")) == [
        "NoRAG",
        "VoyageEmb",
        "Func-BM25",
        "Func-PKG",
        "Block-PKG",
    ]
    code = ["NoRAG", "BM25", "VoyageEmb", "Func-BM25", "Func-PKG", "Block-PKG"]
    assert list(methods_of("textbook+stdlib")) == code and retrieving_methods()[:7] == [
        *code,
        "JSON-PKG",
    ]
    with pytest.raises(UserError, match="mixes code and text"):
        methods_of("textbook+tutorials")
    with pytest.raises(UserError, match="own context; it cannot be joined"):
        check_name("textbook+published")
    assert isinstance(knowledge_of("docstrings:json"), TextKnowledge)


def test_published_context_is_the_authors_first_one_of_each_task(authors):
    knowledge = knowledge_of("published")
    tasks = [task("HumanEval/0"), task("HumanEval/1"), task("MBPP/11", "mbpp")]
    columns = methods_of("published")
    assert {
        c: [x.text for x in make(knowledge).retrieve(tasks)] for c, make in columns.items()
    } == {
        "NoRAG": ["", "", ""],
        "VoyageEmb": ["answer zero", "answer one", "answer eleven"],
        "Func-BM25": ["def first(): 1", "", "def eleven(): 1"],
        "Func-PKG": ["def best(): 1", "", "def f(): 1"],
        "Block-PKG": ["    x = 1", "    y = 2", "    z = 3"],
    }


def test_reports_a_task_without_a_published_context(authors):
    retriever = methods_of("published")["Func-PKG"](knowledge_of("published"))
    with pytest.raises(UserError, match="no Func-PKG context for MBPP/600"):
        retriever.retrieve([task("MBPP/600", "mbpp-all")])


def test_reports_a_missing_file_of_the_authors(authors, tmp_path):
    (tmp_path / "contexts" / f"{published.FILES['VoyageEmb'][1]}.jsonl").unlink()
    with pytest.raises(UserError, match=r"voyage_code_relevant_context_mbpp\.jsonl cannot be read"):
        load_corpus("published")


def test_method_is_added_by_one_entry(monkeypatch):
    monkeypatch.setitem(METHODS, "Toy", Method("Toy", NoRetrieval, ("text",)))
    assert (
        list(methods_of("python-docs"))[-1]
        == retrieving_methods()[-1]
        == "Toy"
        not in methods_of("textbook")
    )


def test_name_of_a_method_includes_its_rounds():
    load_plugins()
    assert rounds_of("EVOR") == [f"EVOR@{number}" for number in range(5)]
    assert rounds_of("EVOR@2") == ["EVOR@2"] and rounds_of("RK") == ["RK"]
    assert rounds_of("nosuch") == ["nosuch"]  # reported as unknown where methods are checked
    names = ["RK", *rounds_of("EVOR"), "EVOR, code@0", "EVOR, code@1"]
    assert rounds_together(names) == ["RK", "EVOR@0 to @4", "EVOR, code@0 to @1"]
