"""The report in a headless Chromium, opened from disk: what a reader sees and clicks."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from browser import Browser, executable
from conftest import make_verdicts
from matplotlib.figure import Figure

from pkg_lib.analysis import findings, report
from pkg_lib.analysis.figures import pass_rates, save_figure
from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import CODE, table1
from pkg_lib.study import NOTEBOOKS

pytestmark = pytest.mark.skipif(executable() is None, reason="no Chromium on PATH: apt-get install chromium, or PKG_CHROMIUM")
WIDTHS = (1280, 400)
CELLS = ["2.5", "\N{EN DASH}", "10.0 (n=3)", "\N{MINUS SIGN}4.0", "+1.0"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with many experiments, a table of awkward cells and a wide figure."""
    results = tmp_path_factory.mktemp("results")
    for number in range(12):
        model, benchmark = f"a-model-with-a-long-name-{number}b-instruct", ("humaneval", "mbpp")[number % 2]
        verdicts = make_verdicts(seed=number)
        wanted = {"return None": False, "canonical solution": True}
        controls = {n: pd.Series(v, verdicts.index, dtype="boolean") for n, v in wanted.items()}
        table = table1({model: verdicts}, controls, benchmark, "textbook+stdlib")
        stem = f"m{number}.rq1"
        table.save(results / "tables" / stem)
        figure = pass_rates(verdicts, model, benchmark) if number == 0 else Figure((3, 2))
        save_figure(figure, results / "figures" / f"{stem}.rates")
        parts = {"": table.html(), "Differences": findings.differences_html(verdicts)}
        about = {"model": model, "benchmark": benchmark, "corpus": "textbook+stdlib", "tasks": 40}
        section = report.Section(stem, model, parts, ["One."], {"rates": "rates"}, about, table.summary(), [stem])
        report.save_section(results, section)
    frame = pd.DataFrame({"points": CELLS, "name": list("bacED")}, index=pd.Index(range(len(CELLS)), name="row").astype(str))
    odd = report.Section("odd", "Odd cells", {"": Grid("Odd", frame.rename_axis("row")).html()}, [], {}, {})
    report.save_section(results, odd)
    return report.build_report(results)


@pytest.fixture(scope="module")
def browser():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        yield browser
        browser.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_loads_without_complaint_and_fits_the_window(browser, page, width):
    browser.open(page, width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.body.scrollWidth") <= width
    blocks = "[...document.querySelectorAll('section > *, nav, .scroll')]"
    assert browser.run(f"{blocks}.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length") == 0
    assert browser.run("[...document.images].filter(i => i.loading !== 'lazy' && !i.naturalWidth).length") == 0
    assert browser.complaints() == []


@pytest.mark.parametrize("notebook", ["claims", "rq1_code_pkg"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_text_of_a_notebook_fits_the_window(browser, tmp_path, notebook, width):
    """These have tables in their text, which nothing scrolls."""
    shutil.copy(NOTEBOOKS / f"{notebook}.ipynb", tmp_path)
    browser.open(report.render_notebook(tmp_path / f"{notebook}.ipynb"), width)
    assert browser.run("document.querySelectorAll('.text_cell_render table').length") > 0
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_every_link_leads_somewhere(browser, page):
    browser.open(page, 1280)
    links = browser.run("[...document.links].map(a => a.href)")
    assert len(links) > 12 * 5
    inside = [link.split("#")[1] for link in links if link.startswith(page.as_uri() + "#")]
    assert all(browser.run(f"document.getElementById({stem!r}) !== null") for stem in set(inside))
    files = [link for link in links if "#" not in link]
    assert all(link.startswith("file:") and Path(link.removeprefix("file://")).is_file() for link in files)


def test_the_check_for_complaints_sees_a_missing_picture_and_an_error(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<!DOCTYPE html><img src='none.png'><script>nosuch()</script><p style='width:2000px'>wide</p>")
    browser.open(bad, 400)
    assert any("none.png" in c for c in browser.complaints()) and any("nosuch" in c for c in browser.complaints())
    assert browser.run("document.documentElement.scrollWidth") > 400


@pytest.mark.parametrize("width", WIDTHS)
def test_the_matrix_scrolls_inside_itself_under_a_fixed_head_and_first_column(browser, page, width):
    browser.open(page, width, 500)
    place = "document.querySelector('.matrix')"
    head, name = f"{place}.querySelector('thead th:nth-child(2)')", f"{place}.querySelector('tbody tr:not(.group) th')"
    before = browser.run(f"{place}.getBoundingClientRect().left")
    browser.run(f"{place}.scrollTo(200, 300)")
    assert browser.run(f"{place}.scrollTop") > 0
    assert browser.run(f"Math.abs({head}.getBoundingClientRect().top - {place}.getBoundingClientRect().top) < 2")
    assert browser.run(f"{name}.getBoundingClientRect().left") == before
    if width == 400:
        assert browser.run(f"{place}.scrollLeft") > 0
        assert browser.run(f"{name}.getBoundingClientRect().width") < 200


@pytest.mark.parametrize("width", WIDTHS)
def test_a_figure_opens_large_and_closes(browser, page, width):
    browser.open(page, width)
    opened = "document.getElementById('large').open"
    browser.run("document.querySelector('a.large').scrollIntoView()")
    browser.run("document.querySelector('a.large').click()")
    assert browser.run(opened)
    image = "document.querySelector('dialog img')"
    browser.run(f"{image}.decode()")
    assert browser.run(f"{image}.clientWidth") >= 1.3 * browser.run("document.querySelector('a.large img').clientWidth")
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.press("Escape")
    assert not browser.run(opened)
    browser.run("document.querySelector('a.large').click()")
    browser.run("document.querySelector('dialog button').click()")
    assert not browser.run(opened) and browser.complaints() == []


def test_a_table_sorts_by_numbers_and_by_names_with_what_is_missing_last(browser, page):
    browser.open(page, 1280)
    table = "document.querySelector('#odd table')"

    def click(column):
        browser.run(f"{table}.tHead.rows[0].cells[{column}].querySelector('button').click()")
        order = browser.run(f"[...{table}.tBodies[0].rows].map(r => r.cells[{column}].textContent)")
        return order, browser.run(f"[...{table}.tHead.rows[0].cells].map(c => c.ariaSort)")

    up = [CELLS[i] for i in (3, 4, 0, 2)]
    assert click(1) == ([*up, CELLS[1]], ["none", "ascending", "none"])
    assert click(1) == ([*up[::-1], CELLS[1]], ["none", "descending", "none"])
    assert click(1) == (CELLS, ["none", "none", "none"])
    assert click(2) == (list("abcDE"), ["none", "none", "ascending"])


def test_the_matrix_sorts_within_each_benchmark(browser, page):
    browser.open(page, 1280)
    table = "document.getElementById('experiments')"
    browser.run(f"{table}.tHead.rows[0].cells[2].querySelector('button').click()")
    groups = browser.run(f"[...{table}.tBodies].map(b => [...b.rows].map(r => r.cells[r.className ? 0 : 2].textContent))")
    assert [g[0] for g in groups] == ["HumanEval", "MBPP"] and all(len(g) == 7 for g in groups)
    for group in groups:
        rates = [float(text) for text in group[1:]]
        assert rates == sorted(rates) and len(set(rates)) > 1
    assert browser.run(f"{table}.tHead.rows[0].cells.length") == 1 + len(CODE)


def test_prints_whole_without_controls(browser, page):
    browser.open(page, 800)
    browser.send("Emulation.setEmulatedMedia", media="print")
    place = "document.querySelector('.matrix')"
    assert browser.run(f"{place}.scrollHeight <= {place}.clientHeight + 1")
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.run("getComputedStyle(document.querySelector('button.sort'), '::after').display") == "none"
    browser.send("Emulation.setEmulatedMedia", media="")
