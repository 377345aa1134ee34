"""Do neighbouring tasks share their outcome (Appendix B)? A permutation test.

If solved tasks gather in regions of the map, the nearest tasks of a task have its outcome more often than
chance predicts.
"""

import math
from collections.abc import (
    Iterator,
    Sequence,
)
from typing import cast

import numpy as np
import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import chance
from pkg_lib.analysis.stats import ALPHA, percentile_interval
from pkg_lib.analysis.tables import (
    DASH,
    percent,
    probability,
)
from pkg_lib.papers.pkg.task_maps import (
    NEIGHBOURS,
    nearest_points,
)

PERMUTATIONS = 10_000
FEWEST = 3 * NEIGHBOURS  # Of fewer tasks, too many are neighbours of each.
SPACES = ("plane", "embedding")
COLUMNS = (
    "tasks",
    "same outcome, %",
    "by chance, %",
    "by chance, 95 % range",
    "p",
    "within topics, %",
    "p within topics",
)
NOTE = (
    f"Same outcome: share of the pairs of a task and one of its {NEIGHBOURS} nearest tasks that have "
    "the same outcome. Tasks are near in the plane of the map, or by cosine of their embeddings. By "
    f"chance: the same share in {PERMUTATIONS:,} random orders of the outcomes over all tasks. Within "
    "topics: in random orders over the tasks of each topic. p-values are one-sided and not corrected "
    f"for the number of rows. {DASH} not measured, all tasks have one outcome, or there are fewer "
    f"than {FEWEST} tasks."
)


def neighbour_agreement(
    verdicts: pd.DataFrame,
    points: pd.DataFrame,
    topic: pd.Series,
) -> pd.DataFrame:
    """Measure how often a task and its nearest tasks have the same outcome.

    Outcomes are permuted over all tasks, and within each topic. The second keeps the pass rate of every topic
    and asks whether the place says more than the topic.

    Args:
        verdicts: Verdicts [task, method].
        points: A map of `task_maps.task_map`.
        topic: Topic by task id.

    Returns:
        One row per method and space ("plane" or "embedding"): ``tasks``, ``share``, ``chance``, ``low``,
        ``high`` (95 % of the permutations) and ``p``; ``topic_chance`` and ``topic_p`` are of permutations
        within topics. NaN if nothing was measured, all tasks have one outcome, or there are fewer than
        FEWEST.
    """
    rows = {}
    for method in verdicts:
        known = verdicts[method].dropna().astype(bool)
        known = known[known.index.isin(points.index)]
        topics, _ = pd.factorize(topic.reindex(known.index), sort=True)
        for space in SPACES:
            pairs = neighbour_pairs(points, known.index.tolist(), space)
            rows[method, space] = _agreement(
                known.to_numpy(),
                pairs,
                topics,
            )
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame.index = pd.MultiIndex.from_tuples(rows, names=["method", "space"])
    return frame


def neighbour_pairs(
    points: pd.DataFrame,
    measured: Sequence[str],
    space: str,
) -> np.ndarray:
    """List the pairs of a task and one of its nearest tasks.

    Neighbours are those among all tasks of the benchmark. A pair with a task that was not measured is left
    out.

    Args:
        points: A map of `task_maps.task_map`.
        measured: Ids of the measured tasks.
        space: "plane" or "embedding".

    Returns:
        Places in `measured`, [pair, 2].
    """
    neighbours = points["neighbours"].str.split()
    if space == "plane":
        nearest = nearest_points(points[["x", "y"]].to_numpy())
        neighbours = pd.Series([list(points.index[row]) for row in nearest], points.index)
    place = {task: number for number, task in enumerate(measured)}
    pairs = []
    for task, near in neighbours.items():
        if task in place:
            pairs += [(place[task], place[other]) for other in near if other in place]
    return np.array(pairs, int).reshape(-1, 2)


def _agreement(
    outcomes: np.ndarray,
    pairs: np.ndarray,
    topics: np.ndarray,
) -> dict[str, float]:
    names = ("share", "chance", "low", "high", "p", "topic_chance", "topic_p")
    nothing = {"tasks": len(outcomes), **dict.fromkeys(names, math.nan)}
    if len(outcomes) < FEWEST or not len(pairs) or outcomes.all() or not outcomes.any():
        return nothing
    share = _same_outcome(outcomes, pairs)
    everything = np.zeros_like(topics)
    free = [_same_outcome(mixed, pairs) for mixed in _permutations(outcomes, everything)]
    within = [_same_outcome(mixed, pairs) for mixed in _permutations(outcomes, topics)]
    low, high = percentile_interval(np.array(free))
    return {
        "tasks": len(outcomes),
        "share": share,
        "chance": float(np.mean(free)),
        "low": low,
        "high": high,
        "p": _p_value(share, free),
        "topic_chance": float(np.mean(within)),
        "topic_p": _p_value(share, within),
    }


def _same_outcome(
    outcomes: np.ndarray,
    pairs: np.ndarray,
) -> float:
    """The share of pairs whose tasks have the same outcome."""
    first, second = pairs.T
    return float((outcomes[first] == outcomes[second]).mean())


def _permutations(
    outcomes: np.ndarray,
    groups: np.ndarray,
) -> Iterator[np.ndarray]:
    """Random orders of the outcomes; each group keeps its own."""
    rng = np.random.default_rng(0)
    by_group = np.argsort(groups, kind="stable")
    for _ in range(PERMUTATIONS):
        # Sorting by group and then by a random number shuffles the tasks of each group.
        shuffled = np.lexsort((rng.random(len(outcomes)), groups))
        mixed = np.empty_like(outcomes)
        mixed[by_group] = outcomes[shuffled]
        yield mixed


def _p_value(
    share: float,
    permuted: list[float],
) -> float:
    """One-sided p-value; the measured order counts as one of the permutations."""
    at_least = int((np.array(permuted) >= share - 1e-12).sum())
    return (1 + at_least) / (1 + PERMUTATIONS)


def neighbours_table(agreement: pd.DataFrame) -> ResultTable:
    """Show `neighbour_agreement`.

    Args:
        agreement: What it returns.

    Returns:
        One row per method and space.
    """
    rows = {}
    for key, row in agreement.iterrows():
        method, space = cast("tuple[str, str]", key)
        cells = [DASH] * len(COLUMNS)
        if not math.isnan(row["share"]):
            cells = [
                f"{row['tasks']:.0f}",
                percent(row["share"]),
                percent(row["chance"]),
                f"{percent(row['low'])} to {percent(row['high'])}",
                probability(row["p"]),
                percent(row["topic_chance"]),
                probability(row["topic_p"]),
            ]
        rows[f"{method}, {space}"] = cells
    title = "Do neighbouring tasks share their outcome?"
    return ResultTable.of(title, rows, COLUMNS, "method, space", NOTE)


def clustering_message(agreement: pd.DataFrame) -> str:
    """Say in how many tests solved tasks cluster.

    Args:
        agreement: What `neighbour_agreement` returns.

    Returns:
        A clause; "" if nothing was tested.
    """
    tested = agreement["p"].astype(float).dropna()
    if tested.empty:
        return ""
    clustered = int((tested < ALPHA).sum())
    if not clustered:
        return "Solved tasks are not shown to cluster"
    return f"Solved tasks cluster in {clustered} of {len(tested)} tests"


def neighbour_findings(agreement: pd.DataFrame) -> list[str]:
    """State the conclusion of all tests, and name those with a p below ALPHA.

    Args:
        agreement: What `neighbour_agreement` returns.

    Returns:
        One sentence; none if nothing was tested.
    """
    message = clustering_message(agreement)
    if not message:
        return []
    parts = []
    for key, row in agreement[agreement["p"].astype(float) < ALPHA].iterrows():
        method, space = cast("tuple[str, str]", key)
        shares = f"{percent(row['share'])} % of the nearest tasks share the outcome"
        by_chance = f"{percent(row['chance'])} % by chance"
        parts.append(f"with {method}, by the {space}, {shares}, {by_chance} ({chance(row['p'])})")
    tests = f"p < {ALPHA}, not corrected"
    if not parts:
        return [f"{message}: no test of {agreement['p'].count()} has {tests}."]
    return [f"{message} ({tests}): {'; '.join(parts)}."]
