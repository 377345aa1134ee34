"""Scoring chunks for queries, by BM25 or by an embedder (Section 4 of cAST)."""

from dataclasses import dataclass

import numpy as np

from pkg_lib.chunking.chunker import Chunk
from pkg_lib.core.embedders import DEFAULT
from pkg_lib.data.corpora import UNICODE
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.ranking import Scores

BM25_NAME = "BM25"
MINILM_NAME = "MiniLM"  # a short name for the default embedder


@dataclass
class BM25Ranker:
    """Score chunks by BM25.

    Attributes:
        tokenizer: How texts and queries are split into words, a name in ``TOKENIZERS``.
    """

    tokenizer: str = UNICODE
    name: str = BM25_NAME

    def scores(self, queries: list[str], chunks: list[Chunk]) -> Scores:
        """Score every chunk for every query.

        Args:
            queries: What to search for, at least one text.
            chunks: What is searched.

        Returns:
            Scores [q, n]; 0 means that no word of the query is in the chunk.
        """
        index = BM25([chunk.text for chunk in chunks], self.tokenizer)
        return np.stack([index.scores(query) for query in queries])


@dataclass
class EmbeddingRanker:
    """Score chunks by the cosine between the vectors of query and chunk (Equation 5).

    Attributes:
        name: What results call the ranker.
        embedder: Encodes queries and chunks.
    """

    name: str
    embedder: Embedder

    def scores(self, queries: list[str], chunks: list[Chunk]) -> Scores:
        """Score every chunk for every query.

        Args:
            queries: What to search for.
            chunks: What is searched. A model reads only the beginning of a long chunk.

        Returns:
            Cosines [q, n].
        """
        query_vectors = self.embedder.encode(queries)
        chunk_vectors = self.embedder.encode([chunk.text for chunk in chunks])
        scores: Scores = query_vectors @ chunk_vectors.T
        return scores


Ranker = BM25Ranker | EmbeddingRanker


def make_ranker(name: str, tokenizer: str = UNICODE) -> Ranker:
    """Make the ranker of a name.

    Args:
        name: ``BM25_NAME``, ``MINILM_NAME`` or the name of an embedder.
        tokenizer: How BM25 splits words; an embedder has its own tokenizer.

    Returns:
        A ranker that scores chunks for queries.

    Raises:
        UserError: The embedder or the tokenizer is unknown.
    """
    if name == BM25_NAME:
        return BM25Ranker(tokenizer)
    return EmbeddingRanker(name, Embedder(DEFAULT if name == MINILM_NAME else name))
