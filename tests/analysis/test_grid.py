"""Grid and Sheet: the same cells in every markup; what a notebook shows is saved and stands in its section."""

import json

import pandas as pd
import pytest
from matplotlib.figure import Figure

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.sheet import Sheet
from pkg_lib.analysis.tables import DASH, MINUS

FLAT = Grid.of(
    "A title", {"x_1": ["1", f"{MINUS}2"], "y": [DASH, "<b>"]}, ["A & B", "C|D"], "row", "A note."
)
GROUPED = Grid.of("T", {"r": "123"}, [("G", "a"), ("G", "b"), ("H", "a")], "row")


def test_markups_escape_what_is_theirs_and_span_groups():
    lines = [line for line in FLAT.markdown().splitlines() if line.startswith("|")]
    assert len(lines) == 4 and all(line.replace("\\|", "").count("|") == 4 for line in lines)
    text = FLAT.latex()
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert r"A \& B" in text and r"x\_1" in text and "$-$2" in text and "<b>" in text
    assert r"\multicolumn{2}{c}{G}" in GROUPED.latex()
    assert (
        "&lt;b&gt;" in FLAT.html()
        and "<b>" not in FLAT.html()
        and 'colspan="2">G<' in GROUPED.html()
    )


@pytest.fixture
def sheet(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    return Sheet("notebook", "A notebook")


def section(sheet):
    return json.loads((sheet.results / "tables" / "notebook.json").read_text("utf8"))


def test_everything_shown_is_saved_and_stands_in_the_section(sheet):
    assert sheet.table(GROUPED, "aside", part="More") is GROUPED
    sheet.table(FLAT, None, part="More")
    sheet.table(FLAT)
    sheet.table(GROUPED, "hidden", part=None)
    sheet.part("More", "<p>words</p>")
    image = sheet.figure(Figure(), "plot", "A plot", alt="nothing drawn", width=100)
    assert image.alt == "nothing drawn" and image.width == 100
    assert sheet.say(["one", "two"]).data == "- one\n- two"
    sheet.say(["three"])
    assert sheet.close({"seed": 1}, {"None": ("50.0", "")}) == {"seed": 1}
    stored = section(sheet)
    assert stored["parts"] == [
        ["", FLAT.html()],
        ["More", GROUPED.html() + FLAT.html() + "<p>words</p>"],
    ]
    assert stored["tables"] == ["notebook.aside", "notebook", "notebook.hidden"]
    assert stored["findings"] == ["one", "two", "three"] and stored["figures"] == [
        ["plot", "A plot"]
    ]
    assert stored["summary"] == {"None": ["50.0", ""]} and stored["heading"] == "A notebook"
    suffixes = [f"notebook{t}.{s}" for t in ("", ".aside", ".hidden") for s in ("csv", "md", "tex")]
    assert {p.name for p in (sheet.results / "tables").iterdir()} == {*suffixes, "notebook.json"}
    assert len(list((sheet.results / "figures").iterdir())) == 2


def test_a_cell_that_runs_again_replaces_what_it_added(sheet):
    for grid in (GROUPED, Grid("T", pd.DataFrame({"n": ["2"]}, ["row"]))):
        sheet.table(grid)
        sheet.say(["same"])
    sheet.close({})
    assert section(sheet)["parts"] == [["", grid.html()]]
    assert section(sheet)["findings"] == ["same"] and section(sheet)["tables"] == ["notebook"]
