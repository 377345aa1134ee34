"""Named corpora on small directories, packages and copies of the documentation made here."""

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
    return [d.id for d in load_corpus(corpus)]


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    files = {"z.py": b"def z(): pass\n", "b/a.py": b"\xef\xbb\xbfdef a():\r\n    return 1\r\n"}
    files |= {"b/latin.py": b"def l(): return '\xe9'\n"}
    files |= dict.fromkeys(
        ("text.txt", "folder.py/text", "b/__pycache__/no.py"), b"def no(): pass\n"
    )
    write(root, files)
    return root


def test_source_directory(tree, caplog):
    documents = load_corpus(f"source:{tree}").documents
    assert [d.id for d in documents] == ["source/b/a.py", "source/z.py"]
    assert {(d.kind, d.unit) for d in documents} == {("python", "row")}
    graph = build_code_graph(documents)
    assert graph.payloads(graph.of_type(NAME)) == ["a", "z"]  # a byte order mark does no harm
    assert not graph.skipped and "b/latin.py" in caplog.text  # Python does not read it either


def test_corpora_are_joined_and_stdlib_is_library_code_only(tree):
    names = ids(f"textbook+stdlib+source:{tree}")
    assert names[0].startswith("textbook/") and names[-1] == "source/z.py"
    assert {"stdlib/heapq.py", "stdlib/json/decoder.py"} <= set(names) and len(names) == len(
        set(names)
    ) > 500
    assert not [
        n for n in names if n.startswith("stdlib") and {"test", "site-packages"} & {*n.split("/")}
    ]


UNKNOWN = r"unknown corpus '.*'; .*pkg-lib list corpora"
MIXED, PACKAGE = "mixes code and text", "corpus docstrings:.*no such package"


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
def test_names_that_are_refused(name, message):
    with pytest.raises(UserError, match=message):
        check_name(name)


def test_a_directory_with_a_plus_sign_is_explained(tmp_path):
    folder = tmp_path / "a+b"
    folder.mkdir()
    (folder / "m.py").write_text("def f():\n    return 1\n")
    with pytest.raises(UserError, match="must not contain '\\+'"):
        load_corpus(f"source:{folder}")


def test_an_empty_directory_and_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="holds no Python file"):
        load_corpus(f"source:{tmp_path}")

    (tmp_path / "a.py").touch()
    monkeypatch.setattr(os, "open", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(UserError, match=r"cannot be read: Permission denied: a\.py"):
        load_corpus(f"source:{tmp_path}")


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """A made-up replication package: one task, each kind of file."""
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
        lines = (json.dumps({"task_id": task, field: value}) + "\n" for task, field, value in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines))
    monkeypatch.setenv("PKG_PAPER_DIR", str(folder.parent))
    return folder


def test_pkg_contexts(paper):
    documents = load_corpus("pkg-contexts").documents
    answers, functions = ([d for d in documents if d.unit == unit] for unit in ("row", "function"))
    assert [(d.text, d.kind) for d in answers] == [(ANSWER, "answer")]
    assert sorted(d.text for d in functions) == [
        "def one(): pass",
        "def three(): pass",
        "def two(): pass",
    ]
    assert len({d.id for d in documents}) == 4


def test_pkg_contexts_with_a_damaged_file_and_without_the_data(paper, monkeypatch):
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
    {"title": "pythonic", "text": "Pythons: no word of its own."},
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
    """A hub whose data sets are rows; `asked` lists what was loaded, and at which commit."""

    def __init__(self, monkeypatch, rows):
        self.rows, self.asked, self.main = rows, [], "a" * 40
        monkeypatch.setattr(text_corpora.hub, "reachable", lambda: True)
        monkeypatch.setattr(datasets, "load_dataset", self.load)
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: self)

    def load(self, name, split, revision):
        self.asked.append((name, split, revision))
        return self.rows

    def dataset_info(self, name):
        return SimpleNamespace(sha=self.main)


@pytest.mark.parametrize("corpus", OF_HUB)
def test_rows_of_the_hub(corpus, monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    rows, documents = OF_HUB[corpus]
    MadeUpHub(monkeypatch, rows)
    assert load_corpus(corpus).documents == documents
    monkeypatch.setattr(text_corpora.hub, "reachable", lambda: False)
    with pytest.raises(UserError, match="hub, which does not answer; choose another"):
        load_corpus(corpus)


def test_a_data_set_of_the_hub_is_read_at_one_commit(monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    made_up = MadeUpHub(monkeypatch, ALPACA)
    assert corpora.hub_revisions("python-alpaca, top 3") == {
        corpora.PYTHON_ALPACA: ""
    }  # nobody asked yet
    load_corpus("python-alpaca")
    made_up.main = "b" * 40  # the main branch moves on
    load_corpus("python-alpaca")
    assert made_up.asked == [(corpora.PYTHON_ALPACA, "train", "a" * 40)] * 2
    assert corpora.hub_revisions("textbook+python-alpaca") == {corpora.PYTHON_ALPACA: "a" * 40}
    assert corpora.hub_revisions("textbook") == {}
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "other"))
    load_corpus("python-alpaca")
    assert made_up.asked[-1][-1] == "b" * 40
    made_up.rows = TUTORIALS
    load_corpus("tutorials")
    assert (
        re.fullmatch("[0-9a-f]{40}", made_up.asked[-1][-1]) and made_up.asked[-1][-1] != "b" * 40
    )  # pinned
    (record,) = (tmp_path / "other" / "data_sets").iterdir()
    record.write_text('{"revision": "main"}')
    with pytest.raises(UserError, match="is not a commit") as error:
        load_corpus("python-alpaca")
    assert record.name in str(error.value)


def test_contexts_say_at_which_commit_their_data_set_was_read(monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    MadeUpHub(monkeypatch, ALPACA)
    run = Results("qwen2.5-coder-0.5b-instruct", corpus="python-alpaca", limit=1)
    (context,) = Evaluator(run).contexts("BM25")
    assert context.source.startswith("python-alpaca/") and context.text in ("", ANSWER)
    (meta,) = (tmp_path / "results" / "contexts").rglob("bm25/provenance.json")
    assert read_json(meta)["data_sets"] == {corpora.PYTHON_ALPACA: "a" * 40}


@pytest.mark.parametrize("output", [7, ["x"], "x" * (limits.MAX_ROW_BYTES + 1)])
def test_a_row_of_the_hub_that_is_no_text_is_named(output, monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    MadeUpHub(monkeypatch, [*ALPACA, {"output": output}])
    with pytest.raises(UserError, match=r"python-alpaca: row 4 .*: field output is "):
        load_corpus("python-alpaca")


PARTS = "".join(f"Part {i}\n------\n\n{'word ' * 500}\n\n" for i in range(3))
PAGE = f"Chapter\n=======\n\nIntro.\n\n{PARTS}"


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A made-up copy of Python's documentation: HTML pages and their sources."""
    root = tmp_path / "docs" / "html"
    for page in ("tutorial/lists", "howto/sorting", "library/left-out"):
        write(
            root,
            dict.fromkeys((f"_sources/{page}.rst.txt", f"{page}.html"), b"Title\n=====\n\nx\n"),
        )
    (root / "_sources" / "tutorial" / "lists.rst.txt").write_text(PAGE)
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(root.parent))
    return root


def test_python_docs(docs):
    documents = load_corpus("python-docs").documents
    parts = [f"python-docs/tutorial/lists#part-{i}" for i in range(3)]
    assert [d.id for d in documents] == [
        "python-docs/tutorial/lists",
        *parts,
        "python-docs/howto/sorting",
    ]
    assert {(d.kind, d.unit) for d in documents} == {("rst", "row")}
    assert "".join(d.text for d in documents[:4]) == PAGE
    shutil.rmtree(docs / "_sources")
    assert ids("python-docs") == ["python-docs/tutorial/lists", "python-docs/howto/sorting"]
    assert {d.kind for d in load_corpus("python-docs")} == {"html"}


def test_any_other_directory(tmp_path, monkeypatch):
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
    kinds = {"a": "markdown", "sub/b": "html", "sub/c": "rst"}
    kinds |= dict.fromkeys(("z", "z#part", "z#part-2", "z#part-3"), "html")
    assert {d.id.partition("/")[2]: d.kind for d in documents} == kinds
    assert "no" not in documents[1].text and documents[2].text == "T\ufffd\n==\n"


@pytest.mark.parametrize("value", ["", "/nosuch/directory"])
def test_without_the_documentation(value, monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_PYTHON_DOCS", value)
    monkeypatch.setattr(text_corpora, "DEBIAN_DOCS", tmp_path / "nosuch")
    with pytest.raises(
        UserError, match=r"python3\.11-doc, or unpack an HTML archive .*set PKG_PYTHON_DOCS"
    ):
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


def test_docstrings(tmp_path, monkeypatch, caplog):
    write(tmp_path, FILES)
    monkeypatch.syspath_prepend(str(tmp_path))
    documents = load_corpus("docstrings:made_up_package").documents
    names = [f"inner.{n}" for n in ("f", "C", "C.method", "C.value", "C.value-2", "_impl.g")]
    assert [d.id for d in documents] == [
        f"docstrings/made_up_package.{n}" for n in (*names, "latin.l")
    ]
    text = "f(x: int, *, y=1) -> str\n\nDoes it.\n\nIndented.\n"
    assert documents[0] == Document("docstrings/made_up_package.inner.f", text, "docstring")
    assert documents[1].text.startswith("class C(Exception)\n")
    assert [d.text for d in documents[5:]] == ["g(a, /, *b, **c)\n\nG.\n", "l()\n\ncafé\n"]
    left_out = [line.rsplit(maxsplit=1)[-1] for line in caplog.messages[0].splitlines()]
    assert left_out == ["broken.py", "nul.py"]
    assert len(ids("docstrings:made_up_package.inner")) == 6
    assert ids("docstrings:made_up_package.inner._impl") == [
        "docstrings/made_up_package.inner._impl.g"
    ]
    assert ids("docstrings:made_up_module") == ["docstrings/made_up_module.h"]


def test_what_may_be_copied_and_what_a_user_can_change(monkeypatch, tmp_path):
    monkeypatch.delenv("PKG_PYTHON_DOCS", raising=False)
    free = ("textbook", "textbook+stdlib", "python-docs", "textbook+python-docs")
    kept = ("textbook+pkg-contexts", "source:x", "docstrings:json")
    assert [corpora.redistributable(name) for name in (*free, *kept)] == [True] * 4 + [False] * 3
    fixed = ("textbook+stdlib", "published", "python-docs")
    changed = ("source:.", "textbook+source:.", "docstrings:json", "python-docs+docstrings:json")
    assert [own(name) for name in (*fixed, *changed)] == [False] * 3 + [True] * 4
    assert is_text("docstrings:json+python-docs") and not is_text("textbook")
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path))  # pages, and not Python's manual
    assert own("python-docs") and not corpora.redistributable("python-docs")


def test_a_corpus_is_one_entry(monkeypatch):
    rows = [Document("toy/0", "a page", "text")]
    monkeypatch.setitem(
        corpora.CORPORA, "toy", corpora.CorpusSource("toy", lambda: rows, "made up", "text")
    )
    assert (
        load_corpus("toy").documents == rows
        and is_text("toy")
        and not corpora.redistributable("toy")
        and own("toy")
    )


def test_the_digest_knows_every_part():
    one = Document("i", "text")
    changed = (
        {"id": "j"},
        {"text": "x"},
        {"kind": "answer"},
        {"unit": "function"},
        {"question": "q"},
    )
    assert len({corpus_digest([replace(one, **change)]) for change in ({}, *changed)}) == 6
