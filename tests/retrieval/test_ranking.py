"""Ranking by score."""

from __future__ import annotations

import numpy as np

from pkg_lib.retrieval.ranking import top


def test_equal_scores_keep_the_order_of_the_corpus():
    assert top(np.array([1.0, 3.0, 3.0, 1.0])).tolist() == [1, 2, 0, 3]
    assert top(np.array([1.0, 3.0, 3.0]), 1).tolist() == [1]
    assert top(np.array([1.0, 3.0]), 5).tolist() == [1, 0]
