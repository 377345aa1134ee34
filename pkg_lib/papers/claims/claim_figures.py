"""The claim ledger as a forest plot: each claim's published effect and what was measured here, marked by verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pkg_lib.analysis.figures import INK, QUIET, styled
from pkg_lib.analysis.tables import MINUS, TITLES
from pkg_lib.papers.claims.claims import CONTRADICTED, INCONCLUSIVE, REPRODUCED, Assessed, Claim, Evidence

# verdict -> colour (Okabe and Ito's), face and filling, which say the same without colour; the shape is the corpus.
LOOK = {
    REPRODUCED: ("#0072B2", "#0072B2", "full"),
    CONTRADICTED: ("#D55E00", "#D55E00", "right"),
    INCONCLUSIVE: ("#6B6B6B", "white", "full"),
}
SHAPES = ("o", "s", "^", "v", "P", "X")
Groups = dict[str, list[Assessed]]
PAPER = {
    "marker": "D",
    "mfc": "white",
    "mec": INK,
    "mew": 0.7,
    "markersize": 3,
    "color": QUIET,
    "linestyle": ":",
}
TAKEN = PAPER | {"marker": "|", "mew": 1.2, "markersize": 5, "linestyle": "none"}
SIGNS = {"above": ">", "below": "<", "about": "≈", "at most": "≤", "at least": "≥"}
WIDTH, LEFT, RIGHT, TOP, BOTTOM, GAP = 6.69, 1.95, 0.1, 0.26, 0.88, 0.12  # inches
LINE, PAD = 0.065, 0.05  # a measurement, and the room between two claims


def label(claim: Claim) -> str:
    """A claim as a formula: "Block-PKG > None", "only Block-PKG ≈"."""
    args, sign = claim.args, SIGNS.get(claim.relation, "")
    if claim.test == "share":
        return _share_label(args, sign)
    if claim.test == "error_shift":
        return f"{'fewer' if sign == '<' else 'more'} {args['error']}s"
    pair = (args["column"], args["against"])
    formula = f"{pair[0]} {MINUS} {pair[1]} {sign}" if sign == "≈" else f"{pair[0]} {sign} {pair[1]}"
    return f"{formula}, other corpus" if "corpora" in args else formula


def _share_label(args: Mapping[str, Any], sign: str) -> str:
    if args.get("among"):
        return f"lost by {args['failed'][0]} {sign}"
    return (
        f"{args['passed'][0]} alone {sign}"
        if args.get("failed")
        else f"{len(args['passed'])} columns alike {sign}"
    )


def drawn(assessed: Sequence[Assessed], benchmark: str) -> dict[str, list[Assessed]]:
    """heading -> the claims that have a place in the figure: measured on runs, in points or percent of tasks; text last."""
    tests, title, found = ("paired", "share", "error_shift"), TITLES[benchmark], {}
    mine = [
        a for a in assessed if a.claim.test in tests and a.evidence and a.claim.args["benchmark"] == benchmark
    ]
    for a in sorted(mine, key=lambda a: a.claim.topic == "text"):
        found.setdefault(f"{title}, text corpora" if a.claim.topic == "text" else title, []).append(a)
    return found


@styled
def forest(assessed: Sequence[Assessed], benchmark: str) -> Figure:
    """One benchmark's claims, 17 cm wide, a panel a model: the published effect (diamond, with the range over the paper's
    models) and ours below it, a shape and a line a corpus."""
    groups = drawn(assessed, benchmark)
    claims = [a for found in groups.values() for a in found]
    subjects = list(dict.fromkeys(e.subject for a in claims for e in a.evidence))
    corpora = {
        heading: list(dict.fromkeys(_corpus(e) for a in found for e in a.evidence))
        for heading, found in groups.items()
    }
    places, tall = _places(groups, corpora)
    figure = Figure(figsize=(WIDTH, tall + TOP + BOTTOM))
    room = (WIDTH - LEFT - RIGHT - GAP * (max(len(subjects), 1) - 1)) / max(len(subjects), 1)
    for number, subject in enumerate(subjects or ["nothing measured"]):
        box = (LEFT + number * (room + GAP)) / WIDTH, BOTTOM / (tall + TOP + BOTTOM)
        axes = figure.add_axes((*box, room / WIDTH, tall / (tall + TOP + BOTTOM)))
        _panel(axes, subject, groups, places, corpora, tall)
        _names(axes, groups, places, number == 0)
    _legend(figure, corpora)
    return figure


def _corpus(e: Evidence) -> str:
    return e.where.rpartition(", ")[2]


def _shapes(corpora: dict[str, list[str]]) -> list[str]:
    """The corpora of the figure, in the order of SHAPES."""
    return list(dict.fromkeys(c for names in corpora.values() for c in names))


def _places(groups: Groups, corpora: dict[str, list[str]]) -> tuple[dict[str, float], float]:
    """heading or claim id -> the top of its row in inches from the top of the axes; and the height of all."""
    places, at = {}, 0.0
    for heading, found in groups.items():
        places[heading], at = at, at + 0.2
        for a in found:
            places[a.claim.id], at = at, at + max(0.17, LINE * (len(corpora[heading]) + 1) + PAD)
    return places, max(at, 0.4)


def _panel(
    axes: Axes,
    subject: str,
    groups: Groups,
    places: dict[str, float],
    corpora: dict[str, list[str]],
    tall: float,
) -> None:
    claims = [(heading, a) for heading, found in groups.items() for a in found]
    edges = [
        v for _, a in claims for e in a.evidence for v in (e.low, e.high, *_theirs(e)) if not math.isnan(v)
    ]
    widest = 105 * max([0.1, *map(abs, edges)])
    lowest = -widest if any(v < 0 for v in edges) else 0
    axes.set(xlim=(lowest, widest), ylim=(tall, 0))
    axes.set_xticks([t for t in MaxNLocator(6).tick_values(lowest, widest) if lowest <= t <= widest])
    axes.axvline(0, color=INK, linewidth=0.6)
    axes.grid(axis="x")
    axes.set_title(subject, loc="left")
    for heading, a in claims:
        top = places[a.claim.id] + PAD / 2 + LINE / 2
        mine = [e for e in a.evidence if e.subject == subject]
        if mine:
            _published(axes, mine[0], top)
        for e in mine:
            shape = SHAPES[_shapes(corpora).index(_corpus(e)) % len(SHAPES)]
            _measured(axes, e, top + LINE * (1 + corpora[heading].index(_corpus(e))), shape)


def _theirs(e: Evidence) -> tuple[float, ...]:
    """The published numbers that are drawn; a direction that the paper prints no number for has none."""
    return (e.target, *e.spread)


def _published(axes: Axes, e: Evidence, y: float) -> None:
    axes.plot([100 * v for v in e.spread], [y, y], color=QUIET, linewidth=0.7, linestyle=":")
    axes.plot(100 * e.target, y, **(TAKEN if e.ours else PAPER))


def _measured(axes: Axes, e: Evidence, y: float, shape: str) -> None:
    axes.plot(
        [100 * e.low, 100 * e.high], [y, y], color=LOOK[e.verdict][0], linewidth=0.9, solid_capstyle="butt"
    )
    axes.plot(100 * e.effect, y, **_mark(e.verdict, shape))


def _mark(verdict: str, shape: str) -> dict[str, Any]:
    colour, face, filling = LOOK[verdict]
    look = {
        "color": colour,
        "mfc": face,
        "fillstyle": filling,
        "mfcalt": "white",
        "mew": 0.7,
        "markersize": 4.2,
    }
    return look | {"marker": shape}


def _names(axes: Axes, groups: Groups, places: dict[str, float], shown: bool) -> None:
    """Claims' names left of the first panel; a line above each heading in all of them."""
    axes.spines["left"].set_visible(False)
    axes.hlines(
        [places[h] for h in groups], 0, 1, transform=axes.get_yaxis_transform(), color=QUIET, linewidth=0.5
    )
    names = {places[heading] + 0.1: heading for heading in groups}
    names |= {places[a.claim.id] + PAD / 2 + LINE: label(a.claim) for found in groups.values() for a in found}
    axes.set_yticks([*names] if shown else [], [*names.values()] if shown else [], fontsize=7)
    for text in axes.get_yticklabels():
        text.set_fontweight("bold" if text.get_text() in groups else "normal")


def _legend(figure: Figure, corpora: dict[str, list[str]]) -> None:
    tall = figure.get_figheight()
    published = [Line2D([], [], **PAPER, label="published: mean and range of the models")]
    published += [Line2D([], [], **TAKEN, label="bound taken here")]
    published += [Line2D([], [], color=INK, linewidth=0.9, label="95 % interval")]
    shapes = zip(_shapes(corpora), SHAPES, strict=False)
    look = {"color": INK, "linestyle": "none", "mfc": "none", "mew": 0.7, "markersize": 4.2}
    rows = {
        "": published,
        "Colour and filling:": [Line2D([], [], **_mark(v, "o"), linewidth=0.9, label=v) for v in LOOK],
        "Shape, corpus:": [Line2D([], [], **look, marker=shape, label=name) for name, shape in shapes],
    }
    for number, (title, handles) in enumerate(rows.items()):
        handles = [Line2D([], [], linestyle="", label=title)] * bool(title) + handles
        place = {"loc": "center", "bbox_to_anchor": (0.5, (0.41 - 0.16 * number) / tall), "borderaxespad": 0}
        figure.legend(handles=handles, ncols=len(handles), handlelength=2.0, **place)
    text = "points of pass@1, or % of tasks" if corpora else "No claim is measured on these runs."
    figure.text(0.5, 0.55 / tall, text, ha="center", fontsize=7)
