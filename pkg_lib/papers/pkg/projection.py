"""Solved and unsolved tasks on a map of the benchmark (Figures 7 to 12): UMAP of the prompts' embeddings.

The picture shows where tasks lie; `neighbourhoods` measures whether neighbours share their fate beyond chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from pkg_lib.analysis.stats import CONFIDENCE
from pkg_lib.core.types import Task, digest

NEIGHBOURS = 10  # of a task, for the measurement
SETTINGS = {"n_neighbors": 15, "min_dist": 0.1, "metric": "cosine", "random_state": 0, "n_jobs": 1}
FEWEST = 16  # points; UMAP's spectral start needs more than its dimensions and its neighbours
PERMUTATIONS = 10_000


def project(ids: Sequence[str], vectors: np.ndarray) -> pd.DataFrame:
    """Index task id; x, y in the plane, and `neighbours`: the ids of the NEIGHBOURS nearest by cosine, nearest first.

    `vectors` are float32 unit vectors [tasks, d]. The same vectors give the same points on one machine.
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


class Neighbourhood(NamedTuple):
    """How often a task's neighbours share its outcome: `share`, and by permuted outcomes its mean, interval and p."""

    tasks: int
    share: float
    chance: float
    low: float
    high: float
    p: float


def same_outcome(
    outcomes: np.ndarray, near: np.ndarray, groups: np.ndarray | None = None
) -> Neighbourhood | None:
    """The share of neighbours with the task's own outcome, against PERMUTATIONS random orders of the outcomes.

    `outcomes` bool [tasks]; `near` int [pairs, 2]: a task and one of its neighbours. With `groups` int [tasks] outcomes
    are permuted within groups only. One-sided p with the observed order counted in. None without pairs or with one
    outcome alone.
    """
    if not len(near) or outcomes.all() or not outcomes.any():
        return None

    def share_of(given: np.ndarray) -> float:
        return float((given[near[:, 0]] == given[near[:, 1]]).mean())

    groups = np.zeros(len(outcomes), int) if groups is None else groups
    rng, order = np.random.default_rng(0), np.argsort(groups, kind="stable")
    drawn = np.empty(PERMUTATIONS)
    for i in range(PERMUTATIONS):
        # Sorting by group, then by a random number, orders the tasks of each group anew and moves none out of it.
        mixed = np.empty_like(outcomes)
        mixed[order] = outcomes[np.lexsort((rng.random(len(outcomes)), groups))]
        drawn[i] = share_of(mixed)
    share, tail = share_of(outcomes), (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    p = (1 + int((drawn >= share - 1e-12).sum())) / (1 + PERMUTATIONS)
    return Neighbourhood(len(outcomes), share, float(drawn.mean()), float(low), float(high), p)


def neighbour_pairs(points: pd.DataFrame, measured: Sequence[str], space: str) -> np.ndarray:
    """Pairs [n, 2] of positions in `measured`: a task and one of its NEIGHBOURS in the "embedding" or the "plane".

    Neighbours are those among all tasks of the benchmark; one that is not measured is left out.
    """
    if space == "plane":
        near = [[points.index[j] for j in row] for row in nearest(points[["x", "y"]].to_numpy())]
    else:
        near = [str(text).split() for text in points["neighbours"]]
    place = {task: i for i, task in enumerate(measured)}
    pairs = [(a, b) for a, row in zip(points.index, near, strict=True) for b in row]
    known = [(place[a], place[b]) for a, b in pairs if a in place and b in place]
    return np.array(known, int).reshape(-1, 2)


def neighbourhoods(
    verdicts: pd.DataFrame, points: pd.DataFrame, topic: pd.Series
) -> dict[tuple[str, str], tuple[Neighbourhood, Neighbourhood] | None]:
    """(column, space) -> `same_outcome` over all tasks, and with outcomes permuted within topics; None as there."""
    shares = {}
    for column in verdicts:
        known = verdicts[column].dropna().astype(bool)
        known = known[known.index.isin(points.index)]
        groups = pd.factorize(topic.reindex(known.index), sort=True)[0]
        for space in ("plane", "embedding"):
            near, outcomes = neighbour_pairs(points, list(known.index), space), known.to_numpy()
            free, within = same_outcome(outcomes, near), same_outcome(outcomes, near, groups)
            shares[str(column), space] = (free, within) if free and within else None
    return shares
