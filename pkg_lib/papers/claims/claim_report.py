"""The claim ledger as tables and sentences; every word about a verdict is computed from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.sentences import finding
from pkg_lib.analysis.tables import DASH, MINUS, percent, points, probability
from pkg_lib.papers.claims import claims
from pkg_lib.papers.claims.claim_tests import claimed_by
from pkg_lib.papers.claims.claims import Assessed, Evidence


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
    """What the claim names, in brackets the smallest and largest of the paper's models where there are
    several.

    What a word is taken for is not published, and said so.
    """
    low, high = e.spread
    several = not math.isnan(low) and low != high
    models, target = span(low, high, e.unit) if several else number(low, e.unit), number(e.target, e.unit)
    return f"{models} (taken here: {target})" if e.ours else f"{target} ({models})" if several else target


def ledger(assessed: Sequence[Assessed]) -> Grid:
    """One row a claim: verdict, what it says, the published number, all that was measured, its place."""
    rows = {}
    for a in assessed:
        effects = [number(e.effect, e.unit) for e in a.evidence]
        bounds = ["" if math.isnan(e.low) else f" ({span(e.low, e.high, e.unit)})" for e in a.evidence]
        subjects = a.by_subject
        rows[a.claim.id] = {
            "verdict": a.verdict,
            "claim": a.claim.says,
            "published": "; ".join(dict.fromkeys(map(published, a.evidence or [claimed_by(a.claim)]))),
            "here (95 % interval)": "; ".join(map("".join, zip(effects, bounds, strict=True)))
            or f"missing: {a.claim.needs}",
            "measured on": ", ".join(s if len(subjects) == 1 else f"{s}: {v}" for s, v in subjects.items())
            or DASH,
            "stands in": a.claim.place,
            "version": a.claim.version,
        }
    notes = (
        "Published: the mean over the paper's models, in brackets the lowest and highest. Here: every "
        "measurement that there is, in the order of the evidence table. Differences in points of pass@1.",
        "Taken here: what this ledger takes a word for (few, little, most), where the paper prints no "
        "number for it.",
        f"Mixed: not all measurements have the same verdict. {DASH} no number is claimed, or nothing is "
        "measured.",
    )
    return Grid("Claims of the PKG paper", pd.DataFrame.from_dict(rows, "index").rename_axis("id"), notes)


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
    notes = (
        "Smallest: what this n could have shown. For a direction, the difference that McNemar's test finds "
        "with 80 % power at the observed discordance and Holm's strictest level; for tokens and for sizes "
        "half of the interval.",
        f"{DASH} recomputed, so without chance, or no such number.",
    )
    return Grid("What was measured for each claim", pd.DataFrame(rows).set_index("claim"), notes)


def counts(verdicts: Sequence[str]) -> str:
    """ "3 reproduced, 1 mixed", in the order of the ledger."""
    return ", ".join(f"{verdicts.count(v)} {v}" for v in claims.OVERALL if v in verdicts) or "none"


def measured_on(assessed: Sequence[Assessed], *sources: str) -> list[Assessed]:
    """The claims with evidence of these sources, judged by that alone."""
    parts = [replace(a, evidence=tuple(e for e in a.evidence if e.source in sources)) for a in assessed]
    return [a for a in parts if a.evidence]


def findings(assessed: Sequence[Assessed]) -> list[str]:
    """What the ledger says. A claim that was tested on runs and on published completions counts in both."""
    groups = {
        "tested on runs of this study's models": measured_on(assessed, claims.RUNS),
        "tested on completions that the authors published": measured_on(assessed, claims.REPLAYED),
        "about the graph, measured on this implementation": measured_on(assessed, claims.BUILT),
        "recomputed from the paper's own tables": measured_on(assessed, claims.PRINTED),
    }
    sentences = [f"{len(assessed)} claims: {counts([a.verdict for a in assessed])}."]
    for what, group in groups.items():
        sentences += finding(f"Of {len(group)} {what}", [counts([a.verdict for a in group])] if group else [])
    judged = [a.by_subject for a in measured_on(assessed, claims.RUNS, claims.REPLAYED)]
    of_model = {s: [by[s] for by in judged if s in by] for by in judged for s in by}
    return [
        *sentences,
        *_named(assessed),
        *(f"On {s}: {len(v)} claims, {counts(v)}." for s, v in of_model.items()),
    ]


# (own tables, verdicts that decide it) -> how the claims are introduced that were measured so
HEADS = {
    (False, "reproduced"): "Reproduced wherever measured",
    (False, "contradicted"): "Contradicted wherever measured",
    (False, "mixed reproduced contradicted"): "Reproduced in some measurements and contradicted in others",
    (False, "mixed reproduced"): "Reproduced in some measurements and inconclusive in the others",
    (False, "mixed contradicted"): "Contradicted in some measurements and inconclusive in the others",
    (True, "contradicted"): "The paper's sentences that its own tables contradict",
    (True, "mixed reproduced contradicted"): "Sentences that hold in one reading, table or version only",
}


def _named(assessed: Sequence[Assessed]) -> list[str]:
    """The claims in words, by verdict; mixed ones by whether their measurements contradict each other."""
    says: dict[tuple[bool, str], list[str]] = {key: [] for key in HEADS}
    for a in assessed:
        verdicts = {e.verdict for e in a.evidence}
        decided = [v for v in (claims.REPRODUCED, claims.CONTRADICTED) if v in verdicts]
        how = " ".join([a.verdict, *(decided if a.verdict == claims.MIXED else [])])
        says.setdefault((any(e.source == claims.PRINTED for e in a.evidence), how), []).append(a.claim.says)
    return [s for key, head in HEADS.items() for s in finding(f"{head} ({len(says[key])})", says[key])]
