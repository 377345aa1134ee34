"""A stream of headings, paragraphs and code -> nested JSON, with every code example beside what explains it.

The shape of a section, where absent parts have no key and a key that is taken gets a number behind it:

    {"Title": {"explanation": "a paragraph" or ["several", "paragraphs"],
               "examples": [{"explanation": "the paragraph before the code", "code": "..."}],
               "Subsection": {...}}}

A paragraph stands once: the one right before a code block explains that example, all others are the section's.
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
        found: dict[str, Any] = {}
        if self.paragraphs:
            found["explanation"] = self.paragraphs[0] if len(self.paragraphs) == 1 else self.paragraphs
        if self.examples:
            found["examples"] = self.examples
        for section in self.sections:
            found[free_key(found, section.title)] = section.json()
        return found


def free_key(taken: Iterable[str], title: str) -> str:
    """The title, or with the first number from 2 that makes it another key than those taken or reserved."""
    used = {*taken, "explanation", "examples"}
    key, number = title, 1
    while key in used:
        number += 1
        key = f"{title} ({number})"
    return key


def compose(stream: Iterable[Event]) -> dict[str, Any]:
    """A stream of headings, paragraphs and code as nested sections."""
    root = _Section("", 0)
    stack, term, linked = [root], "", False
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
    return root.json()
