"""Structurers by name: documents -> JSON objects (Section 3.1.2), or the reason why a document gives none.

headings    sections of reStructuredText, Markdown, HTML or plain text; every code example beside what explains it
docstrings  the sections of numpydoc, Google and Sphinx docstrings
llm         the paper's way: a model writes the JSON (graph/llm.py; it needs a backend, so it is not in STRUCTURERS)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.text import docstrings
from pkg_lib.graph.text.compose import compose
from pkg_lib.graph.text.documents import Rejected, Structured, check
from pkg_lib.graph.text.sections import READERS, events


class Structurer(Protocol):
    """One way from documents to JSON; the answer has one entry a document, in their order."""

    name: str

    def structure(self, documents: list[Document]) -> list[Structured]: ...


def by_headings(document: Document) -> dict[str, Any]:
    """The sections of a tutorial. Raises Rejected."""
    if document.kind not in READERS:
        raise Rejected(f"no tutorial: kind {document.kind}")
    return compose(events(document))


@dataclass(frozen=True, slots=True)
class Plain:
    """A structurer of one document at a time."""

    name: str
    read: Callable[[Document], dict[str, Any]]

    def structure(self, documents: list[Document]) -> list[Structured]:
        return [self._one(d) for d in documents]

    def _one(self, document: Document) -> Structured:
        try:
            value = self.read(document)
            check(value)
        except Rejected as e:
            return Structured(document.id, None, str(e))
        except RecursionError:
            return Structured(document.id, None, "nested too deep: more than the parser takes")
        return Structured(document.id, value) if value else Structured(document.id, None, "nothing in it")


STRUCTURERS: dict[str, Plain] = {
    p.name: p for p in (Plain("headings", by_headings), Plain("docstrings", docstrings.sections_of))
}
NAMES = (*STRUCTURERS, "llm")


def deterministic(name: str) -> Plain:
    """A structurer that needs no model, by name; UserError for another name."""
    if name not in STRUCTURERS:
        raise UserError(f"unknown structurer '{name}'; choose from: {', '.join(NAMES)}")
    return STRUCTURERS[name]


def structured(documents: list[Document]) -> list[Structured]:
    """Every text document by the structurer of its kind: docstrings by `docstrings`, all others by `headings`."""
    kinds = ("docstrings" if d.kind == "docstring" else "headings" for d in documents)
    return [STRUCTURERS[k].structure([d])[0] for k, d in zip(kinds, documents, strict=True)]
