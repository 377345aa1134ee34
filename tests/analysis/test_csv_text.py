"""Text in a CSV file is never a formula, and numbers stay numbers."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import csv_text
from pkg_lib.core.store import ROOT

FORMULAS = [
    "=1+1",
    '=HYPERLINK("http://x")',
    "+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "-",
    "-x",
    "+1+1",
    "-1-A1",
    "- item",
]
NUMBERS = [
    "-2.4",
    "+1.2",
    "-3%",
    "-1,234.5",
    "-1e-05",
    "-.5",
    "-2.4 to +1.0",
    "+0.2 (-0.6 to +1.2); 0.0",
    "-8.5 to +1.2",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_prefixes_every_formula_with_an_apostrophe(text):
    told = f"'{text}".replace("\r", "\n")
    frame = pd.DataFrame({"a": [text], text: [1]}, index=pd.Index([text], name="name"))
    read = pd.read_csv(io.StringIO(csv_text(frame), newline=""), dtype=str)
    assert read.iloc[0].tolist() == [told, told, "1"] and list(read) == ["name", "a", told]
    assert len(csv_text(frame, index=False)) < len(csv_text(frame))
    grid = ResultTable.of("t", {text: [text]}, [("g", "c")], "i").csv()
    assert pd.read_csv(io.StringIO(grid, newline="")).iloc[0].tolist() == [told] * 2


@pytest.mark.parametrize("text", [*NUMBERS, "", "a=b", "–", "'=1", "None"])
def test_does_not_change_other_cells(text):
    frame = pd.DataFrame({"a": [text, "x"]})
    assert csv_text(frame) == frame.to_csv(lineterminator="\n")


def test_numbers_keep_their_types_and_format():
    columns = {"i": [-1, 2], "f": [-0.5, None], "b": [True, False]}
    frame = pd.DataFrame(columns).astype({"i": "Int64", "b": "boolean"})
    for options in ({}, {"float_format": "%.3f"}):
        assert csv_text(frame, **options) == frame.to_csv(lineterminator="\n", **options)
    frame = frame.assign(o=pd.Series([-1.25, "=x"], dtype=object))
    assert csv_text(frame).splitlines()[1:] == ["0,-1,-0.5,True,-1.25", "1,2,,False,'=x"]


def test_protects_names_of_two_levels():
    index = pd.MultiIndex.from_tuples([("=a", 1), ("b", 2)], names=["x", "y"])
    assert csv_text(pd.DataFrame({"c": [1, 2]}, index=index)) == "x,y,c\n'=a,1,1\nb,2,2\n"


def test_committed_tables_do_not_change():
    changed = []
    for path in sorted((ROOT / "results").rglob("*.csv")):
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, header=None, comment="#")
        if csv_text(frame) != frame.to_csv(lineterminator="\n"):
            changed.append(path.name)
    # Of these two, two cells that are a sentence: "-22.0 to +3.0 (taken here: +5.0)".
    assert {*changed} <= {"claims.evidence.csv", "claims.ledger.csv"}
