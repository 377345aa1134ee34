"""Tutorial text -> a stream of headings, paragraphs and code, the same for reStructuredText, Markdown, HTML and plain text.

reStructuredText is read by docutils, with every Sphinx role and directive that docutils does not know taken as text;
Markdown is rendered to HTML by markdown-it; HTML is read by BeautifulSoup. Links, comments, images and page navigation
are left out; a table is a paragraph with one line a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, Tag
from markdown_it import MarkdownIt

from pkg_lib.core.types import Document
from pkg_lib.graph.text import rst
from pkg_lib.graph.text.rst import Event

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
_HEADING = re.compile(r"h[1-6]")
_LEFT_OUT = {
    "script",
    "style",
    "head",
    "nav",
    "footer",
    "form",
    "button",
    "svg",
    "img",
    "template",
    "noscript",
}
_BLOCKS = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "center",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "html",
    "li",
    "main",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "td",
    "th",
    "tr",
    "ul",
]


@dataclass(frozen=True, slots=True)
class Head:
    """A heading: where its section starts in the text (characters), its level (1 is the page's), its title."""

    start: int
    level: int
    title: str


def events(document: Document) -> list[Event]:
    """The document as a stream. Raises RecursionError for markup nested too deep for its parser."""
    return [e for e in READERS[document.kind](document.text) if e.text or e.kind == "heading"]


def _markdown_events(text: str) -> Iterator[Event]:
    # Rendered once more from HTML, so that one walk knows what a paragraph, a list item and a table are.
    return _html_events(_markdown().render(_FRONT_MATTER.sub("", text)))


def _markdown() -> MarkdownIt:
    # By itself it drops what is nested more than 20 levels deep without a word.
    return MarkdownIt("commonmark", {"maxNesting": 100_000}).enable("table")


def main_html(page: str) -> str:
    """The HTML of the page's own text, without the head and the navigation around it."""
    return str(main_part(BeautifulSoup(page, "html.parser")))


def _html_events(text: str) -> Iterator[Event]:
    soup = BeautifulSoup(text, "html.parser")
    for mark in soup.select("a.headerlink, span.section-number"):
        mark.decompose()
    yield from _walk(main_part(soup))


def main_part(soup: BeautifulSoup) -> Tag:
    """The element with the page's own text, where the page marks one."""
    return soup.find(attrs={"role": "main"}) or soup.find("main") or soup.find("article") or soup


def _walk(tag: Tag) -> Iterator[Event]:
    inline: list[str] = []
    for child in tag.children:
        if _is_inline(child):
            inline.append(child.get_text() if isinstance(child, Tag) else str(child))
        elif isinstance(child, Tag) and child.name not in _LEFT_OUT:
            yield Event("text", _plain("".join(inline)))
            inline.clear()
            yield from _block(child)
    yield Event("term" if tag.name == "dt" else "text", _plain("".join(inline)))


def _is_inline(element: PageElement) -> bool:
    if isinstance(element, Tag):
        blocks = element.name in _BLOCKS or element.find(_BLOCKS) is not None
        return not blocks and element.name not in _LEFT_OUT
    return type(element) is NavigableString  # its subclasses are comments, declarations and the like


def _block(tag: Tag) -> Iterator[Event]:
    if _HEADING.fullmatch(tag.name):
        yield Event("heading", _plain(tag.get_text()), int(tag.name[1]))
    elif tag.name == "pre":
        yield Event("code", tag.get_text().strip("\n"))
    elif tag.name == "table" and not tag.find("pre"):
        yield Event("text", "\n".join(_row(r) for r in tag.find_all("tr")))
    else:
        yield from _walk(tag)


def _row(row: Tag) -> str:
    return " | ".join(_plain(c.get_text()) for c in row.find_all(["td", "th"]))


def _plain(text: str) -> str:
    return " ".join(text.split())


def _text_events(text: str) -> Iterator[Event]:
    """Plain text: the first paragraph is the title when it is one short line; the others are told apart by blank lines."""
    paragraphs = [p.strip("\n") for p in re.split(r"\n(?:[ \t]*\n)+", text) if p.strip()]
    if len(paragraphs) > 1 and len(paragraphs[0]) <= 200 and "\n" not in paragraphs[0]:
        yield Event("heading", _plain(paragraphs.pop(0)), 1)
    yield from (Event("text", p) for p in paragraphs)


READERS: dict[str, Callable[[str], Iterator[Event]]] = {
    "rst": rst.events,
    "markdown": _markdown_events,
    "html": _html_events,
    "text": _text_events,
}


def _markdown_heads(text: str) -> Iterator[Head]:
    starts = _line_starts(text)
    tokens = _markdown().parse(text)
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.map and token.level == 0:
            yield Head(starts[token.map[0]], int(token.tag[1]), inline.content)


def _html_heads(text: str) -> Iterator[Head]:
    starts = _line_starts(text)
    for tag in BeautifulSoup(text, "html.parser").find_all(_HEADING):
        title = _plain(tag.get_text()).rstrip("¶")
        yield Head(starts[(tag.sourceline or 1) - 1] + (tag.sourcepos or 0), int(tag.name[1]), title)


def _rst_heads(text: str) -> Iterator[Head]:
    starts = _line_starts(text)
    for line, level, title in rst.headings(text):
        yield Head(starts[line], level, title)


def _line_starts(text: str) -> list[int]:
    return [0, *(m.end() for m in re.finditer("\n", text))]


_HEADS: dict[str, Callable[[str], Iterator[Head]]] = {
    "rst": _rst_heads,
    "markdown": _markdown_heads,
    "html": _html_heads,
}


def cut(text: str, kind: Literal["rst", "html", "markdown"], limit: int) -> list[tuple[str, str]]:
    """A page as (title, text) pieces whose texts joined are the page: the page itself up to `limit` characters, else
    what stands before its first subsection, and each subsection by the same rule. The first piece has no title.

    A section without subsections stays whole, whatever its length.
    """
    heads = list(_HEADS[kind](text))
    if not heads or len(text) <= limit:
        return [("", text)]
    # What stands before the first heading (labels, comments) goes with it, since it says nothing alone.
    first = Head(0, heads[0].level, "")
    return _pieces(text, [first, *heads[1:]], len(text), limit)


def _pieces(text: str, heads: list[Head], end: int, limit: int) -> list[tuple[str, str]]:
    """The section that `heads[0]` opens, up to `end`, in pieces; the other heads are those inside and after it."""
    found: list[tuple[str, str]] = []
    top = [i for i, h in enumerate(heads) if h.level <= min([h.level for h in heads[: i + 1]])]
    for i, following in zip(top, [*top[1:], len(heads)], strict=True):
        stop = heads[following].start if following < len(heads) else end
        start, inside = heads[i].start, heads[i + 1 : following]
        if stop - start <= limit or not inside:
            found.append((heads[i].title, text[start:stop]))
        else:
            found.append((heads[i].title, text[start : inside[0].start]))
            found += _pieces(text, inside, stop, limit)
    return found
