"""After how many queries does the graph pay off (Section 6.5)?

Building the graph takes longer than building an index of rows. Its contexts are shorter, so a query
may take less time. The number of queries is the extra time of building over the time saved per query.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, MINUS, signed_count
from pkg_lib.papers.pkg.cost import duration
from pkg_lib.papers.pkg.cost_tables import (
    NOT_MEASURED,
    CostMeasurements,
    TokenUse,
    table9,
)
from pkg_lib.papers.pkg.pass_tables import printed

GRAPH_SIDE = ("Block-PKG", "Func-PKG")
DENSE = "VoyageEmb"
ROW_SIDE = {DENSE: "VoyageAI", "BM25": "BM25"}  # method -> its name in the paper's Table 8
# A prompt token takes no time, or as long as a new token. The truth should lie between.
PROMPT_FREE, PROMPT_AS_NEW = 0.0, 1.0
BOUNDS = {
    "prompt tokens are free": PROMPT_FREE,
    "prompt tokens take as much time as generated tokens": PROMPT_AS_NEW,
}
PUBLISHED_BOUND = "the same, with the paper's numbers"
COLUMNS = (
    "tasks",
    "extra time to build",
    "prompt tokens saved",
    "generated tokens saved",
    "seconds saved per query, prompt free",
    "queries to break even, prompt free",
    "seconds saved per query, prompt slow",
    "queries to break even, prompt slow",
)
NOTES = (
    "An estimate with two bounds: prompt tokens take no time (prompt free), or as much time as "
    "generated tokens (prompt slow). The true number should be between them. Saved: the mean with rows "
    "minus the mean with the graph on the same tasks; the time of searching the graph is subtracted from "
    "the seconds saved.",
    "The graph is that of Table 8; the tokens are of this experiment's corpus. In the paper: minutes "
    "of Table 8 and tokens of Table 9 at this machine's speed. The paper does not report generated tokens, "
    "so the bound for free prompt tokens is unknown. It would be never if they were equally many, which "
    "the other bound assumes. Against BM25 the graph takes 3 s more per query.",
    f"never: nothing is saved, so the graph does not pay off. {NOT_MEASURED}",
)


@dataclass(frozen=True)
class Saving:
    """What a query with a method of the graph saves against one with a method of rows.

    Attributes:
        name: What the comparison is called.
        methods: The method of the graph and the method of rows.
        tasks: Number of tasks that both completed; 0 for the paper's figures.
        build_s: Extra seconds of building; NaN if unknown.
        prompt_tokens: Mean prompt tokens saved.
        new_tokens: Mean new tokens saved; NaN if unknown.
        search_s: Extra seconds of searching.
    """

    name: str
    methods: tuple[str, str]
    tasks: int
    build_s: float
    prompt_tokens: float
    new_tokens: float
    search_s: float

    def seconds_per_query(
        self,
        prompt_share: float,
        tokens_per_second: float,
    ) -> float:
        """Compute the seconds that a query saves.

        Args:
            prompt_share: Time of a prompt token as a share of the time of a new token.
            tokens_per_second: Speed of new tokens.

        Returns:
            The seconds. Unknown new tokens count as equal.
        """
        new_tokens = 0.0 if math.isnan(self.new_tokens) else self.new_tokens
        tokens = prompt_share * self.prompt_tokens + new_tokens
        return tokens / tokens_per_second - self.search_s

    def queries(
        self,
        prompt_share: float,
        tokens_per_second: float,
    ) -> float:
        """Compute after how many queries building the graph has paid off.

        Args:
            prompt_share: Time of a prompt token as a share of the time of a new token.
            tokens_per_second: Speed of new tokens.

        Returns:
            The number; infinite if nothing is saved, NaN if something was not measured.
        """
        saved = self.seconds_per_query(prompt_share, tokens_per_second)
        if math.isnan(self.build_s) or math.isnan(saved):
            return math.nan
        return math.inf if saved <= 0 else max(0.0, self.build_s / saved)


def measured_savings(
    use: TokenUse,
    measured: CostMeasurements,
) -> list[Saving]:
    """Compare the graph's methods with those of rows on the tasks that both completed.

    BM25's index over rows was not measured and counts as free.

    Args:
        use: Tokens of the experiment.
        measured: The measurements.

    Returns:
        One saving per pair of methods with a common task.
    """
    search_s = 0.0
    if measured.graph:
        search = measured.graph["search"]["exact_ms"]
        pruning = measured.graph["pruning"]["median_ms"]
        search_s = (search + pruning) / 1000
    built = measured.built
    savings = []
    for method in GRAPH_SIDE:
        for row_method in ROW_SIDE:
            if not {method, row_method} <= set(use.read):
                continue
            prompt = (use.read[row_method] - use.read[method]).dropna()
            new = (use.written[row_method] - use.written[method]).dropna()
            if prompt.empty:
                continue
            row_build_s = built.get(DENSE, math.nan) if row_method == DENSE else 0.0
            saving = Saving(
                name=f"{method} against {row_method}",
                methods=(method, row_method),
                tasks=len(prompt),
                build_s=built.get("PKG", math.nan) - row_build_s,
                prompt_tokens=float(prompt.mean()),
                new_tokens=float(new.mean()),
                search_s=search_s,
            )
            savings.append(saving)
    return savings


def published_savings() -> list[Saving]:
    """Make the same comparison from the paper's Tables 8 and 9.

    Returns:
        One saving per pair of methods. The paper has no number of new tokens.
    """
    minutes = printed(8).astype(float)
    overall = minutes["Overall Time"]
    tokens = table9().mean(axis=1)
    savings = []
    for method in GRAPH_SIDE:
        for row_method, name in ROW_SIDE.items():
            extra = overall["PKG"] - overall[name]
            saving = Saving(
                name=f"in the paper: {method} against {name}",
                methods=(method, row_method),
                tasks=0,
                build_s=60.0 * extra,
                prompt_tokens=tokens[row_method] - tokens[method],
                new_tokens=math.nan,
                search_s=minutes["Query"]["PKG"] if row_method == "BM25" else 0.0,
            )
            savings.append(saving)
    return savings


def count_of_queries(number: float) -> str:
    """Print a number of queries.

    Args:
        number: The number.

    Returns:
        Text such as "1,504"; "never" for infinity, an en dash for NaN.
    """
    if math.isnan(number):
        return DASH
    return "never" if math.isinf(number) else f"{math.ceil(number):,}"


def break_even_table(
    savings: Sequence[Saving],
    tokens_per_second: float,
) -> ResultTable:
    """Tabulate what is saved, and after how many queries building the graph has paid off.

    Args:
        savings: Measured and published savings.
        tokens_per_second: Speed of new tokens; NaN if it was not measured.

    Returns:
        One row per saving, with both bounds. The bound for free prompt tokens is a dash where new
        tokens are unknown; the other bound counts them as equally many.
    """
    rows = {}
    for saving in savings:
        has_new_tokens = not math.isnan(saving.new_tokens)
        cells = [
            str(saving.tasks or DASH),
            duration(saving.build_s),
            signed_count(saving.prompt_tokens),
            signed_count(saving.new_tokens),
        ]
        for prompt_share in (PROMPT_FREE, PROMPT_AS_NEW):
            is_known = has_new_tokens or prompt_share > 0
            if math.isnan(tokens_per_second) or not is_known:
                cells += [DASH, DASH]
                continue
            seconds = saving.seconds_per_query(prompt_share, tokens_per_second)
            queries = saving.queries(prompt_share, tokens_per_second)
            cells.append(f"{seconds:.2f}".replace("-", MINUS))
            cells.append(count_of_queries(queries))
        rows[saving.name] = cells
    title = "Queries until building the graph has paid off"
    return ResultTable.of(title, rows, COLUMNS, "graph against rows", *NOTES)


def query_bounds(
    savings: Sequence[Saving],
    tokens_per_second: float,
) -> pd.DataFrame:
    """Compute both bounds of the number of queries beside the paper's.

    Args:
        savings: Measured savings.
        tokens_per_second: Speed of new tokens; NaN if it was not measured.

    Returns:
        Number of queries, at least 1, [saving, bound]. Empty if the speed, the building or every
        pair of methods was not measured.
    """
    unknown = [saving for saving in savings if math.isnan(saving.build_s)]
    if math.isnan(tokens_per_second) or unknown or not savings:
        return pd.DataFrame()
    published_by_methods = {saving.methods: saving for saving in published_savings()}
    rows = {}
    for saving in savings:
        row = {}
        for bound, prompt_share in BOUNDS.items():
            row[bound] = max(1.0, saving.queries(prompt_share, tokens_per_second))
        paper = published_by_methods[saving.methods]
        row[PUBLISHED_BOUND] = max(1.0, paper.queries(PROMPT_AS_NEW, tokens_per_second))
        rows[saving.name] = row
    return pd.DataFrame.from_dict(rows, orient="index")


def _logarithmic_axis(
    axes: Axes,
    bounds: pd.DataFrame,
) -> float:
    """Show whole powers of ten around the finite numbers, and "never" beyond; return its place."""
    numbers = bounds.replace(math.inf, math.nan).to_numpy(float).ravel()
    finite = numbers[~pd.isna(numbers)]
    low = math.floor(math.log10(finite.min())) if len(finite) else 0
    high = math.ceil(math.log10(finite.max()) + 1e-9) if len(finite) else 2
    never = 10.0 ** (high + 0.24 * (high - low))
    ticks = [10.0**power for power in range(low, high + 1, 1 + (high - low) // 6)]
    names = [f"{tick / 1000:,.0f}k" if tick >= 1000 else f"{tick:.0f}" for tick in ticks]
    end = 10.0 ** (high + 0.36 * (high - low))
    axes.set(xscale="log", xlim=(0.8 * 10.0**low, end))
    axes.set_xticks([*ticks, never], [*names, "never"])
    return float(never)


@figures.styled
def break_even_figure(
    bounds: pd.DataFrame,
    title: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw between which numbers of queries the graph pays off.

    Args:
        bounds: The frame of `query_bounds`.
        title: The title.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure: a line between the bounds of each pair, and the paper's as squares below.
    """
    figure, axes = figures.row_axes(
        max(2, len(bounds)),
        0.34,
        legend=0.5,
        left=1.15,
        title=title,
        ax=ax,
    )
    if bounds.empty:
        axes.text(
            0.5,
            0.5,
            "not measured",
            ha="center",
            color=figures.QUIET,
            transform=axes.transAxes,
        )
    colour = figures.COLOURS[0]
    places = bounds.replace(math.inf, _logarithmic_axis(axes, bounds))
    # Marker, its size, the colours of its edge and face.
    looks = [
        ("o", 7, colour, "none"),
        ("o", 4, colour, colour),
        ("s", 4, figures.QUIET, "white"),
    ]
    for (label, ends), (marker, size, edge, face) in zip(places.items(), looks, strict=False):
        below = 0.3 if label == PUBLISHED_BOUND else 0.0
        rows = [row + below for row in range(len(ends))]
        axes.plot(ends, rows, marker, markersize=size, mec=edge, mfc=face, label=label)
    if len(places):
        ours = places[list(BOUNDS)]
        axes.hlines(
            range(len(ours)),
            ours.min(axis=1),
            ours.max(axis=1),
            color=colour,
            linewidth=1.4,
        )
    axes.set_xlabel("queries to break even (estimate)")
    names = [str(name).replace(" against ", "\nagainst ") for name in places.index]
    axes.set_yticks(range(len(places)), names)
    figures.legend_below(axes, ncols=1)
    return figure


def break_even_findings(
    savings: Sequence[Saving],
    bounds: pd.DataFrame,
) -> list[str]:
    """Say after how many queries the graph pays off, for the first comparison.

    Args:
        savings: Measured savings.
        bounds: The frame of `query_bounds` of these savings.

    Returns:
        One text of two sentences, or a sentence that says that there is no break-even.
    """
    if bounds.empty:
        return ["The building, the speed or a pair of methods was not measured: no break-even."]
    free, as_new = BOUNDS
    saving = savings[0]
    queries: dict[Hashable, Any] = bounds.loc[saving.name].to_dict()
    if_as_new = count_of_queries(queries[as_new])
    if_free = count_of_queries(queries[free])
    return [
        f"{saving.name}: building takes {duration(saving.build_s)} longer. Queries until that has paid off "
        f"(estimate): {if_free} if prompt tokens cost nothing, {if_as_new} if they cost as much time as "
        "generated tokens."
    ]
