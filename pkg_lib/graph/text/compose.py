"""A stream of headings, paragraphs and code -> nested JSON, with every code example beside what explains it.

    {"Title": {"explanation": "a paragraph" or ["several", "paragraphs"],
               "examples": [{"explanation": "the paragraph before the code", "code": "..."}],
               "Subsection": {...}}}

Absent parts have no key, and a key that is taken gets a number behind it. A paragraph stands once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pkg_lib.graph.text.rst import Event


@dataclass(slots=True)
class _Section:
    """A section under construction."""

    title: str
    level: int
    paragraphs: list[str] = field(default_factory=list)
    examples: list[dict[str, str]] = field(default_factory=list)
    sections: list[_Section] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = {}
        if self.paragraphs:
            value["explanation"] = self.paragraphs[0] if len(self.paragraphs) == 1 else self.paragraphs
        if self.examples:
            value["examples"] = self.examples
        for section in self.sections:
            key, number = section.title, 1
            while key in value or key in ("explanation", "examples"):
                number += 1
                key = f"{section.title} ({number})"
            value[key] = section.json()
        return value


def compose(stream: Iterable[Event]) -> dict[str, Any]:
    """A stream of headings, paragraphs and code as nested sections."""
    stack, term, linked = [_Section("", 0)], "", False
    for event in stream:
        if term and event.kind != "text":  # a term that nothing defines is a paragraph of its own
            stack[-1].paragraphs.append(term)
            term, linked = "", True
        section = stack[-1]
        if event.kind == "heading":
            while stack[-1].level >= event.level:
                stack.pop()
            stack[-1].sections.append(_Section(event.text, event.level))
            stack.append(stack[-1].sections[-1])
        elif event.kind == "term":
            term = event.text
        elif event.kind == "text":
            section.paragraphs.append(f"{term}: {event.text}" if term else event.text)
            term = ""
        else:
            explained = {"explanation": section.paragraphs.pop()} if linked and section.paragraphs else {}
            section.examples.append(explained | {"code": event.text})
        linked = event.kind == "text"
    if term:
        stack[-1].paragraphs.append(term)
    return stack[0].json()
