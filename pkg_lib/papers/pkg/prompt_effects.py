"""What the gain of a method with context consists of: content, wording of the prompt, extraction.

The paper compares a prompt with a context to a prompt without one. The two differ in more than the
context: the words around it differ too, and other words can change how an answer is marked and
therefore extracted. Each method here changes one thing at a time, on the same tasks:

    A: no context                     "NoRAG, STYLE prompt"
    A, without the stray quotation mark
                                      "NoRAG, STYLE prompt, no stray quote"
    B: the words that introduce one   "NoRAG, STYLE prompt, no code was found"
    C: retrieved block                "Block-PKG, STYLE prompt"
    D: another task's context         "Block-PKG, swapped, STYLE prompt"

B has a comment that no code was found instead of the block. The second is a control for
CodeLlama's prompt, which ends in a stray quotation mark.

Each prompt is sent in two ways: as raw text, as the authors send it, and as the user's message in
the model's own chat template ("STYLE prompt in chat"). The marks of a style, such as CodeLlama's
[INST], are special only to the model that the style was written for. Every answer is extracted by
three rules: this project's, and the authors' two (`generation.authors_extraction`).

Everything is computed from the methods that are stored. A method with verdicts on less than
`LEAST` of the tasks counts as not measured.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from pkg_lib.analysis.stats import Difference, holm, paired_score, score_interval
from pkg_lib.evaluation.results import LEAST, Results, passes
from pkg_lib.generation.authors_extraction import ALL_BLOCKS, AUTHORS_RULES, FIRST_BLOCK
from pkg_lib.retrieval.methods import IN_CHAT, METHODS, PAPER_STYLES, style_label

SENT_AS = {False: "raw text", True: "chat template"}
OURS = "this project"  # as stored in results/
EXTRACTIONS = (OURS, *AUTHORS_RULES)
CONTENTS = {
    "A: no context": "NoRAG, {}",
    "A without its stray quote": "NoRAG, {}, no stray quote",
    "B: introduction of a context, no code": "NoRAG, {}, no code was found",
    "C: retrieved block": "Block-PKG, {}",
    "D: another task's context": "Block-PKG, swapped, {}",
}
NO_CONTEXT, NO_STRAY_QUOTE, CONTEXT_WORDING, RETRIEVED, ANOTHER = CONTENTS

WORDING_EFFECT = "A to B: the words"
# Name of an effect -> (content with, content without); the extraction is the same on both sides.
EFFECTS = {
    WORDING_EFFECT: (CONTEXT_WORDING, NO_CONTEXT),
    "A: without stray quote": (NO_STRAY_QUOTE, NO_CONTEXT),
    "B to C: retrieved block": (RETRIEVED, CONTEXT_WORDING),
    "B to D: another block": (ANOTHER, CONTEXT_WORDING),
    "D to C: own block": (RETRIEVED, ANOTHER),
    "A to C: words and block": (RETRIEVED, NO_CONTEXT),
}
# Name of an effect -> the rule that is compared with this project's; the content is the same.
EXTRACTION_EFFECTS = {
    "extraction of all code fences": ALL_BLOCKS,
    "extraction of the first code fence": FIRST_BLOCK,
}
# Name of an extraction -> what tables call it. A code fence is code between the marks of an answer,
# such as ``` or [PYTHON]; a block is what Block-PKG retrieves.
EXTRACTION_LABELS = {
    OURS: "this suite",
    ALL_BLOCKS: "authors, all code fences",
    FIRST_BLOCK: "authors, first code fence",
}
WORDING_SOURCE = "A to B, this suite's extraction"
BOTH_SOURCE = "A to B, authors' extraction"
EXTRACTION_SOURCE = "A to C, authors' extraction minus this suite's"
# Name of a source -> the (content, extraction) pairs that it is computed from.
SOURCES = {
    WORDING_SOURCE: ((CONTEXT_WORDING, OURS), (NO_CONTEXT, OURS)),
    BOTH_SOURCE: ((CONTEXT_WORDING, ALL_BLOCKS), (NO_CONTEXT, ALL_BLOCKS)),
    EXTRACTION_SOURCE: (
        (RETRIEVED, ALL_BLOCKS),
        (NO_CONTEXT, ALL_BLOCKS),
        (RETRIEVED, OURS),
        (NO_CONTEXT, OURS),
    ),
}

# Why an effect is not tested.
FAILED_PROMPT = "failed prompt"
NO_DISCORDANT_PAIR = "no discordant pair"
UNKNOWN_ANSWERS = "answers unavailable"
FAILED_SHARE = 0.5  # share of empty answers from which a prompt is said to have failed

PROMPT = ["model", "benchmark", "style", "sent as"]
CONDITION = [*PROMPT, "content", "extraction"]
FIELDS = ["n", "value", "low", "high", "helped", "hurt", "p"]
Row = dict[str, object]
Condition = tuple[str, str]  # (content, extraction) of one prompt


def answers(runs: Iterable[Results]) -> pd.DataFrame:
    """Collect what became of every answer to the prompts of the paper's styles.

    Args:
        runs: Models on benchmarks, with the authors' contexts.

    Returns:
        One row per answer and extraction: the columns of CONDITION, ``task``, ``passed`` (boolean),
        ``error`` (name, "" if passed) and ``empty`` (boolean; whether nothing was extracted, <NA>
        if the tasks are unavailable). Contents that were measured on too few tasks are left out.
    """
    rows: list[Row] = []
    prompts = list(product(PAPER_STYLES, IN_CHAT, CONTENTS.items()))
    for run in runs:
        for style, in_chat, (content, method_of) in prompts:
            label = style_label(style, in_chat)
            method = method_of.format(label)
            if method not in METHODS or not run.completions(method):
                continue
            about = {
                "model": run.model,
                "benchmark": run.benchmark,
                "style": style,
                "sent as": SENT_AS[in_chat],
                "content": content,
            }
            rows += _answers_of(run, method, about)
    columns = [*CONDITION, "task", "passed", "error", "empty"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"passed": "boolean", "empty": "boolean"})


def _answers_of(
    run: Results,
    method: str,
    about: Mapping[str, str],
) -> list[Row]:
    """List the measured answers of one method by every extraction."""
    rows: list[Row] = []
    for extraction in EXTRACTIONS:
        if extraction in AUTHORS_RULES:
            solutions = run.authors_solutions(method, extraction)
            outcomes = run.outcomes(method, extraction)
        else:
            solutions = run.solutions(method)
            outcomes = run.outcomes(method)
        measured = {i: o for i, o in outcomes.items() if o.status != "not_measured"}
        least = LEAST * len(run.tasks)
        if len(measured) < least:
            continue
        for task, outcome in measured.items():
            empty: object = pd.NA
            if task in solutions:
                solution = solutions[task]
                empty = not solution.strip()
            answer: Row = {
                **about,
                "extraction": extraction,
                "task": task,
                "passed": passes(outcome),
                "error": outcome.error,
                "empty": empty,
            }
            rows.append(answer)
    return rows


def conditions(answered: pd.DataFrame) -> pd.DataFrame:
    """Count what became of the answers in each condition.

    Args:
        answered: The frame of `answers`.

    Returns:
        One row per condition: the columns of CONDITION, ``n`` (measured answers), ``passed``,
        ``name_errors`` and ``empty`` (counts; ``empty`` is <NA> if it is unknown for an answer).
    """
    marked = answered.assign(name_errors=answered["error"] == "NameError")
    groups = marked.groupby(CONDITION, sort=False)
    table = groups[["passed", "name_errors"]].sum().astype("Int64")
    known = groups["empty"].count() == groups.size()
    empty = groups["empty"].sum().astype("Int64")
    table["empty"] = empty.where(known)
    table.insert(0, "n", groups.size())
    return table.reset_index()


class Comparison(NamedTuple):
    """Two conditions of one prompt that differ in one thing.

    Attributes:
        effect: A key of EFFECTS or EXTRACTION_EFFECTS.
        at: What both conditions share: the extraction, or for an effect of extraction the content.
        changed: The (content, extraction) with the change.
        baseline: The (content, extraction) without it.
    """

    effect: str
    at: str
    changed: Condition
    baseline: Condition


def effects(answered: pd.DataFrame) -> pd.DataFrame:
    """Compare contents, wordings and extractions, paired by task.

    The effects of content and wording of one prompt are measured on the tasks that all its
    contents have. Intervals are Tango's score intervals, which have a width even if no task
    differs. They are 95 % intervals of each effect by itself, without a correction.

    Holm's correction is over the effects of one model on one benchmark. Two kinds of effect are
    shown but not tested: an effect between prompts of which one failed, and an effect without a
    discordant pair. A prompt failed if at least half of its answers are empty. If two extractions
    give one effect the same verdicts, the two rows are one test.

    Args:
        answered: The frame of `answers`.

    Returns:
        One row per effect: the columns of PROMPT, ``effect``, ``at`` (the extraction, or for an
        effect of extraction the content), ``n``, ``difference``, ``low``, ``high`` (fractions),
        ``helped``, ``hurt``, ``p`` (exact McNemar), ``untested`` (why the effect is not tested,
        "" if it is) and ``p_corrected`` (NaN if it is not tested).
    """
    rows: list[Row] = []
    for prompt, group in _by_prompt(answered):
        effects_of_prompt = _effects_of_prompt(group)
        rows += [prompt | row for row in effects_of_prompt]
    columns = [*PROMPT, "effect", "at", *FIELDS, "untested", "test"]
    table = pd.DataFrame(rows, columns=columns)
    table = table.rename(columns={"value": "difference"})
    return _corrected(table).drop(columns="test")


def _by_prompt(answered: pd.DataFrame) -> Iterator[tuple[Row, pd.DataFrame]]:
    """Yield the columns of PROMPT with the answers to it."""
    for key, group in answered.groupby(PROMPT, sort=False):
        prompt: Row = dict(zip(PROMPT, key, strict=True))
        yield prompt, group


def _effects_of_prompt(group: pd.DataFrame) -> list[Row]:
    """Measure the effects between the conditions of one prompt."""
    verdicts = _verdicts(group)
    on_common_tasks = verdicts.dropna()
    empty = _empty_shares(group)
    rows: list[Row] = []
    for comparison in _comparisons(verdicts.columns):
        is_extraction = comparison.effect in EXTRACTION_EFFECTS
        compared = verdicts if is_extraction else on_common_tasks
        changed = compared[comparison.changed]
        baseline = compared[comparison.baseline]
        difference = paired_score(changed, baseline)
        if difference is None:
            continue
        row: Row = {
            "effect": comparison.effect,
            "at": comparison.at,
            "untested": _untested(comparison, difference, empty),
            "test": _test(comparison, changed, baseline),
        }
        row |= asdict(difference)
        rows.append(row)
    return rows


def _verdicts(group: pd.DataFrame) -> pd.DataFrame:
    """The verdicts [task, (content, extraction)] of one prompt."""
    condition = ["content", "extraction"]
    verdicts = group.pivot(index="task", columns=condition, values="passed")
    return verdicts.astype("boolean")


def _empty_shares(group: pd.DataFrame) -> pd.Series:
    """The share of empty answers by (content, extraction), NaN if an answer is unavailable."""
    groups = group.groupby(["content", "extraction"], sort=False)["empty"]
    shares = groups.sum().astype(float) / groups.size()
    return shares.where(groups.count() == groups.size())


def _comparisons(measured: Iterable[Hashable]) -> list[Comparison]:
    """List the comparisons between the conditions that were measured."""
    known = set(measured)
    comparisons = []
    for effect, (content, without) in EFFECTS.items():
        for rule in EXTRACTIONS:
            changed = (content, rule)
            baseline = (without, rule)
            comparison = Comparison(effect, rule, changed, baseline)
            comparisons.append(comparison)
    for effect, rule in EXTRACTION_EFFECTS.items():
        for content in CONTENTS:
            changed = (content, rule)
            baseline = (content, OURS)
            comparison = Comparison(effect, content, changed, baseline)
            comparisons.append(comparison)
    return [c for c in comparisons if {c.changed, c.baseline} <= known]


def _untested(comparison: Comparison, difference: Difference, empty: pd.Series) -> str:
    """Say why an effect is outside the family of tests, "" if it is inside."""
    shares = empty[[comparison.changed, comparison.baseline]]
    if (shares >= FAILED_SHARE).any():
        return FAILED_PROMPT
    if shares.isna().any():
        return UNKNOWN_ANSWERS
    if not difference.helped + difference.hurt:
        return NO_DISCORDANT_PAIR
    return ""


def _test(comparison: Comparison, changed: pd.Series, baseline: pd.Series) -> str:
    """Identify the test behind a row: rows of one kind with equal verdicts are one test."""
    kind = comparison.effect
    if kind in EXTRACTION_EFFECTS:
        kind = f"extraction, {comparison.at}"
    return f"{kind} {changed.tolist()} {baseline.tolist()}"


def _corrected(table: pd.DataFrame) -> pd.DataFrame:
    """Add Holm's correction over the tests of one model and benchmark."""
    test = [*PROMPT, "test"]
    tested = table[table["untested"] == ""]
    tests = tested.drop_duplicates(test)
    families = tests.groupby(["model", "benchmark"], sort=False)["p"]
    p_corrected = families.transform(lambda family: holm(family.tolist()))
    corrected = tests[test].assign(p_corrected=p_corrected.astype(float))
    merged = table.merge(corrected, on=test, how="left")
    # A row with the verdicts of a tested row may itself be outside the family.
    is_tested = merged["untested"] == ""
    merged["p_corrected"] = merged["p_corrected"].where(is_tested, np.nan)
    return merged


def gain_sources(answered: pd.DataFrame) -> pd.DataFrame:
    """Measure how much of the difference between Block-PKG and NoRAG needs no retrieved block.

    The authors' extraction is the one of their code for open models, which joins all code fences of
    an answer.

    - `WORDING_SOURCE`: the effect of the context wording by this project's extraction.
    - `BOTH_SOURCE`: the effect of the context wording by the authors' extraction, which also
      depends on how answers are marked.
    - `EXTRACTION_SOURCE`: a difference between two gains. Each gain is pass@1 of Block-PKG minus
      pass@1 of NoRAG. The gain by this project's extraction is subtracted from the gain by the
      authors' extraction.

    Args:
        answered: The frame of `answers`.

    Returns:
        One row per prompt and source: the columns of PROMPT, ``source``, ``n``, ``difference``,
        ``low``, ``high`` (fractions), on the tasks that all contents of the prompt have, and
        ``failed`` (whether at least half of the answers to a prompt behind it are empty).
    """
    rows: list[Row] = []
    for prompt, group in _by_prompt(answered):
        verdicts = _verdicts(group).dropna()
        empty = _empty_shares(group)
        measured = set(verdicts.columns)
        for source, behind in SOURCES.items():
            if not measured.issuperset(behind):
                continue
            difference = _source(source, verdicts)
            if difference is None:
                continue
            has_failed = empty[list(behind)] >= FAILED_SHARE
            row: Row = {
                **prompt,
                "source": source,
                "n": difference.n,
                "difference": difference.value,
                "low": difference.low,
                "high": difference.high,
                "failed": bool(has_failed.any()),
            }
            rows.append(row)
    columns = [*PROMPT, "source", "n", "difference", "low", "high", "failed"]
    return pd.DataFrame(rows, columns=columns)


def _source(source: str, verdicts: pd.DataFrame) -> Difference | None:
    """One source of a gain, measured on tasks with verdicts in all conditions."""
    if source != EXTRACTION_SOURCE:
        changed, baseline = SOURCES[source]
        return paired_score(verdicts[changed], verdicts[baseline])
    passed = verdicts.astype(int)
    by_authors = passed[RETRIEVED, ALL_BLOCKS] - passed[NO_CONTEXT, ALL_BLOCKS]
    by_ours = passed[RETRIEVED, OURS] - passed[NO_CONTEXT, OURS]
    return _mean_step(by_authors - by_ours)


def _mean_step(steps: pd.Series) -> Difference | None:
    """The mean of whole-numbered steps, one per task, with a score interval.

    A step of two counts as two tasks that change by one.
    """
    n = len(steps)
    if not n:
        return None
    rises = steps.clip(lower=0)
    falls = steps.clip(upper=0)
    up = int(rises.sum())
    down = -int(falls.sum())
    low, high = score_interval(up, down, n)
    return Difference(
        n=n,
        value=(up - down) / n,
        low=low,
        high=high,
        helped=up,
        hurt=down,
    )
