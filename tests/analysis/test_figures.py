"""Figures: their contents, sizes and styles, and equal bytes for equal data."""

import io

import matplotlib as mpl
import pandas as pd
import pytest
from checks import legible, problems
from matplotlib.figure import Figure
from PIL import Image

from pkg_lib.analysis import figures
from pkg_lib.analysis.notebook_report import NotebookReport
from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import UserError
from pkg_lib.papers.pkg.pass_figures import helped_and_hurt_bars, pass_rates


@pytest.mark.parametrize("missing", ["nothing", "partial", "few", "all but None", "all"])
@pytest.mark.parametrize("draw", [pass_rates, helped_and_hurt_bars])
def test_texts_are_at_least_7_pt_inside_the_figure_and_do_not_overlap(draw, missing, verdicts):
    rows, columns = {
        "nothing": (slice(0, 0), slice(0, 0)),
        "partial": (slice(15), slice(2, 3)),
        "few": (slice(2, None), slice(1, 3)),
        "all but None": (slice(None), slice(1, None)),
        "all": (slice(None), slice(None)),
    }[missing]
    verdicts.iloc[rows, columns] = pd.NA
    texts = legible(
        draw(
            verdicts, "qwen2.5-coder-0.5b-instruct\nHumanEval, corpus textbook+stdlib", "humaneval"
        )
    )
    assert ("2 of 40 tasks" in texts) == (missing == "few")


def test_bars_show_the_rates_and_missing_methods_have_no_bar(verdicts):
    verdicts["VoyageEmb"] = pd.NA
    figure = pass_rates(verdicts, "m", "humaneval")
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    measured = ["NoRAG", "BM25", "Func-BM25", "Func-PKG", "Block-PKG"]
    assert widths == pytest.approx([100 * verdicts[c].mean() for c in measured])
    texts = legible(figure)  # Dense, and what would choose among all columns
    assert texts.count("not measured") == texts.count(DASH) == 3


def test_legend_names_published_models_if_there_are_any(verdicts):
    legend = pass_rates(verdicts, "m", "humaneval").legends[0]
    assert [t.get_text() for t in legend.get_texts()][-1] == "DeepSeek-Coder-7B"
    assert pass_rates(verdicts, "m", "mbpp-all").legends == []


def test_helped_and_hurt_tasks_are_drawn_on_opposite_sides(verdicts):
    verdicts["NoRAG"] = [True] * 20 + [False] * 20
    verdicts["BM25"] = [False] * 3 + [True] * 17 + [True] * 5 + [False] * 15
    widths = [
        b.get_width() for b in helped_and_hurt_bars(verdicts, "m", "humaneval").axes[0].patches
    ]
    assert (widths[0], widths[len(widths) // 2]) == (5, -3)


def test_saved_bytes_do_not_depend_on_the_users_settings(verdicts, tmp_path):
    first = figures.save_figure(pass_rates(verdicts, "m", "humaneval"), tmp_path / "a.b")
    with mpl.rc_context({"font.size": 20, "savefig.dpi": 50, "pdf.fonttype": 3}):
        second = figures.save_figure(pass_rates(verdicts, "m", "humaneval"), tmp_path / "c.d")
    assert {k: p.name for k, p in first.items()} == {"pdf": "a.b.pdf", "png": "a.b.png"}
    for kind, path in first.items():
        assert path.read_bytes() == second[kind].read_bytes()


def test_reports_an_unwritable_path_in_one_line(verdicts, tmp_path):
    (tmp_path / "figures").write_text("a file, not a folder")
    with pytest.raises(UserError, match=r"cannot write .*x\.pdf"):
        figures.save_figure(helped_and_hurt_bars(verdicts, "m", "mbpp"), tmp_path / "figures" / "x")


def test_colour_and_marker_distinguish_names():
    looks = figures.distinct_styles(["a", "b", "c"], ["red", "blue"])
    assert list(looks) == ["a", "b", "c"]
    assert [colour for colour, _ in looks.values()] == ["red", "blue", "red"]
    assert len(set(looks.values())) == 3


def test_draws_an_interval_only_for_enough_values():
    values = pd.Series([0.0, 1.0, 1.0])
    low, high = figures.bootstrap_bar(values)
    assert 0 <= low < values.mean() < high <= 1
    assert all(map(pd.isna, figures.bootstrap_bar(values, least=4)))
    assert all(map(pd.isna, figures.bootstrap_bar(values[:0])))


def test_displayed_figure_keeps_the_style_after_changes(verdicts, tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    with mpl.rc_context({"font.size": 20}):
        NotebookReport("n", "A notebook")
        figure = pass_rates(verdicts, "m", "humaneval")
        (axes,) = figure.axes
        axes.set_title("another title")
        axes.set_xlim(0, 33)  # other ticks
        assert "another title" in legible(figure)
        picture = Image.open(io.BytesIO(figure._repr_png_()))
    inches = [pixels / figures.DISPLAY_DPI for pixels in picture.size]
    assert inches == pytest.approx(figure.get_size_inches(), abs=0.02)


def test_later_ticks_have_the_style(verdicts):
    with mpl.rc_context({"font.size": 20, "xtick.labelsize": 20}):
        figure = pass_rates(verdicts, "m", "humaneval")
        figure.axes[0].set_xticks(range(0, 101, 50))
        figure.axes[0].set_xticks(range(0, 101, 25))
        figure.draw_without_rendering()
        assert {label.get_fontsize() for label in figure.axes[0].get_xticklabels()} == {7}


@pytest.mark.parametrize("draw", [pass_rates, helped_and_hurt_bars])
def test_draws_into_the_axes_of_another_figure(draw, verdicts):
    users = Figure(figsize=(8, 4))
    left, right = users.subplots(1, 2)
    assert draw(verdicts, "m", "humaneval", ax=right) is users
    assert right.patches and not left.patches and users.axes == [left, right]
    assert users.legends == [], "a legend at the edge of the figure would be far from the axes"
    assert right.get_title(loc="left") == "m"


def test_legibility_check_detects_small_clipped_and_overlapping_texts():
    figure = Figure(figsize=(8.5 / 2.54, 2))
    figure.text(0.1, 0.5, "small", fontsize=5)
    figure.text(0.9, 0.9, "outside of it")
    figure.text(0.1, 0.2, "over", fontsize=8)
    figure.text(0.1, 0.21, "under", fontsize=8)
    assert problems(figure) == [
        "5.0 pt: small",
        "clipped: outside of it",
        "under overlaps over",
    ]
    figure.set_figwidth(5)
    assert "12.70 cm wide" in problems(figure)


def test_title_of_the_user_replaces_the_title_of_the_figure(verdicts):
    figure = pass_rates(verdicts, "the title of the package", "humaneval")
    figures.use_style()
    figure.axes[0].set_title("my own title")
    shown = legible(figure)
    assert "my own title" in shown and "the title of the package" not in shown
