"""Exact nearest neighbours by cosine: FAISS inner product over unit vectors (Equation 5)."""

from __future__ import annotations

import faiss
import numpy as np


class FlatIndex:
    """`vectors` are unit rows [n, d]; search returns (positions int64 [q, k], cosines float32 [q, k]), best first."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.index = faiss.IndexFlatIP(vectors.shape[1])
        self.index.add(np.ascontiguousarray(vectors, np.float32))

    def search(self, queries: np.ndarray, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        scores, positions = self.index.search(np.ascontiguousarray(queries, np.float32), min(k, self.index.ntotal))
        return positions, scores
