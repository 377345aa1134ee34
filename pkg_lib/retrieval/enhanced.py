"""Func-PKG over functions with generated docstrings (Section 2.1 of the paper's first version).

The method searches every function that the enhancer has finished. Functions with a docstring are
unchanged. Functions for which the model wrote one contain it. Functions for which no docstring was
accepted are unchanged, as in the authors' code. Functions that the model has not been prompted for
are left out. ``pkg-lib pkg enhance`` generates the docstrings.
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

from pkg_lib.core.reading import PACKED
from pkg_lib.core.store import read_json, read_rows, results_path, slug
from pkg_lib.core.types import Context, Document, Task, UnavailableError, UserError, digest
from pkg_lib.graph.enhance import FORMS, UnfitDocstringError, hole
from pkg_lib.graph.nodes import IMPL
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.ranking import Positions, Vectors
from pkg_lib.retrieval.retrievers import FuncPKG

log = logging.getLogger(__name__)

ENHANCED = "Func-PKG, enhanced"
VARIABLE = "PKG_ENHANCER"  # names the model, if several have written docstrings for one corpus

# What became of a function. These names are stored beside the contexts.
OWN_DOCSTRING = "own docstring"
NO_PLACE = "no place for one"
WRITTEN = "written"
NONE_ACCEPTED = "none accepted"
NOT_PROMPTED = "not asked"

_WRAPPER = "if 1:\n"  # makes a module of a method's lines, which are indented


@dataclass(frozen=True, slots=True)
class Docstrings:
    """The docstrings that a model wrote for the functions of a corpus.

    Attributes:
        model: The model's name.
        written: The docstring by the digest of its function; "" if none was accepted.
    """

    model: str
    written: dict[str, str]

    @property
    def sha256(self) -> str:
        """Identifies the docstrings."""
        parts: list[str] = []
        for pair in sorted(self.written.items()):
            parts += pair
        return digest(*parts)


def stored_docstrings(corpus: str) -> Docstrings:
    """Read the docstrings that are stored for a corpus.

    Args:
        corpus: The corpus' name without retrieval options.

    Returns:
        The docstrings of the only model that wrote some, or of the model that PKG_ENHANCER names.

    Raises:
        UnavailableError: No docstrings are stored, or none of the model that PKG_ENHANCER names.
        UserError: Several models have written docstrings, or a file is damaged.
    """
    wanted = os.environ.get(VARIABLE, "")
    files_of_models: dict[str, list[Path]] = {}
    folder = slug(wanted) if wanted else "*"
    plain = f"{slug(corpus)}.jsonl"
    root = results_path() / "enhanced"
    for name in (f"{plain}{PACKED}", plain):
        for path in sorted(root.glob(f"{folder}/{name}")):
            model = _model_of(path.parent, corpus)
            files = files_of_models.setdefault(model, [])
            files.append(path)
    if not files_of_models:
        by = f" by {wanted}" if wanted else ""
        advice = f"run `pkg-lib pkg enhance --corpus {corpus}` first"
        raise UnavailableError(
            f"method {ENHANCED}: no docstrings{by} are stored for corpus {corpus}; {advice}"
        )
    if len(files_of_models) > 1:
        names = ", ".join(sorted(files_of_models))
        raise UserError(
            f"method {ENHANCED}: several models have written docstrings for corpus {corpus}"
            f" ({names}); set {VARIABLE} to one of them"
        )
    ((model, files),) = files_of_models.items()
    return Docstrings(model, _written(files))


def _written(files: list[Path]) -> dict[str, str]:
    """Read the docstring of each function that a model has finished; "" if none was accepted."""
    needed = {"payload_sha256": str, "form": str}
    written: dict[str, str] = {}
    for path in files:
        for row in read_rows(path, needed, {"docstring": str, "reason": str}):
            if row.get("docstring"):
                written[row["payload_sha256"]] = row["docstring"]
            elif row.get("reason") and row["form"] == FORMS[-1]:
                # After a rejection in an earlier form, the next form is still to be tried.
                written.setdefault(row["payload_sha256"], "")
    return written


def _model_of(folder: Path, corpus: str) -> str:
    """Return the model of a folder of docstrings; the folder's name if no run has finished yet."""
    log_file = folder / f"{slug(corpus)}.log.json"
    if not log_file.exists():
        return folder.name
    about = read_json(log_file, {"model": str})
    return str(about["model"])


class EnhancedFuncPKG(FuncPKG):
    """The nearest function that the enhancer has finished (Equation 5), pruned as in Func-PKG.

    Args:
        knowledge: A corpus of code for which docstrings are stored.

    Attributes:
        docstrings: What the model wrote.
        counts: How many functions there are by what became of them.

    Raises:
        UnavailableError: No docstrings are stored for the corpus.
        UserError: Several models have written docstrings, or a file is damaged.
    """

    method = ENHANCED

    def __init__(self, knowledge: Knowledge) -> None:
        self.docstrings = stored_docstrings(knowledge.corpus)
        self.counts: Counter[str] = Counter()
        # Corpus line minus document line, below the docstring of each document.
        self._offsets: list[int] = []
        documents = []
        graph = knowledge.graph
        for node in graph.of_type(IMPL).tolist():
            payload = graph.payload(node)
            text, kind = _with_docstring(payload, self.docstrings)
            self.counts[kind] += 1
            if kind == NOT_PROMPTED:
                continue
            module = _WRAPPER + text if text[:1].isspace() else text
            added = module.count("\n") - payload.count("\n")
            source = graph.where(node)
            documents.append(Document(source, module, unit="function"))
            self._offsets.append(int(graph.first[node]) - 1 - added)
        if self.counts[NOT_PROMPTED]:
            message = "%s: the enhancer has finished %d of %d functions; the others are left out"
            log.warning(
                message,
                ENHANCED,
                len(documents),
                self.counts.total(),
            )
        # Not `replace`, since a stored graph is not the graph of these documents.
        super().__init__(
            Knowledge(
                documents,
                knowledge.embedder,
                knowledge.top,
                knowledge.chars,
            )
        )

    @property
    def about(self) -> dict[str, Any]:
        """What is stored beside the contexts."""
        record = {"model": self.docstrings.model, "sha256": self.docstrings.sha256}
        return {"docstrings": record | dict(sorted(self.counts.items()))}

    @cached_property
    def functions(self) -> Positions:
        """The IMPL node of each function, one for each text; nested functions count as well."""
        graph = self.knowledge.graph
        nodes = graph.of_type(IMPL)
        for column in (graph.document, graph.text):  # the outermost of each, then one of each text
            _, first = np.unique(column[nodes], return_index=True)
            nodes = nodes[np.sort(first)]
        return nodes

    def candidates(self) -> Positions:
        """Return the nodes that are searched.

        Returns:
            Node numbers [n], one for each distinct text.
        """
        return self.functions

    def _context(
        self,
        task: Task,
        query: Vectors,
        node: int,
        cosine: float,
    ) -> Context:
        context = super()._context(task, query, node, cosine)
        graph = self.knowledge.graph
        document = int(graph.document[node])
        pruned = ""
        if context.pruned:
            first, last = map(int, context.pruned.split("-"))
            pruned = f"{first + self._offsets[document]}-{last + self._offsets[document]}"
        return replace(context, source=graph.documents[document], pruned=pruned)


def _with_docstring(payload: str, docstrings: Docstrings) -> tuple[str, str]:
    """Return a function as the method searches it, and what became of it."""
    try:
        place = hole(payload)
    except UnfitDocstringError as reason:
        return payload, OWN_DOCSTRING if str(reason) == "has a docstring" else NO_PLACE
    docstring = docstrings.written.get(digest(payload))
    if docstring is None:
        return payload, NOT_PROMPTED
    if docstring:
        with suppress(UnfitDocstringError):  # a docstring that was edited by hand may not fit
            return place.fill(docstring), WRITTEN
    return payload, NONE_ACCEPTED
