"""Structurers by name: documents -> JSON objects (Section 3.1.2), or the reason why a document gives none.

headings    sections of reStructuredText, Markdown, HTML or plain text
docstrings  the sections of numpydoc, Google and Sphinx docstrings

The paper's way, a model that writes the JSON, is in data/structuring.py: it needs a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Document
from pkg_lib.graph.text.compose import compose
from pkg_lib.graph.text.docstrings import sections_of
from pkg_lib.graph.text.documents import Rejected, Structured, tree
from pkg_lib.graph.text.sections import READERS, events


def _by_headings(document: Document) -> dict[str, Any]:
    if document.kind not in READERS:
        raise Rejected(f"no tutorial: kind {document.kind}")
    return compose(events(document))


STRUCTURERS: Registry[Callable[[Document], dict[str, Any]]] = Registry(
    "structurer", {"headings": _by_headings, "docstrings": sections_of}
)


def structured(documents: list[Document], name: str = "") -> list[Structured]:
    """Every document by a structurer, that of its kind if none is named. UserError for an unknown one."""
    return [_one(d, name or ("docstrings" if d.kind == "docstring" else "headings")) for d in documents]


def _one(document: Document, name: str) -> Structured:
    try:
        value = STRUCTURERS.get_or_fail(name)(document)
        tree(value)
    except Rejected as e:
        return Structured(document.id, None, str(e))
    except RecursionError:
        return Structured(document.id, None, "nested too deep: more than the parser takes")
    return Structured(document.id, value or None, "" if value else "nothing in it")
