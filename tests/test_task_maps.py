"""Topics and maps of a benchmark, and the agreement of neighbouring tasks.

Topics and maps are computed once and stored. They are computed again when their inputs change.
"""

import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import BenchmarkMissingError, Task, UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.papers.pkg import task_maps, topics
from pkg_lib.papers.pkg.task_maps import map_methods, nearest_points, task_map
from pkg_lib.papers.pkg.task_neighbours import (
    neighbour_agreement,
    neighbour_findings,
    neighbour_pairs,
    neighbours_table,
)
from pkg_lib.papers.pkg.topics import topics_of


def sort_task(i, text="Sort it"):
    return Task(f"HumanEval/{i}", "humaneval", f'def f():\n    """{text}."""\n', "f")


@pytest.fixture
def tasks(monkeypatch, embedder):
    tasks = [sort_task(i) for i in range(3)]
    monkeypatch.setattr(topics, "load_benchmark", lambda name: tasks)
    monkeypatch.setattr(topics, "Embedder", lambda: embedder)
    monkeypatch.setattr(task_maps, "Embedder", lambda: embedder)
    return tasks


def unavailable(name):
    raise BenchmarkMissingError("no tasks here")


def test_topics_are_stored_until_a_task_or_the_embedder_changes(tasks, tmp_path, monkeypatch):
    assert list(topics_of("humaneval", tmp_path)["topic"]) == ["Sorting and Searching"] * 3
    path = tmp_path / "tasks" / "humaneval.topics.csv"
    assert "Sort it" not in path.read_text()

    path.write_text(path.read_text().replace("Sorting and Searching", "Algorithms"))
    assert set(topics_of("humaneval", tmp_path)["topic"]) == {"Algorithms"}

    tasks[0] = sort_task(0, "Find the area of a square")
    assert topics_of("humaneval", tmp_path)["topic"].iloc[0] == "Geometry and Trigonometry"

    before = path.read_text().partition("\n")[0]
    monkeypatch.setattr(topics, "DEFAULT", "another embedder")
    topics_of("humaneval", tmp_path)
    assert path.read_text().partition("\n")[0] != before


def test_uses_the_stored_files_if_the_tasks_are_unavailable(tasks, tmp_path, monkeypatch):
    first_topics = topics_of("humaneval", tmp_path)
    first_map = task_map("humaneval", tmp_path)
    monkeypatch.setattr(topics, "load_benchmark", unavailable)
    assert topics_of("humaneval", tmp_path).equals(first_topics)
    assert task_map("humaneval", tmp_path).equals(first_map)
    with pytest.raises(BenchmarkMissingError):
        topics_of("mbpp", tmp_path)
    (tmp_path / "tasks" / "humaneval.topics.csv").write_text("# made from x\n")
    with pytest.raises(UserError, match=r"humaneval\.topics\.csv is damaged"):
        topics_of("humaneval", tmp_path)


@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp"])
def test_committed_topics_and_maps_are_up_to_date(benchmark, tmp_path, monkeypatch):
    try:
        load_benchmark(benchmark)
    except BenchmarkMissingError as missing:
        pytest.skip(str(missing))
    shutil.copytree(ROOT / "results" / "tasks", tmp_path / "tasks")
    # Without an embedder, computing topics or a map again would fail.
    monkeypatch.setattr(task_maps, "Embedder", None)
    monkeypatch.setattr(topics, "Embedder", None)
    count = len(topics_of(benchmark, tmp_path))
    assert count > 100
    assert len(task_map(benchmark, tmp_path)) == count


LAY_OUT_TWICE = """
import numpy as np
from pkg_lib.papers.pkg import task_maps
task_maps.SETTINGS["n_epochs"] = 10
for count in (1, 3, 4, 40):
    vectors = np.random.default_rng(1).normal(size=(count, 8)).astype(np.float32)
    names = [str(i) for i in range(count)]
    first = task_maps.lay_out(names, vectors)
    second = task_maps.lay_out(names, vectors)
    assert first.equals(second)
    assert np.isfinite(first[["x", "y"]]).all(axis=None)
    assert first["x"].nunique() == count
    assert len(first["neighbours"].iloc[0].split()) == min(10, count - 1), first
"""


def test_umap_is_deterministic_for_any_number_of_points():
    """UMAP runs without just-in-time compilation, which would take longer than the test."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", LAY_OUT_TWICE]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def clusters(size=20):
    """Return two distant groups of `size` points each, with the neighbours of each point."""
    rng = np.random.default_rng(0)
    first = rng.normal(0, 1, (size, 2))
    second = rng.normal(100, 1, (size, 2))
    coordinates = np.vstack([first, second])
    ids = np.array([f"T/{i}" for i in range(2 * size)])
    index = pd.Index(ids, name="task_id")
    points = pd.DataFrame(coordinates, columns=["x", "y"], index=index)
    points["neighbours"] = [" ".join(ids[row]) for row in nearest_points(coordinates)]
    return points


def agreement(points, values, topic="a"):
    """Return the agreement of neighbours whose outcomes without retrieval are `values`."""
    verdicts = pd.DataFrame({"NoRAG": values}, points.index).astype("boolean")
    return neighbour_agreement(verdicts, points, pd.Series(topic, points.index))


def test_clustered_outcomes_are_significant_and_mixed_ones_are_not():
    points = clusters()
    for row in agreement(points, [True] * 20 + [False] * 20).itertuples():
        assert row.share == 1
        assert row.p < 0.001
        assert row.chance == pytest.approx(19 / 39, abs=0.01)
    for row in agreement(points, [True, False] * 20).itertuples():
        assert row.share < 0.65
        assert row.p > 0.05


def test_agreement_that_the_topics_explain_is_not_significant_within_topics():
    topic = ["a"] * 20 + ["b"] * 20
    rows = agreement(clusters(), [True] * 19 + [False] * 21, topic)
    row = rows.loc[("NoRAG", "plane")]
    assert row.p < 0.001
    assert row.topic_p > 0.01
    assert row.topic_chance == pytest.approx(row.share, abs=0.05)


def test_leaves_out_neighbours_that_are_not_measured():
    points = clusters(3)
    pairs = neighbour_pairs(points, ["T/0", "T/1", "T/5"], "embedding")
    assert sorted(map(tuple, pairs)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert neighbour_pairs(points, ["T/0"], "plane").shape == (0, 2)


FEW = [True, True, False, True, True, True]  # with so few tasks, all others are neighbours of each


@pytest.mark.parametrize("values", [[True] * 6, [True] + [pd.NA] * 5, FEW])
def test_a_single_outcome_a_single_task_or_too_few_tasks_are_not_measured(values):
    rows = agreement(clusters(3), values)
    assert len(rows) == 2
    assert rows["share"].isna().all()
    assert (neighbours_table(rows).frame == DASH).all(axis=None)
    assert neighbour_findings(rows) == []


def test_table_and_findings_show_the_share_and_the_share_expected_by_chance():
    rows = agreement(clusters(), [True] * 20 + [False] * 20)
    cells = neighbours_table(rows).frame.loc["NoRAG, plane"]
    assert cells["tasks"] == "40"
    assert cells["same outcome, %"] == "100.0"
    assert cells["p"] == "< 0.001"
    (first,) = neighbour_findings(rows)
    assert first.startswith("Solved tasks cluster in 2 of 2 tests (p < 0.05")
    assert "with NoRAG, by the plane, 100.0 % of the nearest tasks" in first


def test_replaces_a_method_that_is_not_measured_by_the_best_measured_one():
    outcomes = {
        "NoRAG": [True, True, True, True],
        "VoyageEmb": [True, True, False, False],
        "Block-PKG": [True, False, False, False],
        "Reranked": [pd.NA, pd.NA, pd.NA, pd.NA],
        "Ideal Reranker": [True, True, True, True],
    }
    verdicts = pd.DataFrame(outcomes).astype("boolean")
    shown, notes = map_methods(verdicts, ["NoRAG", "Reranked"])
    assert shown == ["NoRAG", "VoyageEmb"]
    assert "Reranked" in notes[0]
    assert "VoyageEmb" in notes[0]
    shown, _ = map_methods(verdicts[["NoRAG", "Reranked"]], ["NoRAG", "Reranked"])
    assert shown == ["NoRAG"]
    assert map_methods(verdicts, ["NoRAG", "Block-PKG"]) == (["NoRAG", "Block-PKG"], [])
    with pytest.raises(UserError, match="unknown method 'BM25' with this corpus"):
        map_methods(verdicts, ["NoRAG", "BM25"])
