"""pass@1 by topic and column, its difference to None, and whether an effect depends on the topic."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from pkg_lib.analysis.stats import BASELINE, CONFIDENCE, holm, mcnemar, paired_score, pass_at_1, wilson
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg.topics import topics

SPARSE = ("BM25", "Func-BM25")  # the first that the corpus offers
ALL = "all tasks"
PERMUTATIONS = 10_000
AGAINST = ("n", "difference", "d_low", "d_high", "helped", "hurt", "p")


def columns_of(verdicts: pd.DataFrame, column: str) -> list[str]:
    """The figure's columns that the corpus offers: None, BM25 (else Func-BM25), `column` (a PKG column),
    Reranked.

    UserError for a column that the corpus does not offer.
    """
    if column not in verdicts:
        raise UserError(f"no column '{column}' with this corpus; choose from: {', '.join(verdicts)}")
    sparse = [c for c in SPARSE if c in verdicts][:1]
    return [c for c in dict.fromkeys([BASELINE, *sparse, column, "Reranked"]) if c in verdicts]


def by_topic(verdicts: pd.DataFrame, topic: pd.Series) -> pd.DataFrame:
    """Index (topic, column), all topics in their order and then ALL; fractions, NaN where not measured.

    passed, measured, total, rate, low, high (Wilson); and AGAINST None, on tasks measured in both, with
    Tango's interval and McNemar's p; p_holm is corrected over the topics of a column. `topic`: task id ->
    topic.
    """
    of_task = topic.reindex(verdicts.index)
    parts = {name: verdicts[of_task == name] for name in topics().index} | {ALL: verdicts}
    rows = {(name, column): _row(part, column) for name, part in parts.items() for column in verdicts}
    index = pd.MultiIndex.from_tuples(rows, names=["topic", "column"])
    rates = pd.DataFrame(list(rows.values()), index)
    inside = rates.index.get_level_values("topic") != ALL
    return rates.assign(p_holm=rates.loc[inside, "p"].groupby("column").transform(lambda p: holm(p.tolist())))


def _row(verdicts: pd.DataFrame, column: str) -> dict[str, float]:
    rate = pass_at_1(verdicts[column])
    low, high = wilson(rate.passed, rate.measured) or (math.nan, math.nan)
    row = {"passed": rate.passed, "measured": rate.measured, "total": rate.total}
    row |= {"rate": math.nan if rate.value is None else rate.value, "low": low, "high": high}
    paired = paired_score(verdicts[column], verdicts[BASELINE]) if column != BASELINE else None
    if paired is None:
        return row | dict.fromkeys(AGAINST, math.nan) | {"n": 0}
    values = (paired.n, paired.value, paired.low, paired.high, paired.helped, paired.hurt, paired.p)
    return row | dict(zip(AGAINST, values, strict=True))


def uneven(column: pd.Series, baseline: pd.Series, topic: pd.Series) -> tuple[float, float] | None:
    """Does the difference to the baseline depend on the topic? (spread, p) of a permutation test; None if
    undefined.

    The spread is the standard deviation over tasks of their topic's mean difference, as a fraction; p is the
    share of PERMUTATIONS random assignments of the same topic sizes with at least this spread, the observed
    one counted in.
    """
    both = column.notna() & baseline.notna()
    change = (column[both].astype(int) - baseline[both].astype(int)).to_numpy(float)
    codes = pd.factorize(topic.reindex(column.index)[both], sort=True)[0]
    if len(change) < 2 or len(set(codes)) < 2 or not change.any():
        return None
    sizes = np.bincount(codes)

    def variance(values: np.ndarray) -> float:
        return float((np.bincount(codes, values) ** 2 / sizes).sum() / len(values) - values.mean() ** 2)

    rng, seen = np.random.default_rng(0), variance(change)
    drawn = [variance(rng.permutation(change)) for _ in range(PERMUTATIONS)]
    p = (1 + sum(v >= seen - 1e-12 for v in drawn)) / (1 + PERMUTATIONS)
    return math.sqrt(max(seen, 0.0)), p


def share_above(
    column: pd.Series, others: pd.DataFrame, topic: pd.Series
) -> tuple[int, float, float, float] | None:
    """(tasks, share of the topics in which `column` solves more than each of `others`, low, high), or None.

    The 95 % bounds: at least the topics in which it is shown to solve more than each, at most all but those
    in which it is shown to solve fewer than one (McNemar, Holm over topics and others). A bootstrap would
    repeat the sign of small differences, which is a coin's. None without a task that all have.
    """
    known = column.notna() & others.notna().all(axis=1) & topic.notna()
    if not known.any():
        return None
    change = others[known].astype(int).rsub(column[known].astype(int), axis=0)
    helped, hurt = ((change * sign > 0).groupby(topic[known]).sum().to_numpy() for sign in (1, -1))
    p = [mcnemar(a, b) for a, b in zip(helped.ravel().tolist(), hurt.ravel().tolist(), strict=True)]
    shown = np.reshape(holm(p), helped.shape) < 1 - CONFIDENCE
    more, fewer = helped > hurt, helped < hurt
    low, high = (shown & more).all(axis=1).mean(), 1 - (shown & fewer).any(axis=1).mean()
    return int(known.sum()), float(more.all(axis=1).mean()), float(low), float(high)
