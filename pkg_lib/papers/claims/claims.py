"""The claim ledger: every checkable claim of the PKG paper, with a verdict by one rule.

The claims are rows of reference/claims.toml. claim_tests.py measures them.
"""

import math
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from pkg_lib.analysis.stats import ALPHA, Difference, holm
from pkg_lib.analysis.tables import HERE, reference_table
from pkg_lib.papers.pkg.pass_tables import printed

POWER = 0.80
MARGIN = 0.05  # "about": five percentage points to either side
FACTOR = 2.0  # "scale": half to twice the published number
# The first pair is reserved for the same kind of model and the same work (`Evidence.repeats_paper`),
# and for targets that the paper names (not `Evidence.ours`). Other evidence says for what a claim
# holds: for the models that were run, or for this implementation where no model takes part.
REPRODUCED = "reproduced"
CONTRADICTED = "contradicted"
HOLDS = "holds for these models"
FAILS = "does not hold for these models"
HOLDS_BUILT = "holds for this implementation"
FAILS_BUILT = "does not hold for this implementation"
INCONCLUSIVE = "inconclusive"
MIXED = "mixed"
NOT_ATTEMPTED = "not attempted"
SUPPORTING = (HOLDS, HOLDS_BUILT, REPRODUCED)
OPPOSING = (FAILS, FAILS_BUILT, CONTRADICTED)
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
# Where a measurement is from.
RUNS = "runs"
REPLAYED = "replayed"
BUILT = "built"
PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Claim:
    """One row of claims.toml; its header explains the fields.

    Attributes:
        id: A short name.
        topic: Group in the ledger.
        version: Version of the paper that has the claim.
        place: Where in the paper it is.
        says: The claim in short words of our own.
        test: How it is measured, a name in claim_tests.TESTS or of a check.
        needs: What it takes to test it.
        args: Arguments of the test.
        cells: Printed cells as [table, row, column, value].
    """

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
        """How the claim relates a number to its target; see `allowed`."""
        return str(self.args.get("relation", ""))

    @property
    def benchmark(self) -> str:
        """The benchmark that it is about."""
        return str(self.args["benchmark"])

    @property
    def methods(self) -> list[str]:
        """The methods that it compares: `column`, and one or several `against`."""
        compared: list[str] = []
        if "column" in self.args:
            compared.append(self.args["column"])
        against = self.args.get("against", [])
        if isinstance(against, str):
            against = [against]
        return [*compared, *against]

    @property
    def pair(self) -> str:
        """Name of the comparison, the same for a claim and its opposite."""
        return " and ".join(sorted(self.methods))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measurement.

    Attributes:
        subject: The model, or whose numbers are measured.
        where: Benchmark and corpus, or the reading of a sentence.
        n: Number of tasks.
        effect: The measured number, in `unit`.
        low: Lower end of its 95 % interval.
        high: Upper end.
        p: Two-sided p-value of the exact McNemar or paired t test, for "above" and "below" only.
        unit: "points" and "percent" are fractions; "tokens"; "" for a plain number.
        exact: Whether it is recomputed from all cases, so that it has no interval.
        family: The p-values of a family are corrected together.
        pair: Name of the comparison, which counts once in its family.
        discordant: Share of tasks in which the two methods differ.
        target: What the claim names, or the number that its word ("few", "most") is read as.
        spread: Smallest and largest effect over the paper's models.
        p_corrected: The corrected p-value.
        smallest: The effect that this n could have shown: `detectable`, or half of the interval.
        verdict: What the measurement says of the claim, one of OVERALL.
        source: RUNS, REPLAYED, BUILT or PRINTED.
        ours: Whether this ledger chose the target, for a word of the paper.
        repeats_paper: Whether it is one of the paper's models on the paper's own work, or a number
            that the paper printed.
    """

    subject: str = ""
    where: str = ""
    n: int = 0
    effect: float = math.nan
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
    p_corrected: float = math.nan
    smallest: float = math.nan
    verdict: str = ""
    source: str = RUNS
    ours: bool = False
    repeats_paper: bool = False


@dataclass(frozen=True, slots=True)
class Assessed:
    """A claim with its measurements.

    Attributes:
        claim: The claim.
        evidence: What was measured for it.
    """

    claim: Claim
    evidence: tuple[Evidence, ...]

    @property
    def verdict(self) -> str:
        """The verdict over all measurements.

        One opposing measurement decides a claim about every case ("all"), and one supporting measurement
        decides a claim about some cases ("some"). A claim that cases differ ("differs") needs one
        measurement of each sign.
        """
        args = self.claim.args
        verdicts = {e.verdict for e in self.evidence} - {NOT_ATTEMPTED}
        opposed = verdicts.intersection(OPPOSING)
        supported = verdicts.intersection(SUPPORTING)
        if args.get("differs") and supported | opposed:
            both_signs = supported and opposed
            return weakest(supported) if both_signs else INCONCLUSIVE
        if args.get("some") and verdicts:
            if supported:
                return weakest(supported)
            all_oppose = verdicts == opposed
            return weakest(opposed) if all_oppose else INCONCLUSIVE
        if args.get("all") and opposed:
            return weakest(opposed)
        return overall(verdicts)


def load(
    file: str = "claims.toml",
    **shared: Any,
) -> list[Claim]:
    """Load claims.

    Args:
        file: Name of a file in reference/.
        **shared: Fields that all claims of the file share.

    Returns:
        The rows of the file, in order.
    """
    path = HERE / "reference" / file
    rows = tomllib.loads(path.read_text("utf8"))["claim"]
    return [Claim(**shared, **row) for row in rows]


@cache
def table(number: str, version: str = "second") -> pd.DataFrame:
    """Return a published table.

    Args:
        number: Its number in the second version of the paper.
        version: "first" or "second".

    Returns:
        The cells [row, column] in printed order; NaN where the table has no such cell.
    """
    cells = printed(number).astype(float)
    if version == "first":
        for row, column, value in first_version(number):
            cells.loc[row, column] = value
    return cells


def first_version(number: str) -> list[tuple[str, str, float]]:
    """Return the cells of a table that differ in the first version of the paper.

    Args:
        number: Number of the table.

    Returns:
        Row, column and value of each cell.
    """
    cells = reference_table("pkg_first_version", dtype={"table": str, "value": float})
    table_cells = cells[cells["table"] == number]
    rows = table_cells[["row", "column", "value"]]
    return list(rows.itertuples(index=False, name=None))


def allowed(relation: str, target: float) -> tuple[float, float]:
    """Return the numbers that support a claim, by the same rule for every claim.

    Args:
        relation: How the claim relates a number to its target.
        target: The target.

    Returns:
        The lowest and the highest number.
    """
    _, _, decimals = f"{target:.10g}".partition(".")
    half_digit = 0.5 * 10.0 ** -len(decimals) + 1e-9  # 0.5 for 14, 0.05 for 14.2
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
    directed = relation in DIRECTED
    significant = e.p_corrected < ALPHA and e.effect
    if directed and not significant:
        return INCONCLUSIVE
    supporting, opposing = words_for(e)
    low = high = e.effect
    if not (e.exact or directed):
        low = e.low
        high = e.high
    if lowest <= low and high <= highest:
        return supporting
    if high < lowest or low > highest:
        return opposing
    return INCONCLUSIVE


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
    if e.source == BUILT:
        return HOLDS_BUILT, FAILS_BUILT
    return HOLDS, FAILS


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
    all_support = known.issubset(SUPPORTING)
    all_oppose = known.issubset(OPPOSING)
    if all_support or all_oppose or len(known) == 1:
        return weakest(known)
    return MIXED


def weakest(verdicts: Collection[str]) -> str:
    """Return the verdict that claims least among several that agree.

    Args:
        verdicts: All supporting, all opposing, or all the same.

    Returns:
        One of them; "reproduced" or "contradicted" only if there is no other.
    """
    ranked = [v for v in (*SUPPORTING, *OPPOSING) if v in verdicts]
    return ranked[0] if ranked else next(iter(verdicts))


def discordant_share(difference: Difference) -> float:
    """Return the share of tasks in which two methods differ.

    Args:
        difference: Their paired difference.

    Returns:
        The share, of the tasks that both measured.
    """
    return (difference.helped + difference.hurt) / difference.n


def detectable(n: int, discordant: float, alpha: float = ALPHA) -> float:
    """Return the smallest difference that McNemar's test shows with POWER (Connor, 1987).

    The difference d solves d sqrt(n) = z(1 - alpha/2) sqrt(s) + z(power) sqrt(s - d^2), where s is
    the share of discordant tasks.

    Args:
        n: Number of tasks.
        discordant: Share of tasks in which the methods differ.
        alpha: Significance level.

    Returns:
        The difference as a fraction; NaN if the test can show none.
    """
    z_alpha = norm.ppf(1 - alpha / 2)
    z_power = norm.ppf(POWER)

    def excess(d: float) -> float:
        """Return the left side minus the right side of the equation."""
        variance = max(discordant - d * d, 0.0)
        needed_for_alpha = z_alpha * math.sqrt(discordant)
        needed_for_power = z_power * math.sqrt(variance)
        return float(d * math.sqrt(n) - needed_for_alpha - needed_for_power)

    if not n or discordant <= 0 or excess(discordant) < 0:
        return math.nan
    return float(brentq(excess, 0.0, discordant))


def judge(measured: Iterable[tuple[Claim, Iterable[Evidence]]]) -> list[Assessed]:
    """Decide claims.

    p-values are corrected by family: all comparisons of a run belong to one, and its topics to
    another.

    Args:
        measured: Each claim with its measurements.

    Returns:
        The claims in order, with the verdict of every measurement.
    """
    rows = []
    families: dict[str, dict[str, float]] = {}
    for claim, evidence in measured:
        known = [e for e in evidence if e.n]
        rows.append((claim, known))
        for e in known:
            if math.isnan(e.p):
                continue
            family = families.setdefault(e.family, {})
            family[e.pair] = e.p
    corrected = {family: _corrected(p_values) for family, p_values in families.items()}
    assessed = []
    for claim, known in rows:
        decided = [_decided(claim.relation, e, corrected.get(e.family, {})) for e in known]
        assessed.append(Assessed(claim, tuple(decided)))
    return assessed


def _corrected(p_values: dict[str, float]) -> dict[str, float]:
    """Return the p-values of a family, corrected by Holm's method."""
    corrected = holm(list(p_values.values()))
    return dict(zip(p_values, corrected, strict=True))


def _decided(relation: str, e: Evidence, corrected: dict[str, float]) -> Evidence:
    """Return the measurement with its corrected p, the smallest effect it could show, and its verdict."""
    smallest = math.nan
    if not e.exact:
        smallest = (e.high - e.low) / 2
    if relation in DIRECTED:
        e = replace(e, p_corrected=corrected.get(e.pair, math.nan))
        if not math.isnan(e.discordant):
            tests = len(corrected) if e.pair in corrected else 1
            smallest = detectable(e.n, e.discordant, ALPHA / tests)
    e = replace(e, smallest=smallest)
    return replace(e, verdict=decide(relation, e))
