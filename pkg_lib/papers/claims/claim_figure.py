"""The figure of the claim ledger: published and measured effects with their intervals."""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pkg_lib.analysis.figures import INK, QUIET, HouseFigure, styled, ticks_inside
from pkg_lib.analysis.tables import MINUS
from pkg_lib.papers.claims import claims
from pkg_lib.papers.claims.claims import Assessed, Claim

SIGNS = {
    "above": ">",
    "below": "<",
    "about": "≈",
    "at most": "≤",
    "at least": "≥",
}
# Colour (Okabe and Ito's), face and filling, which say the same without colour.
BLUE = "#0072B2"
ORANGE = "#D55E00"
SUPPORTED = (BLUE, BLUE, "full")
OPPOSED = (ORANGE, ORANGE, "right")
UNDECIDED = (QUIET, "white", "full")
LOOK = {
    **dict.fromkeys(claims.SUPPORTING, SUPPORTED),
    **dict.fromkeys(claims.OPPOSING, OPPOSED),
    claims.INCONCLUSIVE: UNDECIDED,
}
LEGEND = {
    "holds, or reproduced": claims.HOLDS,
    "does not hold, or contradicted": claims.FAILS,
    "inconclusive": claims.INCONCLUSIVE,
}
SHAPES = ("o", "s", "^", "v", "P", "X")  # of the corpora
Look = dict[str, Any]
PUBLISHED: Look = {
    "marker": "D",
    "mfc": "white",
    "mec": INK,
    "mew": 0.7,
    "ms": 3,
    "color": QUIET,
    "ls": ":",
    "lw": 0.7,
}
RANGE: Look = PUBLISHED | {"marker": ""}
TAKEN: Look = PUBLISHED | {
    "marker": "|",
    "mew": 1.2,
    "ms": 5,
    "ls": "none",
}
WIDTH = 6.69  # inches
TESTS = ("paired", "share", "error_shift")  # in points, or percent of tasks


@styled
def claim_figure(assessed: Iterable[Assessed], benchmark: str) -> Figure:
    """Draw the published and the measured effects, one panel per model.

    Args:
        assessed: The claims with their measurements.
        benchmark: The benchmark by name.

    Returns:
        The figure. A claim has a row for what is published, and one for each place where it was
        measured.
    """
    shown = drawn_claims(assessed, benchmark)
    places = {}
    lane = 0.0
    corpora: dict[str, None] = {}
    for claim in shown:
        lanes = _lanes(claim)
        places[claim.claim.id] = lane
        lane += 1.7 + len(lanes)
        corpora |= dict.fromkeys(map(_corpus, lanes))
    shapes = dict(zip(corpora, SHAPES, strict=False))
    height = max(1.0, 0.065 * lane) + 1.1
    figure = HouseFigure(figsize=(WIDTH, height), layout="constrained")
    first = _draw_panels(figure, shown, places, shapes)
    lowest = max(lane, 1)
    labels = [claim_label(claim.claim) for claim in shown]
    first.set(ylim=(lowest, -1))
    first.set_yticks(list(places.values()), labels)
    about = "No claim is measured on these runs."
    if shown:
        about = "points of pass@1, or % of tasks"
    first.set_xlabel(about)
    _draw_legend(figure, shapes)
    return figure


def drawn_claims(assessed: Iterable[Assessed], benchmark: str) -> list[Assessed]:
    """Return the claims that the figure of a benchmark shows.

    Args:
        assessed: The claims with their measurements.
        benchmark: The benchmark by name.

    Returns:
        Those that are measured on runs, in points or percent of tasks. Claims about text come last.
    """
    measured = [claim for claim in assessed if claim.claim.test in TESTS and claim.evidence]
    shown = [claim for claim in measured if claim.claim.benchmark == benchmark]
    return sorted(shown, key=lambda claim: claim.claim.topic == "text")


def claim_label(claim: Claim) -> str:
    """Return a claim as a formula.

    Args:
        claim: A claim of one of TESTS.

    Returns:
        Text such as "Block-PKG > NoRAG" or "Block-PKG alone ≈".
    """
    args = claim.args
    sign = SIGNS.get(claim.relation, "")
    if claim.test == "error_shift":
        change = "more"
        if sign == "<":
            change = "fewer"
        return f"{change} {args['error']}s"
    if claim.test == "share":
        return f"{_solved_by(args)} {sign}"
    method, other = claim.methods
    if other == f"{method}, unpruned":
        return f"{method}: pruned {sign} whole"
    where = ""
    if "corpora" in args:
        where = ", other corpus"
    elif claim.topic == "text":
        where = ", text corpora"
    if sign == "≈":
        return f"{method} {MINUS} {other} {sign}{where}"
    return f"{method} {sign} {other}{where}"


def _solved_by(args: Mapping[str, Any]) -> str:
    """Name the tasks that a share counts: those of one method alone, of several, or lost ones."""
    passed = args.get("passed", [])
    failed = args.get("failed", [])
    if "among" in args:
        return f"lost by {failed[0]}"
    if passed and failed:
        return f"{passed[0]} alone"
    return f"{len(passed)} methods alike"


def _lanes(assessed: Assessed) -> list[str]:
    """Return the places where a claim was measured."""
    return list(dict.fromkeys(evidence.where for evidence in assessed.evidence))


def _corpus(where: str) -> str:
    """Return the corpus of "benchmark, corpus"."""
    return where.rpartition(", ")[2]


def _mark(verdict: str, shape: str) -> Look:
    """Return how a measurement looks."""
    colour, face, filling = LOOK[verdict]
    return {
        "color": colour,
        "mfc": face,
        "fillstyle": filling,
        "mfcalt": "white",
        "marker": shape,
        "mew": 0.7,
        "markersize": 4.2,
    }


def _draw_claim(
    axes: Axes,
    place: float,
    assessed: Assessed,
    subject: str,
    shapes: Mapping[str, str],
) -> None:
    """Draw what is published, and below it a lane for each place where a subject was measured."""
    lanes = _lanes(assessed)
    for evidence in assessed.evidence:
        if evidence.subject != subject:
            continue
        spread = [100 * end for end in evidence.spread]
        axes.plot(spread, [place, place], **RANGE)
        target_look = TAKEN if evidence.ours else PUBLISHED
        axes.plot(100 * evidence.target, place, **target_look)
        lane = place + 1 + lanes.index(evidence.where)
        corpus = _corpus(evidence.where)
        mark = _mark(evidence.verdict, shapes[corpus])
        ends = [100 * evidence.low, 100 * evidence.high]
        axes.plot(ends, [lane, lane], color=mark["color"], linewidth=0.9)
        axes.plot(100 * evidence.effect, lane, **mark)


def _draw_panels(
    figure: Figure,
    shown: Sequence[Assessed],
    places: Mapping[str, float],
    shapes: Mapping[str, str],
) -> Axes:
    """Draw a panel with all claims for each subject; return the first."""
    subjects: dict[str, None] = {}
    for claim in shown:
        subjects |= {evidence.subject: None for evidence in claim.evidence}
    names = list(subjects) or ["nothing measured"]
    (panels,) = figure.subplots(1, len(names), sharex=True, sharey=True, squeeze=False)
    for axes, subject in zip(panels, names, strict=True):
        for claim in shown:
            place = places[claim.claim.id]
            _draw_claim(axes, place, claim, subject, shapes)
        axes.axvline(0, color=INK, linewidth=0.6)
        axes.grid(axis="x")
        axes.set_title(fill(subject, 16), loc="left")
    first: Axes = panels[0]
    ticks_inside(axes.xaxis)
    return first


def _draw_legend(figure: Figure, shapes: Mapping[str, str]) -> None:
    """Draw three columns: what is published, looks by verdict, shapes by corpus."""
    published = [
        PUBLISHED | {"label": "the paper: mean and range of its models"},
        TAKEN | {"label": "bound chosen for this study"},
        {"color": INK, "linewidth": 0.9, "label": "95 % interval"},
    ]
    verdicts = []
    for text, verdict in LEGEND.items():
        mark = _mark(verdict, "o")
        verdicts.append(mark | {"linewidth": 0.9, "label": text})
    plain: Look = {
        "color": INK,
        "mfc": "none",
        "mew": 0.7,
        "ms": 4.2,
        "ls": "none",
    }
    corpora = [plain | {"marker": shape, "label": corpus} for corpus, shape in shapes.items()]
    columns: list[list[Look]] = [published, verdicts, corpora]
    longest = max(map(len, columns))
    blank: Look = {"ls": "none", "label": " "}
    handles = []
    for looks in columns:
        missing = longest - len(looks)
        padded = looks + [blank] * missing
        handles += [Line2D([], [], **look) for look in padded]
    figure.legend(handles=handles, ncols=3, loc="outside lower center")
