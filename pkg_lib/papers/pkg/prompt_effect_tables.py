"""Tables, figure and findings of what a gain consists of (`prompt_effects`)."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures
from pkg_lib.analysis.cells import PAIRED_COLUMNS, paired_cells, wilson_range
from pkg_lib.analysis.figures import styled
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import counted, listed
from pkg_lib.analysis.stats import ALPHA
from pkg_lib.analysis.tables import DASH, MINUS, interval, percent, points
from pkg_lib.data.benchmarks import title_of
from pkg_lib.generation.authors_extraction import ALL_BLOCKS
from pkg_lib.papers.pkg.labels import style_label, table7_setting
from pkg_lib.papers.pkg.pass_tables import printed, published_rates
from pkg_lib.papers.pkg.prompt_effects import (
    CONTENTS,
    EFFECTS,
    EXTRACTION_EFFECTS,
    EXTRACTION_LABELS,
    FAILED_PROMPT,
    NO_CONTEXT,
    OURS,
    PROMPT,
    RETRIEVED,
    SENT_AS,
)
from pkg_lib.papers.pkg.validity_tables import short_model_name

# The paper's models that were asked in each style.
PUBLISHED_MODELS = {
    "codellama": ("CodeLlama-7B", "CodeLlama-13B"),
    "starcoder2": ("StarCoder2-7B",),
    "deepseek": ("DeepSeek-Coder-7B",),
}
# Settings of Table 7, which counts errors on MBPP, by style.
TABLE7_MODELS = {
    "codellama": "CodeLlama-7B",
    "starcoder2": "StarCoder-7B",
    "deepseek": "DeepSeekCoder-7B",
}
STYLE_NOTE = (
    "The first column is the model that answers. A prompt style is the authors' prompt for the model "
    "of that name. A block is what Block-PKG retrieves. A code fence is code between the marks "
    "of an answer (``` or [PYTHON])."
)
PROMPTS_NOTE = (
    "Prompt A has no context. B has the words that introduce a context, around a comment that no code was "
    "found. C has the retrieved block instead of that comment, and D the block of another task. No "
    "stray quote: without the quotation mark at the end of CodeLlama's prompt A."
)
TABLE7_TASKS = 500
TABLE7_BENCHMARK = "mbpp"
BLOCK, NONE = "Block-PKG", "NoRAG"
UPPER_SHARE = "largest share in the interval"
LEAST_GAIN = 0.05  # of a published difference, of which a share is computed
SHARES_TITLE = "Effects of words and extraction, compared with the difference in the paper"
EFFECTS_CAPTION = (
    "Change of pass@1 when one thing in the prompt or in the extraction changes, or two (A to C). "
    f"{PROMPTS_NOTE} Extraction: one of the authors' rules instead of this project's; all other rows use "
    "this project's. The two rows of extraction are about the answers to prompt C. Open: raw text; filled: "
    "chat template. A prompt without a marker in a row was not run, or failed: at least half of its answers "
    "are empty."
)


# The columns that name a prompt: who answers on what, and what is sent.
PROMPT_COLUMNS = ["model", "prompt"]


def _prompt_cells(row: Any) -> list[str]:
    """Name the model with its benchmark, and the prompt, e.g. "CodeLlama-style, raw text"."""
    model = _on_benchmark(short_model_name(str(row["model"])), row["benchmark"])
    return [model, f"{style_label(str(row['style']))}, {row['sent as']}"]


def _on_benchmark(model: str, benchmark: str) -> str:
    """Put the short name of a benchmark after a model, e.g. "0.5B HumanEval"."""
    return f"{model} {title_of(benchmark).partition(' (')[0]}"


def _label(value: str) -> str:
    """Spell an extraction as the tables do; other words stay as they are."""
    return EXTRACTION_LABELS.get(value, value)


def _models_note(frame: pd.DataFrame) -> str:
    """Say which models the short names of a table are, e.g. "0.5B is qwen2.5-coder-0.5b-instruct."."""
    models = dict.fromkeys(frame["model"].astype(str))
    return " ".join(f"{short_model_name(model)} is {model}." for model in models)


def _grid(title: str, rows: list[list[str]], columns: list[str], *notes: str) -> ResultTable:
    """Build a table of text whose first column names the rows; names may repeat."""
    frame = pd.DataFrame(rows, columns=columns, dtype=object).set_index(columns[0])
    return ResultTable(title, frame, notes)


def conditions_table(conditions: pd.DataFrame) -> ResultTable:
    """Tabulate pass@1, NameErrors and empty answers in each condition.

    Args:
        conditions: The frame of `prompt_effects.conditions`.

    Returns:
        One row per model, benchmark, style, way of sending, content and extraction.
    """
    rows = []
    for row in conditions.to_dict("records"):
        n = int(row["n"])
        passed = int(row["passed"])
        cells = [*_prompt_cells(row), row["content"], _label(row["extraction"])]
        cells.append(str(n))
        cells.append(percent(passed / n))
        cells.append(wilson_range(passed, n))
        cells.append(str(row["name_errors"]))
        cells.append(DASH if pd.isna(row["empty"]) else str(row["empty"]))
        rows.append(cells)
    columns = [
        *PROMPT_COLUMNS,
        "context",
        "extraction",
        "tasks",
        "pass@1",
        "95 % interval",
        "NameErrors",
        "empty answers",
    ]
    note = (
        "NameErrors and empty answers are numbers of tasks; an answer is empty if the extraction "
        "finds no solution in it. Intervals are Wilson's. Every measured task is counted."
    )
    title = "pass@1 in percent by prompt, context and extraction"
    about_prompts = f"{STYLE_NOTE} {_models_note(conditions)}"
    return _grid(title, rows, columns, PROMPTS_NOTE, about_prompts, note)


def name_errors_table(conditions: pd.DataFrame) -> ResultTable:
    """Set the NameErrors of each prompt beside those of the paper's Table 7.

    Args:
        conditions: The frame of `prompt_effects.conditions`.

    Returns:
        One row per published model of the measured styles, and one per measured prompt and
        extraction; one column per content, in percent of the tasks with the count in brackets.
    """
    contents = list(CONTENTS)
    rows = []
    fewer = []  # models of the paper that have fewer NameErrors with a block
    for style in dict.fromkeys(conditions["style"]):
        model, counts = _published_name_errors(style)
        if counts[RETRIEVED] < counts[NO_CONTEXT]:
            fewer.append(model)
        cells = [
            f"{_on_benchmark(model, TABLE7_BENCHMARK)}, in the paper",
            f"{style_label(style)}, {SENT_AS[False]}",
            _label(ALL_BLOCKS),
        ]
        for content in contents:
            count = counts.get(content)
            cells.append(_share(count, TABLE7_TASKS))
        rows.append(cells)
    keys = [*PROMPT, "extraction"]
    for key, group in conditions.groupby(keys, sort=False):
        about = dict(zip(keys, key, strict=True))
        cells = [*_prompt_cells(about), _label(str(about["extraction"]))]
        by_content = group.set_index("content")
        for content in contents:
            cell = DASH
            if content in by_content.index:
                counted: Any = by_content.loc[content]
                cell = _share(counted["name_errors"], counted["n"])
            cells.append(cell)
        rows.append(cells)
    note = (
        "In percent of the tasks, with the number of tasks in brackets. In the paper: the counts of "
        f"Table 7, of {TABLE7_TASKS} tasks of MBPP. Where a program is the prompt followed by "
        "the answer, as on HumanEval, an empty answer leaves a function that returns None: it "
        "fails by an AssertionError or a TypeError and not by a NameError."
    )
    purpose = "On MBPP, an answer in which the extraction finds no function ends in a NameError."
    if fewer:
        purpose += (
            f" In the paper, {listed(fewer)} {'has' if len(fewer) == 1 else 'have'} fewer NameErrors with "
            f"{BLOCK} than without a context, so extraction may be a part of the gain."
        )
    title = "NameErrors by prompt and context"
    columns = [*PROMPT_COLUMNS, "extraction", *contents]
    return _grid(title, rows, columns, purpose, note, _models_note(conditions))


def _published_name_errors(style: str) -> tuple[str, dict[str, int]]:
    """The paper's model of a style, and its NameErrors on MBPP by content (Table 7)."""
    model = TABLE7_MODELS[style]
    errors = printed(7)["NameError"].astype(int)
    by_content = {
        NO_CONTEXT: errors[model],
        RETRIEVED: errors[f"{model} + {BLOCK}"],
    }
    return table7_setting(model), by_content


def _share(count: int | None, n: int) -> str:
    """A count as a percentage of n, e.g. "27.6 (138 of 500)"."""
    if count is None:
        return DASH
    return f"{percent(count / n)} ({count} of {n})"


def effects_table(effects: pd.DataFrame) -> ResultTable:
    """Format the effects.

    Args:
        effects: The frame of `prompt_effects.effects`.

    Returns:
        One row per effect, with the paired difference in percentage points, its interval, the
        counts behind it and p.
    """
    rows = []
    for _, row in effects.iterrows():
        cells = [*_prompt_cells(row), row["effect"], _label(row["at"])]
        cells += paired_cells(row)
        cells.append(row["untested"])
        rows.append(cells)
    columns = [*PROMPT_COLUMNS, "effect", "extraction or context", *PAIRED_COLUMNS, "not tested"]
    note = (
        "Differences are in percentage points of pass@1, paired by task. 95 % intervals are per "
        "effect, not corrected; they are Tango's score intervals. p is exact. Holm's correction "
        "is over the tested effects of a model on a benchmark. If two extractions give an effect "
        "the same verdicts, the correction counts them as one test. An effect is not tested if at "
        "least half of the answers to one of its prompts are empty (failed prompt), or if no task "
        "differs (no discordant pair)."
    )
    title = "Effects of the words, the context and the extraction"
    return _grid(title, rows, columns, PROMPTS_NOTE, note, _models_note(effects))


def shares(sources: pd.DataFrame) -> pd.DataFrame:
    """Divide what needs no retrieved block by the difference in the paper.

    Args:
        sources: The frame of `prompt_effects.gain_sources`.

    Returns:
        The rows of `sources`, once per published model of the style: further ``published``,
        ``gain`` (the published difference between Block-PKG and NoRAG, a fraction), ``share`` and
        ``upper_share`` (fractions of it). ``upper_share`` is the interval's end in the direction
        of the published difference, as a share of that difference, at least 0. Both are NaN if the
        published difference is smaller than LEAST_GAIN or the prompt failed.
    """
    rows = []
    for row in sources.to_dict("records"):
        rates = published_rates(row["benchmark"], [NONE, BLOCK])
        gains = (rates[BLOCK] - rates[NONE]) / 100
        models = PUBLISHED_MODELS[row["style"]]
        for model in models:
            if model not in gains.index:
                continue
            gain = float(gains[model])
            share = math.nan
            upper_share = math.nan
            if abs(gain) >= LEAST_GAIN and not row["failed"]:
                share = row["difference"] / gain
                ends = [row["low"] / gain, row["high"] / gain]
                upper_share = max(*ends, 0.0)
            added = {
                "published": model,
                "gain": gain,
                "share": share,
                "upper_share": upper_share,
            }
            rows.append(row | added)
    columns = [*sources, "published", "gain", "share", "upper_share"]
    return pd.DataFrame(rows, columns=columns)


def shares_table(shared: pd.DataFrame) -> ResultTable:
    """Format the shares of the published differences.

    Args:
        shared: The frame of `shares`.

    Returns:
        One row per published model, measured prompt and source.
    """
    rows = []
    for row in shared.to_dict("records"):
        cells = [
            _on_benchmark(row["published"], row["benchmark"]),
            points(row["gain"]),
            f"{short_model_name(row['model'])}, {row['sent as']}",
            row["source"],
            str(row["n"]),
            points(row["difference"]),
            interval(row["low"], row["high"]),
            _percent_sign(row["share"]),
            _percent_sign(row["upper_share"]),
        ]
        rows.append(cells)
    columns = ["model in the paper", "difference in the paper", "measured with"]
    columns += ["source", "tasks", "effect", "95 % interval", "share", UPPER_SHARE]
    note = (
        "Differences are in percentage points of pass@1 between Block-PKG and NoRAG. The share is "
        "the effect divided by the difference in the paper: 50 % means that an effect of this "
        "size would make half of that difference, and a negative share that the effect goes in "
        "the opposite direction. The last column is the largest share that the interval of the "
        "effect contains; it is 0 % if all of them are negative. There is no share for a difference "
        f"below {100 * LEAST_GAIN:.0f} points in the paper, which may be chance, and none for a failed "
        "prompt, to which at least half of the answers are empty. Authors' extraction: of all code fences, "
        "their rule for open models. The last source of a model and prompt is the difference between C and A "
        "by the authors' extraction, minus the same difference by this suite's. Each difference in the paper "
        "comes from one run and has no interval (164 tasks of HumanEval, 500 of MBPP). The paper's models "
        "are larger than the measured ones. A share therefore compares sizes. It does not say what the "
        "difference in the paper consists of."
    )
    return _grid(SHARES_TITLE, rows, columns, note, _models_note(shared))


def _percent_sign(fraction: float) -> str:
    """A share in whole percent, e.g. "12 %"."""
    if math.isnan(fraction):
        return DASH
    return f"{round(100 * fraction)} %".replace("-", MINUS)


def _is(frame: pd.DataFrame, model: object, benchmark: object) -> pd.Series:
    return (frame["model"] == model) & (frame["benchmark"] == benchmark)


def gain_finding(shared: pd.DataFrame) -> list[str]:
    """Say whether words or extraction could make the gain that the paper reports.

    An effect that several models of the paper are compared with counts once.

    Args:
        shared: The frame of `shares`.

    Returns:
        One text; none if no effect can be compared with a gain.
    """
    gains = shared[shared["gain"] > 0].dropna(subset=["share"])
    if gains.empty:
        return []
    largest = gains.groupby([*PROMPT, "source"])[["share", "upper_share"]].max()
    count = len(largest)
    whole = (largest["upper_share"] >= 1).sum()
    half = (largest["share"] >= 0.5).sum()
    return [
        f"By their 95 % intervals, {whole or 'none'} of {counted(count, 'measured effect')} of words or "
        f"extraction may be as large as the whole gain of one of the paper's models. {half or 'None'} of the "
        f"{count} {'is' if half == 1 else 'are'} at least half as large. Failed prompts, and models for "
        f"which the paper reports no gain, are left out (table '{SHARES_TITLE}')."
    ]


def effects_finding(effects: pd.DataFrame) -> list[str]:
    """Count the effects of words, context and extraction that are significant after correction.

    Args:
        effects: The frame of `prompt_effects.effects`.

    Returns:
        One sentence; none if nothing was tested.
    """
    if effects.empty:
        return []
    tested = effects[effects["untested"] == ""]
    significant = tested.loc[tested["p_corrected"] < ALPHA, "difference"]
    negative = (significant < 0).sum()
    return [
        f"Of {len(tested)} tested effects of words, context and extraction on pass@1, {len(significant)} are "
        f"significant after Holm's correction; {negative} of these are negative."
    ]


@styled
def effects_figure(
    effects: pd.DataFrame,
    model: str,
    benchmark: str,
    ax: Axes | None = None,
) -> Figure:
    """Draw the effects of one model on one benchmark.

    Args:
        effects: The frame of `prompt_effects.effects`.
        model: Name of the model.
        benchmark: Name of the benchmark.
        ax: Axes to draw into; None makes a figure.

    Returns:
        The figure: a row per effect, a marker per style and way of sending. Effects of content and
        wording are by this project's extraction, with which the effects of extraction compare the
        authors' rules. Effects of extraction are on answers to the retrieved block. Open markers are
        raw text, filled ones the model's chat template. Failed prompts are left out.
    """
    table = effects[_is(effects, model, benchmark)]
    table = table[table["untested"] != FAILED_PROMPT]
    is_extraction = table["effect"].isin(EXTRACTION_EFFECTS)
    shown_at = is_extraction.map({True: RETRIEVED, False: OURS})
    table = table[table["at"] == shown_at]
    measured = set(table["effect"])
    order = [effect for effect in (*EFFECTS, *EXTRACTION_EFFECTS) if effect in measured]
    distinct = table[["style", "sent as"]].drop_duplicates()
    prompts = list(distinct.itertuples(index=False, name=None))
    # All styles, so that one has the same look in the figures of all models.
    looks = figures.distinct_styles(dict.fromkeys(effects["style"]))
    legend_rows = len(prompts)
    tasks = table["n"].unique()
    size = f" ({', '.join(str(n) for n in tasks)} tasks)" if len(tasks) else ""
    title = (
        f"Effects on pass@1 of words, context and extraction\n{model}\n{title_of(benchmark)}{size}"
    )
    figure, axes = figures.row_axes(
        max(len(order), 1),
        0.42,
        legend=0.4 + 0.16 * legend_rows,
        left=1.5,
        title=title,
        right=0.1,
        ax=ax,
    )
    step = 0.8 / max(len(prompts), 1)
    for row in table.to_dict("records"):
        style = row["style"]
        sent_as = row["sent as"]
        prompt_number = prompts.index((style, sent_as))
        first_place = order.index(row["effect"]) - 0.4
        place = first_place + step * (prompt_number + 0.5)
        look = figures.RateLook(
            f"{style_label(style)}, {sent_as}", *looks[style], filled=sent_as != SENT_AS[False]
        )
        figures.point_with_interval(axes, row["difference"], row["low"], row["high"], place, look)
    axes.axvline(0, color=figures.INK, linewidth=0.6, zorder=0)
    axes.set_yticks(range(len(order)), [_wrapped(name) for name in order])
    axes.set(xlabel="percentage points of pass@1\n(95 % interval); right of 0: helps")
    axes.grid(axis="x")
    figures.legend_below(
        axes,
        ncols=1,
        title="prompt style, and how it is sent to the model",
        alignment="left",
        title_fontsize=7,
    )
    return figure


def _wrapped(name: str) -> str:
    """Break the name of an effect into lines that fit beside the axes."""
    wrapped = name.replace(" against ", "\nagainst\n").replace(" (", "\n(")
    return wrapped.replace(" of the ", "\nof the ").replace(" of all ", "\nof all ")
