"""Tables and figure of what a gain consists of (`prompt_effects`)."""

from collections.abc import Iterable

import pandas as pd
from matplotlib.figure import Figure

from pkg_lib.analysis import figures, tables
from pkg_lib.analysis.figures import styled
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import pass_at_1
from pkg_lib.analysis.tables import DASH, percent, points
from pkg_lib.experiment.run import Run
from pkg_lib.papers.pkg.pass_tables import published_rates
from pkg_lib.papers.pkg.prompt_effects import (
    AUTHORS_EXTRACTION_NAME,
    CONTENTS,
    EFFECTS,
    EXTRACTION_EFFECT,
    EXTRACTIONS,
    TEMPLATES_SENT,
    WORDS_EFFECT,
    conditions,
    style_verdicts,
)

# The paper's models that were asked in each style.
PUBLISHED_MODELS = {
    "codellama": ("CodeLlama-7B", "CodeLlama-13B"),
    "starcoder2": ("StarCoder2-7B",),
    "deepseek": ("DeepSeek-Coder-7B",),
}
BLOCK, NONE = "Block-PKG", "None"


def rates_table(runs: Iterable[Run]) -> ResultTable:
    """Tabulate pass@1 of every content, prompt style and way of sending it.

    Args:
        runs: Models on benchmarks, with the authors' contexts.

    Returns:
        One row per model, benchmark, style and template; a cell has the rate by this project's extraction
        and by the authors', in percent.
    """
    rows = {}
    for run in runs:
        for style, in_chat in conditions():
            verdicts = style_verdicts(run, style, in_chat)
            if verdicts.empty or not len(verdicts.columns):
                continue
            name = f"{run.model}, {run.rules.title}, {style}, {TEMPLATES_SENT[in_chat]}"
            rows[name] = [_pair(verdicts, content) for content in CONTENTS]
    note = f"In each cell: {EXTRACTIONS[0]} extraction / {EXTRACTIONS[1]} extraction, on all measured tasks."
    title = "pass@1 in percent by prompt style and content"
    return ResultTable.of(title, rows, list(CONTENTS), "model, benchmark, style, template", note)


def _pair(verdicts: pd.DataFrame, content: str) -> str:
    if (content, EXTRACTIONS[0]) not in verdicts.columns:
        return DASH
    rates = [pass_at_1(verdicts[content, extraction]) for extraction in EXTRACTIONS]
    return f"{percent(rates[0].value)} / {percent(rates[1].value)} (n={rates[0].measured})"


def effects_table(effects: pd.DataFrame) -> ResultTable:
    """Format the effects.

    Args:
        effects: The frame of `prompt_effects.all_effects`.

    Returns:
        One row per effect, with the paired difference in points, interval, counts and corrected p.
    """
    rows = {}
    for key, row in effects.iterrows():
        rows[", ".join(map(str, key))] = [
            f"{row['n']:.0f}",
            points(row["difference"]),
            tables.interval(row["low"], row["high"]),
            f"{row['helped']:.0f}",
            f"{row['hurt']:.0f}",
            tables.probability(row["p"]),
            tables.probability(row["p_holm"]),
        ]
    names = ["tasks", "difference", "95 % interval", "helped", "hurt", "McNemar p", "p (Holm)"]
    note = "Points of pass@1, paired by task; Holm's correction is over the rows of one style and template."
    return ResultTable.of(
        "Effects of wording, content and extraction", rows, names, "condition", note
    )


def shares_table(effects: pd.DataFrame) -> ResultTable:
    """Set the effect of the words alone beside the published gain of Block-PKG.

    Args:
        effects: The frame of `prompt_effects.all_effects`.

    Returns:
        One row per published model and measured condition: the published gain, the measured effect of the
        words around a context without any context, and their ratio. The ratio is given where both are gains.
    """
    rows = {}
    for key, row in _words_effects(effects).iterrows():
        model, benchmark, style, template, extraction = key
        rates = published_rates(benchmark, [NONE, BLOCK])
        for published in PUBLISHED_MODELS[style]:
            if published not in rates.index:
                continue
            gain = float(rates.loc[published, BLOCK] - rates.loc[published, NONE]) / 100
            words = float(row["difference"])
            share = f"{percent(words / gain, 0)} %" if gain > 0 and words > 0 else DASH
            name = f"{published} on {benchmark}; {model}, {template}, {extraction} extraction"
            cells = [points(gain), points(words), tables.interval(row["low"], row["high"]), share]
            rows[name] = cells
    names = ["published gain of Block-PKG", "words alone", "95 % interval", "words / gain"]
    note = (
        "The published gain is of a larger model: the ratio says how much of it an effect of this size could "
        f"explain, not how much it does. {DASH} where one of the two is no gain."
    )
    return ResultTable.of(
        "Words alone beside the published gain", rows, names, "published; measured", note
    )


def _words_effects(effects: pd.DataFrame) -> pd.DataFrame:
    if effects.empty:
        return effects
    return effects.xs(WORDS_EFFECT, level="effect")


@styled
def effects_figure(effects: pd.DataFrame, model: str, benchmark: str) -> Figure:
    """Draw the effects of one model on one benchmark: a row per effect, a marker per style and template.

    Args:
        effects: The frame of `prompt_effects.all_effects`.
        model: Name of the model.
        benchmark: Name of the benchmark.

    Returns:
        The figure. Effects of content and wording are by the authors' extraction; open markers are raw
        prompts, filled ones are in the model's chat template.
    """
    table = effects.loc[(model, benchmark)]
    rows = [*EFFECTS, EXTRACTION_EFFECT]
    figure, axes = figures.row_axes(len(rows), 0.42, legend=0.42, left=1.5, right=0.1)
    groups = list(dict.fromkeys((style, template) for style, template, *_ in table.index))
    step = 0.8 / max(len(groups), 1)
    styles = list(dict.fromkeys(style for style, _ in groups))
    for number, (style, template) in enumerate(groups):
        colour = figures.COLOURS[styles.index(style)]
        is_raw = template == TEMPLATES_SENT[False]
        label = f"{style}, {'raw' if is_raw else 'in chat'}"
        for place, effect in enumerate(rows):
            at = _row_at(table, style, template, effect)
            if at is None:
                continue
            y = place - 0.4 + step * (number + 0.5)
            low, value, high = (100 * float(at[name]) for name in ("low", "difference", "high"))
            axes.plot([low, high], [y, y], color=colour, linewidth=0.9)
            fill = "white" if is_raw else colour
            axes.plot(
                value, y, figures.MARKERS[styles.index(style)], mfc=fill, mec=colour, label=label
            )
    axes.axvline(0, color=figures.INK, linewidth=0.6)
    axes.set_yticks(range(len(rows)), [_wrapped(name) for name in rows])
    axes.set(xlabel="points of pass@1, 95 % interval")
    axes.grid(axis="x")
    figures.legend_below(axes, ncols=2)
    return figure


def _row_at(table: pd.DataFrame, style: str, template: str, effect: str) -> pd.Series | None:
    """The row of an effect; that of the extraction where the paper's prompt has a block."""
    at = "retrieved block" if effect == EXTRACTION_EFFECT else AUTHORS_EXTRACTION_NAME
    key = (style, template, effect, at)
    return table.loc[key] if key in table.index else None


def _wrapped(name: str) -> str:
    return (
        name.replace(", ", ",\n")
        .replace(" instead", "\ninstead")
        .replace("' extraction", "'\nextraction")
    )
