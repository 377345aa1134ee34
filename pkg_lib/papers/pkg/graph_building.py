"""Builds the graph of a corpus by name, code or text: what `graph` prints and build_graphs shows."""

import time
from dataclasses import dataclass

import numpy as np

from pkg_lib.core.types import Document, UserError
from pkg_lib.data import corpora
from pkg_lib.data.structuring import json_of
from pkg_lib.graph.graph_ledger import Ledger, ledger
from pkg_lib.graph.schema import EDGE_TYPES, NODE_TYPES, PKG, build
from pkg_lib.graph.text.documents import build_text, reasons


@dataclass(frozen=True, slots=True)
class CorpusGraph:
    """A corpus' graph. `ledger` is that of a code graph, None for text; `seconds` are those of building."""

    corpus: str
    documents: list[Document]
    graph: PKG
    ledger: Ledger | None
    seconds: float

    @property
    def nodes(self) -> dict[str, int]:
        """Node type -> how many, of the types that occur."""
        return _named(self.graph.type, NODE_TYPES)

    @property
    def edges(self) -> dict[str, int]:
        """Edge type -> how many, of the types that occur."""
        return _named(self.graph.edges["type"].to_numpy(), EDGE_TYPES)

    @property
    def skipped(self) -> dict[str, int]:
        """Reason -> how many documents, or sources in them, gave no nodes."""
        return dict(self.ledger.skipped.most_common()) if self.ledger else reasons(self.graph.skipped)


def build_corpus(corpus: str, processes: int = 1) -> CorpusGraph:
    """The graph of a corpus; UserError for an unknown or mixed one, or a wrong number of `processes`."""
    corpora.check_name(corpus)
    text = corpora.is_text(corpus)
    if processes < 1 or (text and processes > 1):
        raise UserError(f"processes = {processes}: give 1 or more for a corpus of code, 1 for text")
    documents = corpora.load_corpus(corpus)
    meta = {"corpus": corpus, "corpus_digest": corpora.corpus_digest(documents)}
    start = time.perf_counter()
    if text:
        graph = build_text(documents, json_of(corpus, documents), meta)
    else:
        graph = build(documents, meta, processes)
    seconds = time.perf_counter() - start
    return CorpusGraph(corpus, documents, graph, None if text else ledger(documents, graph), seconds)


def _named(kinds: np.ndarray, names: tuple[str, ...]) -> dict[str, int]:
    counts = np.bincount(kinds, minlength=len(names)).tolist()
    return {name: n for name, n in zip(names, counts, strict=True) if n}


def lines(built: CorpusGraph) -> list[str]:
    """What was built, one figure a line; the ledger where the corpus is code."""
    text = [f"{built.corpus}: {len(built.documents):,} documents"]
    for word, counts in (("nodes", built.nodes), ("edges", built.edges)):
        text.append(f"{sum(counts.values()):,} {word}: {_listed(counts)}")
    text.append(f"{len(built.graph.texts):,} distinct payloads")
    if built.ledger:
        text += str(built.ledger).split("\n")
    elif built.skipped:
        text.append(f"skipped: {_listed(built.skipped)}")
    return [*text, f"{built.seconds:.1f} s"]


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items()) or "none"
