"""Named corpora on small directories made here."""

from __future__ import annotations

import json

import pytest

from pkg_lib.core.types import Document, UserError
from pkg_lib.data import text_corpora
from pkg_lib.data.corpora import CORPORA, Corpus, corpus_digest, is_text, load_corpus, own, redistributable
from pkg_lib.graph.schema import NAME, build

ANSWER = "So:\n```python\ndef answered():\n    return 1\n```\nDone."


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "b" / "__pycache__").mkdir(parents=True)
    (root / "z.py").write_text("def z(): pass\n")
    (root / "b" / "a.py").write_bytes(b"\xef\xbb\xbfdef a():\r\n    return 1\r\n")
    (root / "b" / "latin.py").write_bytes(b"def l(): return '\xe9'\n")
    (root / "b" / "__pycache__" / "no.py").write_text("def no(): pass\n")
    (root / "folder.py").mkdir()
    (root / "text.txt").write_text("def no(): pass\n")
    return root


def test_source_directory(tree):
    documents = load_corpus(f"source:{tree}")
    assert [d.id for d in documents] == ["source/b/a.py", "source/b/latin.py", "source/z.py"]
    assert {(d.kind, d.unit) for d in documents} == {("python", "row")}
    graph = build(documents)
    assert [graph.payload(v) for v in graph.of_type(NAME)] == ["a", "z"]  # a byte order mark does no harm
    assert [name for name, _ in graph.skipped] == ["source/b/latin.py"]


def test_corpora_are_joined(tree):
    names = [d.id for d in load_corpus(f"textbook+source:{tree}")]
    assert (
        names[-1] == "source/z.py"
        and names[0].startswith("textbook/")
        and len(names) == len(set(names)) > 100
    )


@pytest.mark.parametrize("name", ["nosuch", "textbook+nosuch", "", "textbook+", "Textbook"])
def test_unknown_corpus(name):
    with pytest.raises(UserError, match=r"unknown corpus '.*'; choose from: textbook, stdlib, .*source:DIR"):
        load_corpus(name)


def test_missing_directory_and_empty_directory(tmp_path):
    with pytest.raises(UserError, match="no such directory"):
        load_corpus(f"source:{tmp_path}/nosuch")
    with pytest.raises(UserError, match="holds no documents"):
        load_corpus(f"source:{tmp_path}")


def test_a_file_that_cannot_be_read(tree, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(text_corpora.Path, "read_text", refuse)
    with pytest.raises(UserError, match=r"cannot read .*a\.py: Permission denied"):
        load_corpus(f"source:{tree}")


def test_stdlib_is_library_code_only():
    documents = load_corpus("stdlib")
    names = {d.id for d in documents}
    assert {"stdlib/heapq.py", "stdlib/json/decoder.py"} <= names
    assert not [n for n in names if "/test/" in n or "/tests/" in n or "site-packages" in n]
    assert names == {d.id for d in load_corpus("stdlib")}


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """A made-up replication package: one task, each kind of file."""
    folder = tmp_path / "paper" / "contexts"
    folder.mkdir(parents=True)

    def write(name, *rows):
        (folder / name).write_text("".join(json.dumps(r) + "\n" for r in rows))

    write(
        "voyage_code_relevant_context_mbpp.jsonl",
        {"task_id": 0, "problem": ANSWER},
        {"task_id": 1, "problem": ANSWER},
    )
    write(
        "bm25_relevant_context_humaneval.jsonl",
        {"task_id": "H/0", "problem": ["def one(): pass", "def two(): pass"]},
    )
    write("bm25_relevant_context_mbpp.jsonl", {"task_id": "M/0", "content": ["def two(): pass"]})
    found = [[0.9, "def three(): pass"], [0.8, "def one(): pass"]]
    rows = [{"task_id": "M/0", "problem": found}, {"task_id": "M/1", "problem": []}]
    write("mbpp_function_wise_relevant_context.jsonl", *rows)
    write("mbpp_blockwise_relevant_context.jsonl", {"task_id": "M/0", "problem": [[0.9, "    return block"]]})
    monkeypatch.setenv("PKG_PAPER_DIR", str(folder.parent))
    return folder


def test_pkg_contexts(paper):
    documents = load_corpus("pkg-contexts")
    answers, functions = ([d for d in documents if d.unit == unit] for unit in ("row", "function"))
    assert [(d.text, d.kind) for d in answers] == [(ANSWER, "answer")]
    assert sorted(d.text for d in functions) == ["def one(): pass", "def three(): pass", "def two(): pass"]
    assert len({d.id for d in documents}) == 4
    graph = build(documents)
    assert sorted(graph.payloads(graph.of_type(NAME))) == ["answered", "one", "three", "two"]
    assert graph.where(0).endswith(":3-4")


def test_pkg_contexts_with_a_damaged_file(paper):
    (paper / "bm25_relevant_context_mbpp.jsonl").write_text('{"task_id": 1}\n{"task')
    with pytest.raises(UserError, match=r"bm25_relevant_context_mbpp\.jsonl:2 is no JSON"):
        load_corpus("pkg-contexts")


@pytest.mark.parametrize("value", ["", "nosuch"])
def test_pkg_contexts_without_the_data(value, monkeypatch):
    monkeypatch.setenv("PKG_PAPER_DIR", value)
    with pytest.raises(UserError, match="set PKG_PAPER_DIR"):
        load_corpus("pkg-contexts")


def test_python_alpaca_rows_are_answers(monkeypatch):
    import datasets

    monkeypatch.setattr(text_corpora.hub, "reachable", lambda: True)
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split: [{"output": ANSWER}])
    assert load_corpus("python-alpaca") == [Document("python-alpaca/0", ANSWER, kind="answer")]


def test_python_alpaca_without_the_hub(monkeypatch):
    monkeypatch.setattr(text_corpora.hub, "reachable", lambda: False)
    with pytest.raises(UserError, match="hub, which does not answer; choose another"):
        load_corpus("python-alpaca")


def test_redistributable():
    assert redistributable("textbook") and redistributable("textbook+stdlib")
    assert not redistributable("textbook+pkg-contexts") and not redistributable("source:x")


def test_a_corpus_is_one_entry(monkeypatch):
    rows = [Document("toy/0", "a page", "text")]
    monkeypatch.setitem(CORPORA, "toy", Corpus("toy", lambda: rows, "made up", "text"))
    assert load_corpus("toy") == rows and is_text("toy") and not redistributable("toy") and own("toy")


def test_the_digest_knows_every_part():
    base = Document("i", "text")
    others = [Document("j", "text"), Document("i", "text2"), Document("i", "text", "answer")]
    others.append(Document("i", "text", unit="function"))
    assert len({corpus_digest([d]) for d in [base, *others]}) == 5
    assert corpus_digest([base]) == corpus_digest([Document("i", "text")])


def test_what_a_user_can_change_under_its_name(monkeypatch, tmp_path):
    monkeypatch.delenv("PKG_PYTHON_DOCS", raising=False)
    assert [own(c) for c in ("textbook+stdlib", "published", "python-docs")] == [False] * 3
    assert [
        own(c) for c in ("source:.", "textbook+source:.", "docstrings:json", "python-docs+docstrings:json")
    ] == [True] * 4
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path))  # pages, and not Python's manual
    assert own("python-docs")
