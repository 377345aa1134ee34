"""The claim ledger as tables and sentences; every word about a verdict is computed from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import DASH, MINUS, percent, points, probability
from pkg_lib.papers.claims.claim_study import Study
from pkg_lib.papers.claims.claim_tests import claimed_by
from pkg_lib.papers.claims.claims import (
    BUILT,
    CONTRADICTED,
    DIRECTED,
    INCONCLUSIVE,
    MIXED,
    NOT_ATTEMPTED,
    OVERALL,
    PRINTED,
    REPLAYED,
    REPRODUCED,
    RUNS,
    Assessed,
    Evidence,
    by_subject,
    tally,
)


def number(value: float, unit: str) -> str:
    """A number in its unit: "+6.0" points, "5.5 %" of tasks, "+36" tokens, "14.2"; NaN is an en dash."""
    if math.isnan(value):
        return DASH
    if unit == "points":
        return points(value)
    if unit == "percent":
        return f"{percent(value)} %"
    text = f"{value:+,.0f}" if unit == "tokens" else f"{value:,.3f}".rstrip("0").rstrip(".")
    return ("0" if text in ("+0", "-0") else text).replace("-", MINUS)


def span(low: float, high: float, unit: str) -> str:
    """Two numbers as "−8.5 to +1.2"; an en dash without."""
    return DASH if math.isnan(low) else f"{number(low, unit)} to {number(high, unit)}"


def size(value: float, unit: str) -> str:
    """What could have been shown, without a sign."""
    return number(value, unit).removeprefix("+")


def published(e: Evidence) -> str:
    """What the claim names, with the smallest and largest of the paper's models in brackets where there are several; what a
    word is taken for is not published, and said so."""
    low, high = e.spread
    several = not math.isnan(low) and low != high
    printed = span(low, high, e.unit) if several else number(low, e.unit)
    if e.ours:
        return f"{printed} (taken here: {number(e.target, e.unit)})"
    return number(e.target, e.unit) + (f" ({printed})" if several else "")


def ledger(assessed: Sequence[Assessed]) -> Grid:
    """One row a claim: the verdict, what it says, the published number, all that was measured, where it stands."""
    rows = {a.claim.id: _row(a) for a in assessed}
    columns = ["verdict", "claim", "published", "here (95 % interval)", "measured on", "stands in", "version"]
    notes = (
        "Published: the mean over the paper's models, in brackets the lowest and highest. Here: every measurement that there is, "
        "in the order of the evidence table. Differences in points of pass@1.",
        "Taken here: what this ledger takes a word for (few, little, most), where the paper prints no number for it.",
        f"Mixed: not all measurements have the same verdict. {DASH} no number is claimed, or nothing is measured.",
    )
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("id")
    return Grid("Claims of the PKG paper", frame, notes)


def _row(a: Assessed) -> tuple[str, ...]:
    claimed = "; ".join(dict.fromkeys(published(e) for e in a.evidence or (claimed_by(a.claim),)))
    seen = [
        number(e.effect, e.unit) + ("" if math.isnan(e.low) else f" ({span(e.low, e.high, e.unit)})")
        for e in a.evidence
    ]
    here = "; ".join(seen) or a.why
    subjects = by_subject(a)
    whom = ", ".join(s if len(subjects) == 1 else f"{s}: {v}" for s, v in subjects.items()) or DASH
    return (a.verdict, a.claim.says, claimed, here, whom, a.claim.place, a.claim.version)


def evidence(assessed: Sequence[Assessed]) -> Grid:
    """One row a measurement."""
    rows = [
        (
            a.claim.id,
            e.verdict,
            e.subject,
            e.where,
            DASH if e.exact else f"{e.n}",
            published(e),
            number(e.effect, e.unit),
            span(e.low, e.high, e.unit),
            probability(e.p_holm),
            size(e.smallest, e.unit),
        )
        for a in assessed
        for e in a.evidence
    ]
    columns = [
        "claim",
        "verdict",
        "measured on",
        "where",
        "n",
        "published",
        "here",
        "95 % interval",
        "p (Holm)",
        "smallest",
    ]
    notes = (
        "Smallest: what this n could have shown. For a direction, the difference that McNemar's test finds with 80 % power at "
        "the observed discordance and Holm's strictest level; for tokens and for sizes half of the interval.",
        f"{DASH} recomputed, so without chance, or no such number.",
    )
    return Grid(
        "What was measured for each claim", pd.DataFrame(rows, columns=columns).set_index("claim"), notes
    )


def counts(assessed: Sequence[Assessed]) -> Grid:
    """Verdicts by topic, in the order of the ledger, and over all."""
    groups = {topic: list(found) for topic, found in groupby(assessed, key=lambda a: a.claim.topic)} | {
        "all": list(assessed)
    }
    rows = {
        topic: [str(n) for n in tally(found).values()] + [str(len(found))] for topic, found in groups.items()
    }
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*OVERALL, "claims"]).rename_axis("topic")
    return Grid("Claims by verdict", frame)


def findings(assessed: Sequence[Assessed]) -> list[str]:
    """What the ledger says, in sentences. A claim that was tested on runs and on published completions counts in both."""
    groups = {
        "tested on runs of this study's models": _measured_on(assessed, RUNS),
        "tested on completions that the authors published": _measured_on(assessed, REPLAYED),
        "about the graph, measured on this implementation": _measured_on(assessed, BUILT),
        "recomputed from the paper's own tables": _measured_on(assessed, PRINTED),
    }
    said = [f"{len(assessed)} claims: {_counted(Counter(a.verdict for a in assessed))}."]
    said += [
        f"Of {len(g)} {what}: {_counted(Counter(a.verdict for a in g))}." for what, g in groups.items() if g
    ]
    own = groups["recomputed from the paper's own tables"]
    tested = [a for a in assessed if a.claim not in [b.claim for b in own]]
    said += _named("Reproduced wherever measured", tested, REPRODUCED)
    said += _named("Contradicted wherever measured", tested, CONTRADICTED)
    said += _mixed(tested)
    said += _named("The paper's sentences that its own tables contradict", own, CONTRADICTED)
    said += _named("Sentences that hold in one reading, table or version and not in another", own, MIXED)
    return [*said, *_power(assessed), *_by_model(_measured_on(assessed, RUNS, REPLAYED))]


def _measured_on(assessed: Sequence[Assessed], *sources: str) -> list[Assessed]:
    """The claims with evidence of these sources, judged by that alone."""
    parts = [replace(a, evidence=tuple(e for e in a.evidence if e.source in sources)) for a in assessed]
    return [a for a in parts if a.evidence]


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{found[v]} {v}" for v in OVERALL if found[v]) or "none"


def _named(what: str, assessed: Sequence[Assessed], verdict: str) -> list[str]:
    says = [a.claim.says for a in assessed if a.verdict == verdict]
    return [f"{what} ({len(says)}): {'; '.join(says)}."] if says else []


def _mixed(assessed: Sequence[Assessed]) -> list[str]:
    """Claims whose measurements contradict each other, and claims that are decided one way in some of them alone."""
    mixed = [(a, {e.verdict for e in a.evidence}) for a in assessed if a.verdict == MIXED]
    both, either = {REPRODUCED, CONTRADICTED}, [REPRODUCED, CONTRADICTED]
    said = _named(
        "Reproduced in some measurements and contradicted in others",
        [a for a, v in mixed if both <= v],
        MIXED,
    )
    for one in either:
        some = [a for a, v in mixed if v & both == {one}]
        said += _named(f"{one.capitalize()} in some measurements and inconclusive in the others", some, MIXED)
    return said


def _power(assessed: Sequence[Assessed]) -> list[str]:
    """How large the differences are that inconclusive comparisons could have shown."""
    directed = [e for a in assessed if a.claim.relation in DIRECTED for e in a.evidence]
    open_ = [e for e in directed if e.verdict == INCONCLUSIVE and e.unit == "points"]
    known = sorted(e.smallest for e in open_ if not math.isnan(e.smallest))
    if not known:
        return []
    rest = len(open_) - len(known)
    none = f"; {rest} had too few tasks that differ to show any" if rest else ""
    ends = f"{percent(known[0])} to {percent(known[-1])}"
    return [
        f"{len(open_)} comparisons are inconclusive: they could have shown differences of at least {ends} points{none}."
    ]


def _by_model(assessed: Sequence[Assessed]) -> list[str]:
    found: dict[str, Counter[str]] = {}
    for a in assessed:
        for subject, verdict in by_subject(a).items():
            found.setdefault(subject, Counter())[verdict] += 1
    return [f"On {s}: {c.total()} claims, {_counted(c)}." for s, c in found.items()]


def missing(assessed: Sequence[Assessed]) -> Grid:
    """What the claims that are not attempted wait for, claims with the same need together."""
    needs: dict[str, list[str]] = {}
    for a in assessed:
        if a.verdict == NOT_ATTEMPTED:
            needs.setdefault(a.claim.needs, []).append(a.claim.id)
    rows = {", ".join(ids): [need] for need, ids in needs.items()} or {"nothing": [DASH]}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["missing"]).rename_axis("claims")
    return Grid("Not attempted", frame)


def provenance(study: Study) -> dict[str, Any]:
    """Which runs, replays and files the verdicts rest on."""
    files = [study.results / "benchmarks" / "graph.json"]
    return {
        "runs": {r.family: r.experiment.provenance() for r in study.runs},
        "replayed": sorted(p.name for p in study.results.glob("replay/*") if p.is_dir()),
        "files": sorted(p.relative_to(study.results).as_posix() for p in files if p.is_file()),
    }
