"""Topics and maps of a benchmark: made once, kept, made again when what they were made from changes; and the
measurement of neighbours, from points whose neighbourhoods are known."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import BenchmarkMissing, Task, UserError
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


def absent(name):
    raise BenchmarkMissing("no tasks here")


def test_topics_are_kept_until_a_task_or_the_embedder_changes(tasks, tmp_path, monkeypatch):
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


def test_where_the_tasks_cannot_be_had_the_file_is_used_as_it_is(tasks, tmp_path, monkeypatch):
    first = [make("humaneval", tmp_path) for make in (topics_of, task_map)]
    monkeypatch.setattr(topics, "load_benchmark", absent)
    assert all(
        make("humaneval", tmp_path).equals(f)
        for make, f in zip((topics_of, task_map), first, strict=True)
    )
    with pytest.raises(BenchmarkMissing):
        topics_of("mbpp", tmp_path)
    (tmp_path / "tasks" / "humaneval.topics.csv").write_text("# made from x\n")
    with pytest.raises(UserError, match=r"humaneval\.topics\.csv is damaged"):
        topics_of("humaneval", tmp_path)


@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp"])
def test_committed_topics_and_maps_are_of_these_tasks_and_rules(benchmark, tmp_path, monkeypatch):
    try:
        load_benchmark(benchmark)
    except BenchmarkMissing as e:
        pytest.skip(str(e))
    shutil.copytree(ROOT / "results" / "tasks", tmp_path / "tasks")
    monkeypatch.setattr(task_maps, "Embedder", None)
    monkeypatch.setattr(topics, "Embedder", None)  # whoever makes one of them again needs it
    assert len(topics_of(benchmark, tmp_path)) == len(task_map(benchmark, tmp_path)) > 100


TWICE = """
import numpy as np
from pkg_lib.papers.pkg import task_maps
task_maps.SETTINGS["n_epochs"] = 10
for n in (1, 3, 4, 40):
    vectors = np.random.default_rng(1).normal(size=(n, 8)).astype(np.float32)
    first, second = (task_maps.lay_out([str(i) for i in range(n)], vectors) for _ in range(2))
    assert first.equals(second) and np.isfinite(first[["x", "y"]]).all(axis=None)
    assert first["x"].nunique() == n and len(first["neighbours"].iloc[0].split()) == min(10, n - 1), first
"""


def test_umap_gives_the_same_points_twice_however_few_there_are():
    """UMAP itself, interpreted: its compilation would take longer."""
    slow = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", TWICE], env=slow, cwd=ROOT, capture_output=True)
    assert run.returncode == 0, run.stderr.decode()


def clusters(n=20):
    """Two far groups of n points each, in the plane and by their stored neighbours."""
    rng = np.random.default_rng(0)
    xy = np.vstack([rng.normal(0, 1, (n, 2)), rng.normal(100, 1, (n, 2))])
    ids = [f"T/{i}" for i in range(2 * n)]
    frame = pd.DataFrame(xy, columns=["x", "y"], index=pd.Index(ids, name="task_id"))
    return frame.assign(neighbours=[" ".join(ids[j] for j in row) for row in nearest_points(xy)])


def agreement(points, values, topic="a"):
    verdicts = pd.DataFrame({"NoRAG": values}, points.index).astype("boolean")
    return neighbour_agreement(verdicts, points, pd.Series(topic, points.index))


def test_outcomes_that_gather_are_beyond_chance_and_mixed_ones_are_not():
    points = clusters()
    for row in agreement(points, [True] * 20 + [False] * 20).itertuples():
        assert row.share == 1 and row.p < 0.001
        assert row.chance == pytest.approx(19 / 39, abs=0.01)
    for row in agreement(points, [True, False] * 20).itertuples():
        assert row.share < 0.65 and row.p > 0.05


def test_within_topics_the_place_says_nothing_that_the_topic_does_not_say():
    topic = ["a"] * 20 + ["b"] * 20
    row = agreement(clusters(), [True] * 19 + [False] * 21, topic).loc[("NoRAG", "plane")]
    assert row.p < 0.001 and row.topic_p > 0.01
    assert row.topic_chance == pytest.approx(row.share, abs=0.05)


def test_neighbours_that_are_not_measured_are_left_out():
    points = clusters(3)
    pairs = neighbour_pairs(points, ["T/0", "T/1", "T/5"], "embedding")
    assert sorted(map(tuple, pairs)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert neighbour_pairs(points, ["T/0"], "plane").shape == (0, 2)


@pytest.mark.parametrize("values", [[True] * 6, [True] + [pd.NA] * 5])
def test_one_outcome_alone_or_one_task_is_not_measured(values):
    rows = agreement(clusters(3), values)
    assert rows["share"].isna().all() and len(rows) == 2
    assert (neighbours_table(rows).frame == DASH).all(axis=None)
    assert all("not measured" in sentence for sentence in neighbour_findings(rows))


def test_table_and_findings_show_the_share_and_its_chance():
    rows = agreement(clusters(), [True] * 20 + [False] * 20)
    cells = neighbours_table(rows).frame.loc["NoRAG, plane"]
    assert (cells["tasks"], cells["same outcome, %"], cells["p"]) == ("40", "100.0", "< 0.001")
    assert neighbour_findings(rows)[0].startswith("Solved tasks cluster in 2 of 2 tests (p < 0.05")
    assert "NoRAG in the plane, 100.0 against" in neighbour_findings(rows)[0]
    assert "NoRAG: 100.0 % of a task's nearest tasks in the plane" in neighbour_findings(rows)[1]


def test_if_a_method_is_not_measured_the_best_measured_one_is_shown():
    columns = {
        "NoRAG": [True] * 4,
        "VoyageEmb": [True, True, False, False],
        "Block-PKG": [True] + [False] * 3,
    }
    verdicts = pd.DataFrame(
        columns | {"Reranked": [pd.NA] * 4, "Ideal Reranker": [True] * 4}
    ).astype("boolean")
    shown, note = map_methods(verdicts, ["NoRAG", "Reranked"])
    assert shown == ["NoRAG", "VoyageEmb"] and "Reranked" in note[0] and "VoyageEmb" in note[0]
    assert map_methods(verdicts[["NoRAG", "Reranked"]], ["NoRAG", "Reranked"])[0] == ["NoRAG"]
    assert map_methods(verdicts, ["NoRAG", "Block-PKG"]) == (["NoRAG", "Block-PKG"], [])
    with pytest.raises(UserError, match="unknown method 'BM25' with this corpus"):
        map_methods(verdicts, ["NoRAG", "BM25"])
