"""Figures 7 to 12 (Appendix B): the tasks of a benchmark on a plane, by the embeddings of their prompts.

A map belongs to a benchmark and not to a model. It is stored, so that every figure has the same points, and
is made again when the prompts, the embedder, the settings or the version of UMAP change.
"""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from pkg_lib.analysis.stats import (
    BASELINE,
    not_measured,
    pass_at_1,
)
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import slug
from pkg_lib.core.types import (
    Task,
    digest,
)
from pkg_lib.papers.pkg import topics
from pkg_lib.papers.pkg.overlap import measured_methods
from pkg_lib.retrieval.embed import Embedder

NEIGHBOURS = 10  # Number of nearest tasks that are stored of each task.
SETTINGS = {
    "n_neighbors": 15,
    "min_dist": 0.1,
    "metric": "cosine",
    "random_state": 0,
    "n_jobs": 1,
}
FEWEST_TO_LAY_OUT = 4  # Fewer tasks are placed in a row.
# UMAP's spectral start needs more points than it has dimensions and neighbours.
FEWEST_FOR_SPECTRAL = 16


def task_map(
    benchmark: str,
    results: Path,
) -> pd.DataFrame:
    """Read the map of a benchmark; make and store it if it is missing or outdated.

    Args:
        benchmark: A benchmark by name.
        results: The results directory.

    Returns:
        What `lay_out` returns, for all tasks of the benchmark.

    Raises:
        BenchmarkMissingError: Neither the tasks nor a stored map are available.
    """
    path = results / "tasks" / f"{slug(benchmark)}.map.csv"
    return topics.kept(path, benchmark, _fingerprint, _made_map)


def _fingerprint(
    tasks: list[Task],
    embedder: str,
) -> str:
    """Identify everything that a map is made from."""
    settings = [f"{key}={value}" for key, value in sorted(SETTINGS.items())]
    texts = [text for task in tasks for text in (task.id, task.prompt)]
    return digest(
        embedder,
        *settings,
        f"neighbours={NEIGHBOURS}",
        version("umap-learn"),
        *texts,
    )


def _made_map(tasks: list[Task]) -> pd.DataFrame:
    vectors = Embedder().encode([task.prompt for task in tasks])
    return lay_out([task.id for task in tasks], vectors)


def lay_out(
    ids: Sequence[str],
    vectors: np.ndarray,
) -> pd.DataFrame:
    """Lay out tasks on a plane with UMAP.

    Args:
        ids: Ids of the tasks.
        vectors: Their unit vectors, [task, dimension].

    Returns:
        ``x`` and ``y`` by task id, and ``neighbours``: the ids of the nearest tasks by cosine, nearest
        first, separated by spaces.
    """
    count = len(vectors)
    places = np.column_stack([np.arange(count), np.zeros(count)])
    if count >= FEWEST_TO_LAY_OUT:
        # Imported here: it takes seconds, and a stored map does not need it.
        from umap import UMAP

        settings: dict[str, Any] = dict(SETTINGS)
        settings["n_neighbors"] = min(settings["n_neighbors"], count - 1)
        if count < FEWEST_FOR_SPECTRAL:
            settings["init"] = "random"
        places = np.asarray(UMAP(**settings).fit_transform(vectors), float)
    frame = pd.DataFrame(
        places,
        pd.Index(ids, name="task_id"),
        ["x", "y"],
    ).round(3)
    nearest = nearest_points(vectors, "cosine")
    frame["neighbours"] = [" ".join(ids[place] for place in row) for row in nearest]
    return frame


def nearest_points(
    points: np.ndarray,
    metric: str = "euclidean",
) -> np.ndarray:
    """Find the nearest other points of each point.

    Args:
        points: The points, [point, dimension].
        metric: A metric of scikit-learn.

    Returns:
        Their places, nearest first, [point, neighbour]. There are `NEIGHBOURS` neighbours, or all other
        points if there are fewer.
    """
    count = min(NEIGHBOURS, len(points) - 1)
    if count < 1:
        return np.zeros((len(points), 0), int)
    index = NearestNeighbors(n_neighbors=count, metric=metric).fit(points)
    return np.asarray(index.kneighbors(return_distance=False))


def map_methods(
    verdicts: pd.DataFrame,
    wanted: Sequence[str],
) -> tuple[list[str], list[str]]:
    """Choose the methods whose outcomes are drawn.

    Args:
        verdicts: Verdicts [task, method].
        wanted: The methods to draw.

    Returns:
        The measured ones of these methods. If one is not measured, the measured retrieval method with the
        highest pass@1 follows, and a sentence says so.

    Raises:
        UserError: A method is unknown.
    """
    for method in wanted:
        if method not in verdicts:
            raise unknown("method", method, verdicts, "with this corpus")
    absent = not_measured(wanted, verdicts)
    shown = [method for method in wanted if method not in absent]
    if not absent:
        return shown, []
    names = ", ".join(absent)
    candidates = measured_methods(verdicts)
    others = [method for method in candidates if method not in (BASELINE, *wanted)]
    if not others:
        return shown, [f"Not measured: {names}."]
    rates = {method: pass_at_1(verdicts[method]).value or 0.0 for method in others}
    best = max(others, key=rates.__getitem__)
    note = f"Not measured: {names}. {best}, the best measured retrieval method, is shown instead."
    return [*shown, best], [note]
