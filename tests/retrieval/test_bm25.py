"""BM25 agrees with rank_bm25 on equal tokens."""

from __future__ import annotations

import math

import numpy as np
from rank_bm25 import BM25Okapi

from pkg_lib.graph.schema import IMPL
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.words import unicode_tokens

CORPUS = [
    "def is_prime(n): ...",
    "",
    "def merge_sort(items): ...",
    "def binary_search(items, key): ...",
]


def test_returns_positions_and_scores_with_the_best_first():
    positions, scores = BM25(CORPUS).search(["merge and sort", "search in items"], k=2)
    assert (positions.shape, scores.shape) == ((2, 2), (2, 2))
    assert positions[0, 0] == 2
    assert positions[1].tolist() == [3, 2]
    assert (np.diff(scores, axis=1) < 0).all()


def test_returns_nothing_if_no_word_matches():
    for corpus in (
        CORPUS,
        [t for t in CORPUS if t],
    ):  # an empty document must not match the empty query
        positions, scores = BM25(corpus).search(["quaternion", "prime", ""])
        assert scores[[0, 2]].tolist() == [[0.0], [0.0]]
        assert (positions[1], scores[1] > 0) == (0, True)


def test_equal_documents_keep_the_order_of_the_corpus():
    corpus = ["other thing"] * 20 + ["sort list"] * 50 + ["sort array"]
    positions, _ = BM25(corpus).search(["sort list"], k=7)
    assert positions[0].tolist() == list(range(20, 27))
    assert BM25(corpus).search(["sort list"])[0].tolist() == [[20]]


def test_scores_equal_those_of_rank_bm25_with_the_idf_of_lucene(textbook):
    """rank_bm25 multiplies every score by k1 + 1; its idf is not that of Lucene."""
    functions = textbook[1].payloads(textbook[1].of_type(IMPL))
    texts = functions[:300]
    tokens = [unicode_tokens(t) or ["\0"] for t in texts]
    other = BM25Okapi(tokens)
    count = {w: sum(w in d for d in map(set, tokens)) for w in other.idf}
    other.idf = {w: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for w, n in count.items()}
    ours = BM25(texts)
    for query in functions[300:330]:
        words = [w for w in unicode_tokens(query) if w in other.idf]
        positions, scores = ours.search([query], k=20)
        expected = other.get_scores(words) / (other.k1 + 1)
        np.testing.assert_allclose(scores[0], np.sort(expected)[::-1][:20], rtol=1e-3)
        np.testing.assert_allclose(scores[0], expected[positions[0]], rtol=1e-3)
