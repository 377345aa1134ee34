"""Docstrings -> JSON by their sections: numpydoc, Google (`Args:`) and Sphinx (`:param x:`) style.

    {"numpy.linalg.norm": {"signature": "norm(x, ord=None)", "summary": "...", "description": {...},
                           "parameters": [{"name": "x", "type": "array_like", "description": "..."}],
                           "notes": {...}, "examples": [{"explanation": "...", "code": ">>> ..."}]}}

A section whose title is not known is prose, that is reStructuredText; nothing is left out.
"""

import re
import textwrap
from typing import Any

from pkg_lib.core.types import Document
from pkg_lib.graph.text import rst
from pkg_lib.graph.text.compose import compose
from pkg_lib.graph.text.documents import Rejected

_UNDERLINE = re.compile(r"[ \t]*(-{3,}|={3,})[ \t]*")
_GOOGLE = re.compile(
    r"(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Attributes|Methods"
    r"|Returns?|Yields?|Raises|Warns|Warnings?|Examples?|Notes?|References|See Also|Todo):[ \t]*"
)
_FIELD = re.compile(
    r":(param|parameter|arg|key|keyword|raises?|except|exception|type|returns?|rtype|yields?|ivar|var)\b"
    r"([^:\n]*):"
)
# The title of a section, in small letters, or a field of Sphinx style -> the section that it is.
_SECTION = dict.fromkeys(
    ("args", "arguments", "params", "param", "parameter", "arg", "key"), "parameters"
)
_SECTION |= {
    "keyword": "parameters",
    "type": "parameters",
    "rtype": "returns",
    "ivar": "attributes",
}
_SECTION |= {"var": "attributes", "except": "raises", "exception": "raises", "raise": "raises"}
_SECTION |= {"keyword args": "other parameters", "keyword arguments": "other parameters"}
_SECTION |= {word: f"{word}s" for word in ("return", "yield", "example", "note", "warning")}
_NAMED = {"parameters", "other parameters", "attributes", "methods", "receives"}
_TYPED = {"returns", "yields", "raises", "warns"}
_GOOGLE_ENTRY = re.compile(
    r"(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)[ \t]*(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?:(?:\s+|$)(.*)",
    re.S,
)
_GOOGLE_TYPED = re.compile(r"([\w.\[\], |]+?):(?:\s+|$)(.*)", re.S)


def sections_of(document: Document) -> dict[str, Any]:
    """The JSON of a document: signature, empty line, docstring. Raises Rejected."""
    if document.kind != "docstring":
        raise Rejected(f"no docstring: kind {document.kind}")
    signature, _, body = document.text.partition("\n\n")
    if not body.strip():
        raise Rejected("nothing in it")
    name = document.id.rpartition("/")[2].partition("#")[0]
    return {name: {"signature": signature} | read(body)}


def read(docstring: str) -> dict[str, Any]:
    """The sections of one docstring without its signature."""
    (_, opening), *others = _split(docstring.expandtabs().split("\n"))
    sections = _opening("\n".join(opening))
    for title, lines in others:
        kind = key = _SECTION.get(title.lower(), title.lower())
        text = textwrap.dedent("\n".join(lines)).strip("\n")
        while key in sections:
            key += "'"
        if kind in _NAMED | _TYPED:
            indented = next((x for x in lines if x.strip()), "x")[0].isspace()
            sections[key] = _entries(text, kind, google=indented)
        else:
            sections[key] = _examples(text) if kind == "examples" else _prose(text)
    return sections


def _split(lines: list[str]) -> list[tuple[str, list[str]]]:
    """(title, lines) of each section; the first, without a title, is summary, description and fields."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    underline = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if underline:
            underline = False
        elif line.strip() and not line[0].isspace() and _UNDERLINE.fullmatch(following):
            sections.append((line.strip().rstrip(":"), []))
            underline = True
        # A Google title has indented text below it, else the word is part of a sentence.
        elif (m := _GOOGLE.fullmatch(line)) and following[:1].isspace() and following.strip():
            sections.append((m[1], []))
        else:
            sections[-1][1].append(line)
    return sections


def _opening(text: str) -> dict[str, Any]:
    """Summary (the first paragraph), description (the other ones) and the fields of Sphinx style."""
    prose: list[str] = []
    fields: list[tuple[str, str, list[str]]] = []
    for line in textwrap.dedent(text).split("\n"):
        if match := _FIELD.match(line):
            fields.append((match[1], match[2].strip(), [line[match.end() :].strip()]))
        elif fields and (line[:1].isspace() or not line.strip()):
            fields[-1][2].append(line.strip())
        else:
            prose.append(line)
    summary, _, description = "\n".join(prose).strip("\n").partition("\n\n")
    sections: dict[str, Any] = {"summary": " ".join(summary.split())} if summary.strip() else {}
    if description.strip():
        sections["description"] = _prose(description)
    for field, argument, lines in fields:
        kind, body = _SECTION.get(field, field), "\n".join(lines).strip()
        entries, (type_, _, name) = sections.setdefault(kind, []), argument.rpartition(" ")
        same = [e for e in entries if field == "rtype" or e.get("name") == argument]
        if field not in ("type", "rtype"):
            named = {"type": argument} if kind == "raises" else {"name": name, "type": type_}
            entries.append(_given(**named, description=body))
        elif same and "type" not in same[-1]:
            same[-1]["type"] = body
        else:
            entries.append(_given(name=argument, type=body))
    return sections


def _prose(text: str) -> Any:
    return compose(e for e in rst.events(text) if e.text)


def _examples(text: str) -> list[dict[str, str]]:
    """Each code block with the text since the one before; text at the end is an entry without code."""
    examples: list[dict[str, str]] = []
    words: list[str] = []
    for event in [*rst.events(text), rst.Event("code", "")]:
        if event.kind != "code":
            words += [event.text] if event.text else []
        elif event.text or words:
            explained = {"explanation": "\n\n".join(words)} if words else {}
            examples.append(explained | ({"code": event.text} if event.text else {}))
            words = []
    return examples


def _entries(text: str, kind: str, google: bool) -> list[dict[str, str]]:
    """The entries of a list section: a line at the outer indentation starts one."""
    groups: list[list[str]] = []
    for line in text.split("\n"):
        if groups and (not line.strip() or line[0].isspace()):
            groups[-1].append(line)
        elif line.strip():
            groups.append([line])
    return [
        _entry(head, textwrap.dedent("\n".join(rest)).strip(), kind, google)
        for head, *rest in groups
    ]


def _entry(head: str, body: str, kind: str, google: bool) -> dict[str, str]:
    if google:
        whole = f"{head}\n{body}".strip()
        if kind in _NAMED and (match := _GOOGLE_ENTRY.fullmatch(whole)):
            return _given(name=match[1], type=match[2] or "", description=match[3])
        if kind in _TYPED and (match := _GOOGLE_TYPED.fullmatch(whole)):
            return _given(type=match[1], description=match[2])
        return _given(description=whole)
    name, colon, type_ = head.partition(" : " if " : " in head else ":")
    named = {"name": name, "type": type_} if colon or kind in _NAMED else {"type": head}
    return _given(**named, description=body)


def _given(**parts: str) -> dict[str, str]:
    return {k: v.strip() for k, v in parts.items() if v.strip()}
