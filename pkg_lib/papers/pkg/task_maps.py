"""What is known of a benchmark's tasks apart from any model: their topics, and their places on a map.

    results/tasks/BENCHMARK.topics.csv   task_id, category, topic, by, nearest
    results/tasks/BENCHMARK.map.csv      task_id, x, y, neighbours

Each file's first line says what it was made from; it is made again when that changes. Where the tasks cannot
be had, the files are used as they are. They hold ids and no task text.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pkg_lib.core.store import slug, write_text
from pkg_lib.core.types import BenchmarkMissing, Task
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.papers.pkg import projection, topics
from pkg_lib.retrieval.embed import DEFAULT, Embedder

MARK = "# made from "


def topics_of(benchmark: str, results: Path) -> pd.DataFrame:
    """`topics.assign` of all tasks, index task id. BenchmarkMissing without tasks and file."""

    def assigned(tasks: list[Task]) -> pd.DataFrame:
        encode = Embedder().encode
        descriptions = encode(list(topics.topics()["description"]))
        return topics.assign(tasks, encode([topics.statement(t) for t in tasks]), descriptions)

    return _kept(topics.topics_path(results, benchmark), benchmark, topics.made_from, assigned)


def map_of(benchmark: str, results: Path) -> pd.DataFrame:
    """`projection.project` of all tasks by their prompts, index task id. BenchmarkMissing as above."""

    def projected(tasks: list[Task]) -> pd.DataFrame:
        return projection.project([t.id for t in tasks], Embedder().encode([t.prompt for t in tasks]))

    return _kept(results / "tasks" / f"{slug(benchmark)}.map.csv", benchmark, projection.made_from, projected)


def _kept(
    path: Path,
    benchmark: str,
    made_from: Callable[[list[Task], str], str],
    make: Callable[[list[Task]], pd.DataFrame],
) -> pd.DataFrame:
    """The file's frame where it was made from the same or cannot be made again; else made now and stored."""
    try:
        tasks = load_benchmark(benchmark)
    except BenchmarkMissing:
        if path.exists():
            return topics.read_task_file(path)
        raise
    mark = MARK + made_from(tasks, DEFAULT)
    if not (path.exists() and path.read_text("utf8").partition("\n")[0] == mark):
        write_text(path, f"{mark}\n{make(tasks).to_csv(lineterminator=chr(10))}")
    return topics.read_task_file(path)
