"""Corpora by name, loaded from small directories, packages and copies of the documentation."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import datasets
import huggingface_hub
import pytest

from pkg_lib.core import limits
from pkg_lib.core.store import read_json
from pkg_lib.core.types import Document, UserError
from pkg_lib.data import corpora, text_corpora
from pkg_lib.data.corpora import check_name, corpus_digest, is_text, load_corpus, own
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.graph.schema import NAME, build_code_graph

ANSWER = "So:\n```python\ndef answered():\n    return 1\n```\nDone."


def ids(corpus: str) -> list[str]:
    return [document.id for document in load_corpus(corpus)]


def write(root: Path, files: dict[str, bytes]) -> None:
    """Write files, whose names may contain folders."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.fixture
def tree(tmp_path):
    """Return a directory with two Python files, one that cannot be decoded, and files to ignore."""
    ignored = b"def no(): pass\n"
    files = {
        "z.py": b"def z(): pass\n",
        "b/a.py": b"\xef\xbb\xbfdef a():\r\n    return 1\r\n",
        "b/latin.py": b"def l(): return '\xe9'\n",
        "text.txt": ignored,
        "folder.py/text": ignored,
        "b/__pycache__/no.py": ignored,
    }
    write(tmp_path / "tree", files)
    return tmp_path / "tree"


def test_loads_the_python_files_of_a_directory(tree, caplog):
    documents = load_corpus(f"source:{tree}").documents
    assert [document.id for document in documents] == ["source/b/a.py", "source/z.py"]
    for document in documents:
        assert document.kind == "python"
        assert document.unit == "row"
    graph = build_code_graph(documents)
    # One of the files begins with a byte order mark.
    assert graph.payloads(graph.of_type(NAME)) == ["a", "z"]
    assert not graph.skipped
    # Python cannot decode this file either.
    assert "b/latin.py" in caplog.text


def test_joins_corpora_and_takes_only_library_code_from_stdlib(tree):
    names = ids(f"textbook+stdlib+source:{tree}")
    assert names[0].startswith("textbook/")
    assert names[-1] == "source/z.py"
    assert len(names) > 500
    assert len(names) == len(set(names))
    assert {"stdlib/heapq.py", "stdlib/json/decoder.py"} <= set(names)
    for name in names:
        if name.startswith("stdlib"):
            folders = name.split("/")
            assert "test" not in folders
            assert "site-packages" not in folders


UNKNOWN = r"unknown corpus '.*'; .*pkg-lib list corpora"
MIXED = "mixes code and text"
PACKAGE = "corpus docstrings:.*no such package"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, UNKNOWN) for name in ("nosuch", "textbook+nosuch", "", "textbook+", "Textbook")),
        ("source:/nosuch", "no such directory"),
        ("source:", "names no directory"),
        ("textbook+python-docs", MIXED),
        ("docstrings:json+stdlib", MIXED),
        ("published+textbook", "published is each task's own context; it cannot be joined"),
        *(
            (f"docstrings:{name}", PACKAGE)
            for name in ("nosuch", "", "../x", "json.nosuch", "sys", "a b", ".")
        ),
    ],
)
def test_refuses_invalid_names(name, message):
    with pytest.raises(UserError, match=message):
        check_name(name)


def test_refuses_a_directory_with_a_plus_sign_in_its_name(tmp_path):
    folder = tmp_path / "a+b"
    folder.mkdir()
    (folder / "m.py").write_text("def f():\n    return 1\n")
    with pytest.raises(UserError, match="must not contain '\\+'"):
        load_corpus(f"source:{folder}")


def test_reports_an_empty_directory_and_an_unreadable_file(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="holds no Python file"):
        load_corpus(f"source:{tmp_path}")

    (tmp_path / "a.py").touch()
    monkeypatch.setattr(os, "open", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(UserError, match=r"cannot be read: Permission denied: a\.py"):
        load_corpus(f"source:{tmp_path}")


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """Set PKG_PAPER_DIR to a small replication package with every kind of file."""
    functions = [[0.9, "def three(): pass"], [0.8, "def one(): pass"]]
    rows_of = {
        "voyage_code_relevant_context_mbpp": [(0, "problem", ANSWER), (1, "problem", ANSWER)],
        "bm25_relevant_context_humaneval": [
            ("H/0", "problem", ["def one(): pass", "def two(): pass"])
        ],
        "bm25_relevant_context_mbpp": [("M/0", "content", ["def two(): pass"])],
        "mbpp_function_wise_relevant_context": [
            ("M/0", "problem", functions),
            ("M/1", "problem", []),
        ],
        "mbpp_blockwise_relevant_context": [("M/0", "problem", [[0.9, "    return block"]])],
    }
    folder = tmp_path / "paper" / "contexts"
    folder.mkdir(parents=True)
    for name, rows in rows_of.items():
        lines = [json.dumps({"task_id": task, field: value}) for task, field, value in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("PKG_PAPER_DIR", str(folder.parent))
    return folder


def test_pkg_contexts_contains_each_answer_and_function_once(paper):
    documents = load_corpus("pkg-contexts").documents
    (answer,) = [document for document in documents if document.unit == "row"]
    assert answer.text == ANSWER
    assert answer.kind == "answer"
    functions = [document.text for document in documents if document.unit == "function"]
    assert sorted(functions) == ["def one(): pass", "def three(): pass", "def two(): pass"]
    assert len({document.id for document in documents}) == 4


def test_pkg_contexts_reports_a_damaged_file_and_missing_data(paper, monkeypatch):
    (paper / "bm25_relevant_context_mbpp.jsonl").write_text('{"task_id": 1}\n{"task')
    with pytest.raises(UserError, match=r"bm25_relevant_context_mbpp\.jsonl, line 2 is damaged"):
        load_corpus("pkg-contexts")
    for value in ("", "nosuch"):
        monkeypatch.setenv("PKG_PAPER_DIR", value)
        with pytest.raises(UserError, match="set PKG_PAPER_DIR"):
            load_corpus("pkg-contexts")


TUTORIALS = [
    {"title": "Lists in\nPython", "text": "Lists in\nPython\nA list.\n\nMore."},
    {"title": "Java", "text": "Nothing."},
    {"title": None, "text": "About python 3."},
    {"title": "pythonic", "text": "Pythons: no word of its own."},  # does not name Python
]
LISTS = Document("tutorials/0", "Lists in Python\n\nA list.\n\nMore.\n", "text")
ALPACA = [
    {"instruction": "Sort a list.", "input": "", "output": ANSWER},
    {"instruction": "Sum it.", "input": "[1, 2]", "output": ANSWER},
    {"instruction": "Nobody knows.", "input": "", "output": " "},
    {"instruction": None, "output": ANSWER},
]
PAIRS = [
    Document("python-alpaca/0", ANSWER, kind="answer", question="Sort a list."),
    Document("python-alpaca/1", ANSWER, kind="answer", question="Sum it.\n\n[1, 2]"),
    Document("python-alpaca/3", ANSWER, kind="answer"),
]
OF_HUB = {
    "python-alpaca": (ALPACA, PAIRS),
    "tutorials": (TUTORIALS, [LISTS, Document("tutorials/2", "About python 3.", "text")]),
}


class MadeUpHub:
    """Replace the hub by one whose data sets all have the same rows.

    Attributes:
        main: Commit of the branch `main`.
        loaded: (name, split, commit) of every data set that was loaded.
    """

    def __init__(self, monkeypatch, rows):
        self.rows = rows
        self.loaded = []
        self.main = "a" * 40
        monkeypatch.setattr(text_corpora.hub, "reachable", lambda: True)
        monkeypatch.setattr(datasets, "load_dataset", self.load)
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: self)

    def load(self, name, split, revision):
        self.loaded.append((name, split, revision))
        return self.rows

    def dataset_info(self, name):
        return SimpleNamespace(sha=self.main)


@pytest.mark.parametrize("corpus", OF_HUB)
def test_loads_rows_from_the_hub(corpus, monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    rows, documents = OF_HUB[corpus]
    MadeUpHub(monkeypatch, rows)
    assert load_corpus(corpus).documents == documents
    monkeypatch.setattr(text_corpora.hub, "reachable", lambda: False)
    with pytest.raises(UserError, match="hub, which does not answer; choose another"):
        load_corpus(corpus)


def test_a_results_directory_reads_a_data_set_at_one_commit(monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    hub = MadeUpHub(monkeypatch, ALPACA)
    # Before the first use, no commit is known.
    assert corpora.hub_revisions("python-alpaca, top 3") == {corpora.PYTHON_ALPACA: ""}
    load_corpus("python-alpaca")
    hub.main = "b" * 40
    load_corpus("python-alpaca")
    assert hub.loaded == [(corpora.PYTHON_ALPACA, "train", "a" * 40)] * 2
    assert corpora.hub_revisions("textbook+python-alpaca") == {corpora.PYTHON_ALPACA: "a" * 40}
    assert corpora.hub_revisions("textbook") == {}

    # Another results directory reads the new commit.
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "other"))
    load_corpus("python-alpaca")
    assert hub.loaded[-1][-1] == "b" * 40

    # The commit of the tutorials is pinned in the library.
    hub.rows = TUTORIALS
    load_corpus("tutorials")
    pinned = hub.loaded[-1][-1]
    assert re.fullmatch("[0-9a-f]{40}", pinned)
    assert pinned != "b" * 40

    (record,) = (tmp_path / "other" / "data_sets").iterdir()
    record.write_text('{"revision": "main"}')
    with pytest.raises(UserError, match="is not a commit") as error:
        load_corpus("python-alpaca")
    assert record.name in str(error.value)


def test_contexts_record_the_commit_of_their_data_set(monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    MadeUpHub(monkeypatch, ALPACA)
    run = Results("qwen2.5-coder-0.5b-instruct", corpus="python-alpaca", limit=1)
    (context,) = Evaluator(run).contexts("BM25")
    assert context.source.startswith("python-alpaca/")
    assert context.text in ("", ANSWER)
    (meta,) = (tmp_path / "results" / "contexts").rglob("bm25/provenance.json")
    assert read_json(meta)["data_sets"] == {corpora.PYTHON_ALPACA: "a" * 40}


@pytest.mark.parametrize("output", [7, ["x"], "x" * (limits.MAX_ROW_BYTES + 1)])
def test_reports_a_row_of_the_hub_that_is_not_text(output, monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    MadeUpHub(monkeypatch, [*ALPACA, {"output": output}])
    with pytest.raises(UserError, match=r"python-alpaca: row 4 .*: field output is "):
        load_corpus("python-alpaca")


PARTS = "".join(f"Part {i}\n------\n\n{'word ' * 500}\n\n" for i in range(3))
PAGE = f"Chapter\n=======\n\nIntro.\n\n{PARTS}"


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """Set PKG_PYTHON_DOCS to a small copy of Python's documentation: HTML pages and their sources."""
    root = tmp_path / "docs" / "html"
    content = b"Title\n=====\n\nx\n"
    for page in ("tutorial/lists", "howto/sorting", "library/left-out"):
        write(root, {f"_sources/{page}.rst.txt": content, f"{page}.html": content})
    (root / "_sources" / "tutorial" / "lists.rst.txt").write_text(PAGE)
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(root.parent))
    return root


def test_python_docs_are_the_sources_or_else_the_html_pages(docs):
    documents = load_corpus("python-docs").documents
    assert [document.id for document in documents] == [
        "python-docs/tutorial/lists",
        "python-docs/tutorial/lists#part-0",
        "python-docs/tutorial/lists#part-1",
        "python-docs/tutorial/lists#part-2",
        "python-docs/howto/sorting",
    ]
    for document in documents:
        assert document.kind == "rst"
        assert document.unit == "row"
    assert "".join(document.text for document in documents[:4]) == PAGE
    shutil.rmtree(docs / "_sources")
    assert ids("python-docs") == ["python-docs/tutorial/lists", "python-docs/howto/sorting"]
    assert {document.kind for document in load_corpus("python-docs")} == {"html"}


def test_python_docs_may_be_any_directory_of_pages(tmp_path, monkeypatch):
    section = b"<section><h2>Part</h2><p>" + b"word " * 500 + b"</p></section>"
    pages = {
        "a.md": b"# Title\n\ntext\n",
        "sub/b.html": b"<html><body><nav>no</nav><main><h1>T</h1><p>x</p></main></body></html>",
        "sub/c.rst": b"\xef\xbb\xbfT\xe9\n==\n",
        "d.py": b"x = 1",
        "z.html": b"<html><main><h1>Page</h1>" + 3 * section + b"</main></html>",
    }
    write(tmp_path, pages)
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path))
    documents = load_corpus("python-docs").documents
    kinds = {document.id.partition("/")[2]: document.kind for document in documents}
    assert kinds == {
        "a": "markdown",
        "sub/b": "html",
        "sub/c": "rst",
        "z": "html",
        "z#part": "html",
        "z#part-2": "html",
        "z#part-3": "html",
    }
    assert "no" not in documents[1].text
    assert documents[2].text == "T\ufffd\n==\n"


@pytest.mark.parametrize("value", ["", "/nosuch/directory"])
def test_explains_how_to_get_the_documentation(value, monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_PYTHON_DOCS", value)
    monkeypatch.setattr(text_corpora, "DEBIAN_DOCS", tmp_path / "nosuch")
    message = r"python3\.11-doc, or unpack an HTML archive .*set PKG_PYTHON_DOCS"
    with pytest.raises(UserError, match=message):
        load_corpus("python-docs")


MODULE = '''
__all__ = ["f", "C", "nothing"]

def f(x: int, *, y=1) -> str:
    """Does it.

    Indented.
    """

def hidden():
    """Not listed."""

def nothing(): pass

class C(Exception):
    """A class."""
    async def method(self):
        "A method."
    def _private(self):
        "No."
    @property
    def value(self):
        "One."
    @value.setter
    def value(self, v):
        "Two."
'''
FILES = {
    "made_up_package/__init__.py": b"raise ImportError('is never imported')\n",
    "made_up_package/inner/__init__.py": MODULE.encode(),
    "made_up_package/inner/_impl.py": b'def g(a, /, *b, **c):\n    "G."\nclass _Hidden:\n    "No."\n',
    "made_up_package/broken.py": b"def broken(:\n",
    "made_up_package/nul.py": b"x = 1\0",
    "made_up_package/latin.py": b"# -*- coding: latin-1 -*-\ndef l():\n    '''caf\xe9'''\n",
    "made_up_package/tests/test_x.py": b'def f():\n    "No."\n',
    "made_up_module.py": b'def h():\n    "H."\n',
}


def test_extracts_docstrings_without_importing_the_package(tmp_path, monkeypatch, caplog):
    write(tmp_path, FILES)
    monkeypatch.syspath_prepend(str(tmp_path))
    documents = load_corpus("docstrings:made_up_package").documents
    assert [document.id for document in documents] == [
        "docstrings/made_up_package.inner.f",
        "docstrings/made_up_package.inner.C",
        "docstrings/made_up_package.inner.C.method",
        "docstrings/made_up_package.inner.C.value",
        "docstrings/made_up_package.inner.C.value-2",
        "docstrings/made_up_package.inner._impl.g",
        "docstrings/made_up_package.latin.l",
    ]
    text = "f(x: int, *, y=1) -> str\n\nDoes it.\n\nIndented.\n"
    assert documents[0] == Document("docstrings/made_up_package.inner.f", text, "docstring")
    assert documents[1].text.startswith("class C(Exception)\n")
    assert documents[5].text == "g(a, /, *b, **c)\n\nG.\n"
    assert documents[6].text == "l()\n\ncafé\n"
    skipped = [line.rsplit(maxsplit=1)[-1] for line in caplog.messages[0].splitlines()]
    assert skipped == ["broken.py", "nul.py"]
    assert len(ids("docstrings:made_up_package.inner")) == 6
    assert ids("docstrings:made_up_package.inner._impl") == [
        "docstrings/made_up_package.inner._impl.g"
    ]
    assert ids("docstrings:made_up_module") == ["docstrings/made_up_module.h"]


def test_distinguishes_redistributable_and_user_supplied_corpora(monkeypatch, tmp_path):
    monkeypatch.delenv("PKG_PYTHON_DOCS", raising=False)
    for name in ("textbook", "textbook+stdlib", "python-docs", "textbook+python-docs"):
        assert corpora.redistributable(name), name
    for name in ("textbook+pkg-contexts", "source:x", "docstrings:json"):
        assert not corpora.redistributable(name), name

    for name in ("textbook+stdlib", "published", "python-docs"):
        assert not own(name), name
    user_supplied = ("source:.", "textbook+source:.", "docstrings:json")
    for name in (*user_supplied, "python-docs+docstrings:json"):
        assert own(name), name

    assert is_text("docstrings:json+python-docs")
    assert not is_text("textbook")
    # The user may replace Python's documentation by other pages.
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path))
    assert own("python-docs")
    assert not corpora.redistributable("python-docs")


def test_a_registered_corpus_is_user_supplied_text(monkeypatch):
    documents = [Document("toy/0", "a page", "text")]
    source = corpora.CorpusSource("toy", lambda: documents, "made up", "text")
    monkeypatch.setitem(corpora.CORPORA, "toy", source)
    assert load_corpus("toy").documents == documents
    assert is_text("toy")
    assert own("toy")
    assert not corpora.redistributable("toy")


def test_the_digest_depends_on_every_field_of_a_document():
    document = Document("i", "text")
    variants = [
        document,
        replace(document, id="j"),
        replace(document, text="x"),
        replace(document, kind="answer"),
        replace(document, unit="function"),
        replace(document, question="q"),
    ]
    digests = {corpus_digest([variant]) for variant in variants}
    assert len(digests) == 6
