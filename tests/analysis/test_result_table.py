"""ResultTable has equal cells in every markup. NotebookReport saves everything that it shows."""

import json

import pandas as pd
import pytest
from matplotlib.figure import Figure

from pkg_lib.analysis.notebook_report import NotebookReport
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, MINUS

FLAT = ResultTable.of(
    "A title", {"x_1": ["1", f"{MINUS}2"], "y": [DASH, "<b>"]}, ["A & B", "C|D"], "row", "A note."
)
GROUPED = ResultTable.of("T", {"r": "123"}, [("G", "a"), ("G", "b"), ("H", "a")], "row")


def test_markups_escape_special_characters_and_span_groups():
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
def report(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    return NotebookReport("notebook", "A notebook")


def section(report):
    return json.loads((report.results / "tables" / "notebook.json").read_text("utf8"))


def test_saves_everything_that_is_shown_and_adds_it_to_the_section(report):
    assert report.table(GROUPED, "aside", part="More") is GROUPED
    report.table(FLAT, None, part="More")
    report.table(FLAT)
    report.table(GROUPED, "hidden", part=None)
    report.part("More", "<p>words</p>")
    image = report.figure(Figure(), "plot", "A plot", alt="nothing drawn", width=100)
    assert image.alt == "nothing drawn" and image.width == 100
    assert report.add_findings(["one", "two"]).data == "- one\n- two"
    report.add_findings(["three"])
    assert report.close({"seed": 1}, {"NoRAG": ("50.0", "")}) == {"seed": 1}
    stored = section(report)
    assert stored["parts"] == [
        ["", FLAT.html()],
        ["More", GROUPED.html() + FLAT.html() + "<p>words</p>"],
    ]
    assert stored["tables"] == ["notebook.aside", "notebook", "notebook.hidden"]
    assert stored["findings"] == ["one", "two", "three"] and stored["figures"] == [
        ["plot", "A plot"]
    ]
    assert stored["summary"] == {"NoRAG": ["50.0", ""]} and stored["heading"] == "A notebook"
    suffixes = [f"notebook{t}.{s}" for t in ("", ".aside", ".hidden") for s in ("csv", "md", "tex")]
    assert {p.name for p in (report.results / "tables").iterdir()} == {*suffixes, "notebook.json"}
    assert len(list((report.results / "figures").iterdir())) == 2


def test_repeated_cell_replaces_its_earlier_output(report):
    for grid in (GROUPED, ResultTable("T", pd.DataFrame({"n": ["2"]}, ["row"]))):
        report.table(grid)
        report.add_findings(["same"])
    report.close({})
    assert section(report)["parts"] == [["", grid.html()]]
    assert section(report)["findings"] == ["same"] and section(report)["tables"] == ["notebook"]


def test_aligns_words_to_the_left_and_numbers_to_the_right():
    cells = ["1.5", "Python 3", DASH, f"{MINUS}2 (n=3)"]
    names = ["number", "words", "missing", "change"]
    html = ResultTable.of("T", {"r": cells, "s": ["2", "Java", DASH, DASH]}, names, "row").html()
    assert "<td>1.5</td><td class=words>Python 3</td>" in html
    assert f"<td>{DASH}</td><td>{MINUS}2 (n=3)</td>" in html


def test_rows_without_a_number_are_named_below_the_table():
    rows = {"measured": ["1", DASH], "not run": [DASH, DASH]}
    table = ResultTable.of("T", rows, ["a", "b"], "row", "A note.").without_empty_rows()
    assert table.frame.index.tolist() == ["measured"]
    assert table.notes == ("A note.", "Not measured: not run.")
    nothing = ResultTable.of("T", {"not run": [DASH]}, ["a"], "row")
    assert nothing.without_empty_rows().frame.index.tolist() == ["not run"]
