"""Solved and unsolved tasks on a map of the benchmark (Figures 7 to 12): UMAP of the prompts' embeddings.

The picture shows where tasks lie; `neighbourhoods` measures whether neighbours share their fate more often than chance has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import BASELINE, CONFIDENCE, not_measured, pass_at_1
from pkg_lib.analysis.tables import DASH, percent, probability, single
from pkg_lib.core.types import Task, UserError, digest

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


def nearest(points: np.ndarray, metric: str = "euclidean", count: int = NEIGHBOURS) -> np.ndarray:
    """Indices [tasks, min(count, tasks - 1)] of the nearest other points, nearest first."""
    count = min(count, len(points) - 1)
    if count < 1:
        return np.zeros((len(points), 0), int)
    return NearestNeighbors(n_neighbors=count, metric=metric).fit(points).kneighbors(return_distance=False)


def made_from(tasks: Sequence[Task], embedder: str) -> str:
    """Identifies what `project` was given, and how."""
    how = [f"{k}={v}" for k, v in sorted(SETTINGS.items())] + [
        f"neighbours={NEIGHBOURS}",
        version("umap-learn"),
    ]
    return digest(embedder, *how, *(part for t in tasks for part in (t.id, t.prompt)))


def shown(verdicts: pd.DataFrame, wanted: Sequence[str]) -> tuple[list[str], str]:
    """The columns to draw and a sentence on what takes the place of one that is not measured ("" for nothing).

    It is the measured retrieval column with the highest pass@1. UserError for a column that the corpus does not offer.
    """
    unknown = [c for c in wanted if c not in verdicts]
    if unknown:
        raise UserError(f"no column '{unknown[0]}' with this corpus; choose from: {', '.join(verdicts)}")
    absent = not_measured(wanted, verdicts)
    drawn = [c for c in wanted if c not in absent]
    rates = {c: pass_at_1(verdicts[c]).value for c in single(verdicts) if c not in (BASELINE, *wanted)}
    known = {c: r for c, r in rates.items() if r is not None}
    if not absent or not known:
        return drawn, f"Not measured: {', '.join(absent)}." if absent else ""
    best = max(known, key=lambda c: known[c])
    return [
        *drawn,
        best,
    ], f"Not measured: {', '.join(absent)}; shown instead is {best}, the best measured retrieval column."


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """How often a task's neighbours share its outcome: `share`, and by permuted outcomes its mean, interval and p."""

    tasks: int
    share: float
    chance: float
    low: float
    high: float
    p: float


def same_outcome(
    outcomes: np.ndarray, near: np.ndarray, groups: np.ndarray | None = None, seed: int = 0
) -> Neighbourhood | None:
    """The share of neighbours with the task's own outcome, against PERMUTATIONS random orders of the outcomes.

    `outcomes` bool [tasks]; `near` int [pairs, 2]: a task and one of its neighbours. With `groups` int [tasks] outcomes are
    permuted within groups only. One-sided p with the observed order counted in. None without pairs or with one outcome alone.
    """
    if not len(near) or outcomes.all() or not outcomes.any():
        return None
    groups = np.zeros(len(outcomes), int) if groups is None else groups
    rng, order = np.random.default_rng(seed), np.argsort(groups, kind="stable")
    drawn = np.empty(PERMUTATIONS)
    for i in range(PERMUTATIONS):
        # Sorting by group, then by a random number, orders the tasks of each group anew and moves none out of it.
        mixed = np.empty_like(outcomes)
        mixed[order] = outcomes[np.lexsort((rng.random(len(outcomes)), groups))]
        drawn[i] = _share(mixed, near)
    share, tail = _share(outcomes, near), (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    p = (1 + int((drawn >= share - 1e-12).sum())) / (1 + PERMUTATIONS)
    return Neighbourhood(len(outcomes), share, float(drawn.mean()), float(low), float(high), p)


def _share(outcomes: np.ndarray, near: np.ndarray) -> float:
    return float((outcomes[near[:, 0]] == outcomes[near[:, 1]]).mean())


def neighbour_pairs(points: pd.DataFrame, measured: Sequence[str], space: str) -> np.ndarray:
    """Pairs [n, 2] of positions in `measured`: a task and one of its NEIGHBOURS in the "embedding" or the "plane".

    Neighbours are those among all tasks of the benchmark; one that is not measured is left out.
    """
    if space == "plane":
        near = [[points.index[j] for j in row] for row in nearest(points[["x", "y"]].to_numpy())]
    else:
        near = [str(text).split() for text in points["neighbours"]]
    place = {task: i for i, task in enumerate(measured)}
    pairs = [
        (place[a], place[b])
        for a, row in zip(points.index, near, strict=True)
        if a in place
        for b in row
        if b in place
    ]
    return np.array(pairs, int).reshape(-1, 2)


Found = Mapping[tuple[str, str], tuple[Neighbourhood | None, Neighbourhood | None]]


def neighbourhoods(verdicts: pd.DataFrame, points: pd.DataFrame, topic: pd.Series) -> Found:
    """(column, space) -> `same_outcome` over all tasks, and with outcomes permuted within topics."""
    found = {}
    for column in verdicts:
        known = verdicts[column].dropna().astype(bool)
        known = known[known.index.isin(points.index)]
        groups = pd.factorize(topic.reindex(known.index), sort=True)[0]
        for space in ("plane", "embedding"):
            near, outcomes = neighbour_pairs(points, list(known.index), space), known.to_numpy()
            found[str(column), space] = (same_outcome(outcomes, near), same_outcome(outcomes, near, groups))
    return found


def neighbour_grid(found: Found) -> Grid:
    """`neighbourhoods` as text for reading."""
    names = [
        "tasks",
        "same outcome, %",
        "by chance, %",
        "95 % of permutations",
        "p",
        "within topics, %",
        "p within topics",
    ]
    rows = {f"{column}, {space}": _neighbour_row(*pair) for (column, space), pair in found.items()}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=names).rename_axis("column, space")
    note = (
        f"Of a task's {NEIGHBOURS} nearest tasks, in the plane of the map or by cosine of the embeddings, the share with the "
        f"same outcome. By chance: {PERMUTATIONS:,} random orders of the outcomes over all tasks; within topics: over the tasks "
        "of each topic. p is one-sided, without correction for the number of rows. "
        f"{DASH} not measured, or all tasks have one outcome."
    )
    return Grid("Do neighbours share their fate?", frame, (note,))


def _neighbour_row(free: Neighbourhood | None, within: Neighbourhood | None) -> tuple[str, ...]:
    if free is None or within is None:
        return (DASH,) * 7
    spread = f"{percent(free.low)} to {percent(free.high)}"
    chance = (
        percent(free.chance),
        spread,
        probability(free.p),
        percent(within.chance),
        probability(within.p),
    )
    return (str(free.tasks), percent(free.share), *chance)


def findings(found: Found) -> list[str]:
    """What the neighbourhoods say, one sentence a column and space."""
    said = []
    for (column, space), (free, within) in found.items():
        if free is None or within is None:
            said.append(
                f"{column}: neighbours in the {space} are not measured (too few tasks, or one outcome alone)."
            )
            continue
        said.append(
            f"{column}: in the {space} {percent(free.share)} % of a task's nearest tasks share its outcome, "
            f"{percent(free.chance)} % by chance ({_verdict(free)}), {percent(within.chance)} % by chance when each topic "
            f"keeps its rate ({_verdict(within)})."
        )
    return said


def _verdict(found: Neighbourhood) -> str:
    p = probability(found.p)
    what = "beyond chance" if found.p < 1 - CONFIDENCE else "not beyond chance"
    return f"{what}, p {p if p.startswith('<') else '= ' + p}"
