"""Ranking of chunks for queries by BM25 and by embedders."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.core import hub
from pkg_lib.core.embedders import EMBEDDERS
from pkg_lib.core.types import UserError
from pkg_lib.retrieval.chunks import BM25Ranker, EmbeddingRanker, make_ranker
from pkg_lib.retrieval.ranking import top

TEXT = (
    "def reverse_words(s):\n    return s[::-1]\n\n\n"
    "def sum_numbers(numbers):\n    return sum(numbers)\n\n\ndef noise():\n    pass\n"
)
CHUNKS = Chunker(max_size=45).chunk(TEXT.encode(), "a.py").chunks
QUERY = "sum the numbers of a list"


@pytest.mark.parametrize("name", ["BM25", "words"])
def test_rankers_score_every_chunk(name, embedder):
    ranker = BM25Ranker() if name == "BM25" else EmbeddingRanker("words", embedder)
    scores = ranker.scores([QUERY, "reverse words", "zebra"], CHUNKS)
    assert scores.shape == (3, 3) and [int(top(row)[0]) for row in scores[:2]] == [1, 0]
    assert name != "BM25" or not scores[2].any()


def test_rejects_unknown_names():
    with pytest.raises(UserError, match=r"unknown embedder 'nosuch'; .*list embedders"):
        make_ranker("nosuch")


def test_embedders_of_the_paper_fail_immediately_without_the_hub(own_cache, monkeypatch):
    monkeypatch.setattr(hub, "reachable", lambda: False)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *a, **k: None)
    for name in (n for n, spec in EMBEDDERS.items() if spec.repo):
        with pytest.raises(
            UserError, match=f"embedder {name} comes from .* does not answer; choose all-"
        ):
            make_ranker(name).scores(["a query"], CHUNKS)


@pytest.mark.slow
def test_embedders_of_the_paper_load_by_repository(own_cache, monkeypatch):
    """Stored embedders need no hub. Embedders with custom code tell the loader so."""
    seen = []

    class Model:
        device = torch.device("cpu")

        def __init__(self, place, revision, trust_remote_code=False):
            seen.append((place, revision, trust_remote_code))

        def encode(self, texts, **options):
            return np.ones((len(texts), 1), np.float32)

    monkeypatch.setattr(hub, "reachable", lambda: False)
    path = "/snapshots/abc/config.json"
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *a, **k: path)
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", Model)
    for name in ("BGE-base", "Jina-v2-code"):
        assert make_ranker(name).scores(["a query"], CHUNKS).shape == (1, 3)
    assert seen == [
        ("BAAI/bge-base-en", "abc", False),
        ("jinaai/jina-embeddings-v2-base-code", "abc", True),
    ]
