"""Tables, figure and findings of prompt effects, from effects that are known."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from pkg_lib.generation.authors_extraction import ALL_BLOCKS
from pkg_lib.papers.pkg.prompt_effect_tables import (
    UPPER_SHARE,
    conditions_table,
    effects_figure,
    effects_finding,
    effects_table,
    gain_finding,
    name_errors_table,
    shares,
    shares_table,
)
from pkg_lib.papers.pkg.prompt_effects import (
    BOTH_SOURCE,
    CONDITION,
    CONTENTS,
    FAILED_PROMPT,
    OURS,
    PROMPT,
    WORDING_EFFECT,
)

NO_CONTEXT, _, CONTEXT_WORDING, RETRIEVED, _ = CONTENTS


def effect(
    difference: float, style: str = "codellama", sent_as: str = "raw text", p: float = 0.08
) -> pd.DataFrame:
    about = dict(zip(PROMPT, ("small", "humaneval", style, sent_as), strict=True))
    about |= {"effect": WORDING_EFFECT, "at": ALL_BLOCKS, "n": 100, "difference": difference}
    about |= {"low": difference - 0.01, "high": difference + 0.014, "helped": 5, "hurt": 2}
    return pd.DataFrame([about | {"p": p / 2, "p_corrected": p, "untested": ""}])


def failed_effect(difference: float, sent_as: str = "raw text") -> pd.DataFrame:
    return effect(difference, sent_as=sent_as, p=float("nan")).assign(
        p=0.001, untested=FAILED_PROMPT
    )


def source(difference: float, style: str = "codellama", sent_as: str = "raw text") -> pd.DataFrame:
    about = dict(zip(PROMPT, ("small", "humaneval", style, sent_as), strict=True))
    about |= {"source": BOTH_SOURCE, "n": 100, "difference": difference, "failed": False}
    return pd.DataFrame([about | {"low": difference - 0.01, "high": difference + 0.014}])


def condition(
    content: str,
    empty: int = 0,
    sent_as: str = "raw text",
    name_errors: int = 3,
    benchmark: str = "humaneval",
) -> dict[str, object]:
    row = ("small", benchmark, "codellama", sent_as, content, ALL_BLOCKS)
    about = dict(zip(CONDITION, row, strict=True))
    return about | {"n": 10, "passed": 5, "name_errors": name_errors, "empty": empty}


def test_effects_are_counted_once_and_compared_with_gains_only():
    """Table 1 has gains of 7 and 5 points for CodeLlama, of 14 for StarCoder2, and a loss for DeepSeek-Coder."""
    reaches_a_gain = source(0.06)  # at most 7.4 points: all of both gains of CodeLlama
    reaches_half = source(0.08, style="starcoder2")
    loss = source(-0.09, style="deepseek").assign(
        benchmark="mbpp"
    )  # the paper reports the same loss
    (text,) = gain_finding(shares(pd.concat([reaches_a_gain, reaches_half, loss])))
    assert "intervals, 1 of 2 measured effects" in text
    assert "2 of the 2 are at least half" in text
    (text,) = gain_finding(shares(source(0.01)))
    assert "intervals, none of 1 measured effect" in text and "None of the 1 are" in text
    failed = source(0.06).assign(failed=True)
    assert gain_finding(shares(failed)) == gain_finding(shares(loss)) == []


def test_the_share_is_the_measured_effect_over_the_published_difference():
    """Table 1: CodeLlama-7B from 33 without context to 40 with Block-PKG; 13B from 42 to 47."""
    table = shares(source(0.035)).set_index("published")
    assert table["share"].to_dict() == pytest.approx({"CodeLlama-7B": 0.5, "CodeLlama-13B": 0.7})
    assert table["upper_share"].to_dict() == pytest.approx(
        {"CodeLlama-7B": 0.7, "CodeLlama-13B": 0.98}
    )
    shown = shares_table(table.reset_index()).frame
    assert shown.loc["CodeLlama-7B HumanEval", ["share", UPPER_SHARE]].tolist() == ["50 %", "70 %"]


@pytest.mark.parametrize(
    ("difference", "shown"), [(-0.0002, "0 %"), (0.0002, "0 %"), (-0.007, "−10 %")]
)
def test_a_share_that_rounds_to_zero_has_no_sign(difference, shown):
    frame = shares_table(shares(source(difference))).frame
    assert frame.loc["CodeLlama-7B HumanEval", "share"] == shown


def test_a_loss_explains_no_share_of_a_gain():
    table = shares(source(-0.035))
    assert (table["share"] < 0).all() and (table["upper_share"] == 0).all()


def test_a_failed_prompt_has_no_share():
    table = shares(source(0.035).assign(failed=True))
    assert table[["share", "upper_share"]].isna().all(axis=None)
    shown = shares_table(table).frame
    assert shown.loc["CodeLlama-7B HumanEval", ["effect", "share", UPPER_SHARE]].tolist() == [
        "+3.5",
        "–",
        "–",
    ]


def test_the_upper_share_of_a_published_loss_is_the_lower_end():
    """Table 2: with Block-PKG, DeepSeek-Coder-7B loses 9 points on MBPP."""
    (row,) = shares(source(-0.045, "deepseek").assign(benchmark="mbpp")).to_dict("records")
    assert row["share"] == pytest.approx(0.5)
    assert row["upper_share"] == pytest.approx(row["low"] / -0.09)


def test_a_small_published_difference_has_no_share():
    """Table 1: DeepSeek-Coder-7B from 70 without context to 68 with Block-PKG."""
    (row,) = shares(source(-0.01, "deepseek")).to_dict("records")
    assert math.isnan(row["share"])
    assert math.isnan(row["upper_share"])


def test_the_first_columns_name_model_benchmark_and_prompt():
    table = effects_table(effect(0.035)).frame.reset_index()
    assert table.loc[0, ["model", "prompt", "effect"]].tolist() == [
        "SMALL HumanEval",
        "CodeLlama-style, raw text",
        WORDING_EFFECT,
    ]
    assert table.loc[0, ["difference", "p (Holm)"]].tolist() == ["+3.5", "0.080"]
    failed = effects_table(failed_effect(-0.4)).frame.reset_index()
    names = ["difference", "McNemar p", "p (Holm)", "not tested"]
    assert failed.loc[0, names].tolist() == ["−40.0", "0.001", "–", FAILED_PROMPT]
    shown = conditions_table(pd.DataFrame([condition(RETRIEVED, 4)])).frame.reset_index()
    names = ["context", "extraction", "tasks", "pass@1", "NameErrors", "empty answers"]
    extraction = "authors, all code fences"
    assert shown.loc[0, names].tolist() == [RETRIEVED, extraction, "10", "50.0", "3", "4"]


def test_name_errors_are_beside_those_of_the_published_table():
    table = name_errors_table(pd.DataFrame([condition(NO_CONTEXT), condition(RETRIEVED)])).frame
    published, measured = (row for _, row in table.iterrows())
    assert published[[NO_CONTEXT, RETRIEVED]].tolist() == [
        "27.6 (138 of 500)",
        "13.0 (65 of 500)",
    ]
    assert measured[[NO_CONTEXT, CONTEXT_WORDING]].tolist() == ["30.0 (3 of 10)", "–"]


def test_each_style_is_drawn_once_per_measured_effect():
    effects = pd.concat([effect(0.02), effect(-0.1, "deepseek")]).assign(at=OURS)
    axes = effects_figure(effects, "small", "humaneval").axes[0]
    markers = [line for line in axes.lines if line.get_marker() not in ("None", None, "")]
    values = [round(float(line.get_xdata()[0]), 6) for line in markers]
    assert sorted(values) == [-10.0, 2.0]


def test_a_style_has_one_colour_in_the_figures_of_all_models():
    first = [effect(0.1, style) for style in ("codellama", "starcoder2", "deepseek")]
    second = [effect(0.1, style).assign(model="large") for style in ("codellama", "deepseek")]
    effects = pd.concat([*first, *second]).assign(at=OURS)

    def colours(model):
        legend = effects_figure(effects, model, "humaneval").axes[0].get_legend_handles_labels()
        return {label: line.get_markeredgecolor() for line, label in zip(*legend, strict=True)}

    small, large = colours("small"), colours("large")
    assert len(set(small.values())) == 3
    assert large == {label: small[label] for label in large} and len(large) == 2


def test_failed_prompts_are_not_drawn():
    effects = pd.concat([effect(0.02), failed_effect(-0.4, "chat template")]).assign(at=OURS)
    drawn = effects_figure(effects, "small", "humaneval").axes[0]
    markers = [line for line in drawn.lines if line.get_marker() not in ("None", None, "")]
    assert [round(float(line.get_xdata()[0]), 6) for line in markers] == [2.0]
    assert effects_figure(failed_effect(-0.4), "small", "humaneval").axes


def test_the_finding_counts_the_effects_that_are_significant_after_correction():
    effects = pd.concat([effect(0.2, p=0.01), effect(-0.2, p=0.02), effect(0.1, p=0.2)])
    (text,) = effects_finding(pd.concat([effects, failed_effect(0.3)]))
    assert text.startswith("Of 3 tested effects")
    assert "2 are significant" in text and "1 of these are negative" in text
    assert effects_finding(effects.iloc[:0]) == []
