"""reStructuredText to a stream of headings, paragraphs and code, by docutils.

Of Sphinx' markup, a role becomes its text (`~a.b.c` is c, `!x` is x, `title <target>` is title). An
object description (`method:: list.append(x)`) becomes a term with its text. What only controls the
build (`index`) is left out. Parts that docutils cannot read are kept as plain text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from docutils import nodes
from docutils.core import publish_doctree
from docutils.frontend import Values
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en

_ROLE = re.compile(r":([A-Za-z](?:[\w.+-]*[A-Za-z0-9])?(?::[A-Za-z][\w.+-]*)?):`")
_DIRECTIVE = re.compile(
    r"^[ \t]*\.\.[ \t]+([A-Za-z](?:[\w.+:-]*[A-Za-z0-9])?)::(?=\s|$)",
    re.M,
)
_TITLE_TARGET = re.compile(r"(.+?)\s*<[^<>]*>", re.S)
_WITH_LANGUAGE = set("code-block sourcecode code prompt".split())  # their argument is not code
_CODE = _WITH_LANGUAGE | set(
    "testcode testoutput doctest ipython productionlist parsed-literal".split()
)
_BUILD = set(
    """index toctree currentmodule module sectionauthor moduleauthor codeauthor highlight testsetup
    testcleanup tabularcolumns contents include literalinclude raw image figure plot""".split()
)
_VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
}
# What docutils reads itself.
_ROLES = set("code emphasis strong literal math raw subscript superscript title-reference".split())
_DIRECTIVES = en.directives.keys() - _CODE - _BUILD
# Nothing is written to stderr; errors are nodes of the tree.
_SETTINGS = {
    "report_level": 5,
    "halt_level": 6,
    "warning_stream": None,
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "doctitle_xform": False,
}


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of a document.

    Attributes:
        kind: What it is; the text after a "term" defines it.
        text: Its text.
        level: Level of a heading, from 1.
    """

    kind: Literal["heading", "text", "term", "code"]
    text: str
    level: int = 0


def plain(text: str) -> str:
    """Join the words of a text on one line.

    Args:
        text: Any text.

    Returns:
        The words with single blanks between them; "" for a text of white space.
    """
    return " ".join(text.split())


class _UnknownDirective(Directive):  # type: ignore[misc]  # docutils has no types
    """A directive that docutils does not know."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    # Every option is accepted, since none matters. An empty mapping would mean that there are none.
    option_spec: ClassVar[dict[str, Any]] = defaultdict(
        lambda: directives.unchanged,
        name=directives.unchanged,
    )

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the directive."""
        name = self.name.rpartition(":")[2]
        if name in _BUILD:
            return []
        if name in _CODE:
            arguments = [] if name in _WITH_LANGUAGE else self.arguments
            text = "\n".join([*arguments, *self.content]).strip("\n")
            return [nodes.literal_block(text, text)] if text else []
        before = f"{_VERSIONS[name]} " if name in _VERSIONS else ""
        heads = [before + plain(argument) for argument in self.arguments]
        body = nodes.definition()
        self.state.nested_parse(
            self.content,
            self.content_offset,
            body,
            match_titles=True,
        )
        if not body.children:  # a term would take the next paragraph for its definition
            return [nodes.paragraph(head, head) for head in heads]
        terms = [nodes.term(head, head) for head in heads]
        return [nodes.definition_list_item("", *terms, body)]


def _role(
    name: str, raw: str, text: str, *_: Any, **__: Any
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Read any role as its text."""
    text = text.replace("\x00", "\\")  # docutils' own mark for a backslash
    match = _TITLE_TARGET.fullmatch(text)
    shown = match[1] if match else text.lstrip("!")
    if shown.startswith("~"):
        shown = shown.rpartition(".")[2]
    return [nodes.literal(raw, shown)], []


def _parse(text: str) -> nodes.document:
    """Parse a text after registering the roles and directives that docutils does not know."""
    for role in {name.lower() for name in _ROLE.findall(text)} - _ROLES:
        roles.register_local_role(role, _role)
    for directive in {name.lower() for name in _DIRECTIVE.findall(text)} - _DIRECTIVES:
        directives.register_directive(directive, _UnknownDirective)
    return publish_doctree(text, settings=_settings().copy())


@cache
def _settings() -> Values:
    """The complete settings. docutils needs longer to make them than to parse a docstring."""
    return publish_doctree("", settings_overrides=_SETTINGS).settings


def events(text: str) -> Iterator[Event]:
    """Read a text as a stream of headings, paragraphs and code.

    Args:
        text: reStructuredText, with the roles and directives of Sphinx. What docutils cannot read
            becomes plain text.

    Returns:
        The pieces in order. Their texts may be empty.

    Raises:
        RecursionError: The markup is nested too deep.
    """
    return _walk(_parse(text), 0)


# Characters that docutils, like str.splitlines, takes for the end of a line.
_OTHER_LINE_ENDS = dict.fromkeys(map(ord, "\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")


def headings(text: str) -> Iterator[tuple[int, int, str]]:
    """Find the heading of every section.

    Args:
        text: reStructuredText whose only line ends are line feeds.

    Yields:
        (line, level, title) of each heading, in order. The line is the index, from 0, of the
        heading's first line, which may be its overline. Levels count from 1.

    Raises:
        RecursionError: The markup is nested too deep.
    """
    text = text.translate(_OTHER_LINE_ENDS)
    lines = text.split("\n")
    for section in _parse(text).findall(nodes.section):
        level = 1
        above = section.parent
        while above is not None:
            level += isinstance(above, nodes.section)
            above = above.parent
        first = max(section.line - 2, 0)  # docutils counts from 1 and reports the underline
        over = lines[first - 1] if first > 0 else ""
        under = lines[first + 1]
        has_overline = len(set(over.strip())) == 1 and over[:3] == under[:3]
        yield first - has_overline, level, _words(section[0])


def _walk(node: nodes.Node, level: int, skip: int = 0) -> Iterator[Event]:
    for child in node.children[skip:]:
        match child:
            case nodes.section():
                yield Event("heading", _words(child[0]), level + 1)
                yield from _walk(child, level + 1, skip=1)  # without the title
            case nodes.literal_block() | nodes.doctest_block() | nodes.math_block():
                yield Event("code", child.astext().strip("\n"))
            case nodes.Invisible():
                continue
            case nodes.table():
                yield _table(child)
            case nodes.term() | nodes.field_name():
                yield Event("term", _words(child))
            case nodes.TextElement():
                yield _text(child)
            case nodes.system_message():
                yield from map(_text, child.findall(nodes.literal_block))
            case _:
                yield from _walk(child, level)


def _table(table: nodes.table) -> Event:
    rows = (map(_words, row.children) for row in table.findall(nodes.row))
    return Event("text", "\n".join(map(" | ".join, rows)))


def _text(node: nodes.Node) -> Event:
    return Event("text", _words(node))


def _words(node: nodes.Node) -> str:
    return plain(node.astext())
