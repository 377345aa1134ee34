"""Build the graph of a corpus of code or text, and describe it."""

import time
from dataclasses import dataclass

from pkg_lib.core.types import Document, UserError
from pkg_lib.data import corpora
from pkg_lib.data.structuring import json_of
from pkg_lib.graph.graph_ledger import Ledger, ledger
from pkg_lib.graph.schema import BLOCK, IMPL, PATHVALUE, Graph, build_code_graph
from pkg_lib.graph.text.documents import build_text_graph, reasons
from pkg_lib.papers.pkg.encoder_limit import ENCODERS, count_cut, cut_cells

# What is searched by its vector.
SEARCHED = {IMPL: "functions", BLOCK: "blocks", PATHVALUE: "path-values"}


@dataclass(frozen=True, slots=True)
class CorpusGraph:
    """The graph of a corpus.

    Attributes:
        corpus: Name of the corpus.
        documents: Its documents.
        graph: The graph.
        ledger: What became of every source of a corpus of code; None for text.
        seconds: How long it took to build the graph.
    """

    corpus: str
    documents: list[Document]
    graph: Graph
    ledger: Ledger | None
    seconds: float

    @property
    def nodes(self) -> dict[str, int]:
        """The number of nodes by type, of the types that occur."""
        return self.graph.node_counts()

    @property
    def edges(self) -> dict[str, int]:
        """The number of edges by type, of the types that occur."""
        return self.graph.edge_counts()

    @property
    def skipped(self) -> dict[str, int]:
        """The number of documents, or sources in them, that gave no nodes, by reason."""
        if self.ledger:
            return dict(self.ledger.skipped.most_common())
        return reasons(self.graph.skipped)


def build_corpus(corpus: str, processes: int = 1) -> CorpusGraph:
    """Build the graph of a corpus.

    Args:
        corpus: Name of a corpus.
        processes: How many processes parse code; 1 for text.

    Returns:
        The graph with its documents.

    Raises:
        UserError: The corpus is unknown or mixes code and text, or the number of processes is wrong.
    """
    corpora.check_name(corpus)
    text = corpora.is_text(corpus)
    if processes < 1 or (text and processes > 1):
        raise UserError(f"processes = {processes}: give 1 or more for a corpus of code, 1 for text")
    documents = corpora.load_corpus(corpus).documents
    meta = {
        "corpus": corpus,
        "corpus_digest": corpora.corpus_digest(documents),
    }
    start = time.perf_counter()
    if text:
        graph = build_text_graph(documents, json_of(corpus, documents), meta)
    else:
        graph = build_code_graph(documents, meta, processes)
    seconds = time.perf_counter() - start
    found = None if text else ledger(documents, graph)
    return CorpusGraph(corpus, documents, graph, found, seconds)


@dataclass(frozen=True, slots=True)
class Unread:
    """How many texts of a graph an encoder reads only the beginning of.

    Attributes:
        unit: What the texts are: functions, blocks or path-values.
        texts: How many there are.
        cut: By setting of the encoder, how many have more tokens than it reads.
    """

    unit: str
    texts: int
    cut: dict[str, int]

    @property
    def row(self) -> list[str]:
        """The number of texts, then for each setting the number and share of those that are cut."""
        return cut_cells(self.texts, self.cut.values())


def unread(graph: Graph) -> list[Unread]:
    """Count the texts that are too long for the study's encoder, and for its longer setting.

    Args:
        graph: A graph of code or text.

    Returns:
        One entry for each unit that the graph has and that is searched by its vector.

    Raises:
        UserError: The encoder is not available.
    """
    found = []
    for kind, unit in SEARCHED.items():
        nodes = graph.of_type(kind)
        if len(nodes):
            texts = graph.payloads(nodes)
            cut = count_cut(texts)
            found.append(Unread(unit, len(texts), cut))
    return found


def unread_lines(graph: Graph) -> list[str]:
    """Say how many texts of a graph are too long for the encoder.

    Args:
        graph: A graph of code or text.

    Returns:
        One line for each setting of the encoder; none for a graph without anything to encode.
    """
    counted = unread(graph)
    text = []
    for number, name in enumerate(ENCODERS, 1):
        parts = [f"{count.row[number]} of {count.row[0]} {count.unit}" for count in counted]
        if parts:
            text.append(f"cut by {name}: {', '.join(parts)}")
    return text


def lines(built: CorpusGraph) -> list[str]:
    """Describe a graph, one figure per line.

    Args:
        built: The graph.

    Returns:
        The lines. The graph of a corpus of code also has a line for what became of every source.
    """
    text = [f"{built.corpus}: {len(built.documents):,} documents"]
    counted = {
        "nodes": built.nodes,
        "edges": built.edges,
    }
    for word, counts in counted.items():
        total = sum(counts.values())
        text.append(f"{total:,} {word}: {_listed(counts)}")
    text.append(f"{len(built.graph.texts):,} distinct payloads")
    if built.ledger:
        text += str(built.ledger).split("\n")
    elif built.skipped:
        text.append(f"skipped: {_listed(built.skipped)}")
    return [*text, f"{built.seconds:.1f} s"]


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items()) or "none"
