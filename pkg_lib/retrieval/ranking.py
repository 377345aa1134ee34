"""Ranking by score, the one way in which this package orders scored texts."""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]  # [n, d], of length 1
Scores = NDArray[np.floating]
Positions = NDArray[np.int64]
Ranked = tuple[Positions, Scores]  # [q, k] each, best first


def top(scores: Scores, k: int | None = None) -> Positions:
    """Return the positions of the highest scores.

    Equal scores keep the order of the corpus, so that a ranking is the same on every processor.

    Args:
        scores: Scores [n], none of them NaN.
        k: How many positions to return; None returns all.

    Returns:
        Positions [min(k, n)], best first.
    """
    if k == 1:
        return np.array([np.argmax(scores)])  # the first maximum, without sorting
    return np.argsort(-scores, kind="stable")[:k]
