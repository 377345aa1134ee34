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
MORE = ["one thing", "another", "a | b\n1 | two"]
OF_RST = {
    "explanation": ["A list keeps its order. See more.", "That is all."],
    "examples": [
        {"explanation": "Make one:", "code": ">>> x = [1,\n...      2]"},
        {"explanation": "The append method adds:", "code": "x.append(3)"},
    ],
    "More": {
        "explanation": ["Mind copy.", "New in version 3.11", *MORE],
        "examples": [{"explanation": "list.sort(*, key=None): Sort in place:", "code": ">>> x.sort()"}],
    },
}
OF_HTML = LISTS | {"More": {"explanation": [*MORE, "list.sort(): Sort in place.", "tail"]}}
TOO_DEEP = "nested too deep: more than the parser takes"


def headings(text: str, kind: str):
    (result,) = structured([Document("d", text, kind)], "headings")
    return result.value or result.reason


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (RST, "rst", {"Lists": OF_RST}),
        (MARKDOWN, "markdown", {"Lists": LISTS | {"More": {"explanation": MORE}}}),
        (HTML, "html", {"Lists": OF_HTML}),
        ("A title\n\nOne\nline.\n\n  \nTwo.", "text", {"A title": {"explanation": ["One\nline.", "Two."]}}),
        ("Only this.", "text", {"explanation": "Only this."}),
        (".. a comment\n\n.. toctree::\n\n   a\n", "rst", "nothing in it"),
        ("", "markdown", "nothing in it"),
        ("<p> </p>", "html", "nothing in it"),
        (" \n", "text", "nothing in it"),
        ("<div>" * 3000 + "x", "html", TOO_DEEP),
        ("> " * 3000 + "x", "markdown", TOO_DEEP),
        ("a \ud800 b", "text", "half a surrogate pair in a text"),
    ],
)
def test_documents_by_their_headings(text, kind, expected):
    assert headings(text, kind) == expected


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


def test_titles_twice_and_reserved():
    stream = [Event("heading", t, 1) for t in ("A", "A", "examples", "A", "")]
    expected = {"A": {}, "A (2)": {}, "examples (2)": {}, "A (3)": {}, "": {"explanation": "x"}}
    assert compose([*stream, Event("text", "x")]) == expected


def test_only_the_paragraph_before_the_code_explains_it():
    stream = [Event(*pair.split()) for pair in ("text p1", "text p2", "code c1", "code c2", "text p3")]
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


def test_each_document_goes_to_the_structurer_of_its_kind():
    documents = [Document("a/f", "f()\n\nDoes it.", "docstring"), Document("b", "T\n=\n\nx\n", "rst")]
    results = [(s.value, s.reason) for s in structured([*documents, Document("c", "x = 1")])]
    values = [{"f": {"signature": "f()", "summary": "Does it."}}, {"T": {"explanation": "x"}}]
    assert results == [*((value, "") for value in values), (None, "no tutorial: kind python")]
    with pytest.raises(UserError, match="unknown structurer 'nosuch'; choose from: headings, docstrings"):
        structured(documents, "nosuch")
