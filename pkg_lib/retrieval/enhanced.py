"""Func-PKG over functions with docstrings that a model wrote (Section 2.1, step 4, of the first version).

The corpus of the method is every function that the enhancer has dealt with: those that have a docstring of
their own, as they are; those that a model wrote one for, with it; and those for which no docstring was
accepted, as they are, since the authors' code keeps them, too. Functions that the model has not been asked
about yet are left out. `pkg-lib enhance` writes the docstrings.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pkg_lib.core.store import read_json, read_rows, results_path, slug
from pkg_lib.core.types import Context, Document, Task, Unavailable, UserError, digest
from pkg_lib.graph.enhance import FORMS, Unfit, hole
from pkg_lib.graph.schema import IMPL
from pkg_lib.retrieval.prune import GUARDED
from pkg_lib.retrieval.retrievers import FuncPKG, Knowledge

log = logging.getLogger(__name__)

ENHANCED = "Func-PKG, enhanced"
VARIABLE = "PKG_ENHANCER"  # names the model, where several have written docstrings for one corpus
NOT_ASKED = "not asked"  # of functions that the model is still to be asked about
_WRAPPER = "if 1:\n"  # makes a method's lines, which are indented, a module


@dataclass(frozen=True, slots=True)
class Docstrings:
    """What a model wrote for the functions of a corpus.

    Attributes:
        model: The model's name.
        written: Docstring by the digest of the function that it is for; "" where none was accepted.
    """

    model: str
    written: dict[str, str]

    @property
    def sha256(self) -> str:
        """Identifies the docstrings."""
        parts = [part for pair in sorted(self.written.items()) for part in pair]
        return digest(*parts)


def stored_docstrings(corpus: str) -> Docstrings:
    """Read the docstrings that are stored for a corpus.

    Args:
        corpus: The corpus' name without retrieval options.

    Returns:
        The docstrings of the one model that wrote some, or of the one that PKG_ENHANCER names.

    Raises:
        Unavailable: No docstrings are stored, or none of the model that PKG_ENHANCER names.
        UserError: Several models have written docstrings, or a file is damaged.
    """
    wanted = os.environ.get(VARIABLE, "")
    files = sorted(
        (results_path() / "enhanced").glob(
            f"{slug(wanted) if wanted else '*'}/{slug(corpus)}.jsonl"
        )
    )
    if not files:
        by = f" by {wanted}" if wanted else ""
        advice = f"run `pkg-lib enhance --corpus {corpus}` first"
        raise Unavailable(
            f"method {ENHANCED}: no docstrings{by} are stored for corpus {corpus}; {advice}"
        )
    if len(files) > 1:
        names = ", ".join(_model_of(path) for path in files)
        raise UserError(
            f"method {ENHANCED}: several models have written docstrings for corpus {corpus} ({names});"
            f" set {VARIABLE} to one of them"
        )
    rows = read_rows(
        files[0], {"payload_sha256": str, "form": str}, {"docstring": str, "reason": str}
    )
    written: dict[str, str] = {}
    for row in rows:
        if row.get("docstring"):
            written[row["payload_sha256"]] = row["docstring"]
        elif row.get("reason") and row["form"] == FORMS[-1]:
            # Rejected in the first form, a function is still to be asked in the next one.
            written.setdefault(row["payload_sha256"], "")
    return Docstrings(_model_of(files[0]), written)


def _model_of(path: Path) -> str:
    """The name of the model that wrote a file of docstrings; of its folder where no run has ended yet."""
    about = path.with_suffix(".log.json")
    return str(read_json(about, {"model": str})["model"]) if about.exists() else path.parent.name


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a function of the enhanced corpus stands in the corpus itself.

    Attributes:
        where: Document and lines.
        offset: What is to be added to a line below its docstring.
    """

    where: str
    offset: int


class EnhancedFuncPKG(FuncPKG):
    """Equation 5 over the functions that the enhancer has dealt with, then pruning as in Func-PKG."""

    column = ENHANCED

    def __init__(self, knowledge: Knowledge) -> None:
        self.docstrings = stored_docstrings(knowledge.corpus)
        documents, self.places, self.counts = _enhanced_functions(knowledge, self.docstrings)
        if self.counts[NOT_ASKED]:
            asked = sum(self.counts.values()) - self.counts[NOT_ASKED]
            about = "%s: the enhancer has dealt with %d of %d functions; the others are left out"
            log.warning(about, ENHANCED, asked, sum(self.counts.values()))
        super().__init__(replace(knowledge, documents=documents), GUARDED)

    @property
    def about(self) -> dict[str, Any]:
        """What is recorded beside the contexts."""
        counts = dict(sorted(self.counts.items()))
        return {
            "docstrings": {"model": self.docstrings.model, "sha256": self.docstrings.sha256}
            | counts
        }

    @cached_property
    def functions(self) -> np.ndarray:
        """The IMPL node of each function, one a text; functions inside it are functions of their own."""
        graph = self.knowledge.graph
        nodes = graph.of_type(IMPL)
        _, first = np.unique(graph.document[nodes], return_index=True)
        outermost = nodes[first]
        _, first = np.unique(graph.text[outermost], return_index=True)
        return outermost[np.sort(first)]

    def candidates(self) -> np.ndarray:
        """What is searched."""
        return self.functions

    def _context(self, task: Task, query: np.ndarray, node: int, score: float) -> Context:
        context = super()._context(task, query, node, score)
        place = self.places[int(self.knowledge.graph.document[node])]
        lines = (str(int(line) + place.offset) for line in context.pruned.split("-") if line)
        return replace(context, source=place.where, pruned="-".join(lines))


def _enhanced(payload: str, docstrings: Docstrings) -> tuple[str, str]:
    """A function as it is in the method's corpus, and which kind it is; "" for one that is left out."""
    try:
        place = hole(payload)
    except Unfit as reason:
        return payload, "own docstring" if str(reason) == "has a docstring" else "no place for one"
    docstring = docstrings.written.get(digest(payload))
    if docstring is None:
        return "", NOT_ASKED
    if docstring:
        with suppress(Unfit):  # somebody has edited it by hand
            return place.fill(docstring), "written"
    return payload, "none accepted"


def _enhanced_functions(
    knowledge: Knowledge, docstrings: Docstrings
) -> tuple[list[Document], list[_Place], Counter[str]]:
    """The functions of the method's corpus as documents, their places, and how many are of which kind."""
    graph = knowledge.graph
    nodes = graph.of_type(IMPL)
    documents: list[Document] = []
    places: list[_Place] = []
    counts: Counter[str] = Counter()
    for node, payload in zip(nodes.tolist(), graph.payloads(nodes), strict=True):
        text, kind = _enhanced(payload, docstrings)
        counts[kind] += 1
        if kind == NOT_ASKED:
            continue
        module = _WRAPPER + text if text[:1].isspace() else text
        added = module.count("\n") - payload.count("\n")
        where = graph.where(node)
        documents.append(Document(where, module, unit="function"))
        places.append(_Place(where, int(graph.first[node]) - 1 - added))
    return documents, places, counts
