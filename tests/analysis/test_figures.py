"""figures: what is drawn, at which size, and the same bytes twice."""

import matplotlib as mpl
import pandas as pd
import pytest
from checks import CODE, legible
from matplotlib.text import Text

from pkg_lib.analysis import figures
from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg.pass_figures import helped_and_hurt_bars, pass_rates

DRAWINGS = (pass_rates, helped_and_hurt_bars)


def texts(figure):
    return [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]


@pytest.fixture(params=["full", "partial", "few", "None alone", "nothing"])
def any_verdicts(request, verdicts):
    if request.param == "partial":
        verdicts.iloc[:15, 2] = pd.NA
    if request.param == "few":
        verdicts.iloc[2:, 1:3] = pd.NA
    if request.param == "None alone":
        verdicts[list(CODE[1:])] = pd.NA
    if request.param == "nothing":
        verdicts[list(CODE)] = pd.NA
    return verdicts


@pytest.mark.parametrize("draw", DRAWINGS)
def test_texts_are_at_least_7_pt_inside_the_figure_and_do_not_overlap(draw, any_verdicts):
    figure = draw(any_verdicts, "qwen2.5-coder-0.5b-instruct\nHumanEval, corpus textbook+stdlib", "humaneval")
    legible(figure)


def test_bars_have_the_height_of_the_rates_and_missing_columns_no_bar(verdicts):
    verdicts["Dense"] = pd.NA
    figure = pass_rates(verdicts, "m", "humaneval")
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    measured = ["None", "BM25", "Func-BM25", "Func-PKG", "Block-PKG"]
    assert widths == pytest.approx([100 * verdicts[c].mean() for c in measured])
    shown = [t.get_text() for t in texts(figure)]
    assert (
        shown.count("not measured") == shown.count(DASH) == 3
    )  # Dense, and what would choose among all columns


def test_a_column_that_is_measured_on_few_tasks_has_no_bar(verdicts):
    verdicts["Dense"] = pd.array([False, True] + [pd.NA] * (len(verdicts) - 2), "boolean")
    for draw in DRAWINGS:
        assert f"2 of {len(verdicts)} tasks" in [
            t.get_text() for t in texts(draw(verdicts, "m", "humaneval"))
        ]
    assert len(pass_rates(verdicts, "m", "humaneval").axes[0].patches) == 5


def test_published_models_are_in_the_legend_where_there_are_any(verdicts):
    legend = pass_rates(verdicts, "m", "humaneval").legends[0]
    assert [t.get_text() for t in legend.get_texts()][-1] == "DeepSeek-Coder-7B"
    assert pass_rates(verdicts, "m", "mbpp-all").legends == []


def test_helped_and_hurt_go_to_their_sides(verdicts):
    verdicts["None"] = [True] * 20 + [False] * 20
    verdicts["BM25"] = [False] * 3 + [True] * 17 + [True] * 5 + [False] * 15
    bars = helped_and_hurt_bars(verdicts, "m", "humaneval").axes[0].patches
    widths = [b.get_width() for b in bars]
    assert (widths[0], widths[len(widths) // 2]) == (5, -3)


def test_same_bytes_twice_whatever_the_users_settings(verdicts, tmp_path):
    first = figures.save_figure(pass_rates(verdicts, "m", "humaneval"), tmp_path / "a.b")
    with mpl.rc_context({"font.size": 20, "savefig.dpi": 50, "pdf.fonttype": 3}):
        second = figures.save_figure(pass_rates(verdicts, "m", "humaneval"), tmp_path / "c.d")
    assert {k: p.name for k, p in first.items()} == {"pdf": "a.b.pdf", "png": "a.b.png"}
    for kind, path in first.items():
        assert path.read_bytes() == second[kind].read_bytes()


def test_an_unwritable_place_is_said_in_one_line(verdicts, tmp_path):
    (tmp_path / "figures").write_text("a file, not a folder")
    with pytest.raises(UserError, match=r"cannot write .*x\.pdf"):
        figures.save_figure(helped_and_hurt_bars(verdicts, "m", "mbpp"), tmp_path / "figures" / "x")
