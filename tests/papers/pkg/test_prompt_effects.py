"""Effects of content, wording and extraction, computed from verdicts that are known."""

from __future__ import annotations

import pandas as pd
import pytest

from pkg_lib.papers.pkg.prompt_effects import CONTENTS, EXTRACTIONS, effects

OURS, AUTHORS = EXTRACTIONS
NO_CONTEXT, SAME_WORDS, RETRIEVED, ANOTHER = CONTENTS


def verdicts(**passed: dict[str, str]) -> pd.DataFrame:
    """A frame from one string per content and extraction: "1" passed, "0" failed, "?" not measured."""
    values = {"1": True, "0": False, "?": pd.NA}
    names = {"none": NO_CONTEXT, "words": SAME_WORDS, "block": RETRIEVED, "other": ANOTHER}
    columns = {
        (names[name], extraction): [values[mark] for mark in marks]
        for name, by_extraction in passed.items()
        for extraction, marks in by_extraction.items()
    }
    return pd.DataFrame(columns, dtype="boolean")


def test_each_effect_changes_one_thing():
    frame = verdicts(
        none={OURS: "0000", AUTHORS: "0000"},
        words={OURS: "1100", AUTHORS: "1100"},
        block={OURS: "1110", AUTHORS: "1111"},
        other={OURS: "1000", AUTHORS: "1000"},
    )
    table = effects(frame)["difference"]
    assert table["the context's words, no context", OURS] == 0.5
    assert table["the retrieved block, same words", OURS] == 0.25
    assert table["another task's block, same words", OURS] == -0.25
    assert table["the right block instead of another's", OURS] == 0.5
    assert table["words and block together, as published", AUTHORS] == 1.0
    assert table["the authors' extraction", RETRIEVED] == 0.25
    assert table["the authors' extraction", NO_CONTEXT] == 0.0


def test_only_tasks_that_every_content_measured_are_compared():
    frame = verdicts(none={OURS: "0011", AUTHORS: "0011"}, words={OURS: "1?11", AUTHORS: "1?11"})
    row = effects(frame).loc[("the context's words, no context", OURS)]
    assert row["n"] == 3
    assert row["helped"] == 1
    assert row["difference"] == pytest.approx(1 / 3)


def test_p_is_corrected_over_all_rows():
    frame = verdicts(
        none={OURS: "0" * 8, AUTHORS: "0" * 8},
        words={OURS: "1" * 8, AUTHORS: "1" * 8},
        block={OURS: "1" * 8, AUTHORS: "0" * 8},
    )
    table = effects(frame)
    assert (table["p_holm"] >= table["p"]).all()
    assert table.loc[("the context's words, no context", OURS), "p"] == pytest.approx(2 / 2**8)


def test_what_was_not_completed_has_no_row():
    table = effects(verdicts(none={OURS: "01", AUTHORS: "01"}, words={OURS: "11", AUTHORS: "01"}))
    assert {effect for effect, _ in table.index} == {
        "the context's words, no context",
        "the authors' extraction",
    }
