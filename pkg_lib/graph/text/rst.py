"""reStructuredText -> a stream of headings, paragraphs and code, by docutils.

Of what only Sphinx knows, a role is its text (`~a.b.c` is c, `!x` is x, `title <target>` is title); an object
description (`method:: list.append(x)`) is a term with its text; what only steers the build (`index`) is left
out. Parts that docutils cannot read are kept as plain text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en

_ROLE = re.compile(r":([A-Za-z](?:[\w.+-]*[A-Za-z0-9])?(?::[A-Za-z][\w.+-]*)?):`")
_DIRECTIVE = re.compile(r"^[ \t]*\.\.[ \t]+([A-Za-z](?:[\w.+:-]*[A-Za-z0-9])?)::(?=\s|$)", re.M)
_TITLE_TARGET = re.compile(r"(.+?)\s*<[^<>]*>", re.S)
_WITH_LANGUAGE = {
    *"code-block sourcecode code prompt".split()
}  # their argument is no part of the code
_CODE = {
    *_WITH_LANGUAGE,
    *"testcode testoutput doctest ipython productionlist parsed-literal".split(),
}
_STEERS = {
    *"index toctree currentmodule module sectionauthor moduleauthor codeauthor highlight".split()
}
_STEERS |= {
    *"testsetup testcleanup tabularcolumns contents include literalinclude raw image".split()
}
_STEERS |= {"figure", "plot"}
_VERSIONS = {"versionadded": "New in version", "versionchanged": "Changed in version"}
_VERSIONS |= {"deprecated": "Deprecated since version"}
# docutils' own, which it reads itself.
_ROLES = {*"code emphasis strong literal math raw subscript superscript title-reference".split()}
_DIRECTIVES = en.directives.keys() - _CODE - _STEERS
# Nothing is written to stderr; what fails stands in the tree.
_SETTINGS = {"report_level": 5, "halt_level": 6, "warning_stream": None, "_disable_config": True}
_SETTINGS |= {"file_insertion_enabled": False, "raw_enabled": False, "doctitle_xform": False}


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of a tutorial. A "term" is what the following text defines; `level` is a heading's, from 1."""

    kind: Literal["heading", "text", "term", "code"]
    text: str
    level: int = 0


def plain(text: str) -> str:
    """The words of a text on one line."""
    return " ".join(text.split())


class _Generic(Directive):
    """A directive that docutils does not know."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    # Every option, since none matters here; an empty mapping would mean that there are none.
    option_spec: ClassVar = defaultdict(lambda: directives.unchanged, name=directives.unchanged)

    def run(self) -> list[nodes.Node]:
        name = self.name.rpartition(":")[2]
        if name in _STEERS:
            return []
        if name in _CODE:
            text = "\n".join([*self.arguments[name in _WITH_LANGUAGE :], *self.content]).strip("\n")
            return [nodes.literal_block(text, text)] if text else []
        body = nodes.definition()
        self.state.nested_parse(self.content, self.content_offset, body, match_titles=True)
        before = f"{_VERSIONS[name]} " if name in _VERSIONS else ""
        heads = [before + plain(a) for a in self.arguments]
        if (
            not body.children
        ):  # a term needs a definition, else it would take the next paragraph for it
            return [nodes.paragraph(h, h) for h in heads]
        return [nodes.definition_list_item("", *(nodes.term(h, h) for h in heads), body)]


def _role(
    name: str, raw: str, text: str, *_: Any, **__: Any
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Any role as its text."""
    text = text.replace("\x00", "\\")  # docutils' own mark for a backslash
    match = _TITLE_TARGET.fullmatch(text)
    shown = match[1] if match else text.lstrip("!")
    return [nodes.literal(raw, shown.rpartition(".")[2] if shown.startswith("~") else shown)], []


def _tree(text: str) -> nodes.document:
    """The text's document; roles and directives that docutils does not know are registered first."""
    for name in {n.lower() for n in _ROLE.findall(text)} - _ROLES:
        roles.register_local_role(name, _role)
    for name in {n.lower() for n in _DIRECTIVE.findall(text)} - _DIRECTIVES:
        directives.register_directive(name, _Generic)
    return publish_doctree(text, settings_overrides=_SETTINGS)


def events(text: str) -> Iterator[Event]:
    """The text's stream. Raises RecursionError for markup nested too deep."""
    return _walk(_tree(text), 0)


def headings(text: str) -> Iterator[tuple[int, int, str]]:
    """(line index of the heading with its overline, level, title) of every section, in order."""
    lines = text.split("\n")
    for section in _tree(text).findall(nodes.section):
        level, above = 1, section.parent
        while above is not None:
            level, above = level + isinstance(above, nodes.section), above.parent
        first = max(section.line - 2, 0)  # docutils counts from 1 and names the underline
        over = lines[first - 1] if first > 0 else ""
        overlined = len(set(over.strip())) == 1 and over[:3] == lines[first + 1][:3]
        yield first - overlined, level, _words(section[0])


def _walk(node: nodes.Node, level: int) -> Iterator[Event]:
    for child in node.children:
        match child:
            case nodes.section():
                yield Event("heading", _words(child[0]), level + 1)
                yield from _walk(child, level + 1)
            case nodes.literal_block() | nodes.doctest_block() | nodes.math_block():
                yield Event("code", child.astext().strip("\n"))
            case nodes.Invisible():
                continue
            case nodes.title() if isinstance(node, nodes.section):
                continue
            case nodes.table():
                rows = (" | ".join(map(_words, row.children)) for row in child.findall(nodes.row))
                yield Event("text", "\n".join(rows))
            case nodes.term() | nodes.field_name():
                yield Event("term", _words(child))
            case nodes.TextElement():
                yield Event("text", _words(child))
            case nodes.system_message():
                yield from (
                    Event("text", _words(block)) for block in child.findall(nodes.literal_block)
                )
            case _:
                yield from _walk(child, level)


def _words(node: nodes.Node) -> str:
    return plain(node.astext())
