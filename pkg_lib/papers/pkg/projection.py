"""The map of a benchmark's tasks (Figures 7 to 12): UMAP of the prompts' embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from pkg_lib.core.types import Task, digest

NEIGHBOURS = 10  # of a task
SETTINGS = {"n_neighbors": 15, "min_dist": 0.1, "metric": "cosine", "random_state": 0, "n_jobs": 1}
FEWEST = 16  # points; UMAP's spectral start needs more than its dimensions and its neighbours


def project(ids: Sequence[str], vectors: np.ndarray) -> pd.DataFrame:
    """Index task id; x, y in the plane; `neighbours`: ids of the NEIGHBOURS nearest by cosine, nearest first.

    `vectors` are unit vectors [tasks, d]. The same vectors give the same points on one machine.
    """
    points = pd.DataFrame(_umap(vectors), columns=["x", "y"], index=pd.Index(ids, name="task_id")).round(3)
    return points.assign(neighbours=[" ".join(ids[j] for j in row) for row in nearest(vectors, "cosine")])


def _umap(vectors: np.ndarray) -> np.ndarray:
    if len(vectors) < 4:  # nothing to lay out: a row of points
        return np.column_stack([np.arange(len(vectors)), np.zeros(len(vectors))])
    from umap import UMAP  # seconds, which those who find a stored map need not wait

    few = {"n_neighbors": min(SETTINGS["n_neighbors"], len(vectors) - 1)}
    start = {"init": "random"} if len(vectors) < FEWEST else {}
    return np.asarray(UMAP(**SETTINGS | few | start).fit_transform(vectors), float)


def nearest(points: np.ndarray, metric: str = "euclidean") -> np.ndarray:
    """Indices [tasks, min(NEIGHBOURS, tasks - 1)] of the nearest other points, nearest first."""
    count = min(NEIGHBOURS, len(points) - 1)
    if count < 1:
        return np.zeros((len(points), 0), int)
    return NearestNeighbors(n_neighbors=count, metric=metric).fit(points).kneighbors(return_distance=False)


def made_from(tasks: Sequence[Task], embedder: str) -> str:
    """Identifies what `project` was given, and how."""
    settings = [f"{k}={v}" for k, v in sorted(SETTINGS.items())]
    how = [*settings, f"neighbours={NEIGHBOURS}", version("umap-learn")]
    return digest(embedder, *how, *(part for t in tasks for part in (t.id, t.prompt)))
