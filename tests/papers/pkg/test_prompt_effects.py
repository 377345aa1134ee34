"""Effects of content, wording and extraction, computed from answers that are known."""

from __future__ import annotations

import pandas as pd
import pytest

from pkg_lib.core.types import Outcome
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.prompt_effects import (
    AUTHORS,
    BOTH_SOURCE,
    CONDITION,
    CONTENTS,
    EXTRACTION_EFFECT,
    EXTRACTION_SOURCE,
    OURS,
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
MODEL = "qwen2.5-coder-0.5b-instruct"


def answered(sent_as: str = "raw text", model: str = "small", **marks: object) -> pd.DataFrame:
    """Answers from one string per content, or one per extraction.

    In a string, "1" passed, "0" failed, "n" is a NameError, "e" is empty, "?" was not measured.
    """
    rows = []
    for name, by_extraction in marks.items():
        if isinstance(by_extraction, str):
            by_extraction = {OURS: by_extraction, AUTHORS: by_extraction}
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
        block={OURS: "1110", AUTHORS: "1111"},
        other="1000",
    )
    difference = by_name(effects(frame))["difference"]
    assert difference[WORDING_EFFECT, OURS] == 0.5
    assert difference["no stray quote", AUTHORS] == 0.25
    assert difference["retrieved block", OURS] == 0.25
    assert difference["another task's block", OURS] == -0.25
    assert difference["retrieved instead of another task's block", OURS] == 0.5
    assert difference["context wording and retrieved block, as published", AUTHORS] == 1.0
    assert difference[EXTRACTION_EFFECT, RETRIEVED] == 0.25
    assert difference[EXTRACTION_EFFECT, NO_CONTEXT] == 0.0


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
    # One prompt: one effect of wording, since both extractions agree, and two of extraction.
    alone = by_name(effects(raw))["p_holm"]
    assert alone[WORDING_EFFECT, OURS] == alone[WORDING_EFFECT, AUTHORS] == pytest.approx(3 * p)
    table = effects(pd.concat([raw, chat, other]))
    wording = table[table["effect"] == WORDING_EFFECT].set_index(["model", "sent as"])["p_holm"]
    # Two prompts of one model: six tests. The other model's are corrected apart.
    assert wording["small", "raw text"].tolist() == pytest.approx([6 * p] * 2)
    assert wording["large", "raw text"].tolist() == pytest.approx([3 * p] * 2)


def test_extractions_with_another_verdict_are_two_tests():
    block = {OURS: "1" * 8, AUTHORS: "1" * 7 + "0"}
    corrected = by_name(effects(answered(none="0" * 8, wording=block)))["p_holm"]
    assert corrected[WORDING_EFFECT, OURS] == pytest.approx(4 * 2 / 2**8)


def test_what_was_not_completed_has_no_row():
    table = effects(answered(none="01", wording="11"))
    assert set(table["effect"]) == {WORDING_EFFECT, EXTRACTION_EFFECT}
    assert effects(answered(none="01").iloc[:0]).empty


def test_name_errors_and_empty_answers_are_counted_in_each_condition():
    frame = answered(none="1n0", block={OURS: "nn0", AUTHORS: "nee"})
    table = conditions(frame).set_index(["content", "extraction"])
    counted = table[["n", "passed", "name_errors", "empty"]].apply(list, axis=1)
    assert counted[NO_CONTEXT, OURS] == counted[NO_CONTEXT, AUTHORS] == [3, 1, 1, 0]
    assert counted[RETRIEVED, OURS] == [3, 0, 2, 0]
    assert counted[RETRIEVED, AUTHORS] == [3, 0, 1, 2]


def test_a_gain_is_taken_apart_into_wording_and_extraction():
    frame = answered(
        none={OURS: "1100", AUTHORS: "1000"},
        wording={OURS: "1110", AUTHORS: "1110"},
        block={OURS: "1110", AUTHORS: "1110"},
    )
    sources = gain_sources(frame).set_index("source")
    assert sources.loc[WORDING_SOURCE, "difference"] == 0.25
    assert sources.loc[BOTH_SOURCE, "difference"] == 0.5
    # The gain is 0.25 by this project's extraction and 0.5 by the authors'.
    assert sources.loc[EXTRACTION_SOURCE, "difference"] == 0.25
    assert (sources["low"] < sources["difference"]).all()
    assert (sources["difference"] < sources["high"]).all()


@pytest.fixture
def results(monkeypatch):
    """A model of which the first methods given are stored, each with verdicts on so many tasks."""
    run = Results(MODEL, "humaneval", "published", 4)

    def store(**measured: int) -> Results:
        methods = {
            CONTENTS[NAMES[name]].format("codellama prompt"): n for name, n in measured.items()
        }
        ids = [task.id for task in run.tasks]

        def outcomes(method: str, authors_extraction: bool = False) -> dict[str, Outcome]:
            known = ids[: methods[method]]
            outcome = Outcome("failed", "NameError") if authors_extraction else Outcome("passed")
            return {i: outcome if i in known else Outcome("not_measured") for i in ids}

        monkeypatch.setattr(run, "completions", lambda method: {} if method not in methods else ids)
        monkeypatch.setattr(run, "outcomes", outcomes)
        monkeypatch.setattr(run, "solutions", lambda method: dict.fromkeys(ids, "x = 1"))
        monkeypatch.setattr(run, "authors_solutions", lambda method: dict.fromkeys(ids, ""))
        return run

    return store


def test_answers_are_those_of_the_stored_methods_by_both_extractions(results):
    table = conditions(answers([results(none=4, clean=3)]))
    assert list(table["content"].unique()) == [NO_CONTEXT, NO_STRAY_QUOTE]
    assert set(table["model"]) == {MODEL} and set(table["sent as"]) == {"raw text"}
    rows = table.set_index(["content", "extraction"])
    assert rows.loc[(NO_CONTEXT, OURS), ["n", "passed", "empty"]].tolist() == [4, 4, 0]
    authors = rows.loc[(NO_STRAY_QUOTE, AUTHORS), ["n", "passed", "name_errors", "empty"]]
    assert authors.tolist() == [3, 0, 3, 3]


def test_a_method_that_is_barely_begun_does_not_shrink_the_comparison(results):
    table = answers([results(none=4, wording=4, clean=1)])
    assert NO_STRAY_QUOTE not in set(table["content"])
    assert set(effects(table)["n"]) == {4}
