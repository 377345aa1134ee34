"""What is known of a benchmark's tasks apart from any model: their topics, and their places on a map.

    results/tasks/BENCHMARK.topics.csv   task_id, category, topic, by, nearest
    results/tasks/BENCHMARK.map.csv      task_id, x, y, neighbours (Figures 7 to 12)

They hold ids and no task text. Each is made again when what its first line names has changed; where the tasks
cannot be had, it is used as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from pkg_lib.core.store import slug, write_text
from pkg_lib.core.types import BenchmarkMissing, Task, digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.papers.pkg import topics
from pkg_lib.retrieval.embed import DEFAULT, Embedder

NEIGHBOURS = 10  # of a task
SETTINGS = {"n_neighbors": 15, "min_dist": 0.1, "metric": "cosine", "random_state": 0, "n_jobs": 1}
FEWEST = 16  # points; UMAP's spectral start needs more than its dimensions and its neighbours


def topics_of(benchmark: str, results: Path) -> pd.DataFrame:
    """`topics.assign` of all tasks, index task id. BenchmarkMissing without tasks and file."""

    def assigned(tasks: list[Task]) -> pd.DataFrame:
        encode = Embedder().encode
        descriptions = encode(list(topics.topics()["description"]))
        return topics.assign(tasks, encode([topics.statement(t) for t in tasks]), descriptions)

    return _kept(topics.topics_path(results, benchmark), benchmark, topics.made_from, assigned)


def map_of(benchmark: str, results: Path) -> pd.DataFrame:
    """`project` of all tasks by their prompts, index task id. BenchmarkMissing as above."""

    def made_from(tasks: Sequence[Task], embedder: str) -> str:
        settings = [f"{k}={v}" for k, v in sorted(SETTINGS.items())]
        how = [*settings, f"neighbours={NEIGHBOURS}", version("umap-learn")]
        return digest(embedder, *how, *(part for t in tasks for part in (t.id, t.prompt)))

    def projected(tasks: list[Task]) -> pd.DataFrame:
        return project([t.id for t in tasks], Embedder().encode([t.prompt for t in tasks]))

    return _kept(results / "tasks" / f"{slug(benchmark)}.map.csv", benchmark, made_from, projected)


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
    mark = f"# made from {made_from(tasks, DEFAULT)}"
    if not (path.exists() and path.read_text("utf8").partition("\n")[0] == mark):
        write_text(path, f"{mark}\n{make(tasks).to_csv(lineterminator=chr(10))}")
    return topics.read_task_file(path)


def project(ids: Sequence[str], vectors: np.ndarray) -> pd.DataFrame:
    """Index task id; x, y in the plane (UMAP); `neighbours`: ids of the nearest by cosine, nearest first.

    `vectors` are unit vectors [tasks, d]. The same vectors give the same points on one machine.
    """
    if len(vectors) < 4:  # nothing to lay out: a row of points
        points = np.column_stack([np.arange(len(vectors)), np.zeros(len(vectors))])
    else:
        from umap import UMAP  # seconds, which those who find a stored map need not wait

        few = {"n_neighbors": min(SETTINGS["n_neighbors"], len(vectors) - 1)}
        start = {"init": "random"} if len(vectors) < FEWEST else {}
        points = np.asarray(UMAP(**SETTINGS | few | start).fit_transform(vectors), float)
    frame = pd.DataFrame(points, columns=["x", "y"], index=pd.Index(ids, name="task_id")).round(3)
    return frame.assign(neighbours=[" ".join(ids[j] for j in row) for row in nearest(vectors, "cosine")])


def nearest(points: np.ndarray, metric: str = "euclidean") -> np.ndarray:
    """Indices [tasks, min(NEIGHBOURS, tasks - 1)] of the nearest other points, nearest first."""
    count = min(NEIGHBOURS, len(points) - 1)
    if count < 1:
        return np.zeros((len(points), 0), int)
    return NearestNeighbors(n_neighbors=count, metric=metric).fit(points).kneighbors(return_distance=False)
