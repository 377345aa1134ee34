"""paper_map: every table and figure of the papers leads to a place of the built site, or says what it waits
for."""

import json
import shutil

import pytest
from test_report import Links, broken

from pkg_lib.analysis import report
from pkg_lib.analysis.contents import items
from pkg_lib.core.store import ROOT
from pkg_lib.experiment.study import NOTEBOOKS

WANTED = {
    "PKG paper, tables": {*(f"Table {n}" for n in range(1, 10)), "Claim ledger"},
    "PKG paper, figures": {f"Figure {n}" for n in range(3, 13)},
    "cAST paper": {f"Table {n}" for n in range(1, 6)},
    "DKB paper": {f"Table {n}" for n in range(1, 10)},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site of the committed results, without notebooks and tasks."""
    results = tmp_path_factory.mktemp("results")
    shutil.copytree(ROOT / "results" / "tables", results / "tables")
    (results / "figures").symlink_to(ROOT / "results" / "figures")
    report.build_report(results)
    return results


def test_the_map_has_every_item_that_is_asked_for():
    for paper, names in WANTED.items():
        listed = [i.item for i in items() if i.paper == paper]
        assert names <= set(listed) and len(listed) == len(set(listed))


def test_every_place_is_one_that_its_notebook_makes():
    """What the committed sections do not have yet after a change of a notebook is in its source all the
    same."""
    for item in items():
        source = json.loads((NOTEBOOKS / f"{item.notebook}.ipynb").read_text("utf8"))
        code = "".join(
            line for cell in source["cells"] if cell["cell_type"] == "code" for line in cell["source"]
        )
        assert not item.place or f'"{item.place}"' in code or f'.{item.place}"' in code, item


def test_every_item_is_one_click_from_the_first_page(site):
    index = site / "index.html"
    assert broken(index) == []
    text = index.read_text("utf8")
    for item in items():
        assert f">{item.item}</a> {item.about.replace(chr(39), '&#39;')}" in text, item
    assert "not measured (" not in text


def test_an_item_of_an_experiment_that_is_not_there_says_what_it_waits_for(site, tmp_path):
    shutil.copytree(site / "tables", tmp_path / "tables")
    for path in (tmp_path / "tables").glob("*rq2_text_pkg.json"):
        path.unlink()
    index = report.build_report(tmp_path)
    assert "not measured (notebook rq2_text_pkg on HumanEval)" in index.read_text("utf8")
    assert broken(index) == []


def test_no_page_is_too_large_to_read(site):
    sizes = {p.name: len(p.read_bytes()) for p in site.rglob("*.html")}
    assert len(sizes) > 10 and max(sizes.values()) < 300_000
    assert all(Links(p).ids for p in (site / "site").glob("*.html"))
