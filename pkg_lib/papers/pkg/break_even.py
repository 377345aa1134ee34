"""Table 8 by method, and after how many queries the graph pays for its building (Section 6.5, Implication 5).

The paper says that the cost is amortized over many queries and gives no number. Here: extra seconds of building the graph over
a row index, divided by the seconds that its shorter contexts save a query. Tokens of the prompt take less time than new ones, how
much less is not measured; so two bounds are given: prompt tokens are free, or take as long as new ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from pkg_lib.analysis.figures import COLOURS, QUIET, legend_below, row_axes, styled, title_room
from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import DASH, HERE, MINUS
from pkg_lib.papers.pkg.cost import Made, new_tokens, prompt_tokens, signed, table9
from pkg_lib.papers.pkg.graphs import GRAPH, stored, table8_rows

BM25 = Path("benchmarks", "bm25.json")
ROWS, GRAPHS = ("Dense", "BM25"), ("Block-PKG", "Func-PKG")
PAPER = "published"
BLUE = COLOURS[0]
TABLE8 = {"Encoding": "encoding", "Overall Time": "in all", "Storage Usage": "storage"}


def build_seconds(results: Path) -> dict[str, float]:
    """Seconds to build what PKG and Dense search, by step, from the stored runs; absent where a part was not measured.

    Encoding is an estimate: texts over the measured texts per processor second. Dense encodes the documents, cut at the same
    number of word pieces: no extraction and no graph. Search is exact, so no HNSW index is built.
    """
    found = stored(results, GRAPH)
    if not found:
        return {}
    one, steps = found["build"]["one"], {}
    steps["PKG: extraction, blocks, graph"] = one["wall_s"] + one["save_s"]
    if "encoding" in found:
        per_second = found["encoding"]["texts_per_cpu_s"]
        steps["PKG: encoding"] = found["payloads"] / per_second
        steps["PKG"] = steps["PKG: extraction, blocks, graph"] + steps["PKG: encoding"]
        steps["Dense"] = steps["Dense: encoding"] = found["documents"] / per_second
    return steps


def function_index_seconds(results: Path) -> float | None:
    """Seconds to index the graph's functions by BM25, scaled by their number; None where either was not measured."""
    found, graph = stored(results, BM25), stored(results, GRAPH)
    return found["build_s"] / found["functions"] * graph["functions"] if found and graph else None


def _published() -> dict[tuple[str, str], str]:
    rows = pd.read_csv(HERE / "reference" / "pkg_table8_cost.csv")
    kept = rows[rows["step"].isin(list(TABLE8))]
    return {(TABLE8[r.step], r.method): f"{r.value:,.0f} {r.unit}" for r in kept.itertuples(index=False)}


def table8_grid(results: Path) -> Grid:
    """Table 8 by step and method: the paper's PKG, VoyageAI and BM25; here the graph, the rows' embeddings, Func-BM25's index."""
    found, theirs = stored(results, GRAPH) or {}, _published()
    rows = {
        step: [there or DASH, *[theirs.get((step, m), DASH) for m in ("VoyageAI", "BM25")], here, DASH, DASH]
        for step, there, here in table8_rows(found)
    }
    _estimate(rows, results, theirs)
    columns = [(PAPER, m) for m in ("PKG", "VoyageAI", "BM25")] + [
        ("here", m) for m in ("PKG", "Dense (rows)", "Func-BM25")
    ]
    frame = pd.DataFrame.from_dict(
        rows, orient="index", columns=pd.MultiIndex.from_tuples(columns)
    ).rename_axis("step")
    notes = [
        f"{DASH} not measured, or not in the paper. Estimates: distinct texts of the graph, and files, over the measured speed "
        "of encoding the graph's texts on one processor; Func-BM25's index scaled by the number of functions.",
    ]
    if found:
        notes.append(
            f"Here: {found['documents']:,} files of installed source with {found['functions']:,} functions."
        )
    return Grid("Table 8: time and storage to build what is searched", frame, tuple(notes))


def _estimate(rows: dict[str, list[str]], results: Path, theirs: Mapping[tuple[str, str], str]) -> None:
    """Adds the time of encoding, and the time in all, as far as they can be estimated."""
    built, functions = build_seconds(results), function_index_seconds(results)
    for place, step in ((3, "PKG: encoding"), (4, "Dense: encoding")):
        if step in built:
            measured = "" if rows["encoding"][place] == DASH else rows["encoding"][place] + ": "
            rows["encoding"][place] = f"{measured}{duration(built[step])} (estimate)"
    here = [built.get("PKG"), built.get("Dense"), functions]
    there = [theirs["in all", m] for m in ("PKG", "VoyageAI", "BM25")]
    rows["in all"] = [*there, *(DASH if s is None else f"{duration(s)} (estimate)" for s in here)]


def duration(seconds: float) -> str:
    """ "12 s", "60 min" or "2.9 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@dataclass(frozen=True, slots=True)
class Saving:
    """What one query with a column of the graph saves against one with a column of rows; what it costs more is negative.

    `extra_s`: seconds of building more; `prompt`, `new`: mean tokens saved; `search_s`: seconds of searching more.
    """

    name: str
    tasks: int
    extra_s: float | None
    prompt: float
    new: float | None
    search_s: float

    def seconds(self, per_second: float, prompt_share: float) -> float:
        """Seconds saved a query where a token of the prompt takes `prompt_share` of a new one's time."""
        return (prompt_share * self.prompt + (self.new or 0.0)) / per_second - self.search_s

    def queries(self, per_second: float, prompt_share: float) -> float | None:
        """Queries after which the building has paid; infinite where nothing is saved, None where it was not measured."""
        if self.extra_s is None:
            return None
        saved = self.seconds(per_second, prompt_share)
        return math.inf if saved <= 0 else max(0.0, self.extra_s / saved)


def savings(made: Made, results: Path) -> list[Saving]:
    """Each measured column of the graph against each measured one of rows, over the tasks that both completed.

    BM25's row index is not measured and counts as free, Dense's search too, so a break-even is at most too late.
    """
    asked, wrote, built = prompt_tokens(made), new_tokens(made), build_seconds(results)
    search = _search_seconds(results)
    found = []
    for graph in (c for c in GRAPHS if c in made):
        for row in (c for c in ROWS if c in made):
            prompt, new = (asked[row] - asked[graph]).dropna(), (wrote[row] - wrote[graph]).dropna()
            extra = built["PKG"] - (built["Dense"] if row == "Dense" else 0.0) if "PKG" in built else None
            if len(prompt):
                found.append(
                    Saving(f"{graph} against {row}", len(prompt), extra, prompt.mean(), new.mean(), search)
                )
    return found


def published_savings() -> list[Saving]:
    """The same of the paper: minutes of Table 8, tokens of Table 9 (mean of its tokenizers); it prints no new tokens."""
    tokens = table9().mean(axis=1)
    rows = pd.read_csv(HERE / "reference" / "pkg_table8_cost.csv").set_index(["step", "method"])["value"]
    minutes, query = {m: rows["Overall Time", m] for m in ("PKG", "VoyageAI", "BM25")}, rows["Query", "PKG"]
    pairs = [(g, r, m) for g in GRAPHS for r, m in (("Dense", "VoyageAI"), ("BM25", "BM25"))]
    return [
        Saving(
            f"{PAPER}: {g} against {m}",
            0,
            60.0 * (minutes["PKG"] - minutes[m]),
            tokens[r] - tokens[g],
            None,
            float(query) if m == "BM25" else 0.0,
        )
        for g, r, m in pairs
    ]


def _search_seconds(results: Path) -> float:
    found = stored(results, GRAPH)
    return (found["search"]["exact_ms"] + found["pruning"]["median_ms"]) / 1000 if found else 0.0


def break_even_grid(made: Made, results: Path, speed: Mapping[str, Any] | None) -> Grid:
    """After how many queries the graph pays, with prompt tokens free and with prompt tokens as dear as new ones."""
    per_second = speed["batch_tokens_per_s"] if speed else None
    rows = {s.name: _row(s, per_second) for s in [*savings(made, results), *published_savings()]}
    columns = [
        "tasks",
        "extra build",
        "prompt tokens saved",
        "new tokens saved",
        "s saved a query (a)",
        "queries (a)",
        "s saved a query (b)",
        "queries (b)",
    ]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("graph against rows")
    notes = (
        "An estimate. Saved: the rows' mean minus the graph's on the same tasks; searching the graph is taken off. Seconds at "
        "the stored speed of new tokens: (a) prompt tokens take no time, (b) as long as new ones; the truth should lie between.",
        "The graph is the one of Table 8, the tokens are of this experiment's corpus. Published: minutes of Table 8 and tokens "
        "of Table 9 at this machine's speed, new tokens taken as equal, 3 s a query for the graph against BM25.",
        f"never: nothing is saved, so there is no break-even. {DASH} not measured.",
    )
    return Grid("Queries until the graph has paid for its building", frame, notes)


def _row(saving: Saving, per_second: float | None) -> list[str]:
    new = DASH if saving.new is None else signed(saving.new)
    extra = DASH if saving.extra_s is None else duration(saving.extra_s)
    cells = [str(saving.tasks or DASH), extra, signed(saving.prompt), new]
    for share in (0.0, 1.0):
        known = per_second is not None and not (share == 0.0 and saving.new is None)
        cells += (
            [
                f"{saving.seconds(per_second, share):.2f}".replace("-", MINUS),
                _queries(saving.queries(per_second, share)),
            ]
            if known
            else [DASH, DASH]
        )
    return cells


def _queries(queries: float | None) -> str:
    return DASH if queries is None else "never" if math.isinf(queries) else f"{math.ceil(queries):,}"


def findings(made: Made, results: Path, speed: Mapping[str, Any] | None) -> list[str]:
    """Whether and when the graph pays in time, pair by pair."""
    found, per_second = savings(made, results), speed["batch_tokens_per_s"] if speed else None
    if not found:
        return ["No column of a code graph is measured beside one of rows, so there is no break-even."]
    if per_second is None or found[0].extra_s is None:
        return [
            "The time to build or the speed of the model is not measured here, so there is no break-even."
        ]
    return [_said(s, per_second) for s in found]


def _said(saving: Saving, per_second: float) -> str:
    free, dear = (saving.queries(per_second, share) for share in (0.0, 1.0))
    what = f"{saving.name}: {duration(saving.extra_s or 0.0)} more to build"
    if free is None or dear is None or (math.isinf(free) and math.isinf(dear)):
        return f"{what} and no time saved a query, so there is no break-even."
    if math.isinf(free):
        return f"{what}; pays after {math.ceil(dear):,} queries if prompt tokens are as dear as new ones, never if they are free."
    if math.isinf(dear):
        return f"{what}; pays after {math.ceil(free):,} queries if prompt tokens are free, never if they are as dear as new ones."
    low, high = sorted((math.ceil(free), math.ceil(dear)))
    return f"{what}; pays after {low:,} to {high:,} queries (estimate)."


# share of a new token's time that a prompt token takes -> marker, size, face, what it says. One is a ring, so that both can be
# seen at one place.
BOUNDS = {
    1.0: ("o", 4, BLUE, "(b) if reading a token takes as long as writing one"),
    0.0: ("o", 7, "none", "(a) if reading the prompt takes no time"),
}


@styled
def figure(made: Made, results: Path, speed: Mapping[str, Any] | None, title: str) -> Figure:
    """Between which numbers of queries each graph pays: (b) and (a) of `break_even_grid` on a logarithmic axis with a place for
    "never"; the paper's (b) as squares."""
    per_second = speed["batch_tokens_per_s"] if speed else None
    found = [s for s in savings(made, results) if s.extra_s is not None] if per_second else []
    drawn, axes = row_axes(
        max(2, len(found)), 0.34, legend=0.5 if found else 0.0, left=0.98, top=title_room(title)
    )
    drawn.text(0.02, 1 - 0.06 / drawn.get_figheight(), title, fontsize=8, va="top")
    if not found or per_second is None:
        axes.text(0.5, 0.5, "not measured", ha="center", color=QUIET, transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return drawn
    names = [s.name for s in found]
    theirs = {s.name.removeprefix(f"{PAPER}: ").replace("VoyageAI", "Dense"): s for s in published_savings()}
    queries = pd.DataFrame(
        {share: [s.queries(per_second, share) for s in found] for share in BOUNDS}, dtype=float
    ).clip(lower=1)
    paper = pd.Series([theirs[n].queries(per_second, 1.0) for n in names], dtype=float).clip(lower=1)
    never = _log_axis(axes, pd.concat([*(queries[share] for share in BOUNDS), paper]))
    queries, paper = queries.replace(math.inf, never), paper.replace(math.inf, never)
    axes.hlines(range(len(found)), queries.min(axis=1), queries.max(axis=1), color=BLUE, linewidth=1.4)
    for share, (marker, size, face, label) in BOUNDS.items():
        axes.plot(
            queries[share], range(len(found)), marker, color=BLUE, mfc=face, markersize=size, label=label
        )
    beneath = [place + 0.3 for place in range(len(found))]
    axes.plot(paper, beneath, "s", mfc="white", mec=QUIET, mew=0.6, label="(b) from the paper's tables")
    axes.set(xlabel="queries until the graph has paid (estimate)")
    axes.set_yticks(range(len(found)), [n.replace(" against ", "\nagainst ") for n in names])
    legend_below(axes, ncols=1)
    return drawn


def _log_axis(axes: Axes, queries: pd.Series) -> float:
    """Whole powers of ten around the finite numbers, and where "never" stands beyond them."""
    known = queries[queries < math.inf]
    low, high = (
        (0, 2)
        if known.empty
        else (math.floor(math.log10(known.min())), math.ceil(math.log10(known.max()) + 1e-9))
    )
    never = 10.0 ** (high + 0.18 * (high - low))
    step = 1 + (high - low) // 6
    ticks = [10.0**e for e in range(low, high + 1, step)]
    axes.set(xscale="log", xlim=(0.8 * 10.0**low, 10.0 ** (high + 0.3 * (high - low))))
    axes.set_xticks([*ticks, never], [*map(EngFormatter(sep=""), ticks), "never"])
    axes.set_xticks([], minor=True)
    axes.axvline(10.0 ** (high + 0.07 * (high - low)), color=QUIET, linewidth=0.6, linestyle=":")
    axes.grid(axis="x")
    return never
