"""R of Algorithm 1: ranks the texts of one source of the knowledge base for queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from pkg_lib.data.corpora import UNICODE
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.embed import Embedder

MAX_RANKED = 40  # texts of a ranking that are kept: more of them fit into no budget here
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
    def _vectors(self) -> npt.NDArray[Any]:
        return Embedder().encode(list(self.texts)).astype(float)

    def rank(self, queries: Sequence[str], retriever: str) -> list[list[int]]:
        """Rank the texts for each query.

        Args:
            queries: The queries q_i of several tasks.
            retriever: "BM25", "MiniLM", or "both" for their reciprocal rank fusion.

        Returns:
            For each query, positions of at most MAX_RANKED texts, best first. Equal texts keep their
            order.
        """
        if not self.texts or not queries:
            return [[] for _ in queries]
        orders = []
        if retriever != "MiniLM":
            orders.append(_descending(self._lexical_scores(queries)))
        if retriever != "BM25":
            orders.append(_descending(self._dense_scores(queries)))
        order = orders[0] if len(orders) == 1 else _fused(orders)
        ranked: list[list[int]] = order[:, :MAX_RANKED].tolist()
        return ranked

    def rank_by_turns(
        self,
        query_lists: Sequence[Sequence[str]],
        retriever: str,
    ) -> list[list[int]]:
        """Rank the texts for tasks with several queries, whose rankings take turns.

        Args:
            query_lists: The queries of each task, equally many per task.
            retriever: As for `rank`.

        Returns:
            For each task, positions of texts, best first.
        """
        # One ranking of all tasks per position in the lists of queries.
        rankings = [self.rank(queries, retriever) for queries in zip(*query_lists, strict=True)]
        merged = []
        for of_task in zip(*rankings, strict=True):
            in_turns = chain.from_iterable(zip(*of_task, strict=True))
            merged.append(list(dict.fromkeys(in_turns)))
        return merged

    def _lexical_scores(self, queries: Sequence[str]) -> npt.NDArray[Any]:
        return np.stack([self._bm25.scores(query) for query in queries])

    def _dense_scores(self, queries: Sequence[str]) -> npt.NDArray[Any]:
        encoded = Embedder().encode(list(queries)).astype(float)
        # Not by BLAS: its result for near ties depends on what else the process has loaded.
        scores: npt.NDArray[Any] = np.einsum("qd,nd->qn", encoded, self._vectors, optimize=False)
        return scores


def _descending(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return positions [query, rank] by falling score."""
    return np.argsort(-scores, axis=1, kind="stable")


def _fused(orders: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the order of summed reciprocal ranks."""
    scores = np.zeros(orders[0].shape)
    for order in orders:
        ranks = np.argsort(order, axis=1)
        scores = scores + 1 / (FUSION_CONSTANT + ranks)
    return _descending(scores)
