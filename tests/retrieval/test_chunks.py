"""Chunks ranked for queries, and contexts filled with them."""

from __future__ import annotations

import numpy as np
import pytest

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.core import hub
from pkg_lib.core.types import UserError
from pkg_lib.retrieval import chunks as retrieval
from pkg_lib.retrieval import embed

TEXT = (
    "def reverse_words(s):\n    return s[::-1]\n\n\n"
    "def sum_numbers(numbers):\n    return sum(numbers)\n\n\ndef noise():\n    pass\n"
)
CHUNKS = Chunker(max_size=45).chunk(TEXT.encode(), "a.py").chunks
QUERY = "sum the numbers of a list"


@pytest.mark.parametrize("name", ["BM25", "words"])
def test_rankers_score_every_chunk(name, embedder):
    ranker = retrieval.BM25Ranker() if name == "BM25" else retrieval.EmbeddingRanker("words", embedder)
    scores = ranker.scores([QUERY, "reverse words", "zebra"], CHUNKS)
    assert scores.shape == (3, 3) and [int(retrieval.order(row)[0]) for row in scores[:2]] == [1, 0]
    assert name != "BM25" or not scores[2].any()


def test_equal_scores_keep_the_order_of_the_corpus():
    assert retrieval.order(np.array([1.0, 3.0, 3.0, 1.0])).tolist() == [1, 2, 0, 3]
    assert retrieval.order(np.array([1.0, 3.0, 3.0]), 1).tolist() == [1]


def test_a_context_is_filled_to_the_limit_and_cut_at_a_line_end():
    a, b = CHUNKS[0], CHUNKS[1]
    assert retrieval.fill([a, b], 1000, len) == (f"{a.text}\n{b.text}", [a, b])
    text, used = retrieval.fill([a, b], len(a.text) + 1 + len("def sum_numbers(numbers):\n") + 3, len)
    assert (text, used) == (f"{a.text}\ndef sum_numbers(numbers):\n", [a, b])
    assert retrieval.fill([a, b], len(a.text) + 3, len) == (a.text, [a])
    assert retrieval.fill([a], 3, len) == ("", [])
    assert len(retrieval.fill([a, b], 6, lambda t: len(t.split()))[0].split()) <= 6


def test_unknown_names():
    with pytest.raises(UserError, match="unknown ranker 'nosuch'; choose from: BM25, MiniLM, BGE-base"):
        retrieval.make_ranker("nosuch")


def test_the_papers_embedders_fail_at_once_without_the_hub(own_cache, monkeypatch):
    monkeypatch.setattr(hub, "reachable", lambda: False)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *a, **k: None)
    for name in embed.HUB:
        with pytest.raises(
            UserError, match=f"embedder {name} comes from .* does not answer; choose all-Mini"
        ):
            retrieval.make_ranker(name).scores(["a query"], CHUNKS)


@pytest.mark.slow
def test_the_papers_embedders_load_by_their_repository(own_cache, monkeypatch):
    """What is stored here needs no hub; those with code of their own say so to the loader."""
    seen = []

    class Model:
        def __init__(self, place, revision, trust_remote_code):
            seen.append((place, revision, trust_remote_code))

        def encode(self, texts, **options):
            return np.ones((len(texts), 1), np.float32)

    monkeypatch.setattr(hub, "reachable", lambda: False)
    path = "/snapshots/abc/config.json"
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *a, **k: path)
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", Model)
    for name in ("BGE-base", "Jina-v2-code"):
        assert retrieval.make_ranker(name).scores(["a query"], CHUNKS).shape == (1, 3)
    assert seen == [("BAAI/bge-base-en", "abc", False), ("jinaai/jina-embeddings-v2-base-code", "abc", True)]
