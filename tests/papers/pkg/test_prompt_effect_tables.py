"""Tables and figure of prompt effects, from effects that are known."""

from __future__ import annotations

import pandas as pd

from pkg_lib.papers.pkg.prompt_effect_tables import effects_figure, effects_table, shares_table
from pkg_lib.papers.pkg.prompt_effects import EXTRACTIONS, TEMPLATES_SENT, WORDS_EFFECT

FIELDS = ["n", "difference", "low", "high", "helped", "hurt", "p", "p_holm"]
LEVELS = ["model", "benchmark", "style", "template", "effect", "at"]


def frame(difference: float, style: str = "codellama") -> pd.DataFrame:
    key = ("small", "humaneval", style, TEMPLATES_SENT[False], WORDS_EFFECT, EXTRACTIONS[1])
    values = [100, difference, difference - 0.01, difference + 0.01, 5, 2, 0.04, 0.08]
    return pd.DataFrame([values], pd.MultiIndex.from_tuples([key], names=LEVELS), FIELDS)


def test_the_share_is_the_measured_effect_over_the_published_gain():
    """Table 1: CodeLlama-7B from 33 without context to 40 with Block-PKG; 13B from 42 to 47."""
    table = shares_table(frame(0.035)).frame
    rows = {name.partition(" on ")[0]: row for name, row in table.iterrows()}
    assert set(rows) == {"CodeLlama-7B", "CodeLlama-13B"}
    assert rows["CodeLlama-7B"]["words / gain"] == "50 %"
    assert rows["CodeLlama-13B"]["words / gain"] == "70 %"


def test_a_loss_explains_no_share_of_a_gain():
    assert set(shares_table(frame(-0.035)).frame["words / gain"]) == {"–"}


def test_an_effect_is_shown_in_points_with_its_corrected_p():
    (row,) = effects_table(frame(0.035)).frame.itertuples(index=False)
    assert "+3.5" in row
    assert "0.08" in " ".join(map(str, row))


def test_each_style_is_drawn_once_per_measured_effect():
    effects = pd.concat([frame(0.02), frame(-0.1, "deepseek")])
    axes = effects_figure(effects, "small", "humaneval").axes[0]
    values = [
        line.get_xdata()[0] for line in axes.lines if line.get_marker() not in ("None", None, "")
    ]
    assert sorted(round(float(value), 6) for value in values) == [-10.0, 2.0]
