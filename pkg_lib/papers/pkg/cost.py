"""Tables 8 and 9 (Section 6.4): what building costs, what a context costs in every prompt, and after how many queries it pays.

Tokens are counted by the model's own tokenizer when a completion is made, so nothing is tokenized here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from scipy import stats

from pkg_lib.analysis.figures import (
    BAR,
    INK,
    QUIET,
    beside,
    legend_below,
    row_axes,
    styled,
    ticks_inside,
    title_room,
)
from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import BASELINE, CONFIDENCE, pass_at_1
from pkg_lib.analysis.tables import DASH, HERE, MINUS, TITLES, kind, percent
from pkg_lib.core.types import Generation
from pkg_lib.papers.pkg.graphs import stored

GENERATION = Path("benchmarks", "generation.json")
TABLE9_AS = {"VoyageEmb": "Dense"}
RERANKED = "Reranked"
Made = Mapping[str, Mapping[str, Generation]]


def prompt_tokens(made: Made) -> pd.DataFrame:
    """Tokens of each prompt [task, column] from column -> task id -> completion; NaN where there is none."""
    return _frame(made, lambda g: g.prompt_tokens)


def new_tokens(made: Made) -> pd.DataFrame:
    """Tokens that the model wrote [task, column], without the end token; NaN where there is no completion."""
    return _frame(made, lambda g: len(g.tokens))


def _frame(made: Made, count: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {c: pd.Series({i: count(g) for i, g in found.items()}, dtype=float) for c, found in made.items()}
    )


def added_tokens(made: Made) -> pd.DataFrame:
    """Tokens that the context adds to the prompt [task, column]: the prompt's minus those of None's for the same task.

    They include the words that introduce the context; a task for which nothing was found adds 0.
    """
    tokens = prompt_tokens(made)
    return tokens.drop(columns=BASELINE).sub(tokens[BASELINE], axis=0)


def table9() -> pd.DataFrame:
    """The paper's mean tokens of a context on HumanEval: column x tokenizer."""
    rows = pd.read_csv(HERE / "reference" / "pkg_table9_context_tokens.csv")
    return rows.pivot(index="method", columns="tokenizer", values="avg_tokens").rename(index=TABLE9_AS)


def beside_table9(made: Made, benchmark: str) -> bool:
    """Whether Table 9 is about these columns: code contexts on HumanEval."""
    return benchmark == "humaneval" and kind(made) == "code"


def context_grid(made: Made, benchmark: str) -> Grid:
    """Table 9: tokens that each column's context adds, beside the paper's means on HumanEval."""
    added, theirs = added_tokens(made), table9() if beside_table9(made, benchmark) else pd.DataFrame()
    rows = {}
    for column in added:
        known = added[column].dropna()
        published = [f"{theirs.at[column, t]:.0f}" if column in theirs.index else DASH for t in theirs]
        rows[column] = [str(len(known) or DASH), *_spread(known), *published]
    columns = [
        "tasks",
        "mean",
        "95 % interval",
        "median",
        "95th percentile",
        *(f"published, {t}" for t in theirs),
    ]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("column")
    notes = [
        f"Tokens of the prompt minus those of None's for the same task, by the model's tokenizer. {DASH} not measured."
    ]
    if len(theirs):
        notes.append(
            "Published: mean additional tokens with another corpus and the tokenizers named (Table 9)."
        )
    return Grid(
        f"Table 9: tokens that a context adds on {TITLES.get(benchmark, benchmark)}", frame, tuple(notes)
    )


def _spread(known: pd.Series) -> list[str]:
    """Mean, its t interval, median, 95th percentile."""
    if known.empty:
        return [DASH] * 4
    low, high = _interval(known)
    bounds = f"{low:.0f} to {high:.0f}" if len(known) > 1 else DASH
    return [f"{known.mean():.0f}", bounds, f"{known.median():.0f}", f"{known.quantile(0.95):.0f}"]


def _interval(known: pd.Series) -> tuple[float, float]:
    """Student's interval of a mean; the mean itself where all are equal or there is but one."""
    error = stats.sem(known) if len(known) > 1 else 0.0
    if not error:
        return float(known.mean()), float(known.mean())
    low, high = stats.t.interval(CONFIDENCE, len(known) - 1, known.mean(), error)
    return float(low), float(high)


def rate(results: Path, model: str) -> dict[str, Any] | None:
    """The stored speed of this very model (results/benchmarks/generation.json); None where it was not measured."""
    found = stored(results, GENERATION)
    return found if found and found.get("model") == model else None


def speed_note(speed: Mapping[str, Any] | None) -> str:
    """Where the seconds come from, or that there are none."""
    if not speed:
        return (
            "Completions record no wall time, and no speed of this model is stored, so there are no seconds."
        )
    return (
        f"Completions record no wall time. Seconds are estimates: new tokens over {speed['batch_tokens_per_s']} tokens a second, "
        f"measured in one batch of {speed['prompts']} prompts without context in {speed['slots']} slots "
        f"({speed['single_tokens_per_s']} one prompt at a time); longer prompts take longer than that."
    )


def generation_grid(made: Made, speed: Mapping[str, Any] | None) -> Grid:
    """New tokens of each column, the share that stopped at the limit, and seconds estimated from the stored speed."""
    tokens, rows = new_tokens(made), {}
    per_second = speed["batch_tokens_per_s"] if speed else None
    for column, found in made.items():
        known = tokens[column].dropna()
        cut = sum(g.finish == "length" for g in found.values())
        against = (tokens[column] - tokens[BASELINE]).dropna()
        change = DASH if against.empty or column == BASELINE else signed(against.mean())
        rows[column] = [
            str(len(known) or DASH),
            *_spread(known),
            change,
            percent(cut / len(known)) if len(known) else DASH,
            *_seconds(known, per_second),
        ]
    columns = [
        "completions",
        "mean",
        "95 % interval",
        "median",
        "95th percentile",
        "mean against None",
        "cut at the limit, %",
        "s a query (estimate)",
        "minutes in all (estimate)",
    ]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("column")
    return Grid("New tokens", frame, (speed_note(speed), f"{DASH} not measured."))


def signed(tokens: float) -> str:
    """A mean difference in tokens with its sign."""
    return f"{tokens:+.0f}".replace("-", MINUS)


def _seconds(known: pd.Series, per_second: float | None) -> list[str]:
    if known.empty or not per_second:
        return [DASH] * 2
    return [f"{known.mean() / per_second:.1f}", f"{known.sum() / per_second / 60:.0f}"]


def price_grid(made: Made, verdicts: pd.DataFrame, prices: pd.DataFrame) -> Grid:
    """Tokens of a query and of a solved task, and dollars for 1,000 queries by each row of `prices.read_prices`.

    Reranked reads and writes what all its candidates do, on the tasks for which every one is there.
    """
    asked, wrote = prompt_tokens(made), new_tokens(made)
    common = asked.dropna().index
    sums = {c: (asked[c].mean(), wrote[c].mean(), verdicts[c]) for c in made}
    if len(common) and RERANKED in verdicts:
        whole = (asked.loc[common].mean().sum(), wrote.loc[common].mean().sum(), verdicts[RERANKED])
        sums[f"{RERANKED} (all of them)"] = whole
    rows = {c: _priced(*found, prices) for c, found in sums.items()}
    columns = ["tokens read", "tokens written", "tokens a solved task", *(f"$, {m}" for m in prices.index)]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("column")
    note = (
        "Means of one query; dollars for 1,000 queries at the prices of the table, which are the user's to check. Counts are by "
        f"this model's tokenizer; another model's differ. {DASH} not measured, or no price."
    )
    return Grid("Price of 1,000 queries", frame, (note,))


def _priced(read: float, written: float, verdicts: pd.Series, prices: pd.DataFrame) -> list[str]:
    passed = pass_at_1(verdicts).value
    counts = [read, written, (read + written) / passed if passed else math.nan]
    return [
        *(DASH if math.isnan(n) else f"{n:,.0f}" for n in counts),
        *(_dollars(read, written, *p) for p in prices.to_numpy()),
    ]


def _dollars(read: float, written: float, input_price: float, output_price: float) -> str:
    price = (read * input_price + written * output_price) / 1e6 * 1000
    return DASH if math.isnan(price) else f"{price:.2f}"


@styled
def context_figure(made: Made, benchmark: str, title: str) -> Figure:
    """Tokens that each column's context adds: mean as a bar, 5th to 95th percentile as a line, the paper's means beneath."""
    added, theirs = added_tokens(made), table9() if beside_table9(made, benchmark) else pd.DataFrame()
    figure, axes = row_axes(added.shape[1], 0.34, legend=0.2 if len(theirs) else 0.0, top=title_room(title))
    look = {"color": BAR, "saturation": 1, "width": 0.5, "err_kws": {"color": INK, "linewidth": 0.9}}
    sns.barplot(added, orient="h", errorbar=("pi", 90), ax=axes, **look)
    for place, mean in enumerate(added.mean()):
        beside(axes, place, DASH if math.isnan(mean) else f"{mean:.0f}")
        if math.isnan(mean):
            axes.text(
                0.02,
                place,
                "not measured",
                va="center_baseline",
                color=QUIET,
                transform=axes.get_yaxis_transform(),
            )
    for tokenizer, marker in zip(theirs, "os", strict=False):
        there = [(theirs.at[c, tokenizer], i + 0.36) for i, c in enumerate(added) if c in theirs.index]
        axes.plot(
            *zip(*there, strict=True),
            marker,
            mfc="white",
            mec=QUIET,
            mew=0.6,
            label=f"published, {tokenizer}",
        )
    axes.set(
        ylim=(added.shape[1] - 0.5, -0.5), ylabel="", xlabel="tokens added: mean, 5th to 95th percentile"
    )
    axes.set_xlim(left=0)
    ticks_inside(axes.xaxis)
    axes.grid(axis="x")
    axes.set_yticks(range(added.shape[1]), list(added))
    figure.text(0.02, 1 - 0.06 / figure.get_figheight(), title, fontsize=8, va="top")
    legend_below(axes)
    return figure


def findings(made: Made, benchmark: str, speed: Mapping[str, Any] | None) -> list[str]:
    """What the token counts say, sentence by sentence; the break-even has its own (`break_even.findings`)."""
    added = added_tokens(made)
    means = added.mean().dropna().sort_values()
    if means.empty:
        return ["No column with a context is measured beside None, so there are no added tokens."]
    said = [
        f"Mean tokens that a context adds, fewest first: {', '.join(f'{c} {m:.0f}' for c, m in means.items())}."
    ]
    said += _order(means) if beside_table9(made, benchmark) else []
    wrote = new_tokens(made)
    change = wrote.drop(columns=BASELINE).sub(wrote[BASELINE], axis=0)
    intervals = {c: _interval(change[c].dropna()) for c in change if change[c].notna().any()}
    parts = [
        f"{c} {signed(change[c].mean())} ({signed(low)} to {signed(high)})"
        for c, (low, high) in intervals.items()
    ]
    said.append(f"New tokens against None, mean and 95 % interval: {'; '.join(parts)}.")
    return [*said, speed_note(speed)]


def _order(means: pd.Series) -> list[str]:
    """Whether the columns stand in the order of Table 9."""
    theirs = table9().mean(axis=1)
    both = [c for c in theirs.sort_values().index if c in means]
    if len(both) < 2:
        return []
    ours = sorted(both, key=lambda c: means[c])
    pairs = ", ".join(f"{c} {means[c]:.0f} here, {theirs[c]:.0f} there" for c in both)
    return [
        f"The order of Table 9 ({', '.join(both)}) {'is the same' if ours == both else 'is another'} here: {pairs}."
    ]
