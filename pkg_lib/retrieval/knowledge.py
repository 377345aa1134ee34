"""The knowledge base of a corpus: its documents, their graph, and the embedder."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from pkg_lib.core.types import Document, Task
from pkg_lib.data.corpora import CONTEXT_CHARS, UNICODE
from pkg_lib.graph.nodes import PATHVALUE
from pkg_lib.graph.schema import Graph, build_code_graph
from pkg_lib.graph.text.documents import Structured, build_text_graph, deserialize, reasons
from pkg_lib.retrieval.augment import CallResolver
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.ranking import Positions, Ranked, Vectors

log = logging.getLogger(__name__)

# Tells of each pair of a task and a text whether the text gives the task's solution away.
LeakCheck = Callable[[list[tuple[Task, str]]], list[bool]]


@dataclass
class Knowledge:
    """The data that the methods of a corpus share. The graph is built when it is first needed.

    Attributes:
        documents: The corpus.
        embedder: Encodes queries, rows and nodes.
        top: How many units a context has (top-k).
        chars: The most characters of a unit.
        tokenizer: The tokenizer of BM25, a name in ``TOKENIZERS``.
        corpus: The name of the corpus, if it has one.
        leak_check: Needed by the leak-free controls. It runs hidden tests, so that only the layer
            that evaluates methods supplies it.
    """

    documents: list[Document]
    embedder: Embedder = field(default_factory=Embedder)
    top: int = 1
    chars: int = CONTEXT_CHARS
    tokenizer: str = UNICODE
    corpus: str = ""
    leak_check: LeakCheck | None = field(default=None, kw_only=True)

    @cached_property
    def graph(self) -> Graph:
        """The graph of the documents; a warning names those that are missing from it."""
        graph = self.build()
        if graph.skipped:
            counts = [f"{reason}: {n}" for reason, n in reasons(graph.skipped).items()]
            log.warning(
                "%d of %d documents are missing from the graph, in whole or in part (%s; first: %s)",
                len({document for document, _ in graph.skipped}),
                len(self.documents),
                ", ".join(counts),
                graph.skipped[0][0],
            )
        return graph

    @cached_property
    def calls(self) -> CallResolver:
        """Finds the functions that code of the graph calls."""
        return CallResolver(self.graph)

    def build(self) -> Graph:
        """Build the graph of the documents.

        Returns:
            A graph of NAME, IMPL and BLOCK nodes (Equations 1 and 2).
        """
        return build_code_graph(self.documents)

    def nearest(
        self,
        kind: int,
        queries: Vectors,
        k: int,
        nodes: Positions,
    ) -> Ranked:
        """Find the nodes nearest to each query (Equation 5).

        Args:
            kind: The type of the nodes.
            queries: Unit vectors [q, d].
            k: How many nodes to find for each query.
            nodes: The nodes to search, at least one.

        Returns:
            Nodes [q, k] and their cosines [q, k], best first; fewer columns if there are fewer
            nodes.
        """
        vectors = self.embedder.encode(self.graph.payloads(nodes))
        positions, cosines = FlatIndex(vectors).search(queries, k)
        return nodes[positions], cosines


@dataclass
class TextKnowledge(Knowledge):
    """The knowledge base of a text corpus.

    Attributes:
        structure: Turns the documents into JSON; None reads the headings, fields or sections that
            documents of their kind have.
    """

    structure: Callable[[list[Document]], list[Structured]] | None = None

    def build(self) -> Graph:
        """Build the graph of the documents' JSON.

        Returns:
            A graph of PATH and PATHVALUE nodes (Equation 3).
        """
        from pkg_lib.graph.text.structure import structured  # code does not need docutils

        return build_text_graph(self.documents, (self.structure or structured)(self.documents))


def source_of(graph: Graph, node: int) -> str:
    """Return the source that a context names for a node.

    Args:
        graph: The node's graph.
        node: Any node.

    Returns:
        ``document:first-last`` for code, ``document#path`` for a leaf of text.
    """
    if graph.type[node] != PATHVALUE:
        return graph.where(node)
    path, _ = deserialize(graph.payload(node))
    return f"{graph.documents[graph.document[node]]}#{path}"
