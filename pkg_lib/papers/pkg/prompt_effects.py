"""What the gain of a method with context consists of: content, wording of the prompt, extraction.

The paper compares a prompt with a context to a prompt without one. The two differ in more than the context:
the words around it differ too, and other words can change how an answer is marked and therefore extracted.
Each method here changes one thing at a time, on the same tasks:

    no context, its own words         "None, STYLE prompt"
    no context, the context's words   "None, STYLE prompt, no code was found"
    the retrieved block               "Block-PKG, STYLE prompt"
    another task's block              "Block-PKG, swapped, STYLE prompt"

Each prompt is sent in two ways: as raw text, as the authors send it, and as the user's message in the
model's own chat template ("STYLE prompt in chat"). The marks of a style, such as CodeLlama's [INST], are
special only to the model that the style was written for. Every answer is extracted twice: by this project's
rule and by the authors'.
"""

from collections.abc import Iterable, Iterator
from itertools import product

import pandas as pd

from pkg_lib.analysis.stats import Difference, holm, paired_bootstrap
from pkg_lib.evaluation.results import Results
from pkg_lib.retrieval.methods import IN_CHAT, PAPER_STYLES, style_label

TEMPLATES_SENT = {False: "none (raw text)", True: "the model's chat template"}
EXTRACTIONS = ("this project's", "authors'")
CONTENTS = {
    "no context, its own words": "None, {}",
    "no context, the context's words": "None, {}, no code was found",
    "retrieved block": "Block-PKG, {}",
    "another task's block": "Block-PKG, swapped, {}",
}
NO_CONTEXT, NO_CONTEXT_SAME_WORDS, RETRIEVED, ANOTHER = CONTENTS

AUTHORS_EXTRACTION_NAME = EXTRACTIONS[1]
EXTRACTION_EFFECT = "the authors' extraction"
WORDS_EFFECT = "the context's words, no context"

# name of an effect -> (content with, content without); the extraction is the same on both sides
EFFECTS = {
    WORDS_EFFECT: (NO_CONTEXT_SAME_WORDS, NO_CONTEXT),
    "the retrieved block, same words": (RETRIEVED, NO_CONTEXT_SAME_WORDS),
    "another task's block, same words": (ANOTHER, NO_CONTEXT_SAME_WORDS),
    "the right block instead of another's": (RETRIEVED, ANOTHER),
    "words and block together, as published": (RETRIEVED, NO_CONTEXT),
}


def conditions() -> Iterator[tuple[str, bool]]:
    """Yield every prompt style, sent raw and in the model's chat template."""
    yield from product(PAPER_STYLES, IN_CHAT)


def style_verdicts(run: Results, style: str, in_chat: bool = False) -> pd.DataFrame:
    """Collect the verdicts of one prompt style.

    Args:
        run: A model on a benchmark, with the authors' contexts.
        style: One of PAPER_STYLES.
        in_chat: Whether the prompts are those in the model's chat template.

    Returns:
        Boolean verdicts [task, (content, extraction)] of the contents that were completed; <NA> where not
        measured.
    """
    frames = {}
    for content, name in CONTENTS.items():
        method = name.format(style_label(style, in_chat))
        if not run.completions(method):
            continue
        for extraction in EXTRACTIONS:
            outcomes = run.outcomes(method, authors_extraction=extraction == "authors'")
            passed = {
                i: o.status == "passed" for i, o in outcomes.items() if o.status != "not_measured"
            }
            if passed:
                frames[content, extraction] = pd.Series(passed, dtype="boolean")
    frame = pd.DataFrame(frames).reindex([task.id for task in run.tasks])
    return frame.astype("boolean")


def effects(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Compare the contents and extractions of one prompt style, paired by task.

    Args:
        verdicts: The frame of `style_verdicts`.

    Returns:
        One row per effect and extraction, and one per content for the effect of extraction: ``n``,
        ``difference``, ``low``, ``high`` (fractions), ``helped``, ``hurt``, ``p`` (McNemar) and ``p_holm``,
        corrected over the rows.
    """
    rows: dict[tuple[str, str], Difference] = {}
    for effect, (with_it, without_it) in EFFECTS.items():
        for extraction in EXTRACTIONS:
            if {(with_it, extraction), (without_it, extraction)} <= set(verdicts.columns):
                measured = verdicts.dropna(how="any")
                difference = paired_bootstrap(
                    measured[with_it, extraction], measured[without_it, extraction]
                )
                if difference is not None:
                    rows[effect, extraction] = difference
    ours, authors = EXTRACTIONS
    for content in CONTENTS:
        if (content, authors) in verdicts.columns:
            difference = paired_bootstrap(verdicts[content, authors], verdicts[content, ours])
            if difference is not None:
                rows[EXTRACTION_EFFECT, content] = difference
    fields = ("n", "value", "low", "high", "helped", "hurt", "p")
    values = [[getattr(difference, field) for field in fields] for difference in rows.values()]
    index = pd.MultiIndex.from_tuples(rows, names=["effect", "at"]) if rows else None
    table = pd.DataFrame(values, index, fields).rename(columns={"value": "difference"})
    return table.assign(p_holm=holm(table["p"].tolist()))


def all_effects(runs: Iterable[Results]) -> pd.DataFrame:
    """Compute the effects of every run and style that was completed.

    Args:
        runs: Models on benchmarks, with the authors' contexts.

    Returns:
        The rows of `effects`, indexed by ``model``, ``benchmark``, ``style``, ``template``, ``effect`` and
        ``at``.
    """
    parts = {}
    for run in runs:
        for style, in_chat in conditions():
            verdicts = style_verdicts(run, style, in_chat)
            if len(verdicts.columns) > len(EXTRACTIONS):
                template = TEMPLATES_SENT[in_chat]
                parts[run.model, run.benchmark, style, template] = effects(verdicts)
    if not parts:
        return pd.DataFrame()
    return pd.concat(parts, names=["model", "benchmark", "style", "template"])
