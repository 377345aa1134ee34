"""pass@1 by topic and column, its difference to None, and what the paper says of the same (Section 6.2, Figures 3 to 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import (
    ALPHA,
    BASELINE,
    CONFIDENCE,
    helped_and_hurt,
    holm,
    mcnemar,
    not_measured,
    paired_score,
    pass_at_1,
    wilson,
)
from pkg_lib.analysis.tables import DASH, TITLES, interval, percent, points, probability
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg.replays import replayed, verdict_frame
from pkg_lib.papers.pkg.topics import topics

RERANKED = "Reranked"
SPARSE = ("BM25", "Func-BM25")  # the first that the corpus offers
ALL = "all tasks"
PERMUTATIONS = 10_000
FEW = 10  # tasks; a topic with fewer is not named as highest or lowest
# What the paper's text says of its figures; it prints no number.
PAPER = "The paper (MBPP, larger models)"
PUBLISHED_ABOVE_NONE = 7
PUBLISHED_BELOW_NONE = ("String Manipulation and Text Processing", "Data Structures")
PUBLISHED_RERANKED_BELOW = ("Mathematics and Number Theory", "Optimization Techniques", "Algorithms")


def columns_of(verdicts: pd.DataFrame, column: str) -> list[str]:
    """The figure's columns that the corpus offers: None, BM25 (else Func-BM25), `column` (a PKG column), Reranked.

    UserError for a column that the corpus does not offer.
    """
    if column not in verdicts:
        raise UserError(f"no column '{column}' with this corpus; choose from: {', '.join(verdicts)}")
    sparse = [c for c in SPARSE if c in verdicts][:1]
    return [c for c in dict.fromkeys([BASELINE, *sparse, column, RERANKED]) if c in verdicts]


def common(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The tasks measured in every measured column, so that their rates can be set beside each other."""
    return verdicts[verdicts.loc[:, verdicts.notna().any()].notna().all(axis=1)]


def by_topic(verdicts: pd.DataFrame, topic: pd.Series) -> pd.DataFrame:
    """Index (topic, column), all topics in their order and then ALL: passed, measured, total, rate, low, high (Wilson), and
    against None on tasks measured in both: n, difference, d_low, d_high (Tango's score interval), helped, hurt, p (McNemar) and
    p_holm, corrected over the topics of a column. Fractions; NaN where not measured. `topic`: task id -> topic.
    """
    mine = topic.reindex(verdicts.index)
    parts = {name: verdicts[mine == name] for name in topics().index} | {ALL: verdicts}
    rows = {(name, column): _row(frame, column) for name, frame in parts.items() for column in verdicts}
    found = pd.DataFrame.from_dict(rows, orient="index")
    found.index = pd.MultiIndex.from_tuples(rows, names=["topic", "column"])
    inside = found.index.get_level_values("topic") != ALL
    found["p_holm"] = np.nan
    for column in verdicts:
        here = inside & (found.index.get_level_values("column") == column)
        found.loc[here, "p_holm"] = holm(found.loc[here, "p"].tolist())
    return found


def _row(verdicts: pd.DataFrame, column: str) -> dict[str, float]:
    rate = pass_at_1(verdicts[column])
    low, high = wilson(rate.passed, rate.measured) or (math.nan, math.nan)
    value = math.nan if rate.value is None else rate.value
    row = {
        "passed": rate.passed,
        "measured": rate.measured,
        "total": rate.total,
        "rate": value,
        "low": low,
        "high": high,
    }
    paired = paired_score(verdicts[column], verdicts[BASELINE]) if column != BASELINE else None
    if paired is None:
        return (
            row | {"n": 0} | dict.fromkeys(("difference", "d_low", "d_high", "helped", "hurt", "p"), math.nan)
        )
    helped, hurt = map(len, helped_and_hurt(verdicts[column], verdicts[BASELINE]))
    against = {"n": paired.n, "difference": paired.value, "d_low": paired.low, "d_high": paired.high}
    return row | against | {"helped": helped, "hurt": hurt, "p": mcnemar(helped, hurt)}


def grid(found: pd.DataFrame, benchmark: str) -> Grid:
    """Topic x (tasks; each column's pass@1; each column's difference to None), all with 95 % intervals."""
    order, columns = _names(found)
    cells: dict[str, dict[str, str]] = {
        "tasks": {t: str(int(found.at[(t, BASELINE), "total"])) for t in order}
    }
    for c in columns:
        cells[c] = {t: _rate_text(found.loc[(t, c)]) for t in order}
    for c in columns[1:]:
        cells[f"{c} against None"] = {t: _difference_text(found.loc[(t, c)]) for t in order}
    frame = pd.DataFrame(cells).loc[order].rename_axis("topic")
    notes = (
        "pass@1 in percent with its 95 % Wilson interval; n where fewer tasks were measured. Against None: points on the tasks "
        "measured in both, with Tango's 95 % score interval for paired proportions (1998), which has a width also where no task "
        f"changed. {DASH} not measured.",
        "The tenth topic is ours: the paper names nine in its text and prints no number, so there is no published column.",
    )
    return Grid(f"pass@1 by topic on {TITLES.get(benchmark, benchmark)}", frame, notes)


def _names(found: pd.DataFrame) -> tuple[list[str], list[str]]:
    return list(found.index.unique("topic")), list(found.index.unique("column"))


def _rate_text(row: pd.Series) -> str:
    if not row["measured"]:
        return DASH
    partial = f", n={row['measured']:.0f}" if row["measured"] < row["total"] else ""
    return f"{percent(row['rate'])} ({percent(row['low'])} to {percent(row['high'])}{partial})"


def _difference_text(row: pd.Series) -> str:
    return f"{points(row['difference'])} ({interval(row['d_low'], row['d_high'])})" if row["n"] else DASH


def uneven(
    column: pd.Series, baseline: pd.Series, topic: pd.Series, seed: int = 0
) -> tuple[float, float] | None:
    """Does the difference to the baseline depend on the topic? (spread, p) of a permutation test; None where undefined.

    The spread is the standard deviation over tasks of their topic's mean difference, as a fraction; p is the share of
    PERMUTATIONS random assignments of the same topic sizes with at least this spread, the observed one counted in.
    """
    both = column.notna() & baseline.notna()
    change = (column[both].astype(int) - baseline[both].astype(int)).to_numpy(float)
    codes = pd.factorize(topic.reindex(column.index)[both], sort=True)[0]
    if len(change) < 2 or len(set(codes)) < 2 or not change.any():
        return None
    sizes = np.bincount(codes)

    def variance(values: np.ndarray) -> float:
        return float((np.bincount(codes, values) ** 2 / sizes).sum() / len(values) - values.mean() ** 2)

    rng, seen = np.random.default_rng(seed), variance(change)
    drawn = [variance(rng.permutation(change)) for _ in range(PERMUTATIONS)]
    p = (1 + sum(v >= seen - 1e-12 for v in drawn)) / (1 + PERMUTATIONS)
    return math.sqrt(max(seen, 0.0)), p


def share_above(
    column: pd.Series, others: pd.DataFrame, topic: pd.Series
) -> tuple[int, float, float, float] | None:
    """(tasks, share of the topics in which `column` solves more than each of `others`, low, high); None without common tasks.

    The bounds hold the share among all such tasks with 95 %: at least the topics in which it is shown to solve more than each,
    at most all but those in which it is shown to solve fewer than one (McNemar, Holm over topics and others). A bootstrap of
    the share would not hold it: where a topic's difference is small, its sign in the sample is a coin's, and resampled tasks
    repeat that sign.
    """
    known = column.notna() & others.notna().all(axis=1) & topic.notna()
    if not known.any():
        return None
    change = others[known].astype(int).rsub(column[known].astype(int), axis=0).groupby(topic[known])
    helped, hurt = (
        change.agg(lambda c: int((c > 0).sum())).to_numpy(),
        change.agg(lambda c: int((c < 0).sum())).to_numpy(),
    )
    p = [mcnemar(a, b) for a, b in zip(helped.ravel(), hurt.ravel(), strict=True)]
    shown = np.reshape(holm(p), helped.shape) < 1 - CONFIDENCE
    more, fewer = helped > hurt, helped < hurt
    low, high = (shown & more).all(axis=1).mean(), 1 - (shown & fewer).any(axis=1).mean()
    return int(known.sum()), float(more.all(axis=1).mean()), float(low), float(high)


def findings(found: pd.DataFrame, verdicts: pd.DataFrame, topic: pd.Series, column: str) -> list[str]:
    """What the rates by topic say, and what the paper says of the same; `column` is the PKG column."""
    order, columns = _names(found)
    absent = not_measured(columns, verdicts)
    said = [f"Not measured: {', '.join(absent)}."] if absent else []
    if BASELINE in absent:
        return [*said, "Without None there is nothing to compare a column with."]
    known = [c for c in columns if c not in absent]
    said = [_spread(found, order), *said]
    for c in known[1:]:
        said += [_against_none(found, order, c), _evenness(verdicts, topic, c)]
    return [*said, *_beside_the_paper(found, order, known, column)]


def _spread(found: pd.DataFrame, order: Sequence[str]) -> str:
    rows = found.xs(BASELINE, level="column").loc[[t for t in order if t != ALL]]
    enough = rows["measured"] >= FEW
    rows = rows[enough if enough.any() else rows["measured"] > 0]
    best, worst = (str(rows["rate"].idxmax()), str(rows["rate"].idxmin()))
    parts = (
        f"{t} ({percent(rows.at[t, 'rate'])} %, {rows.at[t, 'measured']:.0f} tasks)" for t in (best, worst)
    )
    which = f"topics of at least {FEW} tasks" if enough.any() else "topics"
    return f"Without retrieval the {which} go from {' down to '.join(parts)}."


def _against_none(found: pd.DataFrame, order: Sequence[str], column: str) -> str:
    rows = found.xs(column, level="column").loc[[t for t in order if t != ALL]]
    rows = rows[rows["n"] > 0]
    above, below = int((rows["difference"] > 0).sum()), int((rows["difference"] < 0).sum())
    clear = rows[rows["p_holm"] < ALPHA]
    named = [
        f"{t} {points(r['difference'])} points (corrected p {_p(r['p_holm'])})" for t, r in clear.iterrows()
    ]
    beyond = f"beyond chance in {'; '.join(named)}" if named else "in no topic beyond chance"
    return (
        f"{column} is above None in {above} and below in {below} of {len(rows)} measured topics, {beyond} "
        "(McNemar, corrected for the topics)."
    )


def _p(value: float) -> str:
    text = probability(value)
    return text if text.startswith("<") else f"= {text}"


def _evenness(verdicts: pd.DataFrame, topic: pd.Series, column: str) -> str:
    tested = uneven(verdicts[column], verdicts[BASELINE], topic)
    if tested is None:
        return f"{column}: whether its effect depends on the topic cannot be tested here."
    spread, p = tested
    depends = "depends on the topic beyond chance" if p < ALPHA else "is not shown to depend on the topic"
    return (
        f"The effect of {column} {depends}: the topics' differences spread by {percent(spread)} points (standard deviation), "
        f"and random topics of the same sizes spread as much with p {_p(p)}."
    )


def _beside_the_paper(
    found: pd.DataFrame, order: Sequence[str], known: Sequence[str], column: str
) -> list[str]:
    """Ours beside the statements of Section 6.2, each over the topics that both columns have."""
    said, sparse = [], next((c for c in SPARSE if c in known), None)
    if column not in known or column == BASELINE:
        return []
    named = [t for t in order if t != ALL]
    if sparse:
        above = _counts(found, named, column, sparse)
        said.append(
            f"{PAPER} has PKG above BM25 in all ten topics; here {column} is above {sparse} in {above}."
        )
    above = f"{PAPER} has PKG above None in {PUBLISHED_ABOVE_NONE} of ten topics; here {column} is in"
    said.append(f"{above} {_counts(found, named, column, BASELINE)}.")
    gaps = _gaps(found, PUBLISHED_BELOW_NONE, column, BASELINE)
    said.append(f"{PAPER} has PKG below None in two topics; {column} minus None here, in points: {gaps}.")
    if RERANKED in known:
        gaps = _gaps(found, PUBLISHED_RERANKED_BELOW, RERANKED, column)
        said.append(
            f"{PAPER} has Reranked below PKG in three topics; Reranked minus {column} here, in points: {gaps}."
        )
    return said


def _gaps(found: pd.DataFrame, named: Sequence[str], column: str, other: str) -> str:
    return "; ".join(f"{t} {points(_gap(found, t, column, other))}" for t in named)


def _gap(found: pd.DataFrame, topic: str, column: str, other: str) -> float:
    return float(found.at[(topic, column), "rate"] - found.at[(topic, other), "rate"])


def _counts(found: pd.DataFrame, order: Sequence[str], column: str, other: str) -> str:
    """In how many topics the column's rate is higher, of those that both have."""
    gaps = [g for g in (_gap(found, t, column, other) for t in order) if not math.isnan(g)]
    return f"{sum(g > 0 for g in gaps)} of {len(gaps)}"


def replayed_rates(
    results: Path, names: str, benchmark: str, topic: pd.Series, column: str, limit: int | None = None
) -> dict[str, pd.DataFrame]:
    """replayed model -> `by_topic` of its samples' verdicts, for models joined by "+" that have None and `column`."""
    frames = {n: verdict_frame(replayed(results, n, benchmark), limit) for n in names.split("+") if n}
    whole = {n: f for n, f in frames.items() if column in f and not not_measured([BASELINE, column], f)}
    return {n: by_topic(f[columns_of(f, column)], topic) for n, f in whole.items()}


def replay_grid(found: Mapping[str, pd.DataFrame], benchmark: str) -> Grid:
    """Topic x, for each replayed model, pass@1 of None and the difference of each other column in points."""
    cells = {}
    for name, rates in found.items():
        order, columns = _names(rates)
        cells[name, BASELINE] = {t: percent(rates.at[(t, BASELINE), "rate"]) for t in order}
        for c in columns[1:]:
            cells[name, f"{c} against None"] = {t: points(rates.at[(t, c), "difference"]) for t in order}
    frame = pd.DataFrame(cells or {"": dict.fromkeys([*topics().index, ALL], DASH)})
    title = f"Published samples of closed models on {TITLES.get(benchmark, benchmark)}, executed here"
    return Grid(
        title,
        frame.loc[[*topics().index, ALL]].rename_axis("topic"),
        (f"Points of pass@1. {DASH} not measured.",),
    )


def replay_findings(found: Mapping[str, pd.DataFrame], column: str) -> list[str]:
    """The statements of Section 6.2 for each replayed model, and where a column differs from None beyond chance."""
    said = []
    for name, rates in found.items():
        order, columns = _names(rates)
        sentences = [_against_none(rates, order, column), *_beside_the_paper(rates, order, columns, column)]
        said += [f"{name}: {sentence}" for sentence in sentences]
    return said
