"""The map of tasks and the measurement of neighbours, from points whose neighbourhoods are known."""

import os
import subprocess
import sys

import notebook_code
import numpy as np
import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg import projection

MAPS = notebook_code.definitions("umap_correctness")


def clusters(n=20):
    """Two far groups of n points each, in the plane and by their stored neighbours."""
    rng = np.random.default_rng(0)
    xy = np.vstack([rng.normal(0, 1, (n, 2)), rng.normal(100, 1, (n, 2))])
    ids = [f"T/{i}" for i in range(2 * n)]
    frame = pd.DataFrame(xy, columns=["x", "y"], index=pd.Index(ids, name="task_id"))
    return frame.assign(neighbours=[" ".join(ids[j] for j in row) for row in projection.nearest(xy)])


def measured(points, values):
    verdicts = pd.DataFrame({"None": values}, points.index).astype("boolean")
    return MAPS["neighbourhoods"](verdicts, points, pd.Series("a", points.index))


def test_outcomes_that_gather_are_beyond_chance_and_mixed_ones_are_not():
    points = clusters()
    for found in measured(points, [True] * 20 + [False] * 20).values():
        assert (
            found[0].share == 1 and found[0].p < 0.001 and found[0].chance == pytest.approx(19 / 39, abs=0.01)
        )
    for found in measured(points, [True, False] * 20).values():
        assert found[0].share < 0.65 and found[0].p > 0.05


def test_within_topics_the_place_says_nothing_that_the_topic_does_not_say():
    points = clusters()
    verdicts = pd.DataFrame({"None": [True] * 19 + [False] * 21}, points.index).astype("boolean")
    topic = pd.Series(["a"] * 20 + ["b"] * 20, points.index)
    free, within = MAPS["neighbourhoods"](verdicts, points, topic)["None", "plane"]
    assert free.p < 0.001 and within.p > 0.01 and within.chance == pytest.approx(within.share, abs=0.05)


def test_permutations_within_groups_leave_every_group_its_rate():
    outcomes, groups = np.array([True, False, False, False] * 2), np.array([0, 1] * 4)
    near = np.array([[0, 2], [4, 6], [2, 0], [6, 4]])  # all of group 0, which holds the two that passed
    found = MAPS["same_outcome"](outcomes, near, groups)
    assert found.share == 0 and found.chance == pytest.approx(1 / 3, abs=0.02) and found.p == pytest.approx(1)


def test_neighbours_that_are_not_measured_are_left_out():
    points = clusters(3)
    pairs = MAPS["neighbour_pairs"](points, ["T/0", "T/1", "T/5"], "embedding")
    assert sorted(map(tuple, pairs)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert MAPS["neighbour_pairs"](points, ["T/0"], "plane").shape == (0, 2)


def test_one_outcome_alone_or_one_task_is_not_measured():
    points = clusters(3)
    found = measured(points, [True] * 6)
    assert set(found.values()) == {None}
    assert MAPS["neighbour_row"](None) == [DASH] * 7
    assert set(measured(points, [True] + [pd.NA] * 5).values()) == {None}


def test_where_the_right_column_is_not_measured_the_best_measured_one_is_shown():
    columns = {
        "None": [True] * 4,
        "Dense": [True, True, False, False],
        "Block-PKG": [True, False, False, False],
    }
    verdicts = pd.DataFrame(columns | {"Reranked": [pd.NA] * 4, "Ideal": [True] * 4}).astype("boolean")
    shown, instead = MAPS["drawn"](verdicts, ["None", "Reranked"])
    assert shown == ["None", "Dense"] and "Reranked" in instead[0] and "Dense" in instead[0]
    assert MAPS["drawn"](verdicts[["None", "Reranked"]], ["None", "Reranked"])[0] == ["None"]
    assert MAPS["drawn"](verdicts, ["None", "Block-PKG"]) == (["None", "Block-PKG"], [])
    with pytest.raises(UserError, match="no column 'BM25'"):
        MAPS["drawn"](verdicts, ["None", "BM25"])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_points_for_umap_lie_in_a_row(n):
    points = projection.project([f"T/{i}" for i in range(n)], np.eye(3, dtype=np.float32)[:n])
    assert list(points["x"]) == list(range(n)) and all(len(t.split()) == n - 1 for t in points["neighbours"])


TWICE = """
import numpy as np
from pkg_lib.papers.pkg import projection
projection.SETTINGS["n_epochs"] = 10
for n in (4, 40):
    vectors = np.random.default_rng(1).normal(size=(n, 8)).astype(np.float32)
    first, second = (projection.project([str(i) for i in range(n)], vectors) for _ in range(2))
    assert first.equals(second) and np.isfinite(first[["x", "y"]]).all(axis=None)
    assert first["x"].nunique() == n, first
"""


def test_umap_gives_the_same_points_twice_however_few_there_are():
    """UMAP itself, interpreted: its compilation would take longer."""
    slow = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", TWICE], env=slow, cwd=ROOT, capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
