"""The sheet of a notebook, on files that are written to a temporary directory."""

import json

import pandas as pd
import pytest
from matplotlib.figure import Figure

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.sheet import Sheet


def grid(title: str, cell: str = "1") -> Grid:
    return Grid(title, pd.DataFrame({"n": [cell]}, index=["row"]).rename_axis("name"))


@pytest.fixture
def sheet(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    return Sheet("notebook", "A notebook")


def section(sheet: Sheet) -> dict:
    return json.loads((sheet.results / "tables" / "notebook.json").read_text("utf8"))


def test_everything_shown_is_saved_and_stands_in_the_section(sheet):
    main, aside, unsaved = grid("Main"), grid("Aside"), grid("Unsaved")
    assert sheet.table(aside, "aside", part="More") is aside
    sheet.table(unsaved, None, part="More")
    sheet.table(main)
    sheet.table(grid("Hidden"), "hidden", part=None)
    sheet.part("More", "<p>words</p>")
    image = sheet.figure(Figure(), "plot", "A plot", alt="nothing drawn", width=100)
    assert image.alt == "nothing drawn" and image.width == 100
    assert sheet.say(["one", "two"]).data == "- one\n- two"
    sheet.say(["three"])
    assert sheet.close({"seed": 1}, {"None": ("50.0", "")}) == {"seed": 1}
    stored = section(sheet)
    more = aside.html() + unsaved.html() + "<p>words</p>"
    assert stored["parts"] == [["", main.html()], ["More", more]]
    assert stored["tables"] == ["notebook.aside", "notebook", "notebook.hidden"]
    assert stored["findings"] == ["one", "two", "three"] and stored["figures"] == [["plot", "A plot"]]
    assert stored["summary"] == {"None": ["50.0", ""]} and stored["heading"] == "A notebook"
    suffixes = [f"notebook{t}.{s}" for t in ("", ".aside", ".hidden") for s in ("csv", "md", "tex")]
    found = {p.name for p in (sheet.results / "tables").iterdir()}
    assert found == {*suffixes, "notebook.json"}
    assert {p.name for p in (sheet.results / "figures").iterdir()} == {
        "notebook.plot.pdf",
        "notebook.plot.png",
    }


def test_a_cell_that_runs_again_replaces_what_it_added(sheet):
    for cell in "12":
        sheet.table(grid("Main", cell))
        sheet.say(["same"])
    sheet.close({})
    assert section(sheet)["parts"] == [["", grid("Main", "2").html()]]
    assert section(sheet)["findings"] == ["same"] and section(sheet)["tables"] == ["notebook"]
