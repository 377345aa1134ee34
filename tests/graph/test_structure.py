"""The structurers `headings` (every kind of text) and their registry; sections cut out of pages."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.text.compose import compose
from pkg_lib.graph.text.documents import tree
from pkg_lib.graph.text.rst import Event
from pkg_lib.graph.text.sections import cut, events
from pkg_lib.graph.text.structure import structured

RST = """\
.. _tut-lists:

*****
Lists
*****

A :class:`list` keeps its order.  See :ref:`more <tut-more>`.

Make one::

   >>> x = [1,
   ...      2]

.. index:: single: list

The :meth:`!append` method adds:

.. code-block:: python
   :caption: how

   x.append(3)

That is all.

.. a comment that nobody sees

More
====

.. note:: Mind :func:`~copy.copy`.

.. method:: list.sort(*, key=None)
   :noindex:

   Sort in place:

   .. doctest::

      >>> x.sort()

.. versionadded:: 3.11

- one thing
- another

====  =====
a     b
====  =====
1     two
====  =====
"""
MARKDOWN = """\
---
title: front matter
---
# Lists

A `list` keeps its order.

Make one:

```python
x = [1,
     2]
```

## More

- one thing
- another

| a | b |
|---|---|
| 1 | two |
"""
HTML = """\
<html><head><title>no</title><style>p {}</style></head><body><nav>no</nav><div role="main">
<h1><span class="section-number">5. </span>Lists<a class="headerlink" href="#x">¶</a></h1>
<p>A <code>list</code> keeps
its order.</p><!-- no -->
<p>Make one:</p><div class="highlight"><pre><span>x</span> = [1,
     2]
</pre></div>
<section><h2>More</h2><ul><li>one thing</li><li><p>another</p></li></ul>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>two</td></tr></table>
<dl><dt>list.sort()</dt><dd><p>Sort in place.</p></dd></dl>tail</section></div>
<footer>no</footer></body></html>
"""
LISTS = {
    "explanation": "A list keeps its order.",
    "examples": [{"explanation": "Make one:", "code": "x = [1,\n     2]"}],
}


def headings(text: str, kind: str):
    (found,) = structured([Document("d", text, kind)], "headings")
    return found.value or found.reason


def test_restructuredtext_with_sphinx():
    assert headings(RST, "rst") == {
        "Lists": {
            "explanation": ["A list keeps its order. See more.", "That is all."],
            "examples": [
                {"explanation": "Make one:", "code": ">>> x = [1,\n...      2]"},
                {"explanation": "The append method adds:", "code": "x.append(3)"},
            ],
            "More": {
                "explanation": [
                    "Mind copy.",
                    "New in version 3.11",
                    "one thing",
                    "another",
                    "a | b\n1 | two",
                ],
                "examples": [
                    {"explanation": "list.sort(*, key=None): Sort in place:", "code": ">>> x.sort()"}
                ],
            },
        }
    }


def test_markdown():
    more = {"explanation": ["one thing", "another", "a | b\n1 | two"]}
    assert headings(MARKDOWN, "markdown") == {"Lists": LISTS | {"More": more}}


def test_html():
    more = {"explanation": ["one thing", "another", "a | b\n1 | two", "list.sort(): Sort in place.", "tail"]}
    assert headings(HTML, "html") == {"Lists": LISTS | {"More": more}}


def test_plain_text():
    text = "A title\n\nFirst\nparagraph.\n\n  \nSecond."
    assert headings(text, "text") == {"A title": {"explanation": ["First\nparagraph.", "Second."]}}
    assert headings("Only this.", "text") == {"explanation": "Only this."}


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
    text = str(headings(BROKEN, "rst"))
    for word in ("role", "broken", "argument", "Inside it.", "missing", "PyX", "Title in a quote", "a b"):
        assert word in text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "rst"),
        (".. a comment\n", "rst"),
        (".. toctree::\n\n   a\n", "rst"),
        ("", "markdown"),
        ("<p> </p>", "html"),
        (" \n", "text"),
    ],
)
def test_a_document_that_yields_nothing(text, kind):
    assert headings(text, kind) == "nothing in it"


@pytest.mark.parametrize(("text", "kind"), [("<div>" * 3000 + "x", "html"), ("> " * 3000 + "x", "markdown")])
def test_markup_nested_beyond_the_parser(text, kind):
    assert headings(text, kind) == "nested too deep: more than the parser takes"


def test_half_a_surrogate_is_refused():
    assert headings("a \ud800 b", "text") == "half a surrogate pair in a text"


def test_titles_twice_and_reserved():
    stream = [Event("heading", t, 1) for t in ("A", "A", "examples", "A", "")]
    assert compose([*stream, Event("text", "x")]) == {
        "A": {},
        "A (2)": {},
        "examples (2)": {},
        "A (3)": {},
        "": {"explanation": "x"},
    }


def test_only_the_paragraph_before_the_code_explains_it():
    stream = [
        Event("text", "p1"),
        Event("text", "p2"),
        Event("code", "c1"),
        Event("code", "c2"),
        Event("text", "p3"),
    ]
    stream += [Event("heading", "H", 1), Event("code", "c3"), Event("term", "t")]
    assert compose(stream) == {
        "explanation": ["p1", "p3"],
        "examples": [{"explanation": "p2", "code": "c1"}, {"code": "c2"}],
        "H": {"explanation": "t", "examples": [{"code": "c3"}]},
    }


pieces = st.one_of(
    st.tuples(st.just("heading"), st.text("AB", max_size=2), st.integers(1, 6)),
    st.tuples(st.sampled_from(["text", "code", "term"]), st.text("abc", min_size=1, max_size=3), st.just(0)),
)


@given(st.lists(pieces, max_size=12))
def test_every_piece_stands_once(parts):
    value = compose(Event(*p) for p in parts)
    leaves = [n[-1].partition(" ; value = ")[2] for n in tree(value)]
    joined = " ".join(leaves)
    for kind in ("text", "code", "term"):
        for text in {p[1] for p in parts if p[0] == kind}:
            assert joined.count(text) >= sum(p[1] == text for p in parts if p[0] == kind)


PARTS = {
    "rst": "{title}\n{line}\n\n{body}\n\n",
    "markdown": "{hashes} {title}\n\n{body}\n\n",
    "html": "<h{level}>{title}</h{level}><p>{body}</p>",
}


def titles(text: str, kind: str) -> list[str]:
    return [e.text for e in events(Document("d", text, kind)) if e.kind == "heading"]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 12)), min_size=1, max_size=8),
    st.sampled_from(list(PARTS)),
)
@example([(1, 2), (2, 9), (3, 1), (2, 1)], "rst")
def test_the_pieces_of_a_page_joined_are_the_page(shape, kind):
    level, page = 0, ""
    for i, (wanted, words) in enumerate(shape):
        level = min(wanted, level + 1)
        title, body = f"Title {i}", "word " * words
        line, hashes = "=-~"[level - 1] * len(title), "#" * level
        page += PARTS[kind].format(title=title, line=line, hashes=hashes, level=level, body=body)
    found = cut(page, kind, 60)
    assert "".join(text for _, text in found) == page and found[0][0] == ""
    for title, text in found[1:]:
        assert titles(text, kind)[0] == title
        assert len(text) <= 60 or len(titles(text, kind)) == 1


def test_sections_with_an_overline_are_cut_above_it():
    page = "=====\nFirst\n=====\n\ntext\n\n------\nSecond\n------\n\ntext\n"
    assert cut(page, "rst", 20)[1] == ("Second", "------\nSecond\n------\n\ntext\n")


def test_each_document_goes_to_the_structurer_of_its_kind():
    documents = [Document("a/f", "f()\n\nDoes it.", "docstring"), Document("b", "T\n=\n\nx\n", "rst")]
    found = structured([*documents, Document("c", "x = 1")])
    assert [(s.document, s.value) for s in found] == [
        ("a/f", {"f": {"signature": "f()", "summary": "Does it."}}),
        ("b", {"T": {"explanation": "x"}}),
        ("c", None),
    ]
    assert found[2].reason == "no tutorial: kind python"
    with pytest.raises(UserError, match="unknown structurer 'nosuch'; choose from: headings, docstrings"):
        structured(documents, "nosuch")
