"""Structurers by name: documents -> JSON objects (Section 3.1.2); and a page cut into its sections.

headings    sections of reStructuredText, Markdown, HTML or plain text, without comments and navigation
docstrings  the sections of numpydoc, Google and Sphinx docstrings

The paper's way, a model that writes the JSON, is in data/structuring.py.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, Tag
from markdown_it import MarkdownIt

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Document
from pkg_lib.graph.text import rst
from pkg_lib.graph.text.compose import compose
from pkg_lib.graph.text.docstrings import sections_of
from pkg_lib.graph.text.documents import Rejected, Structured, tree
from pkg_lib.graph.text.rst import Event, plain

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
_HEADING = re.compile(r"h[1-6]")
_LEFT_OUT = {*"script style head nav footer form button svg img template noscript".split()}
_BLOCK = (
    "address article aside blockquote body caption center dd details div dl dt fieldset".split()
)
_BLOCK += (
    "figcaption figure header hr html li main ol p pre section summary table td th tr ul".split()
)
_BLOCK += [f"h{level}" for level in range(1, 7)]


Head = tuple[
    int, int, str
]  # where its section starts (characters), its level (1 is the page's), its title


def events(document: Document) -> list[Event]:
    """The document as a stream. Raises RecursionError for markup nested too deep for its parser."""
    return [e for e in READERS[document.kind](document.text) if e.text or e.kind == "heading"]


def _markdown() -> MarkdownIt:
    # By itself it drops what is nested more than 20 levels deep without a word.
    return MarkdownIt("commonmark", {"maxNesting": 100_000}).enable("table")


def _markdown_events(text: str) -> Iterator[Event]:
    # Rendered once more from HTML, so that one walk knows what a paragraph, a list item and a table are.
    return _html_events(_markdown().render(_FRONT_MATTER.sub("", text)))


def main_part(page: str) -> Tag:
    """The element with the page's own text, without the navigation around it, where the page marks one."""
    soup = BeautifulSoup(page, "html.parser")
    return soup.find(attrs={"role": "main"}) or soup.find("main") or soup.find("article") or soup


def _html_events(text: str) -> Iterator[Event]:
    main = main_part(text)
    for mark in main.select("a.headerlink, span.section-number"):
        mark.decompose()
    yield from _walk(main)


def _walk(tag: Tag) -> Iterator[Event]:
    inline: list[str] = []
    for child in tag.children:
        if _is_inline(child):
            inline.append(child.get_text() if isinstance(child, Tag) else str(child))
        elif isinstance(child, Tag) and child.name not in _LEFT_OUT:
            yield Event("text", plain("".join(inline)))
            inline.clear()
            yield from _block(child)
    yield Event("term" if tag.name == "dt" else "text", plain("".join(inline)))


def _is_inline(element: PageElement) -> bool:
    if isinstance(element, Tag):
        return element.name not in {*_BLOCK, *_LEFT_OUT} and element.find(_BLOCK) is None
    return (
        type(element) is NavigableString
    )  # its subclasses are comments, declarations and the like


def _block(tag: Tag) -> Iterator[Event]:
    if _HEADING.fullmatch(tag.name):
        yield Event("heading", plain(tag.get_text()), int(tag.name[1]))
    elif tag.name == "pre":
        yield Event("code", tag.get_text().strip("\n"))
    elif tag.name == "table" and not tag.find("pre"):
        rows = (
            [plain(c.get_text()) for c in row.find_all(["td", "th"])] for row in tag.find_all("tr")
        )
        yield Event("text", "\n".join(map(" | ".join, rows)))
    else:
        yield from _walk(tag)


def _text_events(text: str) -> Iterator[Event]:
    """Plain text: a first paragraph of one short line is the title; blank lines tell the others apart."""
    paragraphs = [p.strip("\n") for p in re.split(r"\n(?:[ \t]*\n)+", text) if p.strip()]
    if len(paragraphs) > 1 and len(paragraphs[0]) <= 200 and "\n" not in paragraphs[0]:
        yield Event("heading", plain(paragraphs.pop(0)), 1)
    yield from (Event("text", p) for p in paragraphs)


READERS: dict[str, Callable[[str], Iterator[Event]]] = {
    "rst": rst.events,
    "markdown": _markdown_events,
    "html": _html_events,
    "text": _text_events,
}


def _by_headings(document: Document) -> dict[str, Any]:
    if document.kind not in READERS:
        raise Rejected(f"no tutorial: kind {document.kind}")
    return compose(events(document))


STRUCTURERS: Registry[Callable[[Document], dict[str, Any]]] = Registry(
    "structurer", {"headings": _by_headings, "docstrings": sections_of}
)


def structured(documents: list[Document], name: str = "") -> list[Structured]:
    """Every document by a structurer, that of its kind if none is named. UserError for an unknown one."""
    return [
        _one(d, name or ("docstrings" if d.kind == "docstring" else "headings")) for d in documents
    ]


def _one(document: Document, name: str) -> Structured:
    try:
        value = STRUCTURERS.get_or_fail(name)(document)
        tree(value)
    except Rejected as e:
        return Structured(document.id, None, str(e))
    except RecursionError:
        return Structured(document.id, None, "nested too deep: more than the parser takes")
    return Structured(document.id, value or None, "" if value else "nothing in it")


def _heads(text: str, kind: str) -> Iterator[Head]:
    """The headings of a page of reStructuredText, Markdown or HTML, in order."""
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    if kind == "rst":
        yield from ((starts[line], level, title) for line, level, title in rst.headings(text))
    elif kind == "markdown":
        for token, inline in pairwise(_markdown().parse(text)):
            if token.type == "heading_open" and token.map and token.level == 0:
                yield starts[token.map[0]], int(token.tag[1]), inline.content
    else:
        for tag in BeautifulSoup(text, "html.parser").find_all(_HEADING):
            start = starts[(tag.sourceline or 1) - 1] + (tag.sourcepos or 0)
            yield start, int(tag.name[1]), plain(tag.get_text()).rstrip("¶")


def cut(text: str, kind: str, limit: int) -> list[tuple[str, str]]:
    """A page as (title, text) pieces that joined are the page; the first has no title.

    A section longer than `limit` characters is cut into what stands before its first subsection, and these.
    """
    heads = list(_heads(text, kind))
    if not heads or len(text) <= limit:
        return [("", text)]
    # What stands before the first heading (labels, comments) goes with it, since it says nothing alone.
    heads[0] = (0, heads[0][1], "")
    return list(_pieces(text, heads, len(text), limit))


# Where a section without subsections is cut, the best place first: before a paragraph that is no code, before
# any paragraph, before a line, before a word.
_PLACES = tuple(map(re.compile, (r"\n[ \t]*\n(?=\S)", r"\n[ \t]*\n", r"\n", r"[ \t]")))


def split_long(text: str, kind: str, limit: int) -> list[str]:
    """Split a page into pieces of a limited length, at its sections where that is possible.

    Neighbouring sections stay together while they fit. A section that is too long by itself is split between
    paragraphs, else between lines.

    Args:
        text: The page.
        kind: How the page is written, as in `Document`. Plain text has no sections.
        limit: The most characters of a piece.

    Returns:
        The pieces, which joined are the page.
    """
    parts = [text]
    if len(text) > limit and kind in ("rst", "markdown", "html"):
        with suppress(RecursionError):  # nested deeper than the parser takes
            parts = [part for _, part in cut(text, kind, limit)]
    pieces: list[str] = []
    for part in parts:
        for piece in _between_paragraphs(part, limit):
            if pieces and len(pieces[-1]) + len(piece) <= limit:
                pieces[-1] += piece
            else:
                pieces.append(piece)
    return pieces


def title_of(text: str, kind: str) -> str:
    """Tell what a page is about.

    Args:
        text: The page.
        kind: How the page is written, as in `Document`.

    Returns:
        Its first heading; of plain text the first line. "" where there is none.
    """
    if kind not in ("rst", "markdown", "html"):
        return text.strip().partition("\n")[0].strip()
    with suppress(RecursionError):
        return next((title for _, _, title in _heads(text, kind)), "")
    return ""


def _between_paragraphs(text: str, limit: int) -> Iterator[str]:
    start = 0
    while len(text) - start > limit:
        end = start + limit
        for place in _PLACES:
            found = [match.end() for match in place.finditer(text, start, end)]
            if found and found[-1] > start + limit // 2:
                end = found[-1]
                break
        yield text[start:end]
        start = end
    yield text[start:]


def _pieces(text: str, heads: list[Head], end: int, limit: int) -> Iterator[tuple[str, str]]:
    """The sections that start with `heads` and stop at `end`, in pieces."""
    while heads:
        start, level, title = heads[0]
        following = next((i for i, head in enumerate(heads[1:], 1) if head[1] <= level), len(heads))
        inside, heads = heads[1:following], heads[following:]
        stop = heads[0][0] if heads else end
        if stop - start <= limit or not inside:
            yield title, text[start:stop]
        else:
            yield title, text[start : inside[0][0]]
            yield from _pieces(text, inside, stop, limit)
