"""R of Algorithm 1: ranks the texts of one source of the knowledge base for queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from pkg_lib.data.corpora import UNICODE
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.ranking import Positions, Scores, top

# Texts of a ranking that are kept. A context of 1,000 tokens holds fewer; one of 2,000 tokens holds all
# 40 where documents are short, as in the stored runs on more-itertools-M.
MAX_RANKED = 40
FUSION_CONSTANT = 60  # of reciprocal rank fusion (Cormack et al., 2009)


@dataclass(frozen=True)
class TextIndex:
    """Texts of one source, searched by BM25, by MiniLM, or by both (Figure 5).

    Attributes:
        texts: The texts.
        tokenizer: Name of BM25's tokenizer.
    """

    texts: Sequence[str]
    tokenizer: str = UNICODE

    @cached_property
    def _bm25(self) -> BM25:
        return BM25(list(self.texts), self.tokenizer)

    @cached_property
    def _vectors(self) -> Scores:
        return _encoded(self.texts)

    def rank(
        self, queries: Sequence[str], retriever: str, most: int = MAX_RANKED
    ) -> list[list[int]]:
        """Rank the texts for each query.

        Args:
            queries: The queries q_i of several tasks.
            retriever: "BM25", "MiniLM", or "both" for their reciprocal rank fusion.
            most: How many texts are kept for each query.

        Returns:
            For each query, positions of at most that many texts, best first. Equal texts keep their
            order.
        """
        if not self.texts or not queries:
            return [[] for _ in queries]
        if retriever == "BM25":
            order = self._lexical_order(queries)
        elif retriever == "MiniLM":
            order = self._dense_order(queries)
        else:
            lexical = self._lexical_order(queries)
            order = _fused(lexical, self._dense_order(queries))
        ranked: list[list[int]] = order[:, :most].tolist()
        return ranked

    def rank_by_turns(
        self,
        query_lists: Sequence[Sequence[str]],
        retriever: str,
        most: int = MAX_RANKED,
    ) -> list[list[int]]:
        """Rank the texts for tasks with several queries, whose rankings take turns.

        Args:
            query_lists: The queries of each task, equally many per task.
            retriever: As for `rank`.
            most: How many texts are kept for each query.

        Returns:
            For each task, positions of texts, best first.
        """
        # One ranking of all tasks per position in the lists of queries.
        by_position = zip(*query_lists, strict=True)
        rankings = [self.rank(queries, retriever, most) for queries in by_position]
        merged = []
        for task_rankings in zip(*rankings, strict=True):
            interleaved = chain.from_iterable(zip(*task_rankings, strict=True))
            merged.append(list(dict.fromkeys(interleaved)))
        return merged

    def _lexical_order(self, queries: Sequence[str]) -> Positions:
        """Positions [query, rank] by BM25."""
        every_text = len(self.texts)
        order, _ = self._bm25.search(list(queries), k=every_text)
        return order

    def _dense_order(self, queries: Sequence[str]) -> Positions:
        """Positions [query, rank] by cosine."""
        encoded = _encoded(queries)
        # Not by BLAS: its result for near ties depends on what else the process has loaded.
        cosines = np.einsum("qd,nd->qn", encoded, self._vectors, optimize=False)
        return _by_score(cosines)


def _encoded(texts: Sequence[str]) -> Scores:
    """Unit vectors [text, dimension] of MiniLM."""
    return Embedder().encode(list(texts)).astype(float)


def _by_score(scores: Scores) -> Positions:
    """Positions [query, rank] by falling score [query, text]."""
    return np.stack([top(query_scores) for query_scores in scores])


def _fused(*orders: Positions) -> Positions:
    """Positions [query, rank] by summed reciprocal ranks."""
    scores = np.zeros(orders[0].shape)
    for order in orders:
        ranks = np.argsort(order, axis=1)
        scores += 1 / (FUSION_CONSTANT + ranks)
    return _by_score(scores)
