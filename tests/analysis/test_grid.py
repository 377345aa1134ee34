"""Grid: the same cells in every markup."""

import csv
import io

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import DASH, MINUS


def flat():
    frame = pd.DataFrame({"A & B": ["1", DASH], "C|D": [f"{MINUS}2", "<b>"]}, ["x_1", "y"]).rename_axis("row")
    return Grid("A title", frame, ("A note.",))


def grouped():
    return Grid(
        "T", pd.DataFrame({("G", "a"): ["1"], ("G", "b"): ["2"], ("H", "a"): ["3"]}, ["r"]).rename_axis("row")
    )


def test_csv_is_read_back_with_plain_numbers():
    rows = list(csv.reader(io.StringIO(flat().csv())))
    assert rows == [["row", "A & B", "C|D"], ["x_1", "1", "-2"], ["y", "", "<b>"]]
    assert next(csv.reader(io.StringIO(grouped().csv()))) == ["row", "G: a", "G: b", "H: a"]


def test_markdown_has_one_cell_a_column_and_escapes_bars():
    lines = [line for line in flat().markdown().splitlines() if line.startswith("|")]
    assert len(lines) == 4 and all(line.replace("\\|", "").count("|") == 4 for line in lines)
    assert "A note." in flat().markdown()


def test_latex_is_balanced_and_escaped():
    text = flat().latex()
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert r"A \& B" in text and r"x\_1" in text and "$-$2" in text
    assert r"\multicolumn{2}{c}{G}" in grouped().latex()


def test_html_escapes_what_is_no_markup_and_spans_groups():
    assert "&lt;b&gt;" in flat().html() and "<b>" not in flat().html()
    assert 'colspan="2">G<' in grouped().html()


def test_save_writes_three_files(tmp_path):
    flat().save(tmp_path / "a.b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.b.csv", "a.b.md", "a.b.tex"]
