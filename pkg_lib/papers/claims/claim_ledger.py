"""The tables and findings of the claim ledger: verdicts, claims, measurements, and what is missing."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, MINUS, percent, points, probability, signed_count
from pkg_lib.papers.claims import claims
from pkg_lib.papers.claims.claim_tests import claimed_by
from pkg_lib.papers.claims.claims import Assessed, Evidence

SOURCES = {
    claims.RUNS: "runs of this study's models",
    claims.REPLAYED: "completions that the authors published",
    claims.BUILT: "graph and contexts of this implementation",
    claims.PRINTED: "the paper's own tables (recomputed)",
}


# Numbers with their units


def in_unit(value: float, unit: str) -> str:
    """Print a measured number.

    Args:
        value: The number; "points" and "percent" are fractions.
        unit: "points", "percent", "tokens" or "".

    Returns:
        Text such as "+6.0" (percentage points), "5.5 %" (of tasks), "+36" (tokens) or "14.2"; an en
        dash for NaN.
    """
    if math.isnan(value) or unit == "points":
        return points(value)
    if unit == "percent":
        return f"{percent(value)} %"
    if unit == "tokens":
        return signed_count(value)
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", MINUS)


def _between(low: float, high: float, unit: str) -> str:
    if math.isnan(low):
        return DASH
    ends = [in_unit(low, unit), in_unit(high, unit)]
    return " to ".join(ends)


def _claimed(evidence: Evidence) -> str:
    """Print the published number with the range over the paper's models, or how a word is read."""
    unit = evidence.unit
    low, high = evidence.spread
    target = in_unit(evidence.target, unit)
    has_spread = not math.isnan(low) and low != high
    models = in_unit(low, unit)
    if has_spread:
        models = _between(low, high, unit)
    if evidence.ours:
        return f"{models} (chosen for this study: {target})"
    if has_spread:
        return f"{target} ({models})"
    return target


# Tables


def verdicts_by_topic(assessed: Sequence[Assessed]) -> ResultTable:
    """Count the verdicts by topic.

    Args:
        assessed: The claims with their verdicts.

    Returns:
        The table, one row per topic and one for all. Verdicts that no claim has are left out.
    """
    topics = [claim.claim.topic for claim in assessed]
    verdicts = [claim.verdict for claim in assessed]
    counts = pd.crosstab(
        pd.Series(topics, name="topic", dtype=object),
        pd.Series(verdicts, dtype=object),
        margins=True,
        margins_name="all",
    )
    columns = [verdict for verdict in claims.OVERALL if verdict in counts]
    rows = [*dict.fromkeys(topics), "all"]
    frame = counts.loc[rows, [*columns, "all"]]
    frame = frame.rename(columns={"all": "claims"})
    frame = frame.rename_axis(columns=None)
    return ResultTable("Claims by verdict", frame.astype(str))


def verdicts_by_source(assessed: Sequence[Assessed]) -> ResultTable:
    """Count the verdicts by what a claim was tested on, and by model.

    Args:
        assessed: The claims with their verdicts.

    Returns:
        The table, one row per source and model. A claim that was tested on several counts in each, with
        the verdict of that evidence alone.
    """
    verdicts_of: dict[str, list[str]] = {}
    for source, what in SOURCES.items():
        verdicts_of[what] = [claim.verdict for claim in _measured_on(assessed, source)]
    for claim in _measured_on(assessed, claims.RUNS, claims.REPLAYED):
        for subject, verdict in verdict_by_subject(claim).items():
            verdicts_of.setdefault(subject, []).append(verdict)
    every_verdict = [verdict for verdicts in verdicts_of.values() for verdict in verdicts]
    columns = _in_order(set(every_verdict))
    rows = {}
    for name, verdicts in verdicts_of.items():
        if verdicts:
            counts = [verdicts.count(verdict) for verdict in columns]
            rows[name] = [str(count) for count in (*counts, len(verdicts))]
    return ResultTable.of(
        "Claims by what they were tested on", rows, [*columns, "claims"], "tested on"
    )


def verdicts_finding(assessed: Sequence[Assessed]) -> list[str]:
    """Count the claims by verdict.

    Args:
        assessed: The claims with their verdicts.

    Returns:
        One sentence; none without claims.
    """
    counts = Counter(claim.verdict for claim in assessed)
    if not counts:
        return []
    confirmed = sum(counts[verdict] for verdict in claims.SUPPORTING)
    refuted = sum(counts[verdict] for verdict in claims.OPPOSING)
    return [
        f"Of {len(assessed)} claims, {confirmed} are confirmed ({counts[claims.REPRODUCED]} by the paper's "
        f"tables or published answers, {counts[claims.HOLDS]} by this study's models, "
        f"{counts[claims.HOLDS_BUILT]} by its implementation without a model), {refuted} are refuted "
        f"({counts[claims.CONTRADICTED]} by tables or published answers, {counts[claims.FAILS]} by the "
        f"models, {counts[claims.FAILS_BUILT]} by the implementation), {counts[claims.MIXED]} have mixed "
        f"evidence, {counts[claims.INCONCLUSIVE]} are inconclusive and {counts[claims.NOT_ATTEMPTED]} were "
        "not attempted."
    ]


def verdict_by_subject(assessed: Assessed) -> dict[str, str]:
    """Return the verdict over all that was measured on each subject.

    Args:
        assessed: A claim with its measurements.

    Returns:
        Subject, usually a model -> verdict.
    """
    by_subject: dict[str, list[str]] = {}
    for evidence in assessed.evidence:
        verdicts = by_subject.setdefault(evidence.subject, [])
        verdicts.append(evidence.verdict)
    return {subject: claims.overall(verdicts) for subject, verdicts in by_subject.items()}


def ledger_row(assessed: Assessed) -> dict[str, str]:
    """Return the row of a claim in the ledger.

    Args:
        assessed: A claim with its measurements.

    Returns:
        Column -> text.
    """
    claim = assessed.claim
    measurements = assessed.evidence or (claimed_by(claim),)
    published = map(_claimed, measurements)
    here = map(_measured_here, assessed.evidence)
    return {
        "verdict": assessed.verdict,
        "claim": claim.says,
        "in the paper": "; ".join(dict.fromkeys(published)),
        "here (95 % interval)": "; ".join(here) or f"missing: {claim.needs}",
        "measured on": _subjects(assessed),
        "place": claim.place,
        "version": claim.version,
    }


def _subjects(assessed: Assessed) -> str:
    """Print what a claim was measured on; several subjects with the verdict on each."""
    by_subject = verdict_by_subject(assessed)
    subjects = list(by_subject)
    if len(subjects) > 1:
        subjects = [f"{subject}: {verdict}" for subject, verdict in by_subject.items()]
    return ", ".join(subjects) or DASH


def _measured_here(evidence: Evidence) -> str:
    """Print a measurement with its interval."""
    unit = evidence.unit
    effect = in_unit(evidence.effect, unit)
    bounds = _between(evidence.low, evidence.high, unit)
    if bounds == DASH:
        return effect
    return f"{effect} ({bounds})"


def ledger_table(assessed: Iterable[Assessed]) -> ResultTable:
    """Tabulate the ledger.

    Args:
        assessed: The claims with their measurements.

    Returns:
        The table, one row per claim.
    """
    notes = (
        "In the paper: the mean over its models, in brackets the lowest and highest. Here: all "
        "measurements, in the order of the evidence table. Differences are in percentage points "
        "of pass@1.",
        "Taken here: the number that this ledger uses where the paper says few, little or most without a "
        "number.",
        "Mixed: not all measurements have the same verdict. "
        f"{DASH} no number is claimed, or nothing is measured.",
    )
    rows = {}
    for claim in assessed:
        name = claim.claim.id
        rows[name] = ledger_row(claim)
    frame = pd.DataFrame.from_dict(rows, "index")
    frame = frame.rename_axis("id")
    return ResultTable("Claims of the PKG paper", frame, notes)


def evidence_table(assessed: Iterable[Assessed]) -> ResultTable:
    """Tabulate the measurements.

    Args:
        assessed: The claims with their measurements.

    Returns:
        The table, one row per measurement.
    """
    notes = (
        "Smallest detectable: for a direction, the difference that McNemar's test finds with 80 % power, "
        "given the observed share of tasks that differ and Holm's strictest level; for tokens and sizes, "
        "half of the interval.",
        f"{DASH} recomputed, so without chance, or no such number.",
    )
    rows = []
    for claim in assessed:
        name = claim.claim.id
        rows += [_measurement_row(name, evidence) for evidence in claim.evidence]
    frame = pd.DataFrame(rows)
    frame = frame.set_index("claim")
    return ResultTable("What was measured for each claim", frame, notes)


def _measurement_row(claim: str, evidence: Evidence) -> dict[str, str]:
    """Return the row of one measurement; column -> text."""
    unit = evidence.unit
    smallest = in_unit(evidence.smallest, unit)
    return {
        "claim": claim,
        "verdict": evidence.verdict,
        "measured on": evidence.subject,
        "where": evidence.where,
        "n": DASH if evidence.exact else str(evidence.n),
        "in the paper": _claimed(evidence),
        "here": in_unit(evidence.effect, unit),
        "95 % interval": _between(evidence.low, evidence.high, unit),
        "p (Holm)": probability(evidence.p_corrected),
        "smallest detectable": smallest.removeprefix("+"),
    }


def unattempted_table(assessed: Iterable[Assessed]) -> ResultTable:
    """Tabulate what the claims without a measurement need.

    Args:
        assessed: The claims with their measurements.

    Returns:
        The table, one row per need.
    """
    claims_of: dict[str, list[str]] = {}
    for claim in assessed:
        if claim.evidence:
            continue
        names = claims_of.setdefault(claim.claim.needs, [])
        names.append(claim.claim.id)
    rows = {}
    for need, names in claims_of.items():
        listed = ", ".join(names)
        rows[listed] = [need]
    if not rows:
        rows["nothing"] = [DASH]
    return ResultTable.of("Not attempted", rows, ["missing"], "claims")


def _measured_on(assessed: Iterable[Assessed], *sources: str) -> list[Assessed]:
    """Return the claims with evidence of these sources, judged by that alone."""
    found = []
    for claim in assessed:
        evidence = tuple(e for e in claim.evidence if e.source in sources)
        if evidence:
            part = Assessed(claim.claim, evidence)
            found.append(part)
    return found


def _in_order(verdicts: Collection[str]) -> list[str]:
    """Different verdicts in the order of the ledger."""
    return [verdict for verdict in claims.OVERALL if verdict in verdicts]
