"""Effects of content, wording and extraction, computed from answers that are known."""

from __future__ import annotations

import pandas as pd
import pytest

from pkg_lib.core.types import Outcome
from pkg_lib.evaluation.results import Results
from pkg_lib.generation.authors_extraction import ALL_BLOCKS, FIRST_BLOCK
from pkg_lib.papers.pkg.prompt_effects import (
    BOTH_SOURCE,
    CONDITION,
    CONTENTS,
    EXTRACTION_EFFECTS,
    EXTRACTION_SOURCE,
    EXTRACTIONS,
    FAILED_PROMPT,
    NO_DISCORDANT_PAIR,
    OURS,
    UNKNOWN_ANSWERS,
    WORDING_EFFECT,
    WORDING_SOURCE,
    answers,
    conditions,
    effects,
    gain_sources,
)

NO_CONTEXT, NO_STRAY_QUOTE, CONTEXT_WORDING, RETRIEVED, ANOTHER = CONTENTS
NAMES = {
    "none": NO_CONTEXT,
    "clean": NO_STRAY_QUOTE,
    "wording": CONTEXT_WORDING,
    "block": RETRIEVED,
    "other": ANOTHER,
}
OF_ALL_BLOCKS, OF_FIRST_BLOCK = EXTRACTION_EFFECTS
MODEL = "qwen2.5-coder-0.5b-instruct"


def answered(sent_as: str = "raw text", model: str = "small", **marks: object) -> pd.DataFrame:
    """Answers from one string per content, or one per extraction.

    In a string, "1" passed, "0" failed, "n" is a NameError, "e" is empty, "?" was not measured.
    """
    rows = []
    for name, by_extraction in marks.items():
        if isinstance(by_extraction, str):
            by_extraction = dict.fromkeys(EXTRACTIONS, by_extraction)
        for extraction, text in by_extraction.items():
            for task, mark in enumerate(text):
                condition = [model, "humaneval", "codellama", sent_as, NAMES[name], extraction]
                row = dict(zip(CONDITION, condition, strict=True))
                error = {"1": "", "n": "NameError"}.get(mark, "AssertionError")
                row |= {"task": f"t{task}", "error": error}
                rows.append(row | {"passed": mark == "1", "empty": mark == "e", "mark": mark})
    frame = pd.DataFrame(rows)
    frame = frame[frame["mark"] != "?"].drop(columns="mark")
    return frame.astype({"passed": "boolean", "empty": "boolean"})


def by_name(table: pd.DataFrame) -> pd.DataFrame:
    return table.set_index(["effect", "at"])


def test_each_effect_changes_one_thing():
    frame = answered(
        none="0000",
        clean="0010",
        wording="1100",
        block={OURS: "1110", ALL_BLOCKS: "1111", FIRST_BLOCK: "1000"},
        other="1000",
    )
    difference = by_name(effects(frame))["difference"]
    assert difference[WORDING_EFFECT, OURS] == 0.5
    assert difference["A: without stray quote", ALL_BLOCKS] == 0.25
    assert difference["B to C: retrieved block", OURS] == 0.25
    assert difference["B to C: retrieved block", FIRST_BLOCK] == -0.25
    assert difference["B to D: another block", OURS] == -0.25
    assert difference["D to C: own block", OURS] == 0.5
    assert difference["A to C: words and block", ALL_BLOCKS] == 1.0
    assert difference[OF_ALL_BLOCKS, RETRIEVED] == 0.25
    assert difference[OF_FIRST_BLOCK, RETRIEVED] == -0.5
    assert difference[OF_ALL_BLOCKS, NO_CONTEXT] == 0.0


def test_only_tasks_that_every_content_measured_are_compared():
    row = by_name(effects(answered(none="0011", wording="1?11"))).loc[(WORDING_EFFECT, OURS)]
    assert (row["n"], row["helped"]) == (3, 1)
    assert row["difference"] == pytest.approx(1 / 3)


def test_an_interval_has_a_width_even_if_no_task_differs():
    table = effects(answered(none="01" * 50, wording="01" * 50))
    assert (table["difference"] == 0).all()
    assert (table["low"] < -0.03).all() and (table["high"] > 0.03).all()


def test_p_is_corrected_over_all_effects_of_a_model_and_benchmark():
    raw = answered(none="0" * 8, wording="1" * 8)
    chat = answered("chat template", none="0" * 8, wording="1" * 8)
    other = answered(model="large", none="0" * 8, wording="1" * 8)
    p = 2 / 2**8
    # All extractions agree: wording is one test, and extraction has no discordant pair.
    alone = by_name(effects(raw)).loc[WORDING_EFFECT, "p_corrected"]
    assert alone.tolist() == pytest.approx([p] * 3)
    table = effects(pd.concat([raw, chat, other]))
    wording = table[table["effect"] == WORDING_EFFECT].set_index(["model", "sent as"])[
        "p_corrected"
    ]
    # Two prompts of one model are two tests. The other model is another family.
    assert wording["small", "raw text"].tolist() == pytest.approx([2 * p] * 3)
    assert wording["large", "raw text"].tolist() == pytest.approx([p] * 3)


def test_extractions_with_another_verdict_are_two_tests():
    block = {OURS: "1" * 8, ALL_BLOCKS: "1" * 7 + "0", FIRST_BLOCK: "1" * 8}
    corrected = by_name(effects(answered(none="0" * 8, wording=block)))["p_corrected"]
    # Two tests of wording and one of extraction.
    assert corrected[WORDING_EFFECT, OURS] == pytest.approx(3 * 2 / 2**8)
    assert corrected[WORDING_EFFECT, FIRST_BLOCK] == corrected[WORDING_EFFECT, OURS]
    assert corrected[OF_ALL_BLOCKS, CONTEXT_WORDING] == 1


def test_effects_without_a_discordant_pair_are_shown_and_not_tested():
    table = by_name(effects(answered(none="0" * 8, wording="1" * 8, block="1" * 8)))
    same = table.loc[("B to C: retrieved block", OURS)]
    assert same["difference"] == 0 and same["p"] == 1
    assert same["untested"] == NO_DISCORDANT_PAIR and pd.isna(same["p_corrected"])
    assert table.loc[(WORDING_EFFECT, OURS), "untested"] == ""


@pytest.mark.parametrize(("empty", "tested"), [(3, True), (4, False)])
def test_effects_of_a_failed_prompt_are_shown_and_not_tested(empty, tested):
    """A prompt failed if at least half of its answers are empty."""
    failing = answered(none="1" * 8, wording="e" * empty + "0" * (8 - empty), block="0" * 8)
    other = answered("chat template", none="1" * 8, wording="0" * 8)
    table = effects(pd.concat([failing, other]))
    rows = table[table["effect"] == WORDING_EFFECT].set_index("sent as")
    assert (rows["difference"] == -1).all()
    assert rows.loc["raw text", "untested"].tolist() == ["" if tested else FAILED_PROMPT] * 3
    assert (rows.loc["raw text", "p_corrected"].notna() == tested).all()
    # Tests left: both prompts' wording (if tested), and the block against no context.
    p = 2 / 2**8
    assert rows.loc["chat template", "p_corrected"].tolist() == pytest.approx(
        [(2 + tested) * p] * 3
    )


def test_a_failure_by_one_extraction_leaves_the_others_tested():
    """The same verdicts are tested by one extraction and belong to a failed prompt by another."""
    wording = {OURS: "0" * 8, ALL_BLOCKS: "e" * 8, FIRST_BLOCK: "0" * 8}
    table = by_name(effects(answered(none="1" * 8, wording=wording)))
    assert table.loc[(WORDING_EFFECT, ALL_BLOCKS), "untested"] == FAILED_PROMPT
    assert pd.isna(table.loc[(WORDING_EFFECT, ALL_BLOCKS), "p_corrected"])
    assert table.loc[(WORDING_EFFECT, OURS), "p_corrected"] == pytest.approx(2 / 2**8)
    assert table.loc[(OF_ALL_BLOCKS, CONTEXT_WORDING), "untested"] == FAILED_PROMPT


def test_effects_of_unavailable_answers_are_not_tested():
    frame = answered(none="0" * 8, wording="1" * 8)
    frame["empty"] = frame["empty"].mask(frame["extraction"] == ALL_BLOCKS)
    table = by_name(effects(frame))
    assert table.loc[(WORDING_EFFECT, ALL_BLOCKS), "untested"] == UNKNOWN_ANSWERS
    assert table.loc[(WORDING_EFFECT, OURS), "untested"] == ""


def test_what_was_not_completed_has_no_row():
    table = effects(answered(none="01", wording="11"))
    assert set(table["effect"]) == {WORDING_EFFECT, *EXTRACTION_EFFECTS}
    assert effects(answered(none="01").iloc[:0]).empty


def test_an_extraction_without_verdicts_has_no_effects():
    """Verdicts by the third rule may not be stored yet."""
    frame = answered(none="01", wording="11")
    table = effects(frame[frame["extraction"] != FIRST_BLOCK])
    assert OF_FIRST_BLOCK not in set(table["effect"]) and FIRST_BLOCK not in set(table["at"])
    assert OF_ALL_BLOCKS in set(table["effect"])


def test_name_errors_and_empty_answers_are_counted_in_each_condition():
    frame = answered(none="1n0", block={OURS: "nn0", ALL_BLOCKS: "nee"})
    table = conditions(frame).set_index(["content", "extraction"])
    counted = table[["n", "passed", "name_errors", "empty"]].apply(list, axis=1)
    assert counted[NO_CONTEXT, OURS] == counted[NO_CONTEXT, FIRST_BLOCK] == [3, 1, 1, 0]
    assert counted[RETRIEVED, OURS] == [3, 0, 2, 0]
    assert counted[RETRIEVED, ALL_BLOCKS] == [3, 0, 1, 2]


def test_a_gain_is_taken_apart_into_wording_and_extraction():
    frame = answered(
        none={OURS: "1100", ALL_BLOCKS: "1000"},
        wording={OURS: "1110", ALL_BLOCKS: "1110"},
        block={OURS: "1110", ALL_BLOCKS: "1110"},
    )
    sources = gain_sources(frame).set_index("source")
    assert sources.loc[WORDING_SOURCE, "difference"] == 0.25
    assert sources.loc[BOTH_SOURCE, "difference"] == 0.5
    # The gain is 0.25 by this project's extraction and 0.5 by the authors'.
    assert sources.loc[EXTRACTION_SOURCE, "difference"] == 0.25
    assert (sources["low"] < sources["difference"]).all()
    assert (sources["difference"] < sources["high"]).all()
    assert not sources["failed"].any()


def test_sources_behind_failed_prompts_are_marked():
    frame = answered(
        none={OURS: "1100", ALL_BLOCKS: "1100"},
        wording={OURS: "1110", ALL_BLOCKS: "1eee"},
        block={OURS: "1110", ALL_BLOCKS: "1110"},
    )
    failed = gain_sources(frame).set_index("source")["failed"]
    assert failed.to_dict() == {
        WORDING_SOURCE: False,
        BOTH_SOURCE: True,
        EXTRACTION_SOURCE: False,
    }


@pytest.fixture
def results(monkeypatch):
    """A model of which the first methods given are stored, each with verdicts on so many tasks."""
    run = Results(MODEL, "humaneval", "published", 4)

    def store(**measured: int) -> Results:
        methods = {
            CONTENTS[NAMES[name]].format("codellama prompt"): n for name, n in measured.items()
        }
        ids = [task.id for task in run.tasks]

        def outcomes(method: str, rule: str | None = None) -> dict[str, Outcome]:
            known = ids[: methods[method]]
            outcome = Outcome("failed", "NameError") if rule == ALL_BLOCKS else Outcome("passed")
            return {i: outcome if i in known else Outcome("not_measured") for i in ids}

        def by_authors(method: str, rule: str) -> dict[str, str]:
            return dict.fromkeys(ids, "" if rule == ALL_BLOCKS else "x = 1")

        monkeypatch.setattr(run, "completions", lambda method: {} if method not in methods else ids)
        monkeypatch.setattr(run, "outcomes", outcomes)
        monkeypatch.setattr(run, "solutions", lambda method: dict.fromkeys(ids, "x = 1"))
        monkeypatch.setattr(run, "authors_solutions", by_authors)
        return run

    return store


def test_answers_are_those_of_the_stored_methods_by_every_extraction(results):
    table = conditions(answers([results(none=4, clean=3)]))
    assert list(table["content"].unique()) == [NO_CONTEXT, NO_STRAY_QUOTE]
    assert set(table["model"]) == {MODEL} and set(table["sent as"]) == {"raw text"}
    rows = table.set_index(["content", "extraction"])
    assert rows.loc[(NO_CONTEXT, OURS), ["n", "passed", "empty"]].tolist() == [4, 4, 0]
    counts = ["n", "passed", "name_errors", "empty"]
    assert rows.loc[(NO_STRAY_QUOTE, ALL_BLOCKS), counts].tolist() == [3, 0, 3, 3]
    assert rows.loc[(NO_STRAY_QUOTE, FIRST_BLOCK), counts].tolist() == [3, 3, 0, 0]


def test_a_method_that_is_barely_begun_does_not_shrink_the_comparison(results):
    table = answers([results(none=4, wording=4, clean=1)])
    assert NO_STRAY_QUOTE not in set(table["content"])
    assert set(effects(table)["n"]) == {4}
