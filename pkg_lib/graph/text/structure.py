"""Documents to JSON objects by structurers (Section 3.1.2), and pages split into sections.

headings    sections of reStructuredText, Markdown, HTML or plain text, without navigation
docstrings  sections of numpydoc, Google and Sphinx docstrings

The paper's way, a model that writes the JSON, is in data/structuring.py.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, Tag
from markdown_it import MarkdownIt

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Document
from pkg_lib.graph.text import rst
from pkg_lib.graph.text.compose import Section, compose
from pkg_lib.graph.text.docstrings import sections_of
from pkg_lib.graph.text.documents import (
    RejectedDocumentError,
    Structured,
    tree,
)
from pkg_lib.graph.text.rst import Event, plain

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
_HEADING = re.compile(r"h[1-6]")
_LEFT_OUT = set("script style head nav footer form button svg img template noscript".split())
_BLOCK = """address article aside blockquote body caption center dd details div dl dt fieldset
figcaption figure h1 h2 h3 h4 h5 h6 header hr html li main ol p pre section summary table td th tr
ul""".split()
PARSER_DEPTH = "nested too deep: more than the parser takes"
_WITH_SECTIONS = ("rst", "markdown", "html")
# Where text without subsections is split, the best place first: before a paragraph without code,
# before any paragraph, before a line, before a word.
_PLACES = (
    re.compile(r"\n[ \t]*\n(?=\S)"),
    re.compile(r"\n[ \t]*\n"),
    re.compile(r"\n"),
    re.compile(r"[ \t]"),
)


class Heading(NamedTuple):
    """A heading of a page.

    Attributes:
        start: First character of its section.
        level: Its level, from 1 for the page's title.
        title: Its text.
    """

    start: int
    level: int
    title: str


def _markdown() -> MarkdownIt:
    # By default it silently drops what is nested more than 20 levels deep.
    return MarkdownIt("commonmark", {"maxNesting": 100_000}).enable("table")


def _markdown_events(text: str) -> Iterator[Event]:
    # By way of HTML, so that one function knows what a paragraph, a list item and a table are.
    return _html_events(_markdown().render(_FRONT_MATTER.sub("", text)))


def main_part(page: str) -> Tag:
    """Return the element with the page's own text, without navigation if the page marks it.

    Args:
        page: A page as HTML.

    Returns:
        The element with the role "main", else the first `main` or `article`, else the whole page.
    """
    soup = BeautifulSoup(page, "html.parser")
    return soup.find(role="main") or soup.find("main") or soup.find("article") or soup


def _html_events(text: str) -> Iterator[Event]:
    main = main_part(text)
    for mark in main.select("a.headerlink, span.section-number"):
        mark.decompose()
    yield from _walk(main)


def _walk(tag: Tag) -> Iterator[Event]:
    inline = ""
    for child in tag.children:
        if _is_inline(child):
            inline += child.get_text() if isinstance(child, Tag) else str(child)
        elif isinstance(child, Tag) and child.name not in _LEFT_OUT:
            yield Event("text", plain(inline))
            inline = ""
            yield from _block(child)
    yield Event("term" if tag.name == "dt" else "text", plain(inline))


def _is_inline(element: PageElement) -> bool:
    if isinstance(element, Tag):
        is_block = element.name in _BLOCK or element.name in _LEFT_OUT
        return not is_block and element.find(_BLOCK) is None
    return type(element) is NavigableString  # its subclasses are comments and declarations


def _block(tag: Tag) -> Iterator[Event]:
    if _HEADING.fullmatch(tag.name):
        yield Event("heading", plain(tag.get_text()), int(tag.name[1]))
    elif tag.name == "pre":
        yield Event("code", tag.get_text().strip("\n"))
    elif tag.name == "table" and not tag.find("pre"):
        rows = []
        for row in tag.find_all("tr"):
            cells = row.find_all(["td", "th"])
            rows.append(" | ".join(plain(cell.get_text()) for cell in cells))
        yield Event("text", "\n".join(rows))
    else:
        yield from _walk(tag)


def _text_events(text: str) -> Iterator[Event]:
    """Read plain text: blank lines separate paragraphs; a short line before others is the title."""
    parts = re.split(r"\n(?:[ \t]*\n)+", text)
    paragraphs = [part.strip("\n") for part in parts if part.strip()]
    first = paragraphs[0] if paragraphs else ""
    if len(paragraphs) > 1 and len(first) <= 200 and "\n" not in first:
        yield Event("heading", plain(first), 1)
        del paragraphs[0]
    for paragraph in paragraphs:
        yield Event("text", paragraph)


READERS: dict[str, Callable[[str], Iterator[Event]]] = {
    "rst": rst.events,
    "markdown": _markdown_events,
    "html": _html_events,
    "text": _text_events,
}


def events(document: Document) -> list[Event]:
    """Read a document as a stream of headings, paragraphs and code.

    Args:
        document: A document whose kind is in READERS.

    Returns:
        The pieces in order. Only a heading may have an empty text.

    Raises:
        RecursionError: The markup is nested too deep for its parser.
    """
    found = READERS[document.kind](document.text)
    return [event for event in found if event.text or event.kind == "heading"]


def _by_headings(document: Document) -> Section:
    if document.kind not in READERS:
        raise RejectedDocumentError(f"no tutorial: kind {document.kind}")
    return compose(events(document))


STRUCTURERS: Registry[Callable[[Document], Section]] = Registry(
    "structurer",
    {"headings": _by_headings, "docstrings": sections_of},
)


def structured(documents: list[Document], name: str = "") -> list[Structured]:
    """Structure documents as JSON.

    Args:
        documents: The documents.
        name: A structurer; by default each document's kind decides.

    Raises:
        UserError: The structurer is unknown.
    """
    results = []
    for document in documents:
        default = "docstrings" if document.kind == "docstring" else "headings"
        structurer = STRUCTURERS.get_or_fail(name or default)
        try:
            value = structurer(document)
            tree(value)
            reason = "" if value else "nothing in it"
            result = Structured(document.id, value or None, reason)
        except RejectedDocumentError as e:
            result = Structured(document.id, None, str(e))
        except RecursionError:
            result = Structured(document.id, None, PARSER_DEPTH)
        results.append(result)
    return results


def _headings(text: str, kind: str) -> Iterator[Heading]:
    """Yield the headings of a page of reStructuredText, Markdown or HTML, in order."""
    starts = [
        0,
        *(newline.end() for newline in re.finditer("\n", text)),
    ]
    if kind == "rst":
        for line, level, title in rst.headings(text):
            yield Heading(starts[line], level, title)
    elif kind == "markdown":
        for token, inline in pairwise(_markdown().parse(text)):
            if token.type == "heading_open" and token.map and token.level == 0:
                yield Heading(
                    starts[token.map[0]],
                    int(token.tag[1]),
                    inline.content,
                )
    else:
        for tag in BeautifulSoup(text, "html.parser").find_all(_HEADING):
            start = starts[(tag.sourceline or 1) - 1] + (tag.sourcepos or 0)
            yield Heading(
                start,
                int(tag.name[1]),
                plain(tag.get_text()).rstrip("¶"),
            )


def _headings_of_plain_text(text: str) -> Iterator[Heading]:
    """Yield the Markdown headings of plain text, such as a tutorial of the web.

    Code in such a text is often not fenced, and its comments look like headings of level 1. So a
    heading needs a blank line above it, and one with a single "#" also needs one below it.
    """
    for heading in _headings(text, "markdown"):
        above = text[: heading.start].removesuffix("\n").rpartition("\n")[2]
        line, _, rest = text[heading.start :].partition("\n")
        below = rest.partition("\n")[0]
        has_room = not heading.start or not above.strip()
        is_comment = re.match(r" {0,3}#\s", line) and below.strip()
        if has_room and not is_comment:
            yield heading


def title_of(text: str, kind: str) -> str:
    """Tell what a page is about.

    Args:
        text: The page.
        kind: How the page is written, as in `Document`.

    Returns:
        Its first heading; of plain text the first line. "" if there is none.
    """
    if kind not in _WITH_SECTIONS:
        return text.strip().partition("\n")[0].strip()
    with suppress(RecursionError):
        for heading in _headings(text, kind):
            return heading.title
    return ""


def cut(text: str, kind: str, limit: int) -> list[tuple[str, str]]:
    """Split a page into its sections.

    A section over the limit is split into the text before its first subsection, and its
    subsections.

    Args:
        text: The page.
        kind: How the page is written: rst, markdown or html. Of plain text, only Markdown headings
            start a section.
        limit: Number of characters over which a section is split.

    Returns:
        (title, text) of the pieces, which joined are the page. The first has no title.
    """
    if len(text) <= limit:
        return [("", text)]
    headings = list(_headings_of_plain_text(text) if kind == "text" else _headings(text, kind))
    if not headings:
        return [("", text)]
    # The text before the first heading (labels, comments) belongs to its section.
    headings[0] = Heading(0, headings[0].level, "")
    return list(_sections(text, headings, len(text), limit))


def _sections(
    text: str, headings: list[Heading], end: int, limit: int
) -> Iterator[tuple[str, str]]:
    """Yield the pieces of the sections that start with `headings` and stop at `end`."""
    while headings:
        start, level, title = headings.pop(0)
        inside = []
        while headings and headings[0].level > level:
            inside.append(headings.pop(0))
        stop = headings[0].start if headings else end
        if stop - start <= limit or not inside:
            yield title, text[start:stop]
        else:
            yield title, text[start : inside[0].start]
            yield from _sections(text, inside, stop, limit)


def split_long(text: str, kind: str, limit: int) -> list[str]:
    """Split a page into pieces of a limited length, at its sections where that is possible.

    Neighbouring sections stay together while they fit. A section that is too long by itself is
    split between paragraphs, else between lines.

    Args:
        text: The page.
        kind: How the page is written, as in `Document`. The sections of plain text are those of
            its Markdown headings, if it has some.
        limit: The most characters of a piece.

    Returns:
        The pieces, which joined are the page.
    """
    parts = [text]
    if len(text) > limit and kind in (*_WITH_SECTIONS, "text"):
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


def _between_paragraphs(text: str, limit: int) -> Iterator[str]:
    """Yield pieces within the limit, each split at the best place of its second half."""
    start = 0
    while len(text) - start > limit:
        end = start + limit
        for place in _PLACES:
            ends = [match.end() for match in place.finditer(text, start, end)]
            if ends and ends[-1] > start + limit // 2:
                end = ends[-1]
                break
        yield text[start:end]
        start = end
    yield text[start:]
