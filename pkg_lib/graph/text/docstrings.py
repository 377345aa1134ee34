"""Docstrings -> JSON by their sections: numpydoc (underlined titles), Google (`Args:`) and Sphinx (`:param x:`) style.

A docstring document is its signature, an empty line, and the docstring without its indentation. Its JSON:

    {"numpy.linalg.norm": {"signature": "norm(x, ord=None)", "summary": "...", "description": {"explanation": ..., ...},
                           "parameters": [{"name": "x", "type": "array_like", "description": "..."}], "returns": [...],
                           "notes": {"explanation": ...}, "examples": [{"explanation": "...", "code": ">>> ..."}]}}

Prose is read as reStructuredText. Nothing is left out: a section whose title is not known is prose, a line of
a list that has no form is the description of an entry.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

from pkg_lib.core.types import Document
from pkg_lib.graph.text import rst
from pkg_lib.graph.text.compose import compose
from pkg_lib.graph.text.documents import Rejected

_UNDERLINE = re.compile(r"[ \t]*(-{3,}|={3,})[ \t]*")
_GOOGLE = re.compile(
    r"(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Attributes|Methods|Returns?"
    r"|Yields?|Raises|Warns|Warnings?|Examples?|Notes?|References|See Also|Todo):[ \t]*"
)
_FIELD = re.compile(
    r":(param|parameter|arg|key|keyword|raises?|except|exception|type|returns?|rtype|yields?|ivar|var)\b([^:\n]*):"
)
# Titles and fields in small letters -> the section that they are.
_TITLES = dict.fromkeys(("args", "arguments", "params"), "parameters")
_TITLES |= dict.fromkeys(("keyword args", "keyword arguments"), "other parameters")
_TITLES |= {word: f"{word}s" for word in ("return", "yield", "example", "note", "warning")}
_FIELDS = dict.fromkeys(("param", "parameter", "arg", "key", "keyword", "type"), "parameters")
_FIELDS |= dict.fromkeys(("raise", "raises", "except", "exception"), "raises")
_FIELDS |= dict.fromkeys(("return", "returns", "rtype"), "returns")
_FIELDS |= {"yield": "yields", "yields": "yields", "ivar": "attributes", "var": "attributes"}
_NAMED = {"parameters", "other parameters", "attributes", "methods", "receives"}
_TYPED = {"returns", "yields", "raises", "warns"}
_GOOGLE_ENTRY = re.compile(
    r"(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)[ \t]*(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?:(?:\s+|$)(.*)", re.S
)
_GOOGLE_TYPED = re.compile(r"([\w.\[\], |]+?):(?:\s+|$)(.*)", re.S)


def document_text(signature: str, docstring: str) -> str:
    """The text of a docstring document; `docstring` is cleaned of indentation."""
    return f"{signature}\n\n{docstring}\n"


def sections_of(document: Document) -> dict[str, Any]:
    """The JSON object of a docstring document. Raises Rejected for another kind and for an empty docstring."""
    if document.kind != "docstring":
        raise Rejected(f"no docstring: kind {document.kind}")
    signature, _, body = document.text.partition("\n\n")
    if not body.strip():
        raise Rejected("nothing in it")
    name = document.id.rpartition("/")[2].partition("#")[0]
    return {name: {"signature": signature} | read(body)}


def read(docstring: str) -> dict[str, Any]:
    """The sections of one docstring without its signature."""
    sections: dict[str, Any] = {}
    for title, lines in _split(docstring.expandtabs().split("\n")):
        text = textwrap.dedent("\n".join(lines)).strip("\n")
        if not title:
            sections |= _opening(text)
            continue
        key = _TITLES.get(title.lower(), title.lower())
        while key in sections:
            key += "'"
        kind = key.rstrip("'")
        if kind in _NAMED or kind in _TYPED:
            sections[key] = _entries(lines, kind)
        elif kind == "examples":
            sections[key] = _examples(text)
        else:
            sections[key] = _prose(text)
    return sections


def _split(lines: list[str]) -> list[tuple[str, list[str]]]:
    """(title, lines) of each section; the first, without a title, is summary and description."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    i = 0
    while i < len(lines):
        title, taken = _title(lines[i], lines[i + 1] if i + 1 < len(lines) else "")
        if title:
            sections.append((title, []))
        else:
            sections[-1][1].append(lines[i])
        i += taken
    return sections


def _title(line: str, following: str) -> tuple[str, int]:
    """The title of the section that starts with a line, or "", and how many lines that takes."""
    if line.strip() and not line[0].isspace() and _UNDERLINE.fullmatch(following):
        return line.strip().rstrip(":"), 2
    # A Google title has indented text below it, else the word is part of a sentence.
    if (m := _GOOGLE.fullmatch(line)) and following[:1].isspace() and following.strip():
        return m[1], 1
    return "", 1


def _opening(text: str) -> dict[str, Any]:
    """Summary (the first paragraph), description (the other ones) and the fields of Sphinx style."""
    prose, fields = _fields(text)
    summary, _, description = prose.strip("\n").partition("\n\n")
    opening: dict[str, Any] = {"summary": " ".join(summary.split())} if summary.strip() else {}
    if description.strip():
        opening["description"] = _prose(description)
    return opening | fields


def _prose(text: str) -> Any:
    return compose(e for e in rst.events(text) if e.text)


def _examples(text: str) -> list[dict[str, str]]:
    """Every code block with all the text since the one before it; text at the end is an entry without code."""
    examples: list[dict[str, str]] = []
    words: list[str] = []
    for event in rst.events(text):
        if event.kind == "code":
            examples.append(({"explanation": "\n\n".join(words)} if words else {}) | {"code": event.text})
            words = []
        elif event.text:
            words.append(event.text)
    return examples + ([{"explanation": "\n\n".join(words)}] if words else [])


def _entries(lines: list[str], kind: str) -> list[dict[str, str]]:
    """The entries of a list section: a line at the outer indentation starts one, deeper lines belong to it."""
    groups: list[list[str]] = []
    for line in textwrap.dedent("\n".join(lines)).strip("\n").split("\n"):
        if groups and (not line.strip() or line[0].isspace()):
            groups[-1].append(line)
        elif line.strip():
            groups.append([line])
    google = next((x for x in lines if x.strip()), "x")[0].isspace()
    return [_entry(head, textwrap.dedent("\n".join(rest)).strip(), kind, google) for head, *rest in groups]


def _entry(head: str, body: str, kind: str, google: bool) -> dict[str, str]:
    if google:
        whole = f"{head}\n{body}".strip()
        if kind in _NAMED and (match := _GOOGLE_ENTRY.fullmatch(whole)):
            return _given(name=match[1], type=match[2] or "", description=match[3])
        if kind in _TYPED and (match := _GOOGLE_TYPED.fullmatch(whole)):
            return _given(type=match[1], description=match[2])
        return _given(description=whole)
    name, colon, type_ = head.partition(" : " if " : " in head else ":")
    if colon or kind in _NAMED:
        return _given(name=name, type=type_, description=body)
    return _given(type=head, description=body)


def _given(**parts: str) -> dict[str, str]:
    return {k: v.strip() for k, v in parts.items() if v.strip()}


def _fields(text: str) -> tuple[str, dict[str, Any]]:
    """Takes the fields of Sphinx style out of a text: (the rest, section -> entries)."""
    rest: list[str] = []
    fields: list[tuple[str, str, list[str]]] = []
    for line in text.split("\n"):
        if match := _FIELD.match(line):
            fields.append((match[1], match[2].strip(), [line[match.end() :].strip()]))
        elif fields and (line[:1].isspace() or not line.strip()):
            fields[-1][2].append(line.strip())
        else:
            rest.append(line)
    sections: dict[str, Any] = {}
    for field, argument, lines in fields:
        _put(sections.setdefault(_FIELDS[field], []), field, argument, "\n".join(lines).strip())
    return "\n".join(rest), sections


def _put(entries: list[dict[str, str]], field: str, argument: str, text: str) -> None:
    if field in ("type", "rtype"):
        same = [e for e in entries if field == "rtype" or e.get("name") == argument]
        if same and "type" not in same[-1]:
            same[-1]["type"] = text
        else:
            entries.append(_given(name=argument, type=text))
    elif _FIELDS[field] == "raises":
        entries.append(_given(type=argument, description=text))
    else:
        type_, _, name = argument.rpartition(" ")
        entries.append(_given(name=name, type=type_, description=text))
