"""tables: the published numbers, our rows, formats, exporters and colours."""

import csv
import io
import math
import re

import numpy as np
import pandas as pd
import pytest

from pkg_lib.analysis import tables
from pkg_lib.analysis.stats import ControlError
from pkg_lib.analysis.tables import CODE, DASH


def make(verdicts, controls, **more):
    return tables.table1({"a_model": verdicts}, controls, "humaneval", "textbook+stdlib", **more)


def test_published_rows_are_the_papers_and_their_average_is_the_one_it_prints(verdicts, controls):
    frame = make(verdicts, controls).frame().droplevel("source")
    assert frame.loc["StarCoder2-7B"].tolist() == [45, 41, 53, 57, 56, 59, 63, 72]
    assert frame.loc["Avg."].tolist() == pytest.approx([49.0, 34.8, 50.0, 49.8, 52.8, 55.0, 59.8, 69.8])


def test_mbpp_gets_its_own_published_rows_and_an_unpublished_benchmark_none():
    assert tables.published("mbpp").at["CodeLlama-7B", "Ideal"] == "60"
    assert tables.published("mbpp-all").empty


def test_our_row_is_the_share_that_passed(verdicts, controls):
    frame = make(verdicts, controls).frame()
    ours = frame.xs("a_model", level="model").iloc[0]
    assert ours.tolist() == pytest.approx([100 * verdicts[c].mean() for c in CODE])
    assert frame.xs("return None", level="model").iloc[0, 0] == 0
    assert frame.xs("canonical solution", level="model").iloc[0, 0] == 100


def test_a_broken_control_makes_no_table(verdicts, controls):
    controls["return None"].iloc[3] = True
    with pytest.raises(ControlError, match="HumanEval/3"):
        make(verdicts, controls)


def test_not_measured_is_a_dash_and_partly_measured_says_n(verdicts, controls):
    verdicts["Dense"] = pd.NA
    verdicts.iloc[:10, 1] = pd.NA
    table = make(verdicts, controls)
    texts = dict(zip(CODE, (c.text for c in table.rows[0].cells), strict=True))
    assert texts["Dense"] == DASH
    assert texts["BM25"].endswith("(n=30)")
    assert any(note.startswith(DASH) for note in table.notes)
    assert any(note.startswith("n:") for note in table.notes)


def test_choosing_columns_need_every_candidate(verdicts):
    """Else an oracle known only where something passed would score 100 %."""
    verdicts.iloc[:10, 3] = pd.NA
    frame = tables.complete(verdicts)
    assert frame[["Reranked", "Ideal"]].iloc[:10].isna().all(axis=None)
    assert frame[["Reranked", "Ideal"]].iloc[10:].notna().all(axis=None)


def test_the_colour_of_a_partial_cell_compares_the_same_tasks(verdicts, controls):
    verdicts["None"] = [True] * 20 + [False] * 20
    verdicts["BM25"] = pd.array([True] * 20 + [pd.NA] * 20, dtype="boolean")
    cell = make(verdicts, controls).rows[0].cells[1]
    assert (cell.value, cell.difference, cell.colour) == (100, 0, "")


def test_unknown_columns_are_an_error_not_dropped(verdicts):
    with pytest.raises(ValueError, match="BM26"):
        tables.complete(verdicts.rename(columns={"BM25": "BM26"}))


def test_a_limited_run_says_so(verdicts, controls):
    assert "the first 40 tasks" in make(verdicts, controls, limit=40).title


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0244, "+2.4"), (-0.0244, "\N{MINUS SIGN}2.4"), (-0.0001, "0.0"), (0, "0.0"), (math.nan, DASH)],
)
def test_points(value, text):
    assert tables.points(value) == text


def test_percent_and_probability():
    assert [tables.percent(v) for v in (101 / 164, 1.0, None, math.nan)] == ["61.6", "100.0", DASH, DASH]
    assert [tables.probability(p) for p in (0.0312, 0.0004, 1.0, math.nan)] == [
        "0.031",
        "< 0.001",
        "1.000",
        DASH,
    ]


def test_csv_has_one_line_a_cell_and_is_empty_where_not_measured(verdicts, controls):
    verdicts["Dense"] = pd.NA
    rows = list(csv.DictReader(io.StringIO(make(verdicts, controls).csv())))
    ours = {r["method"]: r for r in rows if r["model"] == "a_model"}
    assert list(ours) == list(CODE)
    assert ours["Dense"]["pass_at_1_percent"] == ""
    assert (ours["Dense"]["measured"], ours["Dense"]["total"]) == ("0", "40")
    assert float(ours["None"]["low"]) < float(ours["None"]["pass_at_1_percent"]) < float(ours["None"]["high"])
    assert sum(r["model"] == "return None" for r in rows) == 1


def test_markdown_and_latex_have_as_many_cells_in_every_row(verdicts, controls):
    table = make(verdicts, controls)
    assert {line.count("|") for line in table.markdown().splitlines() if line.startswith("|")} == {
        len(CODE) + 3
    }
    body = [line for line in table.latex().splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(body) == 1 + len(table.rows)
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {len(CODE)}


def test_latex_escapes_names_and_balances_braces(verdicts, controls):
    text = make(verdicts, controls).latex()
    assert r"a\_model" in text
    assert "50 tasks_" not in text
    assert not re.search(r"(?<!\\)_", text.split("\n", 1)[1])
    assert text.count("{") == text.count("}")
    assert text.isascii()


def test_html_escapes_what_it_prints(verdicts, controls):
    html = tables.table1({"<b>&": verdicts}, controls, "humaneval", "source:<x>").html()
    assert "&lt;b&gt;&amp;" in html
    assert "<x>" not in html


def test_saving_twice_writes_the_same_bytes(verdicts, controls, tmp_path):
    first = {p.name: p.read_bytes() for p in make(verdicts, controls).save(tmp_path / "m.b.c.rq1")}
    second = {p.name: p.read_bytes() for p in make(verdicts, controls).save(tmp_path / "m.b.c.rq1")}
    assert first == second
    assert set(first) == {"m.b.c.rq1.csv", "m.b.c.rq1.md", "m.b.c.rq1.tex"}


def rgb(colour):
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def linear(colour):
    c = rgb(colour)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def test_colour_grows_with_the_difference_and_is_full_at_20_points():
    shades = [luminance(tables.colour(d)) for d in (1, 5, 10, 20)]
    assert shades == sorted(shades, reverse=True)
    assert tables.colour(20) == tables.colour(60)
    assert tables.colour(0.0) == tables.colour(math.nan) == tables.colour(None) == ""


def test_above_none_is_teal_and_below_it_orange_red():
    red, _, blue = rgb(tables.colour(10))
    assert blue > red
    red, _, blue = rgb(tables.colour(-10))
    assert red > blue


@pytest.mark.parametrize("difference", [-60, -10, 10, 60])
def test_black_text_is_readable_on_every_colour(difference):
    assert (luminance(tables.colour(difference)) + 0.05) / (luminance("#111111") + 0.05) >= 7


# Machado, Oliveira and Fernandes (2009), severity 1.0.
DEFICIENCIES = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(colour, matrix):
    seen = np.clip(np.array(matrix) @ linear(colour), 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ seen
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("size", [5, 10, 20])
def test_better_and_worse_look_different_to_colour_blind_readers(deficiency, size):
    matrix = DEFICIENCIES[deficiency]
    apart = np.linalg.norm(lab(tables.colour(size), matrix) - lab(tables.colour(-size), matrix))
    assert apart > 10  # 2.3 is just noticeable
