"""The claim ledger: every checkable claim of the PKG paper (reference/claims.toml), a verdict by one rule."""

import math
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from pkg_lib.analysis.stats import ALPHA, holm
from pkg_lib.analysis.tables import HERE
from pkg_lib.papers.pkg.pass_tables import printed

POWER = 0.80
MARGIN = 0.05  # "about": five points to either side
FACTOR = 2.0  # "scale": half to twice the published number
# The first pair is reserved for the same kind of model and the same work (`Evidence.repeats_paper`),
# and for targets that the paper names (not `Evidence.ours`). Other evidence says for what a claim
# holds: for the models that were run, or for this implementation where no model takes part.
REPRODUCED, CONTRADICTED = "reproduced", "contradicted"
HOLDS, FAILS = "holds for these models", "does not hold for these models"
HOLDS_BUILT, FAILS_BUILT = "holds for this implementation", "does not hold for this implementation"
INCONCLUSIVE, MIXED, NOT_ATTEMPTED = "inconclusive", "mixed", "not attempted"
SUPPORTING, OPPOSING = (HOLDS, HOLDS_BUILT, REPRODUCED), (FAILS, FAILS_BUILT, CONTRADICTED)
OVERALL = (
    REPRODUCED,
    CONTRADICTED,
    HOLDS,
    FAILS,
    HOLDS_BUILT,
    FAILS_BUILT,
    INCONCLUSIVE,
    MIXED,
    NOT_ATTEMPTED,
)
DIRECTED = ("above", "below")
RUNS, REPLAYED, BUILT, PRINTED = (
    "runs",
    "replayed",
    "built",
    "printed",
)  # where a measurement is from


@dataclass(frozen=True, slots=True)
class Claim:
    """One entry of claims.toml; its header explains the fields."""

    id: str
    topic: str
    version: str
    place: str
    says: str
    test: str
    needs: str
    args: dict[str, Any] = field(default_factory=dict)
    cells: list[list[Any]] = field(default_factory=list)

    @property
    def relation(self) -> str:
        return str(self.args.get("relation", ""))

    @property
    def columns(self) -> list[str]:
        """The columns that it compares: its `column`, and `against` which it stands, one or several."""
        against = self.args.get("against", [])
        others = [against] if isinstance(against, str) else against
        return [*([self.args["column"]] if "column" in self.args else []), *others]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measurement in `unit`: "points" and "percent" are fractions; "tokens"; "" a plain number."""

    subject: str = ""  # the model, or whose numbers
    where: str = ""  # benchmark and corpus, or the reading of a sentence
    n: int = 0
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan  # two-sided, exact McNemar or paired t; only for "above" and "below"
    unit: str = "points"
    exact: bool = False  # recomputed, with no task drawn, so without interval
    family: str = ""  # the p values of one family are corrected together,
    pair: str = ""  # a pair once
    discordant: float = math.nan  # the share of tasks in which the two differ
    target: float = (
        math.nan
    )  # what the claim names, or what its word (few, most) is taken for here (`ours`)
    spread: tuple[float, float] = (
        math.nan,
        math.nan,
    )  # smallest and largest effect over the paper's models
    p_corrected: float = math.nan
    smallest: float = (
        math.nan
    )  # what this n could have shown: `detectable`, or half of the interval
    verdict: str = ""
    source: str = RUNS
    ours: bool = False
    repeats_paper: bool = (
        False  # one of the paper's models and the paper's own work, or its printed numbers
    )


@dataclass(frozen=True, slots=True)
class Assessed:
    """A claim with what was measured for it."""

    claim: Claim
    evidence: tuple[Evidence, ...]

    @property
    def verdict(self) -> str:
        """The verdict over all measurements.

        One opposing measurement decides a claim about every case ("all"), and one supporting measurement
        decides a claim about some cases ("some"). A claim that cases differ ("differs") needs one
        measurement of each sign.
        """
        verdicts = {e.verdict for e in self.evidence} - {NOT_ATTEMPTED}
        opposed = verdicts.intersection(OPPOSING)
        supported = verdicts.intersection(SUPPORTING)
        if self.claim.args.get("differs") and supported | opposed:
            return weakest(supported) if supported and opposed else INCONCLUSIVE
        if self.claim.args.get("some") and verdicts:
            if supported:
                return weakest(supported)
            return weakest(opposed) if verdicts == opposed else INCONCLUSIVE
        return weakest(opposed) if self.claim.args.get("all") and opposed else overall(verdicts)


def load() -> list[Claim]:
    """The claims in the order of their file."""
    text = (HERE / "reference" / "claims.toml").read_text("utf8")
    return [Claim(**row) for row in tomllib.loads(text)["claim"]]


@cache
def table(number: str, version: str = "second") -> pd.DataFrame:
    """A published table, row x column, in printed order; NaN where it has no such cell."""
    wide = printed(number).astype(float)
    for r, c, v in first_version(number) if version == "first" else ():
        wide.loc[r, c] = v
    return wide


def first_version(number: str) -> list[tuple[str, str, float]]:
    """(row, column, value) of the cells of a table that stand only so in the first version."""
    cells = pd.read_csv(
        HERE / "reference" / "pkg_first_version.csv", dtype={"table": str, "value": float}
    )
    return list(
        cells.loc[cells["table"] == number, ["row", "column", "value"]].itertuples(False, None)
    )


def allowed(relation: str, target: float) -> tuple[float, float]:
    """The numbers that bear a claim out, the same for every claim."""
    half_digit = (
        0.5 * 10.0 ** -len(f"{target:.10g}".partition(".")[2]) + 1e-9
    )  # 0.5 for 14, 0.05 for 14.2
    return {
        "above": (0.0, math.inf),
        "below": (-math.inf, 0.0),
        "about": (target - MARGIN, target + MARGIN),
        "at most": (-math.inf, target),
        "at least": (target, math.inf),
        "positive": (math.ulp(0.0), math.inf),
        "equal": (target - half_digit, target + half_digit),
        "scale": (target / FACTOR, target * FACTOR),
    }[relation]


def decide(relation: str, e: Evidence) -> str:
    """Return the verdict of one measurement; a claim and its opposite need the same.

    The corrected p and the sign decide a direction, the 95 % interval decides a size, and a recomputed number
    decides by itself.

    Args:
        relation: How the claim relates a number to its target, as in `allowed`.
        e: The measurement.

    Returns:
        One of OVERALL, in the words for what was measured.
    """
    lowest, highest = allowed(relation, e.target)
    if not e.n or math.isnan(e.effect):
        return NOT_ATTEMPTED
    if relation in DIRECTED and not (e.p_corrected < ALPHA and e.effect):
        return INCONCLUSIVE
    supporting, opposing = words_for(e)
    low, high = (e.effect, e.effect) if e.exact or relation in DIRECTED else (e.low, e.high)
    if lowest <= low and high <= highest:
        return supporting
    return opposing if high < lowest or low > highest else INCONCLUSIVE


def words_for(e: Evidence) -> tuple[str, str]:
    """Return the verdicts that a measurement can support a claim or oppose it with.

    A measurement that repeats the paper's work reproduces or contradicts it only if the paper itself
    names the target. A target that this ledger chose for a word such as "few" is not the paper's.

    Args:
        e: The measurement.

    Returns:
        The supporting verdict and the opposing one.
    """
    if e.repeats_paper and not e.ours:
        return REPRODUCED, CONTRADICTED
    return (HOLDS_BUILT, FAILS_BUILT) if e.source == BUILT else (HOLDS, FAILS)


def overall(verdicts: Iterable[str]) -> str:
    """Return one verdict for several measurements.

    Args:
        verdicts: Their verdicts.

    Returns:
        The common verdict if all agree, else "mixed"; "not attempted" without a measurement. Where only some
        measurements repeat the paper's work, the words for the others are kept.
    """
    known = {v for v in verdicts if v != NOT_ATTEMPTED}
    if not known:
        return NOT_ATTEMPTED
    agree = len(known) == 1 or known <= {*SUPPORTING} or known <= {*OPPOSING}
    return weakest(known) if agree else MIXED


def weakest(verdicts: Collection[str]) -> str:
    """Return the verdict that claims least among several that agree.

    Args:
        verdicts: All supporting, all opposing, or all the same.

    Returns:
        One of them; "reproduced" or "contradicted" only if there is no other.
    """
    ranked = [v for v in (*SUPPORTING, *OPPOSING) if v in verdicts]
    return ranked[0] if ranked else next(iter(verdicts))


def detectable(n: int, discordant: float, alpha: float = ALPHA) -> float:
    """The smallest difference that McNemar's test on `n` tasks shows with POWER; NaN where none could be.

    Connor (1987), of the discordant share s: d sqrt(n) = z(1 - alpha/2) sqrt(s) + z(power) sqrt(s - d^2).
    """
    a, b = norm.ppf(1 - alpha / 2), norm.ppf(POWER)

    def shown(d: float) -> float:
        return (
            d * math.sqrt(n)
            - a * math.sqrt(discordant)
            - b * math.sqrt(max(discordant - d * d, 0.0))
        )

    possible = n and discordant > 0 and shown(discordant) >= 0
    return float(brentq(shown, 0.0, discordant)) if possible else math.nan


def judge(measured: Iterable[tuple[Claim, Iterable[Evidence]]]) -> list[Assessed]:
    """Corrects p by family (all comparisons of claims on a run; its topics by themselves), then decides."""
    rows = [(claim, [e for e in evidence if e.n]) for claim, evidence in measured]
    families: dict[str, dict[str, float]] = {}
    for e in (e for _, evidence in rows for e in evidence if not math.isnan(e.p)):
        families.setdefault(e.family, {})[e.pair] = e.p
    corrected = {
        f: dict(zip(ps, holm(list(ps.values())), strict=True)) for f, ps in families.items()
    }
    return [
        Assessed(
            claim, tuple(_decided(claim.relation, e, corrected.get(e.family, {})) for e in evidence)
        )
        for claim, evidence in rows
    ]


def _decided(relation: str, e: Evidence, corrected: dict[str, float]) -> Evidence:
    """The measurement with its corrected p, the smallest effect that it could have shown, and its verdict."""
    smallest = math.nan if e.exact else (e.high - e.low) / 2
    if relation in DIRECTED:
        e = replace(e, p_corrected=corrected.get(e.pair, math.nan))
        if not math.isnan(e.discordant):
            tests = len(corrected) if e.pair in corrected else 1
            smallest = detectable(e.n, e.discordant, ALPHA / tests)
    e = replace(e, smallest=smallest)
    return replace(e, verdict=decide(relation, e))
