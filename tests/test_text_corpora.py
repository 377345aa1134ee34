"""Text corpora on small directories and packages made here."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Document, UserError
from pkg_lib.data import text_corpora
from pkg_lib.data.corpora import check_name, is_text, load_corpus, redistributable

PAGE = "Chapter\n=======\n\nIntro.\n\n" + "".join(
    f"Part {i}\n------\n\n{'word ' * 500}\n\n" for i in range(3)
)


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A made-up copy of Python's documentation: HTML pages and their sources."""
    for part, name in (("tutorial", "lists"), ("howto", "sorting"), ("library", "left-out")):
        for folder, suffix in (("_sources", ".rst.txt"), (".", ".html")):
            place = tmp_path / "docs" / "html" / folder / part
            place.mkdir(parents=True)
            (place / f"{name}{suffix}").write_text(
                PAGE if name == "lists" and folder == "_sources" else "Title\n=====\n\nx\n"
            )
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path / "docs"))
    return tmp_path / "docs"


def ids(corpus: str) -> list[str]:
    return [d.id for d in load_corpus(corpus)]


def test_python_docs(docs):
    documents = load_corpus("python-docs")
    parts = [f"python-docs/tutorial/lists#part-{i}" for i in range(3)]
    assert [d.id for d in documents] == ["python-docs/tutorial/lists", *parts, "python-docs/howto/sorting"]
    assert {(d.kind, d.unit) for d in documents} == {("rst", "row")}
    assert "".join(d.text for d in documents[:4]) == PAGE
    assert (
        is_text("python-docs") and redistributable("python-docs") and redistributable("textbook+python-docs")
    )


def test_python_docs_as_html_only(docs):
    for path in (docs / "html" / "_sources").rglob("*.txt"):
        path.unlink()
    for folder in ("tutorial", "howto", "library", "."):
        (docs / "html" / "_sources" / folder).rmdir()
    assert ids("python-docs") == ["python-docs/tutorial/lists", "python-docs/howto/sorting"]
    assert {d.kind for d in load_corpus("python-docs")} == {"html"}


def test_any_other_directory(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.md").write_text("# Title\n\ntext\n")
    (tmp_path / "sub" / "b.html").write_text(
        "<html><body><nav>no</nav><main><h1>T</h1><p>x</p></main></body></html>"
    )
    (tmp_path / "sub" / "c.rst").write_bytes(b"\xef\xbb\xbfT\xe9\n==\n")
    (tmp_path / "d.py").write_text("x = 1")
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path))
    found = {d.id: d for d in load_corpus("python-docs")}
    assert list(found) == ["python-docs/a", "python-docs/sub/b", "python-docs/sub/c"]
    assert [d.kind for d in found.values()] == ["markdown", "html", "rst"]
    assert "no" not in found["python-docs/sub/b"].text and found["python-docs/sub/c"].text == "T\ufffd\n==\n"
    assert not redistributable("python-docs")


def test_long_html_pages_are_cut(tmp_path, monkeypatch):
    body = "".join(f"<section><h2>Part</h2><p>{'word ' * 500}</p></section>" for _ in range(3))
    (tmp_path / "p.html").write_text(f"<html><main><h1>Page</h1>{body}</main></html>")
    monkeypatch.setenv("PKG_PYTHON_DOCS", str(tmp_path))
    assert ids("python-docs") == [
        "python-docs/p",
        "python-docs/p#part",
        "python-docs/p#part-2",
        "python-docs/p#part-3",
    ]


@pytest.mark.parametrize("value", ["", "/nosuch/directory"])
def test_without_the_documentation(value, monkeypatch, tmp_path):
    monkeypatch.setenv("PKG_PYTHON_DOCS", value)
    monkeypatch.setattr(text_corpora, "DEBIAN_DOCS", tmp_path / "nosuch")
    with pytest.raises(UserError, match=r"python3\.11-doc, or unpack an HTML archive .*set PKG_PYTHON_DOCS"):
        load_corpus("python-docs")


MODULE = '''
"""A module."""
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
    def __init__(self):
        "No."
    @property
    def value(self):
        "One."
    @value.setter
    def value(self, v):
        "Two."
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    root = tmp_path / "made_up_package"
    (root / "inner").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "__init__.py").write_text("raise ImportError('is never imported')\n")
    (root / "inner" / "__init__.py").write_text(MODULE)
    (root / "inner" / "_impl.py").write_text(
        'def g(a, /, *b, **c):\n    """G."""\nclass _Hidden:\n    """No."""\n'
    )
    (root / "broken.py").write_text("def broken(:\n")
    (root / "nul.py").write_bytes(b"x = 1\0")
    (root / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\ndef l():\n    '''caf\xe9'''\n")
    (root / "tests" / "test_x.py").write_text('def f():\n    """No."""\n')
    (tmp_path / "made_up_module.py").write_text('def h():\n    """H."""\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    return root


def test_docstrings(package, caplog):
    documents = load_corpus("docstrings:made_up_package")
    inner = [f"docstrings/made_up_package.inner.{n}" for n in ("f", "C", "C.method", "C.value", "C.value-2")]
    assert [d.id for d in documents] == [
        *inner,
        "docstrings/made_up_package.inner._impl.g",
        "docstrings/made_up_package.latin.l",
    ]
    assert documents[0] == Document(
        inner[0], "f(x: int, *, y=1) -> str\n\nDoes it.\n\nIndented.\n", "docstring"
    )
    assert (
        documents[1].text.startswith("class C(Exception)\n")
        and documents[5].text == "g(a, /, *b, **c)\n\nG.\n"
    )
    assert documents[6].text == "l()\n\ncafé\n"
    assert [r.getMessage().split()[2:5] for r in caplog.records] == [
        ["made_up_package/broken.py", "left", "out"],
        ["made_up_package/nul.py", "left", "out"],
    ]


def test_docstrings_of_a_part_and_of_a_module(package):
    assert len(ids("docstrings:made_up_package.inner")) == 6
    assert ids("docstrings:made_up_package.inner._impl") == ["docstrings/made_up_package.inner._impl.g"]
    assert ids("docstrings:made_up_module") == ["docstrings/made_up_module.h"]
    assert is_text("docstrings:made_up_module+python-docs") and not redistributable(
        "docstrings:made_up_module"
    )


@pytest.mark.parametrize(
    "name", ["nosuch", "", "made_up_package.nosuch", "../x", "made_up_module.inner", "sys", "a b", "."]
)
def test_no_such_package(name, package):
    with pytest.raises(UserError, match="corpus docstrings:"):
        check_name(f"docstrings:{name}")


ROWS = [
    {"title": "Lists in\nPython", "text": "Lists in\nPython\nA list.\n\nMore."},
    {"title": "Java", "text": "Nothing."},
    {"title": None, "text": "About python 3."},
    {"title": "pythonic", "text": "Pythons: no word of its own."},
]


def test_tutorials(monkeypatch):
    import datasets

    monkeypatch.setattr(text_corpora.hub, "reachable", lambda: True)
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split: ROWS)
    documents = load_corpus("tutorials")
    assert [(d.id, d.kind) for d in documents] == [("tutorials/0", "text"), ("tutorials/2", "text")]
    assert (
        documents[0].text == "Lists in Python\n\nA list.\n\nMore.\n"
        and documents[1].text == "About python 3."
    )


def test_code_and_text_are_not_mixed():
    for name in ("textbook+python-docs", "docstrings:json+stdlib"):
        with pytest.raises(UserError, match="mixes code and text"):
            check_name(name)
