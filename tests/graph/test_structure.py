"""Structurers against golden JSON; no word is lost from any markup; sections cut out of pages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pkg_lib.core.store import ROOT
from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.text.compose import compose
from pkg_lib.graph.text.docstrings import read
from pkg_lib.graph.text.documents import tree
from pkg_lib.graph.text.rst import Event
from pkg_lib.graph.text.structure import cut, events, split_long, structured, title_of

KINDS = {".rst": "rst", ".md": "markdown", ".html": "html", ".docstring": "docstring"}
GOLDEN = [
    p for p in sorted((ROOT / "tests" / "data" / "structured").iterdir()) if p.suffix in KINDS
]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_pages_and_docstrings_give_their_golden_json(path):
    document = Document(f"x/{path.stem}#2", path.read_text("utf8"), KINDS[path.suffix])
    expected = json.loads(path.with_name(f"{path.name}.json").read_text("utf8"))
    assert json.dumps(structured([document])[0].value) == json.dumps(expected)


def outcome(text: str, kind: str):
    (result,) = structured([Document("d", text, kind)])
    return result.value or result.reason


TOO_DEEP = "nested too deep: more than the parser takes"


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (
            "A title\n\nOne\nline.\n\n  \nTwo.",
            "text",
            {"A title": {"explanation": ["One\nline.", "Two."]}},
        ),
        ("Only this.", "text", {"explanation": "Only this."}),
        (".. a comment\n\n.. toctree::\n\n   a\n", "rst", "nothing in it"),
        ("", "markdown", "nothing in it"),
        ("<p> </p>", "html", "nothing in it"),
        (" \n", "text", "nothing in it"),
        ("f()\n\n", "docstring", "nothing in it"),
        ("<div>" * 3000 + "x", "html", TOO_DEEP),
        ("> " * 3000 + "x", "markdown", TOO_DEEP),
        ("a \ud800 b", "text", "half a surrogate pair in a text"),
        ("x = 1", "python", "no tutorial: kind python"),
    ],
)
def test_short_texts_and_what_gives_no_json(text, kind, expected):
    assert outcome(text, kind) == expected


def test_an_unknown_structurer():
    with pytest.raises(
        UserError, match="unknown structurer 'nosuch'; choose from: headings, docstrings"
    ):
        structured([Document("d", "")], "nosuch")


BROKEN = """\
Title
==

:unknown:`role` and `broken

.. nosuch:directive:: argument
   :option: value

   Inside it.

.. table:: broken

   ===
   a b

|missing|_ and [1]_ and :c:func:`PyX` and :py:meth:`~a.b`

  Title in a quote
  ----------------
"""


def test_broken_restructuredtext_keeps_its_words():
    text = str(outcome(BROKEN, "rst"))
    for word in (
        "role",
        "broken",
        "argument",
        "Inside it.",
        "missing",
        "PyX",
        "Title in a quote",
        "a b",
    ):
        assert word in text


PIECES = "word|Parameters|----------|  indented|x : int|Args:|    y (str): text|    deeper|||Returns:|Notes"
PIECES += "|-----|:param z: field|>>> code|Examples|a: b|:rtype: int|Raises|    : odd"


@given(st.lists(st.sampled_from(PIECES.split("|")), max_size=14))
def test_no_word_of_a_docstring_is_lost(chosen):
    """Every word of the text is in the JSON or is a section's title, whatever the layout."""
    sections = read("\n".join(chosen))
    text = " ".join(row[-1].lower() for row in tree(sections))
    words = set(re.findall(r"[a-z]{3,}", " ".join(chosen).lower())) - {
        "param",
        "rtype",
        "args",
        "returns",
    }
    assert all(word in text for word in words), (chosen, sections)


def test_titles_twice_and_reserved():
    stream = [Event("heading", t, 1) for t in ("A", "A", "examples", "A", "")]
    expected = {"A": {}, "A (2)": {}, "examples (2)": {}, "A (3)": {}, "": {"explanation": "x"}}
    assert compose([*stream, Event("text", "x")]) == expected


def test_only_the_paragraph_before_the_code_explains_it():
    stream = [
        Event(*pair.split()) for pair in ("text p1", "text p2", "code c1", "code c2", "text p3")
    ]
    stream += [Event("heading", "H", 1), Event("code", "c3"), Event("term", "t")]
    assert compose(stream) == {
        "explanation": ["p1", "p3"],
        "examples": [{"explanation": "p2", "code": "c1"}, {"code": "c2"}],
        "H": {"explanation": "t", "examples": [{"code": "c3"}]},
    }


pieces = st.one_of(
    st.tuples(st.just("heading"), st.text("AB", max_size=2), st.integers(1, 6)),
    st.tuples(
        st.sampled_from(["text", "code", "term"]),
        st.text("abc", min_size=1, max_size=3),
        st.just(0),
    ),
)


@given(st.lists(pieces, max_size=12))
def test_every_piece_stands_once(parts):
    rows = tree(compose(Event(*p) for p in parts))
    joined = " ".join(payload.partition(" ; value = ")[2] for *_, payload in rows)
    for kind in ("text", "code", "term"):
        texts = [text for name, text, _ in parts if name == kind]
        assert all(joined.count(text) >= texts.count(text) for text in texts)


PARTS = {
    "rst": "{title}\n{line}\n\n{body}\n\n",
    "markdown": "{hashes} {title}\n\n{body}\n\n",
    "html": "<h{level}>{title}</h{level}><p>{body}</p>",
}
shapes = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 12)), min_size=1, max_size=8)


@given(shapes, st.sampled_from(list(PARTS)))
@example([(1, 2), (2, 9), (3, 1), (2, 1)], "rst")
def test_the_pieces_of_a_page_joined_are_the_page(shape, kind):
    level, page = 0, ""
    for i, (wanted, words) in enumerate(shape):
        level = min(wanted, level + 1)
        title, body = f"Title {i}", "word " * words
        line, hashes = "=-~"[level - 1] * len(title), "#" * level
        page += PARTS[kind].format(title=title, line=line, hashes=hashes, level=level, body=body)
    (first, _), *others = parts = cut(page, kind, 60)
    assert "".join(text for _, text in parts) == page and first == ""
    for title, text in others:
        titles = [e.text for e in events(Document("d", text, kind)) if e.kind == "heading"]
        assert titles[0] == title and (len(text) <= 60 or len(titles) == 1)


def test_sections_with_an_overline_are_cut_above_it():
    second = "------\nSecond\n------\n\ntext\n"
    assert cut(f"=====\nFirst\n=====\n\ntext\n\n{second}", "rst", 20)[1] == ("Second", second)


MIXED = "".join(
    f"{'#' * level} Part {level}{n}\n\n{'word ' * n * 9}\n\n    code\n\n    more\n\n"
    for n in range(4)
    for level in (2, 3)
)


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029"])
def test_sections_of_text_with_unusual_line_ends_start_at_their_headings(end):
    second = "Second\n------\n\nlast\n"
    page = f"One{end}two\n\nFirst\n-----\n\ntext{end}text\n\n{second}"
    parts = cut(page, "rst", 20)
    assert "".join(text for _, text in parts) == page
    assert parts[-1] == ("Second", second)


@pytest.mark.parametrize("kind", ["rst", "markdown", "html", "text", "docstring"])
@given(text=st.text("ab \n#=<h1>/", max_size=300), limit=st.integers(1, 60))
@example(text=MIXED, limit=300)
@example(text="x" * 100, limit=7)
@example(text="<div>" * 40, limit=50)
def test_pieces_of_a_page_are_the_page_and_short(kind, text, limit):
    pieces = split_long(text, kind, limit)
    assert "".join(pieces) == text
    assert all(len(piece) <= limit for piece in pieces)


def test_a_page_is_split_at_its_sections_then_between_paragraphs():
    head, *others = split_long(MIXED, "markdown", 400)
    assert head.startswith("## Part 20") and all(piece.startswith("#") for piece in others)
    prose = "One sentence.\n\n    code = 1\n\n    more = 2\n\n" * 9
    assert all(piece.startswith("One") for piece in split_long(prose, "text", 100))
    assert split_long("short", "text", 100) == ["short"]


@pytest.mark.parametrize(
    ("text", "kind", "title"),
    [
        (".. _label:\n\nLists\n=====\n\nx\n", "rst", "Lists"),
        ("text\n\n# A *list*\n", "markdown", "A *list*"),
        ("<html><h1>Lists</h1></html>", "html", "Lists"),
        ("\n  Lists in Python\nmore", "text", "Lists in Python"),
        ("no heading", "html", ""),
    ],
)
def test_the_title_of_a_page(text, kind, title):
    assert title_of(text, kind) == title


def test_settings_of_docutils_in_the_working_directory_do_not_matter(tmp_path):
    (tmp_path / "docutils.conf").write_text("[general]\nsmart_quotes: yes\n")
    code = """from pkg_lib.graph.text.rst import events\nprint([e.text for e in events('Say "yes".')])"""
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "['Say \"yes\".']\n", done.stderr
