"""Mapping of scores between chunkings, and metrics on cases computed by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pkg_lib.retrieval import quality


@dataclass
class Part:
    document: str
    first: int
    last: int


OURS = [Part("a", 1, 3), Part("a", 4, 8), Part("b", 1, 2)]
THEIRS = [Part("a", 1, 4), Part("a", 5, 8), Part("b", 1, 4), Part("c", 1, 4)]
SCORES = np.array([[0.8, 0.4, 0.1]])


def test_shared_line_has_the_higher_score_and_a_lost_line_has_none():
    parts = [Part("a", 1, 2), Part("a", 2, 3), Part("a", 5, 5)]
    found = quality.line_scores(parts, np.array([-0.2, -0.1, 0.3]))["a"]
    assert found[:3].tolist() == [-0.2, -0.1, -0.1] and np.isnan(found[3]) and found[4] == 0.3


@pytest.mark.parametrize(
    ("aggregate", "expected"), [("mean", [0.7, 0.4, 0.1]), ("max", [0.8, 0.4, 0.1])]
)
def test_scores_are_aggregated_over_the_lines_of_a_baseline_chunk(aggregate, expected):
    found = quality.map_scores(OURS, SCORES, THEIRS, aggregate)
    assert found[0, :3] == pytest.approx(expected) and np.isnan(found[0, 3])


def test_every_chunk_that_shares_a_line_is_relevant():
    assert quality.relevant_chunks(THEIRS, [("a", 4, 5), ("b", 9, 9), ("c", 4, 10)]) == {0, 1, 3}


def test_metrics_equal_those_computed_by_hand():
    scores = np.array([[9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5, 0.1], [1.0] * 11, np.arange(11.0)])
    found = quality.ranking_quality(scores, [{1, 6}, {10}, set()])
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


def test_chunk_without_a_score_is_not_retrieved():
    found = quality.ranking_quality(np.array([[np.nan, 0.5]]), [{0}])
    assert (found.loc[0] == 0).all()
