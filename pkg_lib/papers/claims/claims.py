"""The claim ledger: every checkable claim of the PKG paper, what was measured for it here, and a verdict by one rule.

Claims are data (reference/claims.toml); what measures one is a test of claim_tests.py or a check of paper_checks.py, named
there. A claim about the paper's models is tested on the models of this study: the ledger says on which. Every model and
corpus that is measured counts, whatever it says.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from scipy.optimize import brentq
from scipy.stats import norm

from pkg_lib.analysis.stats import holm
from pkg_lib.analysis.tables import HERE

ALPHA, POWER = 0.05, 0.80
MARGIN = 0.05  # "about": five points to either side
FACTOR = 2.0  # "scale": half to twice the published number
REPRODUCED, CONTRADICTED, INCONCLUSIVE = "reproduced", "contradicted", "inconclusive"
MIXED, NOT_ATTEMPTED = "mixed", "not attempted"
VERDICTS = (REPRODUCED, CONTRADICTED, INCONCLUSIVE)
OVERALL = (*VERDICTS, MIXED, NOT_ATTEMPTED)
RELATIONS = ("above", "below", "about", "at most", "at least", "positive", "equal", "scale")
DIRECTED = ("above", "below")
RUNS, REPLAYED, BUILT, PRINTED = "runs", "replayed", "built", "printed"  # where a measurement is from


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
    args: dict[str, Any] = field(default_factory=dict, hash=False)
    cells: tuple[tuple[Any, ...], ...] = ()

    @property
    def relation(self) -> str:
        return str(self.args.get("relation", ""))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measurement for one claim. `effect`, `low`, `high`, `target`, `spread`, `smallest` are in `unit`.

    Units: "points" (a difference of shares) and "percent" (a share) are fractions, "tokens", and "" for a plain number.

    `subject`: the model, or whose numbers; `where`: benchmark and corpus, or the reading of a sentence. `exact`: recomputed,
    with no task drawn, so without interval. `p` (two-sided, exact McNemar or paired t) only for "above" and "below"; those of
    one `family` are corrected together, a `pair` once. `discordant`: the share of tasks in which the two differ.
    `target`: what the claim names, or what its word (few, most) is taken for here (`ours`); `spread`: smallest and largest
    published effect over the paper's models. `smallest`: what this n could have shown, `detectable` where the relation is
    directed, else half of the interval. `source`: this study's RUNS, the authors' completions REPLAYED, the graph BUILT here,
    or PRINTED numbers.
    """

    subject: str
    where: str
    n: int
    effect: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    unit: str = "points"
    exact: bool = False
    family: str = ""
    pair: str = ""
    discordant: float = math.nan
    target: float = math.nan
    spread: tuple[float, float] = (math.nan, math.nan)
    p_holm: float = math.nan
    smallest: float = math.nan
    verdict: str = ""
    source: str = RUNS
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Assessed:
    """A claim with what was measured for it; `why` says what is missing where nothing was."""

    claim: Claim
    evidence: tuple[Evidence, ...]
    why: str = ""

    @property
    def verdict(self) -> str:
        """`overall` of the evidence; a sentence about every case ("all" in its args) falls with one."""
        found = [e.verdict for e in self.evidence]
        return CONTRADICTED if self.claim.args.get("all") and CONTRADICTED in found else overall(found)


def load() -> list[Claim]:
    """The claims in the order of their file."""
    rows = tomllib.loads((HERE / "reference" / "claims.toml").read_text("utf8"))["claim"]
    return [Claim(**row | {"cells": tuple(map(tuple, row.get("cells", ())))}) for row in rows]


def decide(relation: str, found: Evidence) -> str:
    """The rule, the same for every claim and for both directions: what a claim needs to hold, its opposite needs too.

    above, below   A against B on the same tasks: decided when the corrected p is below 0.05. Reproduced when the difference
                   has the claim's sign, contradicted when it has the other, else inconclusive.
    about          The 95 % interval against the claimed number, five points to either side: reproduced when it lies inside,
                   contradicted when it lies outside, inconclusive when it crosses an edge.
    at most,       The 95 % interval against the claimed number: reproduced on the claimed side of it, contradicted on the
    at least       other, else inconclusive.
    positive       A recomputed number, without chance: reproduced above 0, else contradicted.
    equal          A recomputed number: reproduced when it is the claimed one within half of its last digit, else contradicted.
    scale          A number of another machine and another corpus: reproduced from half to twice the claimed one.

    Nothing measured is "not attempted", and so is a number that is not known. ValueError for an unknown relation.
    """
    if relation not in RELATIONS:
        raise ValueError(f"unknown relation {relation!r}; known are {', '.join(RELATIONS)}")
    if not found.n or math.isnan(found.effect):
        return NOT_ATTEMPTED
    holds, fails = _sides(relation, found)
    return REPRODUCED if holds else CONTRADICTED if fails else INCONCLUSIVE


def _sides(relation: str, e: Evidence) -> tuple[bool, bool]:
    """Whether the claim is shown, and whether its opposite is."""
    if relation in DIRECTED:
        signed = e.effect if relation == "above" else -e.effect
        return e.p_holm < ALPHA and signed > 0, e.p_holm < ALPHA and signed < 0
    if relation == "about":
        edges = e.target - MARGIN, e.target + MARGIN
        return edges[0] <= e.low and e.high <= edges[1], e.high < edges[0] or e.low > edges[1]
    if relation == "at most":
        return e.high <= e.target, e.low > e.target
    if relation == "at least":
        return e.low >= e.target, e.high < e.target
    if relation == "positive":
        return e.effect > 0, e.effect <= 0
    close = math.isclose(e.effect, e.target, rel_tol=0, abs_tol=half_digit(e.target) + 1e-9)
    if relation == "scale":
        close = e.target / FACTOR <= e.effect <= e.target * FACTOR
    return close, not close


def half_digit(number: float) -> float:
    """Half of the last digit that a number shows: 0.5 for 14, 0.05 for 14.2."""
    shown = f"{number:.10g}".partition(".")[2]
    return 0.5 * 10.0 ** -len(shown)


def overall(verdicts: Iterable[str]) -> str:
    """One verdict of several: theirs when all are the same, else mixed. Nothing measured: not attempted."""
    known = {v for v in verdicts if v != NOT_ATTEMPTED}
    return known.pop() if len(known) == 1 else MIXED if known else NOT_ATTEMPTED


def detectable(n: int, discordant: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest difference of two columns that McNemar's test on `n` tasks shows with this power, as a fraction.

    Solves Connor (1987) for the difference d at the observed share of discordant tasks s:
    d sqrt(n) = z(1 - alpha/2) sqrt(s) + z(power) sqrt(s - d^2). No difference can exceed s; where even s would not
    be enough (hardly a discordant task) it is NaN: no effect could have been shown.
    """
    if not n or not discordant > 0:
        return math.nan
    a, b = norm.ppf(1 - alpha / 2), norm.ppf(power)

    def missing(d: float) -> float:
        return d * math.sqrt(n) - a * math.sqrt(discordant) - b * math.sqrt(max(discordant - d * d, 0.0))

    most = discordant
    return float(brentq(missing, 0.0, most)) if missing(most) >= 0 else math.nan


def judge(measured: Iterable[tuple[Claim, Iterable[Evidence]]]) -> list[Assessed]:
    """Corrects the p values of each family (Holm, over its distinct pairs), then decides every measurement.

    A family is all comparisons that the claims make on one run (one model, benchmark and corpus); those of its topics are
    another.
    """
    rows = [(c, tuple(e for e in found if e.n)) for c, found in measured]
    corrected = _corrected(e for _, found in rows for e in found)
    assessed = []
    for claim, found in rows:
        final = [_complete(claim.relation, e, corrected) for e in found]
        assessed.append(Assessed(claim, tuple(final), "" if final else f"missing: {claim.needs}"))
    return assessed


def _corrected(found: Iterable[Evidence]) -> dict[tuple[str, str], tuple[float, int]]:
    """(family, pair) -> its corrected p and how many pairs the family has."""
    families: dict[str, dict[str, float]] = {}
    for e in found:
        if not math.isnan(e.p):
            families.setdefault(e.family, {})[e.pair] = e.p
    return {
        (family, pair): (p, len(pairs))
        for family, pairs in families.items()
        for pair, p in zip(pairs, holm(list(pairs.values())), strict=True)
    }


def _complete(relation: str, e: Evidence, corrected: dict[tuple[str, str], tuple[float, int]]) -> Evidence:
    p_holm, tests = (
        corrected.get((e.family, e.pair), (math.nan, 1)) if relation in DIRECTED else (math.nan, 1)
    )
    smallest = math.nan if e.exact else (e.high - e.low) / 2
    if relation in DIRECTED and not math.isnan(e.discordant):
        smallest = detectable(e.n, e.discordant, ALPHA / tests)
    e = replace(e, p_holm=p_holm, smallest=smallest)
    return replace(e, verdict=decide(relation, e))


def tally(assessed: Iterable[Assessed]) -> dict[str, int]:
    """How many claims have each verdict, in the order of OVERALL."""
    counts = Counter(a.verdict for a in assessed)
    return {v: counts.get(v, 0) for v in OVERALL}


def by_subject(one: Assessed) -> dict[str, str]:
    """subject -> the verdict over all that was measured on it."""
    subjects = dict.fromkeys(e.subject for e in one.evidence)
    return {s: overall(e.verdict for e in one.evidence if e.subject == s) for s in subjects}
