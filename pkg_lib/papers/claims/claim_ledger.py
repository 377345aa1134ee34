"""The tables and findings of the claim ledger: verdicts, claims, measurements, and what is missing."""

import math
from collections.abc import Iterable, Sequence

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import finding
from pkg_lib.analysis.tables import DASH, MINUS, percent, points, probability
from pkg_lib.papers.claims import claims
from pkg_lib.papers.claims.claim_tests import claimed_by
from pkg_lib.papers.claims.claims import Assessed, Evidence

SOURCES = {
    claims.RUNS: "tested on runs of this study's models",
    claims.REPLAYED: "tested on completions that the authors published",
    claims.BUILT: "about the graph and its contexts, measured on this implementation",
    claims.PRINTED: "recomputed from the paper's own tables",
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
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    if unit == "tokens":
        text = f"{value:+,.0f}"
    if text in ("+0", "-0"):
        return "0"
    return text.replace("-", MINUS)


def _between(low: float, high: float, unit: str) -> str:
    if math.isnan(low):
        return DASH
    return f"{in_unit(low, unit)} to {in_unit(high, unit)}"


def _claimed(evidence: Evidence) -> str:
    """Print the published number with the range over the paper's models, or how a word is read."""
    low, high = evidence.spread
    target = in_unit(evidence.target, evidence.unit)
    several = not math.isnan(low) and low != high
    models = in_unit(low, evidence.unit)
    if several:
        models = _between(low, high, evidence.unit)
    if evidence.ours:
        return f"{models} (taken here: {target})"
    return f"{target} ({models})" if several else target


# Tables


def verdicts_by_topic(assessed: Sequence[Assessed]) -> ResultTable:
    """Count the verdicts by topic.

    Args:
        assessed: The claims with their verdicts.

    Returns:
        The table, one row per topic and one for all. Verdicts that no claim has are left out.
    """
    by_topic: dict[str, list[str]] = {}
    for claim in assessed:
        by_topic.setdefault(claim.claim.topic, []).append(claim.verdict)
    by_topic["all"] = [claim.verdict for claim in assessed]
    rows = {}
    for topic, verdicts in by_topic.items():
        counts = [str(verdicts.count(verdict)) for verdict in claims.OVERALL]
        rows[topic] = [*counts, str(len(verdicts))]
    frame = pd.DataFrame.from_dict(rows, "index", columns=[*claims.OVERALL, "claims"])
    used = (frame != "0").any()
    return ResultTable("Claims by verdict", frame.loc[:, used].rename_axis("topic"))


def verdict_by_subject(assessed: Assessed) -> dict[str, str]:
    """Return the verdict over all that was measured on each subject.

    Args:
        assessed: A claim with its measurements.

    Returns:
        Subject, usually a model -> verdict.
    """
    by_subject: dict[str, list[str]] = {}
    for evidence in assessed.evidence:
        by_subject.setdefault(evidence.subject, []).append(evidence.verdict)
    return {subject: claims.overall(verdicts) for subject, verdicts in by_subject.items()}


def ledger_row(assessed: Assessed) -> dict[str, str]:
    """Return the row of a claim in the ledger.

    Args:
        assessed: A claim with its measurements.

    Returns:
        Column -> text.
    """
    by_subject = verdict_by_subject(assessed)
    subjects = list(by_subject)
    if len(subjects) > 1:
        subjects = [f"{subject}: {verdict}" for subject, verdict in by_subject.items()]
    published = [_claimed(e) for e in assessed.evidence or [claimed_by(assessed.claim)]]
    return {
        "verdict": assessed.verdict,
        "claim": assessed.claim.says,
        "published": "; ".join(dict.fromkeys(published)),
        "here (95 % interval)": _measured_here(assessed),
        "measured on": ", ".join(subjects) or DASH,
        "stands in": assessed.claim.place,
        "version": assessed.claim.version,
    }


def _measured_here(assessed: Assessed) -> str:
    """Print all measurements of a claim with their intervals, or what is missing."""
    texts = []
    for evidence in assessed.evidence:
        effect = in_unit(evidence.effect, evidence.unit)
        bounds = _between(evidence.low, evidence.high, evidence.unit)
        texts.append(effect if bounds == DASH else f"{effect} ({bounds})")
    return "; ".join(texts) or f"missing: {assessed.claim.needs}"


def ledger_table(assessed: Iterable[Assessed]) -> ResultTable:
    """Tabulate the ledger.

    Args:
        assessed: The claims with their measurements.

    Returns:
        The table, one row per claim.
    """
    notes = (
        "Published: the mean over the paper's models, in brackets the lowest and highest. Here: every "
        "measurement that there is, in the order of the evidence table. Differences in points of pass@1.",
        "Taken here: what this ledger takes a word for (few, little, most), where the paper prints no "
        "number for it.",
        "Mixed: not all measurements have the same verdict. "
        f"{DASH} no number is claimed, or nothing is measured.",
    )
    rows = {claim.claim.id: ledger_row(claim) for claim in assessed}
    frame = pd.DataFrame.from_dict(rows, "index").rename_axis("id")
    return ResultTable("Claims of the PKG paper", frame, notes)


def evidence_table(assessed: Iterable[Assessed]) -> ResultTable:
    """Tabulate the measurements.

    Args:
        assessed: The claims with their measurements.

    Returns:
        The table, one row per measurement.
    """
    notes = (
        "Smallest: what this n could have shown. For a direction, the difference that McNemar's test finds "
        "with 80 % power at the observed discordance and Holm's strictest level; for tokens and for sizes "
        "half of the interval.",
        f"{DASH} recomputed, so without chance, or no such number.",
    )
    rows = []
    for claim in assessed:
        rows += [_measurement_row(claim.claim.id, evidence) for evidence in claim.evidence]
    frame = pd.DataFrame(rows).set_index("claim")
    return ResultTable("What was measured for each claim", frame, notes)


def _measurement_row(claim: str, evidence: Evidence) -> dict[str, str]:
    """Return the row of one measurement; column -> text."""
    unit = evidence.unit
    return {
        "claim": claim,
        "verdict": evidence.verdict,
        "measured on": evidence.subject,
        "where": evidence.where,
        "n": DASH if evidence.exact else f"{evidence.n}",
        "published": _claimed(evidence),
        "here": in_unit(evidence.effect, unit),
        "95 % interval": _between(evidence.low, evidence.high, unit),
        "p (Holm)": probability(evidence.p_corrected),
        "smallest": in_unit(evidence.smallest, unit).removeprefix("+"),
    }


def unattempted_table(assessed: Iterable[Assessed]) -> ResultTable:
    """Tabulate what the claims without a measurement need.

    Args:
        assessed: The claims with their measurements.

    Returns:
        The table, one row per need.
    """
    needs: dict[str, list[str]] = {}
    for claim in assessed:
        if not claim.evidence:
            needs.setdefault(claim.claim.needs, []).append(claim.claim.id)
    rows = {", ".join(ids): need for need, ids in needs.items()} or {"nothing": DASH}
    missing = pd.Series(rows, name="missing").rename_axis("claims")
    return ResultTable("Not attempted", missing.to_frame())


# Findings


def ledger_findings(assessed: Sequence[Assessed]) -> list[str]:
    """Return sentences on the verdicts: their numbers, and the claims of each verdict.

    Args:
        assessed: The claims with their measurements.

    Returns:
        The sentences. A claim that was tested on runs and on published completions counts in both.
    """
    here = _measured_on(assessed, claims.RUNS, claims.REPLAYED, claims.BUILT)
    printed = _measured_on(assessed, claims.PRINTED)
    sentences = _counts(assessed)
    sentences += _claims_by_verdict("Measured here", here)
    sentences += _claims_by_verdict("By the paper's own tables", printed)
    return sentences


def _measured_on(assessed: Iterable[Assessed], *sources: str) -> list[Assessed]:
    """Return the claims with evidence of these sources, judged by that alone."""
    found = []
    for claim in assessed:
        evidence = tuple(e for e in claim.evidence if e.source in sources)
        if evidence:
            found.append(Assessed(claim.claim, evidence))
    return found


def _counts(assessed: Sequence[Assessed]) -> list[str]:
    """Return how many claims have each verdict: of all, by source, and by model."""
    verdicts = {f"{len(assessed)} claims": [claim.verdict for claim in assessed]}
    for source, what in SOURCES.items():
        part = [claim.verdict for claim in _measured_on(assessed, source)]
        if part:
            verdicts[f"Of {len(part)} {what}"] = part
    for claim in _measured_on(assessed, claims.RUNS, claims.REPLAYED):
        for subject, verdict in verdict_by_subject(claim).items():
            verdicts.setdefault(f"On {subject}", []).append(verdict)
    return [f"{what}: {_counted_verdicts(part)}." for what, part in verdicts.items()]


def _counted_verdicts(verdicts: Sequence[str]) -> str:
    """Print "3 reproduced, 1 mixed", in the order of the ledger."""
    used = [verdict for verdict in claims.OVERALL if verdict in verdicts]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in used)


def _claims_by_verdict(head: str, assessed: Iterable[Assessed]) -> list[str]:
    """Return the claims in words; mixed ones by the verdicts of their measurements."""
    says: dict[str, list[str]] = {}
    for claim in assessed:
        verdicts = {claim.verdict}
        if claim.verdict == claims.MIXED:
            verdicts = {evidence.verdict for evidence in claim.evidence}
        ordered = [verdict for verdict in claims.OVERALL if verdict in verdicts]
        says.setdefault(" and ".join(ordered), []).append(claim.claim.says)
    sentences = []
    for verdict in sorted(says):
        if verdict != claims.INCONCLUSIVE:
            names = says[verdict]
            sentences += finding(f"{head}, {verdict} ({len(names)})", names)
    return sentences
