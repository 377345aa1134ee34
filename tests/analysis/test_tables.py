"""Formats and colours of tables, and properties of pass@1 tables beyond the golden tables."""

import csv
import io
import math

import numpy as np
import pandas as pd
import pytest
from checks import CODE
from matplotlib.colors import to_rgb

from pkg_lib.analysis import tables
from pkg_lib.analysis.tables import DASH
from pkg_lib.evaluation.controls import ControlError
from pkg_lib.papers.pkg.pass_tables import against_none, changed_tasks, findings, pass_table


def make(verdicts, controls, **more):
    return pass_table("a_model", verdicts, controls, "humaneval", "textbook+stdlib", **more)


def test_refuses_a_table_with_a_broken_control(verdicts, controls):
    controls["return None"].iloc[3] = True
    with pytest.raises(ControlError, match="HumanEval/3"):
        make(verdicts, controls)


def test_unmeasured_cell_is_a_dash_and_partial_cell_shows_n(verdicts, controls):
    verdicts["VoyageEmb"] = pd.NA
    verdicts.iloc[:10, 1] = pd.NA
    table = make(verdicts, controls, limit=40)
    texts = {column: cell.text for column, cell in table.frame.iloc[0].items()}
    assert texts["VoyageEmb"] == DASH and texts["BM25"].endswith("(n=30)")
    assert any(note.startswith(DASH) for note in table.notes)
    assert any(note.startswith("n:") for note in table.notes)
    assert "the first 40 tasks" in table.title
    rows = {
        r["method"]: r for r in csv.DictReader(io.StringIO(table.csv())) if r["model"] == "a_model"
    }
    assert list(rows) == list(CODE) and rows["VoyageEmb"]["pass_at_1_percent"] == ""
    assert (rows["VoyageEmb"]["measured"], rows["VoyageEmb"]["total"]) == ("0", "40")
    compared = against_none(verdicts).frame
    assert (
        compared.loc["VoyageEmb"].unique().tolist() == [DASH]
        and compared.at["BM25", "tasks"] == "30"
    )


def test_selecting_methods_need_every_candidate(verdicts):
    """Otherwise an oracle that is known only where a method passed would score 100 %."""
    verdicts.iloc[:10, 3] = pd.NA
    frame = tables.complete(verdicts)
    assert frame[["Reranked", "Ideal Reranker"]].iloc[:10].isna().all(axis=None)
    assert frame[["Reranked", "Ideal Reranker"]].iloc[10:].notna().all(axis=None)


def test_colour_of_a_partial_cell_compares_equal_tasks(verdicts, controls):
    verdicts["NoRAG"] = [True] * 20 + [False] * 20
    verdicts["BM25"] = pd.array([True] * 20 + [pd.NA] * 20, dtype="boolean")
    cell = make(verdicts, controls).frame.iloc[0, 1]
    assert (cell.value, cell.difference, cell.colour) == (100, 0, "")


def test_rejects_unknown_methods(verdicts):
    with pytest.raises(ValueError, match="BM26"):
        tables.complete(verdicts.rename(columns={"BM25": "BM26"}))


def test_formats_numbers():
    signed = [tables.points(v) for v in (0.0244, -0.0244, -0.0001, 0, math.nan)]
    assert signed == ["+2.4", "\N{MINUS SIGN}2.4", "0.0", "0.0", DASH]
    assert [tables.percent(v) for v in (101 / 164, 1.0, None, math.nan)] == [
        "61.6",
        "100.0",
        DASH,
        DASH,
    ]
    values = [tables.probability(p) for p in (0.0312, 0.0004, 1.0, math.nan)]
    assert values == ["0.031", "< 0.001", "1.000", DASH]
    assert [tables.number(v) for v in (1234, np.int64(7), None, math.nan)] == [
        "1,234",
        "7",
        DASH,
        DASH,
    ]
    assert tables.number(-1234.56, 1) == "\N{MINUS SIGN}1,234.6"


def test_reads_printed_tables_by_name_with_options():
    numbers = tables.reference_table("dkb_prices", index_col="item")["dollars_per_million"]
    texts = tables.reference_table("dkb_prices", dtype=str).set_index("item")["dollars_per_million"]
    assert texts.astype(float).tolist() == numbers.tolist()


def test_markups_escape_their_special_characters(verdicts, controls):
    table = pass_table("<b>&_|", verdicts, controls, "humaneval", "source:<x>")
    assert "&lt;b&gt;&amp;" in table.html() and "<x>" not in table.html()
    assert r"<b>\&\_" in table.latex() and table.latex().isascii()
    assert table.latex().count("{") == table.latex().count("}")
    assert r"<b>&_\|" in table.markdown()


def linear(colour):
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def test_colours_show_size_and_sign_of_a_difference_and_keep_text_readable():
    shades = [luminance(tables.colour(d)) for d in (1, 5, 10, 20)]
    assert shades == sorted(shades, reverse=True) and tables.colour(20) == tables.colour(60)
    assert tables.colour(0.0) == tables.colour(math.nan) == tables.colour(None) == ""
    for difference, first in (
        (60, 2),
        (10, 2),
        (-10, 0),
        (-60, 0),
    ):  # above NoRAG teal, below it orange-red
        assert np.argmax(to_rgb(tables.colour(difference))) == first
        assert (luminance(tables.colour(difference)) + 0.05) / (luminance("#111111") + 0.05) >= 7


# Machado, Oliveira and Fernandes (2009), severity 1.0, of protans, deutans and tritans; row by row.
BLIND = [
    [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
    [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881],
    [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900],
]


@pytest.mark.parametrize("matrix", BLIND)
def test_colour_blind_readers_can_distinguish_better_from_worse(matrix):
    def lab(colour):
        seen = np.clip(np.reshape(matrix, (3, 3)) @ linear(colour), 0, 1)
        xyz = (
            np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
            @ seen
        )
        f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    for size in (5, 10, 20):
        apart = np.linalg.norm(lab(tables.colour(size)) - lab(tables.colour(-size)))
        assert apart > 10  # 2.3 is just noticeable


def test_findings_claim_nothing_from_a_few_changed_tasks(verdicts):
    for name in CODE[1:]:
        verdicts[name] = verdicts["NoRAG"]
    verdicts.loc[verdicts.index[:2], "Func-PKG"] = True
    assert not any(s.startswith("Significantly") for s in findings(verdicts, "humaneval"))


def test_findings_report_missing_measurements(verdicts):
    verdicts[list(CODE[1:])] = pd.NA
    assert findings(verdicts, "humaneval") == [f"Not measured: {', '.join(CODE[1:])}."]
    verdicts["NoRAG"] = pd.NA
    assert "nothing to compare" in findings(verdicts, "humaneval")[-1]


def test_findings_compare_methods_on_equal_tasks(verdicts):
    """A method that was measured on easy tasks only must not look best."""
    for name in CODE:
        verdicts[name] = pd.array([True] * 20 + [False] * 20, dtype="boolean")
    verdicts.loc[verdicts.index[20:], "VoyageEmb"] = pd.NA
    texts = findings(verdicts, "humaneval")
    assert any("Reranked scores 100.0 %: 0.0 percentage points against NoRAG" in s for s in texts)
    assert not any(s.startswith("Significantly") for s in texts)


def test_changed_tasks_are_listed_by_id(verdicts):
    verdicts["NoRAG"] = [False] * 2 + [True] * 38
    verdicts["BM25"] = [True, False, False] + [True] * 37
    verdicts["VoyageEmb"] = pd.NA
    lines = changed_tasks(verdicts).splitlines()
    assert lines[:2] == [
        "- **BM25** helped 1: HumanEval/0; hurt 1: HumanEval/2",
        "- **VoyageEmb**: not measured",
    ]


def test_change_of_a_count_has_a_sign_unless_it_is_0():
    counts = [36, -2, 0, -0.4, 1200, math.nan]
    assert [tables.signed_count(count) for count in counts] == [
        "+36",
        "−2",
        "0",
        "0",
        "+1,200",
        DASH,
    ]
