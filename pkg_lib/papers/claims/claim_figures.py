"""The claim ledger as a forest plot: each claim's published effect and what was measured, marked by verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pkg_lib.analysis.figures import INK, QUIET, styled, ticks_inside
from pkg_lib.analysis.tables import MINUS
from pkg_lib.papers.claims.claims import CONTRADICTED, INCONCLUSIVE, REPRODUCED, Assessed, Claim, Evidence

# verdict -> colour (Okabe and Ito's), face and filling, which say the same without colour; the shape is the corpus.
LOOK = {
    REPRODUCED: ("#0072B2", "#0072B2", "full"),
    CONTRADICTED: ("#D55E00", "#D55E00", "right"),
    INCONCLUSIVE: (QUIET, "white", "full"),
}
SHAPES = ("o", "s", "^", "v", "P", "X")
PUBLISHED = {
    "marker": "D",
    "mfc": "white",
    "mec": INK,
    "mew": 0.7,
    "ms": 3,
    "color": QUIET,
    "ls": ":",
    "lw": 0.7,
}
TAKEN = PUBLISHED | {"marker": "|", "mew": 1.2, "ms": 5, "ls": "none"}
SIGNS = {"above": ">", "below": "<", "about": "≈", "at most": "≤", "at least": "≥"}
LANE = 0.065  # inches that a measurement takes


def label(claim: Claim) -> str:
    """A claim as a formula: "Block-PKG > None", "Block-PKG alone ≈"."""
    args, sign = claim.args, SIGNS.get(claim.relation, "")
    if claim.test == "error_shift":
        return f"{'fewer' if sign == '<' else 'more'} {args['error']}s"
    if claim.test == "share":
        passed, failed = args.get("passed", []), args.get("failed", [])
        alone = f"{passed[0]} alone" if passed and failed else f"{len(passed)} columns alike"
        return f"lost by {failed[0]} {sign}" if "among" in args else f"{alone} {sign}"
    a, b = args["column"], args["against"]
    where = ", other corpus" if "corpora" in args else ", text corpora" if claim.topic == "text" else ""
    return (f"{a} {MINUS} {b} {sign}" if sign == "≈" else f"{a} {sign} {b}") + where


def drawn(assessed: Sequence[Assessed], benchmark: str) -> list[Assessed]:
    """The claims that have a place: measured on runs, in points or percent of tasks; those about text last."""
    tests = ("paired", "share", "error_shift")
    claims = [a for a in assessed if a.claim.test in tests and a.evidence]
    fits = [a for a in claims if a.claim.args["benchmark"] == benchmark]
    return sorted(fits, key=lambda a: a.claim.topic == "text")


@styled
def forest(assessed: Sequence[Assessed], benchmark: str) -> Figure:
    """One benchmark's claims, 17 cm wide, a panel a model, a claim with its published effect and a lane a corpus.

    The diamond is the published effect with the range over the paper's models.
    """
    claims, places, lane = drawn(assessed, benchmark), {}, 0.0
    for a in claims:
        places[a.claim.id], lane = lane, lane + 1.7 + len({e.where for e in a.evidence})
    subjects = list(dict.fromkeys(e.subject for a in claims for e in a.evidence)) or ["nothing measured"]
    shapes = dict(zip(dict.fromkeys(_corpus(e) for a in claims for e in a.evidence), SHAPES, strict=False))
    figure = Figure(figsize=(6.69, max(1.0, LANE * lane) + 1.1), layout="constrained")
    panels = figure.subplots(1, len(subjects), sharex=True, sharey=True, squeeze=False)
    for axes, subject in zip(panels[0], subjects, strict=True):
        for a in claims:
            where = list(dict.fromkeys(e.where for e in a.evidence))
            for e in (e for e in a.evidence if e.subject == subject):
                axes.plot([100 * v for v in e.spread], [places[a.claim.id]] * 2, **PUBLISHED | {"marker": ""})
                axes.plot(100 * e.target, places[a.claim.id], **(TAKEN if e.ours else PUBLISHED))
                height = places[a.claim.id] + 1 + where.index(e.where)
                axes.plot([100 * e.low, 100 * e.high], [height] * 2, color=LOOK[e.verdict][0], linewidth=0.9)
                axes.plot(100 * e.effect, height, **_mark(e.verdict, shapes[_corpus(e)]))
        axes.axvline(0, color=INK, linewidth=0.6)
        axes.grid(axis="x")
        axes.set_title(subject, loc="left")
    ticks_inside(axes.xaxis)
    axes.set(ylim=(max(lane, 1), -1))
    panels[0, 0].set_yticks([*places.values()], [label(a.claim) for a in claims])
    text = "points of pass@1, or % of tasks" if claims else "No claim is measured on these runs."
    panels[0, 0].set_xlabel(text)
    _legend(figure, shapes)
    return figure


def _corpus(e: Evidence) -> str:
    return e.where.rpartition(", ")[2]


def _mark(verdict: str, shape: str) -> dict[str, Any]:
    colour, face, filling = LOOK[verdict]
    look = {"color": colour, "mfc": face, "fillstyle": filling, "mfcalt": "white", "marker": shape}
    return look | {"mew": 0.7, "markersize": 4.2}


def _legend(figure: Figure, shapes: Mapping[str, str]) -> None:
    """Three columns: what is published, colour and filling by verdict, shape by corpus."""
    plain = {"color": INK, "mfc": "none", "mew": 0.7, "ms": 4.2, "ls": "none"}
    columns = [
        [
            Line2D([], [], **PUBLISHED, label="published: mean and range of the models"),
            Line2D([], [], **TAKEN, label="bound taken here"),
            Line2D([], [], color=INK, linewidth=0.9, label="95 % interval"),
        ],
        [Line2D([], [], **_mark(v, "o"), linewidth=0.9, label=v) for v in LOOK],
        [Line2D([], [], **plain, marker=shape, label=corpus) for corpus, shape in shapes.items()],
    ]
    longest = max(map(len, columns))
    blank = Line2D([], [], ls="none", label=" ")
    handles = [handle for part in columns for handle in part + [blank] * (longest - len(part))]
    figure.legend(handles=handles, ncols=3, loc="outside lower center")
