"""Docstrings to JSON by their sections, in numpydoc, Google and Sphinx style.

    {"numpy.linalg.norm": {
        "signature": "norm(x, ord=None)",
        "summary": "...",
        "description": {...},
        "parameters": [{"name": "x", "type": "array_like", "description": "..."}],
        "notes": {...},
        "examples": [{"explanation": "...", "code": ">>> ..."}],
    }}

A section with another title is prose in reStructuredText. Nothing is left out.
"""

import re
import textwrap
from dataclasses import dataclass

from pkg_lib.core.types import Document
from pkg_lib.graph.text import rst
from pkg_lib.graph.text.compose import Section, compose
from pkg_lib.graph.text.documents import RejectedDocumentError

Entry = dict[str, str]  # name, type, description: those that are given


@dataclass
class _Field:
    """A field of Sphinx style: `:name argument: lines`."""

    name: str
    argument: str
    lines: list[str]


_UNDERLINE = re.compile(r"[ \t]*(-{3,}|={3,})[ \t]*")
_GOOGLE = re.compile(
    r"(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters"
    r"|Attributes|Methods|Returns?|Yields?|Raises|Warns|Warnings?|Examples?|Notes?|References"
    r"|See Also|Todo):[ \t]*"
)
_FIELD = re.compile(
    r":(param|parameter|arg|key|keyword|raises?|except|exception|type|returns?|rtype|yields?"
    r"|ivar|var)\b([^:\n]*):"
)
# Title in small letters, or field of Sphinx style -> its section.
_SECTION = {
    "args": "parameters",
    "arguments": "parameters",
    "params": "parameters",
    "param": "parameters",
    "parameter": "parameters",
    "arg": "parameters",
    "key": "parameters",
    "keyword": "parameters",
    "type": "parameters",
    "keyword args": "other parameters",
    "keyword arguments": "other parameters",
    "ivar": "attributes",
    "var": "attributes",
    "rtype": "returns",
    "return": "returns",
    "yield": "yields",
    "except": "raises",
    "exception": "raises",
    "raise": "raises",
    "example": "examples",
    "note": "notes",
    "warning": "warnings",
}
_NAMED = {
    "parameters",
    "other parameters",
    "attributes",
    "methods",
    "receives",
}
_TYPED = {"returns", "yields", "raises", "warns"}
_GOOGLE_ENTRY = re.compile(
    r"(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)[ \t]*"
    r"(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?:(?:\s+|$)(.*)",
    re.S,
)
_GOOGLE_TYPED = re.compile(r"([\w.\[\], |]+?):(?:\s+|$)(.*)", re.S)


def sections_of(document: Document) -> Section:
    """Structure a document that consists of a signature, an empty line and a docstring.

    Args:
        document: A document of kind "docstring". The part of its id after the last "/" and before a
            "#" is the name of what it documents.

    Returns:
        An object whose only key is that name. It contains the signature and the sections of `read`.

    Raises:
        RejectedDocumentError: The document is something else, or its docstring is empty.
    """
    if document.kind != "docstring":
        raise RejectedDocumentError(f"no docstring: kind {document.kind}")
    signature, _, body = document.text.partition("\n\n")
    if not body.strip():
        raise RejectedDocumentError("nothing in it")
    name = document.id.rpartition("/")[2].partition("#")[0]
    return {name: {"signature": signature} | read(body)}


def read(docstring: str) -> Section:
    """Split one docstring into its sections.

    Args:
        docstring: The docstring without a signature and without common indentation: section titles
            are at the left edge.

    Returns:
        Each section by its name in small letters, in the form that the module describes. Different
        titles of one section, such as "Args" and "Parameters", have the same name. A name that
        occurs again gets an apostrophe.
    """
    (_, opening), *others = _split(docstring.expandtabs().split("\n"))
    sections = _opening("\n".join(opening))
    for title, lines in others:
        kind = key = _SECTION.get(title.lower(), title.lower())
        while key in sections:
            key += "'"
        text = textwrap.dedent("\n".join(lines)).strip("\n")
        if kind in _NAMED | _TYPED:
            first_line = next(filter(str.strip, lines), "x")
            sections[key] = _entries(text, kind, is_google=first_line[0].isspace())
        elif kind == "examples":
            sections[key] = _examples(text)
        else:
            sections[key] = _prose(text)
    return sections


def _split(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Return (title, lines) of each section.

    The first one, without a title, contains summary, description and fields.
    """
    sections: list[tuple[str, list[str]]] = [("", [])]
    is_underline = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if is_underline:
            is_underline = False
            continue
        is_underline = bool(line[:1].strip() and _UNDERLINE.fullmatch(following))
        google = _GOOGLE.fullmatch(line)
        if is_underline:
            sections.append((line.strip().rstrip(":"), []))
        # A Google title has indented text below it, else the word is part of a sentence.
        elif google and following[:1].isspace() and following.strip():
            sections.append((google[1], []))
        else:
            sections[-1][1].append(line)
    return sections


def _opening(text: str) -> Section:
    """Read the summary (first paragraph), the description and the Sphinx fields."""
    prose: list[str] = []
    fields: list[_Field] = []
    for line in textwrap.dedent(text).split("\n"):
        match = _FIELD.match(line)
        if match:
            text = line[match.end() :].strip()
            fields.append(_Field(match[1], match[2].strip(), [text]))
        elif fields and not line[:1].strip():
            fields[-1].lines.append(line.strip())
        else:
            prose.append(line)
    summary, _, description = "\n".join(prose).strip("\n").partition("\n\n")
    sections: Section = {}
    if summary.strip():
        sections["summary"] = rst.plain(summary)
    if description.strip():
        sections["description"] = _prose(description)
    for field in fields:
        kind = _SECTION.get(field.name, field.name)
        _add_field(sections.setdefault(kind, []), kind, field)
    return sections


def _add_field(entries: list[Entry], kind: str, field: _Field) -> None:
    """Add a Sphinx field to its section: an entry, or the type of an entry."""
    body = "\n".join(field.lines).strip()
    if field.name in ("type", "rtype"):
        same = entries
        if field.name == "type":
            same = [entry for entry in entries if entry.get("name") == field.argument]
        if same and "type" not in same[-1]:
            same[-1]["type"] = body
        else:
            entries.append(_entry(name=field.argument, type=body))
    elif kind == "raises":
        entries.append(_entry(type=field.argument, description=body))
    else:
        type_, _, name = field.argument.rpartition(" ")
        entries.append(_entry(name=name, type=type_, description=body))


def _prose(text: str) -> Section:
    return compose(event for event in rst.events(text) if event.text)


def _examples(text: str) -> list[Entry]:
    """Return each code block with the text before it; text at the end is an entry without code."""
    examples: list[Entry] = []
    words: list[str] = []
    for event in [*rst.events(text), rst.Event("code", "")]:
        if event.kind != "code":
            words.append(event.text)
            continue
        example = {
            "explanation": "\n\n".join(filter(None, words)),
            "code": event.text,
        }
        example = {key: value for key, value in example.items() if value}
        if example:
            examples.append(example)
            words = []
    return examples


def _entries(text: str, kind: str, is_google: bool) -> list[Entry]:
    """Read the entries of a list; a line at the outer indentation starts one."""
    groups: list[list[str]] = []
    for line in text.split("\n"):
        if line[:1].strip():
            groups.append([line])
        elif groups:
            groups[-1].append(line)
        elif line.strip():
            groups.append([line])
    entries = []
    for head, *rest in groups:
        body = textwrap.dedent("\n".join(rest)).strip()
        if is_google:
            entries.append(_google_entry(f"{head}\n{body}".strip(), kind))
        else:
            entries.append(_numpy_entry(head, body, kind))
    return entries


def _google_entry(text: str, kind: str) -> Entry:
    match = _GOOGLE_ENTRY.fullmatch(text)
    if kind in _NAMED and match:
        return _entry(
            name=match[1],
            type=match[2] or "",
            description=match[3],
        )
    match = _GOOGLE_TYPED.fullmatch(text)
    if kind in _TYPED and match:
        return _entry(type=match[1], description=match[2])
    return _entry(description=text)


def _numpy_entry(head: str, body: str, kind: str) -> Entry:
    name, colon, type_ = head.partition(" : " if " : " in head else ":")
    if colon or kind in _NAMED:
        return _entry(name=name, type=type_, description=body)
    return _entry(type=head, description=body)


def _entry(**parts: str) -> Entry:
    """Make an entry of the parts that are not empty."""
    stripped = {name: part.strip() for name, part in parts.items()}
    return {name: part for name, part in stripped.items() if part}
