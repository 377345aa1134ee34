"""A stream of headings, paragraphs and code -> nested JSON, with every code example beside what explains it.

    {"Title": {"explanation": "a paragraph" or ["several", "paragraphs"],
               "examples": [{"explanation": "the paragraph before the code", "code": "..."}],
               "Subsection": {...}}}

Absent parts have no key, and a key that is taken gets a number behind it. A paragraph stands once.
"""

from collections.abc import Iterable
from itertools import chain, count
from typing import Any

from pkg_lib.graph.text.rst import Event


def compose(stream: Iterable[Event]) -> dict[str, Any]:
    """A stream of headings, paragraphs and code as nested sections."""
    root: dict[str, Any] = {"explanation": [], "examples": []}
    stack, term, linked = [(0, root)], "", False
    for event in stream:
        section = stack[-1][1]
        if term and event.kind != "text":  # a term that nothing defines is a paragraph of its own
            section["explanation"].append(term)
            term, linked = "", True
        if event.kind == "heading":
            while stack[-1][0] >= event.level:
                stack.pop()
            parent, title = stack[-1][1], event.text
            key = next(
                k for k in chain([title], (f"{title} ({n})" for n in count(2))) if k not in parent
            )
            parent[key] = {"explanation": [], "examples": []}
            stack.append((event.level, parent[key]))
        elif event.kind == "term":
            term = event.text
        elif event.kind == "text":
            section["explanation"].append(f"{term}: {event.text}" if term else event.text)
            term = ""
        else:
            paragraphs = section["explanation"]
            explained = {"explanation": paragraphs.pop()} if linked and paragraphs else {}
            section["examples"].append(explained | {"code": event.text})
        linked = event.kind == "text"
    if term:
        stack[-1][1]["explanation"].append(term)
    return _present(root)


def _present(section: dict[str, Any]) -> dict[str, Any]:
    """The section with the parts that it has; a single paragraph is no list."""
    match section["explanation"]:
        case []:
            del section["explanation"]
        case [paragraph]:
            section["explanation"] = paragraph
    if not section["examples"]:
        del section["examples"]
    return {k: _present(v) if isinstance(v, dict) else v for k, v in section.items()}
