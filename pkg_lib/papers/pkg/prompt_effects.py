"""What the gain of a method with context consists of: content, wording of the prompt, extraction.

The paper compares a prompt with a context to a prompt without one. The two differ in more than the
context: the words around it differ too, and other words can change how an answer is marked and
therefore extracted. Each method here changes one thing at a time, on the same tasks:

    no context, no-context wording                   "NoRAG, STYLE prompt"
    no context, no-context wording, no stray quote   "NoRAG, STYLE prompt, no stray quote"
    no context, context wording                      "NoRAG, STYLE prompt, no code was found"
    retrieved block                                  "Block-PKG, STYLE prompt"
    another task's block                             "Block-PKG, swapped, STYLE prompt"

The second is a control for CodeLlama's prompt, which ends in a stray quotation mark.

Each prompt is sent in two ways: as raw text, as the authors send it, and as the user's message in
the model's own chat template ("STYLE prompt in chat"). The marks of a style, such as CodeLlama's
[INST], are special only to the model that the style was written for. Every answer is extracted
twice: by this project's rule and by the authors'.

Everything is computed from the methods that are stored. A method with verdicts on less than
`LEAST` of the tasks counts as not measured.
"""

from collections.abc import Iterable

import pandas as pd

from pkg_lib.analysis.stats import Difference, holm, paired_score, score_interval
from pkg_lib.evaluation.results import LEAST, Results, passes
from pkg_lib.retrieval.methods import IN_CHAT, METHODS, PAPER_STYLES, style_label

SENT_AS = {False: "raw text", True: "chat template"}
EXTRACTIONS = ("this project", "authors")
OURS, AUTHORS = EXTRACTIONS
CONTENTS = {
    "no context, no-context wording": "NoRAG, {}",
    "no context, no-context wording, no stray quote": "NoRAG, {}, no stray quote",
    "no context, context wording": "NoRAG, {}, no code was found",
    "retrieved block": "Block-PKG, {}",
    "another task's block": "Block-PKG, swapped, {}",
}
NO_CONTEXT, NO_STRAY_QUOTE, CONTEXT_WORDING, RETRIEVED, ANOTHER = CONTENTS

WORDING_EFFECT = "context wording"
EXTRACTION_EFFECT = "authors' extraction"
# Name of an effect -> (content with, content without); the extraction is the same on both sides.
EFFECTS = {
    WORDING_EFFECT: (CONTEXT_WORDING, NO_CONTEXT),
    "no stray quote": (NO_STRAY_QUOTE, NO_CONTEXT),
    "retrieved block": (RETRIEVED, CONTEXT_WORDING),
    "another task's block": (ANOTHER, CONTEXT_WORDING),
    "retrieved instead of another task's block": (RETRIEVED, ANOTHER),
    "context wording and retrieved block, as published": (RETRIEVED, NO_CONTEXT),
}
WORDING_SOURCE = "wording, this project's extraction"
BOTH_SOURCE = "wording, authors' extraction"
EXTRACTION_SOURCE = "extraction"

PROMPT = ["model", "benchmark", "style", "sent as"]
CONDITION = [*PROMPT, "content", "extraction"]
FIELDS = ["n", "value", "low", "high", "helped", "hurt", "p"]


def answers(runs: Iterable[Results]) -> pd.DataFrame:
    """Collect what became of every answer to the prompts of the paper's styles.

    Args:
        runs: Models on benchmarks, with the authors' contexts.

    Returns:
        One row per answer and extraction: the columns of CONDITION, ``task``, ``passed`` (boolean),
        ``error`` (name, "" if passed) and ``empty`` (boolean; whether nothing was extracted, <NA>
        if the tasks are unavailable). Contents that were measured on too few tasks are left out.
    """
    rows: list[dict[str, object]] = []
    for run in runs:
        for style in PAPER_STYLES:
            for in_chat in IN_CHAT:
                for content, form in CONTENTS.items():
                    method = form.format(style_label(style, in_chat))
                    if method not in METHODS or not run.completions(method):
                        continue
                    about = {"model": run.model, "benchmark": run.benchmark, "style": style}
                    about |= {"sent as": SENT_AS[in_chat], "content": content}
                    rows += _answers_of(run, method, about)
    columns = [*CONDITION, "task", "passed", "error", "empty"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"passed": "boolean", "empty": "boolean"})


def _answers_of(run: Results, method: str, about: dict[str, str]) -> list[dict[str, object]]:
    """List the measured answers of one method by both extractions."""
    rows: list[dict[str, object]] = []
    for extraction in EXTRACTIONS:
        by_authors = extraction == AUTHORS
        solutions = run.authors_solutions(method) if by_authors else run.solutions(method)
        outcomes = run.outcomes(method, authors_extraction=by_authors)
        measured = {i: o for i, o in outcomes.items() if o.status != "not_measured"}
        if len(measured) < LEAST * len(run.tasks):
            continue
        for task, outcome in measured.items():
            solution = solutions.get(task)
            empty = pd.NA if solution is None else not solution.strip()
            row = {"task": task, "passed": passes(outcome), "error": outcome.error, "empty": empty}
            rows.append(about | {"extraction": extraction} | row)
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
    table["empty"] = groups["empty"].sum().astype("Int64").where(known)
    table.insert(0, "n", groups.size())
    return table.reset_index()


def effects(answered: pd.DataFrame) -> pd.DataFrame:
    """Compare contents, wordings and extractions, paired by task.

    The effects of content and wording of one prompt style are measured on the tasks that all its
    contents have. Intervals are Tango's score intervals, which have a width even if no task differs.

    Holm's correction is over all effects of one model on one benchmark. An effect that has the same
    verdicts by both extractions is one test, since its two rows say the same; if the verdicts of a
    single task differ, the rows are two tests.

    Args:
        answered: The frame of `answers`.

    Returns:
        One row per effect: the columns of PROMPT, ``effect``, ``at`` (the extraction, or for the
        effect of extraction the content), ``n``, ``difference``, ``low``, ``high`` (fractions),
        ``helped``, ``hurt``, ``p`` (exact McNemar) and ``p_holm``.
    """
    rows: list[dict[str, object]] = []
    for key, group in answered.groupby(PROMPT, sort=False):
        verdicts = _verdicts(group)
        for effect, at, with_it, without_it in _comparisons(verdicts):
            difference = paired_score(with_it, without_it)
            if difference is None:
                continue
            row: dict[str, object] = dict(zip(PROMPT, key, strict=True))
            row |= {"effect": effect, "at": at, "test": _test(effect, at, with_it, without_it)}
            rows.append(row | {name: getattr(difference, name) for name in FIELDS})
    columns = [*PROMPT, "effect", "at", "test", *FIELDS]
    table = pd.DataFrame(rows, columns=columns).rename(columns={"value": "difference"})
    return _corrected(table).drop(columns="test")


def _verdicts(group: pd.DataFrame) -> pd.DataFrame:
    """The verdicts [task, (content, extraction)] of one prompt style."""
    verdicts = group.pivot(index="task", columns=["content", "extraction"], values="passed")
    return verdicts.astype("boolean")


def _comparisons(verdicts: pd.DataFrame) -> list[tuple[str, str, pd.Series, pd.Series]]:
    """List (effect, at, verdicts with it, verdicts without it) of what was measured."""
    common = verdicts.dropna()
    found = []
    for effect, (with_it, without_it) in EFFECTS.items():
        for extraction in EXTRACTIONS:
            sides = (with_it, extraction), (without_it, extraction)
            if set(sides) <= set(verdicts.columns):
                found.append((effect, extraction, common[sides[0]], common[sides[1]]))
    for content in CONTENTS:
        if {(content, OURS), (content, AUTHORS)} <= set(verdicts.columns):
            by_authors, by_ours = verdicts[content, AUTHORS], verdicts[content, OURS]
            found.append((EXTRACTION_EFFECT, content, by_authors, by_ours))
    return found


def _test(effect: str, at: str, with_it: pd.Series, without_it: pd.Series) -> str:
    """Identify the test behind a row: rows of one effect with equal verdicts are one test."""
    if effect == EXTRACTION_EFFECT:
        return f"{effect} {at}"
    return f"{effect} {with_it.tolist()} {without_it.tolist()}"


def _corrected(table: pd.DataFrame) -> pd.DataFrame:
    """Add Holm's correction over the tests of one model and benchmark."""
    tests = table.drop_duplicates([*PROMPT, "test"])
    corrected = []
    for _, family in tests.groupby(["model", "benchmark"], sort=False):
        p = holm(family["p"].tolist())
        corrected.append(family[[*PROMPT, "test"]].assign(p_holm=p))
    if not corrected:
        return table.assign(p_holm=pd.Series(dtype=float))
    return table.merge(pd.concat(corrected), on=[*PROMPT, "test"], how="left")


def gain_sources(answered: pd.DataFrame) -> pd.DataFrame:
    """Measure how much of the difference between Block-PKG and NoRAG needs no retrieved block.

    - `WORDING_SOURCE`: the effect of the context wording by this project's extraction.
    - `BOTH_SOURCE`: the same by the authors' extraction, which also depends on how answers are
      marked.
    - `EXTRACTION_SOURCE`: the difference between Block-PKG and NoRAG by the authors' extraction,
      less the same difference by this project's.

    Args:
        answered: The frame of `answers`.

    Returns:
        One row per prompt and source: the columns of PROMPT, ``source``, ``n``, ``difference``,
        ``low`` and ``high`` (fractions), on the tasks that all contents of the prompt have.
    """
    rows: list[dict[str, object]] = []
    for key, group in answered.groupby(PROMPT, sort=False):
        verdicts = _verdicts(group).dropna()
        for source, difference in _sources(verdicts).items():
            row: dict[str, object] = dict(zip(PROMPT, key, strict=True))
            row |= {"source": source, "n": difference.n, "difference": difference.value}
            rows.append(row | {"low": difference.low, "high": difference.high})
    return pd.DataFrame(rows, columns=[*PROMPT, "source", "n", "difference", "low", "high"])


def _sources(verdicts: pd.DataFrame) -> dict[str, Difference]:
    """The sources of a gain by name, as far as they were measured."""
    found = {}
    for source, extraction in ((WORDING_SOURCE, OURS), (BOTH_SOURCE, AUTHORS)):
        sides = (CONTEXT_WORDING, extraction), (NO_CONTEXT, extraction)
        if set(sides) <= set(verdicts.columns):
            found[source] = paired_score(verdicts[sides[0]], verdicts[sides[1]])
    contents = {RETRIEVED, NO_CONTEXT}
    if contents <= set(verdicts.columns.get_level_values("content")):
        passed = verdicts.astype(int)
        gains = {e: passed[RETRIEVED, e] - passed[NO_CONTEXT, e] for e in EXTRACTIONS}
        found[EXTRACTION_SOURCE] = _mean_step(gains[AUTHORS] - gains[OURS])
    return {source: difference for source, difference in found.items() if difference is not None}


def _mean_step(steps: pd.Series) -> Difference | None:
    """The mean of whole-numbered steps, one per task, with a score interval.

    A step of two counts as two tasks that change by one.
    """
    if steps.empty:
        return None
    up, down = int(steps.clip(lower=0).sum()), int(-steps.clip(upper=0).sum())
    low, high = score_interval(up, down, len(steps))
    return Difference(len(steps), (up - down) / len(steps), low, high, up, down)
