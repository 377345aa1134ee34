"""The report in a headless Chromium, opened from disk: what a reader sees and clicks."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from browser import Browser, executable
from checks import CODE
from conftest import make_verdicts
from matplotlib.figure import Figure

from pkg_lib.analysis import report
from pkg_lib.analysis.contents import items
from pkg_lib.analysis.figures import save_figure
from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import single
from pkg_lib.core.store import slug, write_jsonl
from pkg_lib.experiment.study import NOTEBOOKS
from pkg_lib.papers.claims import claim_report, claims
from pkg_lib.papers.pkg import task_pages
from pkg_lib.papers.pkg.pass_figures import pass_rates
from pkg_lib.papers.pkg.pass_tables import against_none, pass_table

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no Chromium on PATH: apt-get install chromium, or PKG_CHROMIUM"
)
WIDTHS = (1400, 400)
MODEL = "a-model-with-a-long-name-1b-instruct"
LONG = "a_name_that_is_too_long_for_a_line_of_a_narrow_window = 'and its text'\n" * 3
CELLS = ["2.5", "\N{EN DASH}", "10.0 (n=3)", "\N{MINUS SIGN}4.0", "+1.0"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with many experiments, a table of awkward cells and a wide figure."""
    results = tmp_path_factory.mktemp("results")
    for number in range(12):
        model, benchmark = MODEL, ("humaneval", "mbpp")[number % 2]
        verdicts = make_verdicts(seed=number)
        wanted = {"return None": False, "canonical solution": True}
        controls = {n: pd.Series(v, verdicts.index, dtype="boolean") for n, v in wanted.items()}
        table = pass_table(model, verdicts, controls, benchmark, "textbook+stdlib")
        stem = f"{MODEL}.{benchmark}.corpus-{number}.rq1"
        table.save(results / "tables" / stem)
        figure = pass_rates(verdicts, model, benchmark) if number == 1 else Figure((3, 2))
        save_figure(figure, results / "figures" / f"{stem}.rates")
        parts = {"": table.html(), "Differences": against_none(verdicts).html()}
        about = {"model": model, "benchmark": benchmark, "corpus": f"corpus-{number}", "tasks": 40}
        section = report.Section(
            stem, model, parts, ["One."], {"rates": "rates"}, about, table.summary(), [stem]
        )
        report.save_section(results, section)
    frame = pd.DataFrame(
        {"points": CELLS, "name": list("bacED")}, index=pd.Index(range(len(CELLS)), name="row").astype(str)
    )
    odd = report.Section("odd", "Odd cells", {"": Grid("Odd", frame.rename_axis("row")).html()}, [], {}, {})
    report.save_section(results, odd)
    report.save_section(results, report.Section("claims", "Claims", {"The ledger": ledger()}, [], {}, {}))
    (results / "notebooks").mkdir()
    for name in ("claims", "rq1_code_pkg"):  # these have tables in their text, which nothing scrolls
        shutil.copy(NOTEBOOKS / f"{name}.ipynb", results / "notebooks")
    row = {"solution": LONG, "status": "failed", "error": "NameError", "detail": LONG}
    rows = [row | {"task_id": f"MBPP/{n}"} for n in range(40)]
    for column in single(CODE):
        corpus = "none" if column == "None" else "corpus-1"
        write_jsonl(results / "evaluations" / MODEL / "mbpp" / corpus / f"{slug(column)}.jsonl", rows)
    return report.build_report(results, task_pages.build)


def ledger():
    """As many columns and as long sentences as the claim ledger has."""
    return claim_report.ledger([claims.Assessed(c, ()) for c in claims.load()]).html()


def pages(first):
    """The first page, one of an experiment, of a study, of all tasks, of a task, of two notebooks."""
    site = first.parent / "site"
    tasks = [site / "tasks" / "mbpp" / name for name in ("index.html", "mbpp-1.html")]
    notebooks = sorted((first.parent / "notebooks").glob("*.html"))
    return [first, site / f"{MODEL}.mbpp.corpus-1.html", site / "claims.html", *tasks, *notebooks]


@pytest.fixture(scope="module")
def browser():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        yield browser
        browser.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("number", range(7))
def test_loads_without_complaint_and_fits_the_window(browser, page, number, width):
    browser.open(pages(page)[number], width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.body.scrollWidth") <= width
    blocks = "[...document.querySelectorAll('section > *, nav, main > *, .scroll')]"
    assert browser.run(f"{blocks}.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length") == 0
    empty = "[...document.images].filter(i => i.loading !== 'lazy' && !i.naturalWidth).length"
    assert browser.run(empty) == 0
    assert browser.run("getComputedStyle(document.body).margin") == "0px"  # the sheet is there
    assert browser.complaints() == []


def test_the_first_page_shows_headline_table_figure_and_map_on_one_screen(browser, page):
    browser.open(page, 1400, 900)
    for part in (".headline", "#experiments", "main svg"):
        assert browser.run(f"document.querySelectorAll('{part}').length") == 1
        assert browser.run(f"document.querySelector('{part}').getBoundingClientRect().bottom") < 900
    assert browser.run("document.querySelectorAll('.papers li').length") == len(items())
    assert browser.run("document.querySelector('.papers').getBoundingClientRect().top") < 900


@pytest.mark.parametrize("width", WIDTHS)
def test_the_navigation_stays(browser, page, width):
    browser.open(pages(page)[1], width, 500)
    browser.run("scrollTo(0, document.body.scrollHeight)")
    assert browser.run("scrollY") > 300
    link = "document.querySelector('nav.side a').getBoundingClientRect()"
    if width == 400:
        assert browser.run(f"{link}.height") == 0
        browser.run("document.elementFromPoint(30, 15).click()")
    assert browser.run(f"{link}.height") > 0 and 0 <= browser.run(f"{link}.top") < 100


@pytest.mark.parametrize("width", WIDTHS)
def test_a_claim_and_its_verdict_are_read_without_scrolling(browser, page, width):
    browser.open(pages(page)[2], width)
    table = "document.querySelector('section table')"
    assert browser.run(f"{table}.tHead.rows[0].cells[1].textContent") == "verdict"
    for column in range(3):
        cell = f"{table}.tBodies[0].rows[0].cells[{column}]"
        assert browser.run(f"{cell}.getBoundingClientRect().right") <= width
        assert browser.run(f"{cell}.scrollWidth <= {cell}.clientWidth")


def test_the_check_for_complaints_sees_a_missing_picture_and_an_error(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><img src='none.png'><script>nosuch()</script><p style='width:2000px'>wide</p>"
    )
    browser.open(bad, 400)
    assert all(any(word in c for c in browser.complaints()) for word in ("none.png", "nosuch"))
    assert browser.run("document.documentElement.scrollWidth") > 400


@pytest.mark.parametrize("width", WIDTHS)
def test_the_matrix_scrolls_inside_itself_under_a_fixed_head_and_first_column(browser, page, width):
    browser.open(pages(page)[1], width, 500)
    browser.run("document.querySelector('#tasks details').open = true")
    place = "document.querySelector('.matrix')"
    head = f"{place}.querySelector('thead th:nth-child(2)')"
    name = f"{place}.querySelector('tbody tr:not(.group) th')"
    before = browser.run(f"{place}.getBoundingClientRect().left")
    browser.run(f"{place}.scrollTo(200, 300)")
    assert browser.run(f"{place}.scrollTop") > 0
    tops = [browser.run(f"{element}.getBoundingClientRect().top") for element in (head, place)]
    assert abs(tops[0] - tops[1]) < 2
    assert browser.run(f"{name}.getBoundingClientRect().left") == before
    if width == 400:
        assert browser.run(f"{place}.scrollLeft") > 0
        assert browser.run(f"{name}.getBoundingClientRect().width") < 200


@pytest.mark.parametrize("width", WIDTHS)
def test_a_figure_opens_large_and_closes(browser, page, width):
    browser.open(pages(page)[1], width)
    opened = "document.getElementById('large').open"
    browser.run("document.querySelector('a.large').scrollIntoView()")
    browser.run("document.querySelector('a.large').click()")
    assert browser.run(opened)
    image = "document.querySelector('dialog img')"
    browser.run(f"{image}.decode()")
    small = browser.run("document.querySelector('a.large img').clientWidth")
    assert browser.run(f"{image}.clientWidth") >= 1.3 * small
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.escape()
    assert not browser.run(opened)
    browser.run("document.querySelector('a.large').click()")
    browser.run("document.querySelector('dialog button').click()")
    assert not browser.run(opened) and browser.complaints() == []


def test_a_table_sorts_by_numbers_and_by_names_with_what_is_missing_last(browser, page):
    browser.open(page.parent / "site" / "odd.html", 1280)
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


def test_the_first_table_sorts_within_each_model_and_benchmark(browser, page):
    browser.open(page, 1280)
    table = "document.getElementById('experiments')"
    browser.run(f"{table}.tHead.rows[0].cells[2].querySelector('button').click()")
    rows = "[...b.rows].map(r => r.cells[r.className ? 0 : 2].textContent)"
    groups = browser.run(f"[...{table}.tBodies].map(b => {rows})")
    assert [(g[0], len(g)) for g in groups] == [(f"HumanEval, {MODEL}", 7), (f"MBPP, {MODEL}", 7)]
    for group in groups:
        rates = [float(text) for text in group[1:]]
        assert rates == sorted(rates) and len(set(rates)) > 1
    assert browser.run(f"{table}.tHead.rows[0].cells.length") == 1 + len(CODE)


def test_prints_whole_without_controls(browser, page):
    browser.open(pages(page)[1], 800)
    browser.run("document.querySelector('#tasks details').open = true")
    browser.send("Emulation.setEmulatedMedia", media="print")
    place = "document.querySelector('.matrix')"
    assert browser.run(f"{place}.scrollHeight <= {place}.clientHeight + 1")
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.run("getComputedStyle(document.querySelector('button.sort'), '::after').display") == "none"
    browser.send("Emulation.setEmulatedMedia", media="")
