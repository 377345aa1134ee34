"""A stream of headings, paragraphs and code to nested JSON, code beside its explanation.

    {"Title": {"explanation": "a paragraph" or ["several", "paragraphs"],
               "examples": [{"explanation": "the paragraph before the code", "code": "..."}],
               "Subsection": {...}}}

Absent parts have no key. A title that its section has already gets a number. Each paragraph appears
once.
"""

from collections.abc import Iterable
from itertools import count
from typing import Any

from pkg_lib.graph.text.rst import Event

Section = dict[str, Any]


def compose(events: Iterable[Event]) -> Section:
    """Nest headings, paragraphs and code as sections.

    Args:
        events: The pieces of one document, in order. A heading belongs to the nearest heading
            before it whose level is smaller.

    Returns:
        The section of the whole document, in the form that the module describes. What precedes the
        first heading is directly in it. It is empty for a document without pieces.
    """
    root = _new_section()
    stack = [(0, root)]  # the open sections with their levels
    term = ""  # waits for the text that defines it
    after_text = False
    for event in events:
        section = stack[-1][1]
        paragraphs = section["explanation"]
        if term and event.kind != "text":  # nothing defines the term: it is a paragraph of its own
            paragraphs.append(term)
            term = ""
            after_text = True
        if event.kind == "heading":
            while stack[-1][0] >= event.level:
                stack.pop()
            section = _subsection(stack[-1][1], event.text)
            stack.append((event.level, section))
        elif event.kind == "term":
            term = event.text
        elif event.kind == "text":
            paragraphs.append(f"{term}: {event.text}" if term else event.text)
            term = ""
        elif after_text and paragraphs:
            example = {
                "explanation": paragraphs.pop(),
                "code": event.text,
            }
            section["examples"].append(example)
        else:
            section["examples"].append({"code": event.text})
        after_text = event.kind == "text"
    if term:
        stack[-1][1]["explanation"].append(term)
    return _without_absent_parts(root)


def _new_section() -> Section:
    return {"explanation": [], "examples": []}


def _subsection(parent: Section, title: str) -> Section:
    """Add a subsection with a title that the parent does not have yet."""
    key = title
    numbers = count(2)
    while key in parent:
        key = f"{title} ({next(numbers)})"
    section = parent[key] = _new_section()
    return section


def _without_absent_parts(section: Section) -> Section:
    """Remove the parts that a section does not have, and the list around a single paragraph."""
    cleaned: Section = {}
    for key, value in section.items():
        if isinstance(value, dict):
            cleaned[key] = _without_absent_parts(value)
        elif value:
            is_single = key == "explanation" and len(value) == 1
            cleaned[key] = value[0] if is_single else value
    return cleaned
