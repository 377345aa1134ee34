"""Chunks ranked for queries, contexts filled with them, and the measures on cases counted by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.core import hub
from pkg_lib.core.embedders import EMBEDDERS
from pkg_lib.core.types import UserError
from pkg_lib.retrieval import chunks as retrieval
from pkg_lib.retrieval import ranking

TEXT = (
    "def reverse_words(s):\n    return s[::-1]\n\n\n"
    "def sum_numbers(numbers):\n    return sum(numbers)\n\n\ndef noise():\n    pass\n"
)
CHUNKS = Chunker(max_size=45).chunk(TEXT.encode(), "a.py").chunks
QUERY = "sum the numbers of a list"


@pytest.mark.parametrize("name", ["BM25", "words"])
def test_rankers_score_every_chunk(name, embedder):
    ranker = (
        retrieval.BM25Ranker() if name == "BM25" else retrieval.EmbeddingRanker("words", embedder)
    )
    scores = ranker.scores([QUERY, "reverse words", "zebra"], CHUNKS)
    assert scores.shape == (3, 3) and [int(retrieval.order(row)[0]) for row in scores[:2]] == [1, 0]
    assert name != "BM25" or not scores[2].any()


def test_equal_scores_keep_the_order_of_the_corpus():
    assert retrieval.order(np.array([1.0, 3.0, 3.0, 1.0])).tolist() == [1, 2, 0, 3]
    assert retrieval.order(np.array([1.0, 3.0, 3.0]), 1).tolist() == [1]


def test_a_context_is_filled_to_the_limit_and_cut_at_a_line_end():
    a, b = CHUNKS[0], CHUNKS[1]
    assert retrieval.fill([a, b], 1000, len) == (f"{a.text}\n{b.text}", [a, b])
    text, used = retrieval.fill(
        [a, b], len(a.text) + 1 + len("def sum_numbers(numbers):\n") + 3, len
    )
    assert (text, used) == (f"{a.text}\ndef sum_numbers(numbers):\n", [a, b])
    assert retrieval.fill([a, b], len(a.text) + 3, len) == (a.text, [a])
    assert retrieval.fill([a], 3, len) == ("", [])
    assert len(retrieval.fill([a, b], 6, lambda t: len(t.split()))[0].split()) <= 6


def test_unknown_names():
    with pytest.raises(UserError, match=r"unknown embedder 'nosuch'; .*list embedders"):
        retrieval.make_ranker("nosuch")


def test_the_papers_embedders_fail_at_once_without_the_hub(own_cache, monkeypatch):
    monkeypatch.setattr(hub, "reachable", lambda: False)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *a, **k: None)
    for name in (n for n, spec in EMBEDDERS.items() if spec.repo):
        with pytest.raises(
            UserError, match=f"embedder {name} comes from .* does not answer; choose all-"
        ):
            retrieval.make_ranker(name).scores(["a query"], CHUNKS)


@pytest.mark.slow
def test_the_papers_embedders_load_by_their_repository(own_cache, monkeypatch):
    """What is stored here needs no hub; those with code of their own say so to the loader."""
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
        assert retrieval.make_ranker(name).scores(["a query"], CHUNKS).shape == (1, 3)
    assert seen == [
        ("BAAI/bge-base-en", "abc", False),
        ("jinaai/jina-embeddings-v2-base-code", "abc", True),
    ]


@dataclass
class Part:
    document: str
    first: int
    last: int


OURS = [Part("a", 1, 3), Part("a", 4, 8), Part("b", 1, 2)]
THEIRS = [Part("a", 1, 4), Part("a", 5, 8), Part("b", 1, 4), Part("c", 1, 4)]
SCORES = np.array([[0.8, 0.4, 0.1]])


def test_a_shared_line_has_the_higher_score_and_a_lost_line_none():
    parts = [Part("a", 1, 2), Part("a", 2, 3), Part("a", 5, 5)]
    found = ranking.line_scores(parts, np.array([-0.2, -0.1, 0.3]))["a"]
    assert found[:3].tolist() == [-0.2, -0.1, -0.1] and np.isnan(found[3]) and found[4] == 0.3


@pytest.mark.parametrize(
    ("aggregate", "expected"), [("mean", [0.7, 0.4, 0.1]), ("max", [0.8, 0.4, 0.1])]
)
def test_scores_are_aggregated_over_the_lines_of_a_baseline_chunk(aggregate, expected):
    found = ranking.map_scores(OURS, SCORES, THEIRS, aggregate)
    assert found[0, :3] == pytest.approx(expected) and np.isnan(found[0, 3])


def test_gold_is_every_chunk_that_shares_a_line():
    assert ranking.relevant(THEIRS, [("a", 4, 5), ("b", 9, 9), ("c", 4, 10)]) == {0, 1, 3}


def test_measures_by_hand():
    scores = np.array([[9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5, 0.1], [1.0] * 11, np.arange(11.0)])
    found = ranking.evaluate(scores, [{1, 6}, {10}, set()])
    ideal = 1 + 1 / np.log2(3)
    gains = {
        "nDCG@5": (1 / np.log2(3)) / ideal,
        "nDCG@10": (1 / np.log2(3) + 1 / np.log2(8)) / ideal,
    }
    shares = {"P@5": 0.2, "P@10": 0.2, "R@5": 0.5, "R@10": 1.0}
    assert found.loc[0].to_dict() == pytest.approx(gains | shares)
    assert (
        found.loc[1] == 0
    ).all()  # equal scores keep their order, so the eleventh is not among ten
    assert found.loc[2].isna().all()  # nothing to find: not measured


def test_a_chunk_without_a_score_is_not_retrieved():
    found = ranking.evaluate(np.array([[np.nan, 0.5]]), [{0}])
    assert (found.loc[0] == 0).all()
