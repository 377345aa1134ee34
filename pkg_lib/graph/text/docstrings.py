"""Docstrings -> JSON by their sections: numpydoc (underlined titles), Google (`Args:`) and Sphinx (`:param x:`) style.

A docstring document is its signature, an empty line, and the docstring without its indentation. Its JSON:

    {"numpy.linalg.norm": {"signature": "norm(x, ord=None)", "summary": "...", "description": {"explanation": ..., ...},
                           "parameters": [{"name": "x", "type": "array_like", "description": "..."}], "returns": [...],
                           "notes": {"explanation": ...}, "examples": [{"explanation": "...", "code": ">>> ..."}]}}

Prose is read as reStructuredText. Nothing is left out: a section whose title is not known is prose, a line of a list that
has no form is the description of an entry.
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
    r"(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Attributes|Methods|Returns?|Yields?"
    r"|Raises|Warns|Warnings?|Examples?|Notes?|References|See Also|Todo):[ \t]*"
)
_FIELD = re.compile(
    r":(param|parameter|arg|key|keyword|raises?|except|exception|type|returns?|rtype|yields?|ivar|var)\b([^:\n]*):"
)
_SAME = {
    "args": "parameters",
    "arguments": "parameters",
    "params": "parameters",
    "keyword args": "other parameters",
    "keyword arguments": "other parameters",
    "return": "returns",
    "yield": "yields",
    "example": "examples",
    "note": "notes",
    "warning": "warnings",
}
_FIELDS = {
    "param": "parameters",
    "parameter": "parameters",
    "arg": "parameters",
    "key": "parameters",
    "keyword": "parameters",
    "type": "parameters",
    "raise": "raises",
    "raises": "raises",
    "except": "raises",
    "exception": "raises",
    "return": "returns",
    "returns": "returns",
    "rtype": "returns",
    "yield": "yields",
    "yields": "yields",
    "ivar": "attributes",
    "var": "attributes",
}
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
    found: dict[str, Any] = {}
    for title, lines in _split(docstring.expandtabs().split("\n")):
        _put(found, title, lines)
    return found


def _split(lines: list[str]) -> list[tuple[str, list[str]]]:
    """(title, lines) of each section; the first, without a title, is summary and description."""
    found: list[tuple[str, list[str]]] = [("", [])]
    i = 0
    while i < len(lines):
        title, skip = _title(lines, i)
        if title:
            found.append((title, []))
        else:
            found[-1][1].append(lines[i])
        i += skip
    return found


def _title(lines: list[str], i: int) -> tuple[str, int]:
    """The title of the section that starts here, or "", and how many lines that takes."""
    line, following = lines[i], lines[i + 1] if i + 1 < len(lines) else ""
    if line.strip() and not line[0].isspace() and _UNDERLINE.fullmatch(following):
        return line.strip().rstrip(":"), 2
    # A Google title has indented text below it, else the word is part of a sentence.
    if (m := _GOOGLE.fullmatch(line)) and following[:1].isspace() and following.strip():
        return m[1], 1
    return "", 1


def _put(found: dict[str, Any], title: str, lines: list[str]) -> None:
    key = _SAME.get(title.lower(), title.lower())
    while key in found:
        key += "'"
    kind = key.rstrip("'")
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    if not title:
        _opening(found, text)
    elif kind in _NAMED or kind in _TYPED:
        found[key] = _entries(lines, kind)
    elif kind == "examples":
        found[key] = _examples(text)
    else:
        found[key] = _prose(text)


def _opening(found: dict[str, Any], text: str) -> None:
    """Summary (the first paragraph), description (the other ones) and the fields of Sphinx style."""
    prose, fields = _fields(text)
    summary, _, description = prose.strip("\n").partition("\n\n")
    if summary.strip():
        found["summary"] = " ".join(summary.split())
    if description.strip():
        found["description"] = _prose(description)
    found.update(fields)


def _prose(text: str) -> Any:
    return compose(e for e in rst.events(text) if e.text)


def _examples(text: str) -> list[dict[str, str]]:
    """Every code block with all the text since the one before it; text at the end is an entry without code."""
    found: list[dict[str, str]] = []
    words: list[str] = []
    for event in rst.events(text):
        if event.kind == "code":
            found.append(({"explanation": "\n\n".join(words)} if words else {}) | {"code": event.text})
            words = []
        elif event.text:
            words.append(event.text)
    return found + ([{"explanation": "\n\n".join(words)}] if words else [])


def _entries(lines: list[str], kind: str) -> list[dict[str, str]]:
    """The entries of a list section: a line at the outer indentation starts one, deeper lines belong to it."""
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    groups: list[list[str]] = []
    for line in text.split("\n"):
        if groups and (not line.strip() or line[0].isspace()):
            groups[-1].append(line)
        elif line.strip():
            groups.append([line])
    google = bool(lines) and next((x for x in lines if x.strip()), " ")[0].isspace()
    return [_entry(g[0], _joined(g[1:]), kind, google) for g in groups]


def _joined(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines)).strip()


def _entry(head: str, body: str, kind: str, google: bool) -> dict[str, str]:
    if google:
        pattern = _GOOGLE_ENTRY if kind in _NAMED else _GOOGLE_TYPED
        match = pattern.fullmatch(f"{head}\n{body}".strip())
        if match and kind in _NAMED:
            return _given(name=match[1], type=match[2] or "", description=match[3])
        if match:
            return _given(type=match[1], description=match[2])
        return _given(description=f"{head}\n{body}".strip())
    name, colon, kind_of = head.partition(" : ") if " : " in head else head.partition(":")
    if colon or kind in _NAMED:
        return _given(name=name, type=kind_of, description=body)
    return _given(type=head, description=body)


def _given(**parts: str) -> dict[str, str]:
    return {k: v.strip() for k, v in parts.items() if v.strip()}


def _fields(text: str) -> tuple[str, dict[str, Any]]:
    """Takes the fields of Sphinx style out of a text: (the rest, section -> entries)."""
    rest: list[str] = []
    taken: list[tuple[str, str, list[str]]] = []
    for line in text.split("\n"):
        match = _FIELD.match(line)
        if match:
            taken.append((match[1], match[2].strip(), [line[match.end() :].strip()]))
        elif taken and (line[:1].isspace() or not line.strip()):
            taken[-1][2].append(line.strip())
        else:
            rest.append(line)
    found: dict[str, Any] = {}
    for field, argument, lines in taken:
        _put_field(found.setdefault(_FIELDS[field], []), field, argument, "\n".join(lines).strip())
    return "\n".join(rest), found


def _put_field(entries: list[dict[str, str]], field: str, argument: str, text: str) -> None:
    if field in ("type", "rtype"):
        same = [e for e in entries if field == "rtype" or e.get("name") == argument]
        if same and "type" not in same[-1]:
            same[-1]["type"] = text
        else:
            entries.append(_given(name=argument, type=text))
    elif field in ("raise", "raises", "except", "exception"):
        entries.append(_given(type=argument, description=text))
    else:
        kind, _, name = argument.rpartition(" ")
        entries.append(_given(name=name, type=kind, description=text))
