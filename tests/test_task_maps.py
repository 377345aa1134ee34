"""Topics and maps of a benchmark: made once, kept, made again when what they were made from changes."""

import pandas as pd
import pytest

from pkg_lib.core.store import ROOT
from pkg_lib.core.types import BenchmarkMissing, Task, UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.papers.pkg import task_maps, topics

TASKS = [
    Task(f"HumanEval/{i}", "humaneval", f'def f():\n    """Sort {i}."""\n', "f", "", "") for i in range(3)
]


@pytest.fixture
def tasks(monkeypatch, embedder):
    found = list(TASKS)
    monkeypatch.setattr(task_maps, "load_benchmark", lambda name: found)
    monkeypatch.setattr(task_maps, "Embedder", lambda: embedder)
    return found


def missing(name):
    raise BenchmarkMissing("no tasks here")


def test_topics_are_kept_until_a_task_changes(tasks, tmp_path, monkeypatch):
    first = task_maps.topics_of("humaneval", tmp_path)
    assert list(first["topic"]) == ["Sorting and Searching"] * 3
    path = tmp_path / "tasks" / "humaneval.topics.csv"
    assert "Sort 1." not in path.read_text()
    path.write_text(path.read_text().replace("Sorting and Searching", "Algorithms"))
    assert set(task_maps.topics_of("humaneval", tmp_path)["topic"]) == {"Algorithms"}
    tasks[0] = Task(
        "HumanEval/0", "humaneval", 'def f():\n    """Find the area of a square."""\n', "f", "", ""
    )
    assert task_maps.topics_of("humaneval", tmp_path)["topic"].iloc[0] == "Geometry and Trigonometry"
    before = path.read_text().partition("\n")[0]
    monkeypatch.setattr(task_maps, "DEFAULT", "another embedder")
    task_maps.topics_of("humaneval", tmp_path)
    assert path.read_text().partition("\n")[0] != before


def test_where_the_tasks_cannot_be_had_the_file_is_used_as_it_is(tasks, tmp_path, monkeypatch):
    made = task_maps.topics_of("humaneval", tmp_path), task_maps.map_of("humaneval", tmp_path)
    monkeypatch.setattr(task_maps, "load_benchmark", missing)
    assert task_maps.topics_of("humaneval", tmp_path).equals(made[0])
    assert task_maps.map_of("humaneval", tmp_path).equals(made[1])
    with pytest.raises(BenchmarkMissing):
        task_maps.topics_of("mbpp", tmp_path)


def test_a_damaged_file_is_named(tasks, tmp_path, monkeypatch):
    task_maps.topics_of("humaneval", tmp_path)
    monkeypatch.setattr(task_maps, "load_benchmark", missing)
    (tmp_path / "tasks" / "humaneval.topics.csv").write_text("# made from x\n")
    with pytest.raises(UserError, match=r"humaneval\.topics\.csv is damaged"):
        task_maps.topics_of("humaneval", tmp_path)


@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp"])
def test_committed_topics_and_maps_are_of_these_tasks_and_rules(benchmark):
    try:
        tasks = load_benchmark(benchmark)
    except BenchmarkMissing as e:
        pytest.skip(str(e))
    folder = ROOT / "results" / "tasks"
    marks = {"topics": topics.made_from, "map": task_maps.projection.made_from}
    for name, made_from in marks.items():
        first = (folder / f"{benchmark}.{name}.csv").read_text().partition("\n")[0]
        assert first == task_maps.MARK + made_from(tasks, task_maps.DEFAULT)
    stored = pd.read_csv(folder / f"{benchmark}.topics.csv", comment="#", index_col="task_id")
    ruled = {t.id: topics.by_rules(topics.statement(t), t.solution) for t in tasks}
    assert {i: r.topic for i, r in ruled.items() if r} == stored.loc[
        stored["by"] == "rule", "topic"
    ].to_dict()
