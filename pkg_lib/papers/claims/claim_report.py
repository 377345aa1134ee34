"""The claim ledger as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import DASH, MINUS, percent, points, probability
from pkg_lib.papers.claims.claim_tests import claimed_by
from pkg_lib.papers.claims.claims import Assessed, Evidence

LEDGER_NOTES = (
    "Published: the mean over the paper's models, in brackets the lowest and highest. Here: every "
    "measurement that there is, in the order of the evidence table. Differences in points of pass@1.",
    "Taken here: what this ledger takes a word for (few, little, most), where the paper prints no "
    "number for it.",
    "Mixed: not all measurements have the same verdict. "
    f"{DASH} no number is claimed, or nothing is measured.",
)
EVIDENCE_NOTES = (
    "Smallest: what this n could have shown. For a direction, the difference that McNemar's test finds "
    "with 80 % power at the observed discordance and Holm's strictest level; for tokens and for sizes "
    "half of the interval.",
    f"{DASH} recomputed, so without chance, or no such number.",
)


def number(value: float, unit: str) -> str:
    """A number in its unit: "+6.0" points, "5.5 %" of tasks, "+36" tokens, "14.2"; NaN is an en dash."""
    if math.isnan(value) or unit == "points":
        return points(value)
    if unit == "percent":
        return f"{percent(value)} %"
    text = f"{value:+,.0f}" if unit == "tokens" else f"{value:,.3f}".rstrip("0").rstrip(".")
    return ("0" if text in ("+0", "-0") else text).replace("-", MINUS)


def span(low: float, high: float, unit: str) -> str:
    """Two numbers as "−8.5 to +1.2"; an en dash without."""
    return DASH if math.isnan(low) else f"{number(low, unit)} to {number(high, unit)}"


def published(e: Evidence) -> str:
    """What is claimed, with the least and most of the paper's models; what a word is taken for, said so."""
    low, high = e.spread
    several = not math.isnan(low) and low != high
    models, target = span(low, high, e.unit) if several else number(low, e.unit), number(e.target, e.unit)
    return f"{models} (taken here: {target})" if e.ours else f"{target} ({models})" if several else target


def ledger(assessed: Sequence[Assessed]) -> Grid:
    """One row a claim: verdict, what it says, the published number, all that was measured, its place."""
    rows = {}
    for a in assessed:
        here = [(number(e.effect, e.unit), span(e.low, e.high, e.unit)) for e in a.evidence]
        texts = [effect if interval == DASH else f"{effect} ({interval})" for effect, interval in here]
        subjects = [s if len(a.by_subject) == 1 else f"{s}: {v}" for s, v in a.by_subject.items()]
        rows[a.claim.id] = {
            "verdict": a.verdict,
            "claim": a.claim.says,
            "published": "; ".join(dict.fromkeys(map(published, a.evidence or [claimed_by(a.claim)]))),
            "here (95 % interval)": "; ".join(texts) or f"missing: {a.claim.needs}",
            "measured on": ", ".join(subjects) or DASH,
            "stands in": a.claim.place,
            "version": a.claim.version,
        }
    frame = pd.DataFrame.from_dict(rows, "index").rename_axis("id")
    return Grid("Claims of the PKG paper", frame, LEDGER_NOTES)


def evidence(assessed: Sequence[Assessed]) -> Grid:
    """One row a measurement."""
    rows = [
        {
            "claim": a.claim.id,
            "verdict": e.verdict,
            "measured on": e.subject,
            "where": e.where,
            "n": DASH if e.exact else f"{e.n}",
            "published": published(e),
            "here": number(e.effect, e.unit),
            "95 % interval": span(e.low, e.high, e.unit),
            "p (Holm)": probability(e.p_holm),
            "smallest": number(e.smallest, e.unit).removeprefix("+"),
        }
        for a in assessed
        for e in a.evidence
    ]
    return Grid("What was measured for each claim", pd.DataFrame(rows).set_index("claim"), EVIDENCE_NOTES)
