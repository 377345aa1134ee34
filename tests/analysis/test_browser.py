"""The report in a headless Chromium, opened from disk: what a reader sees and clicks."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from browser import Browser, executable

from pkg_lib.analysis import report
from pkg_lib.analysis.contents import Section, items
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.core.store import ROOT

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no Chromium on PATH: apt-get install chromium, or PKG_CHROMIUM"
)
WIDTHS = pytest.mark.parametrize("width", [1400, 400])
EXPERIMENT = "site/qwen2_5-coder-0_5b-instruct.humaneval.published.html"
TASKS = [f"site/tasks/humaneval/{name}.html" for name in ("index", "humaneval-0")]
PAGES = [
    "index.html",
    EXPERIMENT,
    "site/claims.html",
    "site/leaderboard.html",
    "site/what_helps.html",
    "site/evor.html",
    *TASKS,
    "notebooks/claims.html",
    "notebooks/explore.html",
]
CELLS = ["2.5", "\N{EN DASH}", "10.0 (n=3)", "\N{MINUS SIGN}4.0", "+1.0"]


@pytest.fixture(scope="module")
def browser(site):
    (site.parent / "notebooks").mkdir()
    for name in ("claims", "explore"):  # these have wide tables and pictures
        source = ROOT / "results" / "notebooks" / f"{name}.ipynb"
        report.render_notebook(Path(shutil.copy(source, site.parent / "notebooks")))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        yield browser
        browser.close()


def axe() -> str | None:
    """The text of axe.min.js: the file that PKG_AXE names, else that of an installed package."""
    if "PKG_AXE" in os.environ:
        return Path(os.environ["PKG_AXE"]).read_text("utf8")
    for package in ("axe_playwright_python", "axe_core_python"):
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            return (Path(folder) / "axe.min.js").read_text("utf8")
    return None


AXE = axe()
# Violations that hinder a reader, each with its first elements.
FOUND = """axe.run().then(result => result.violations
  .filter(v => ['serious', 'critical'].includes(v.impact))
  .map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => n.html.slice(0, 120)).join(' ')}`))"""
needs_axe = pytest.mark.skipif(
    AXE is None,
    reason="no axe-core: pip install --no-deps axe-playwright-python, or PKG_AXE names axe.min.js",
)


@needs_axe
@WIDTHS
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_serious(browser, site, page, width):
    browser.open(site.parent / page, width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.run(f"{AXE}; 1")
    assert browser.run(FOUND) == []


@needs_axe
def test_axe_sees_a_picture_without_a_text_and_a_pale_word(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><html lang=en><title>t</title><main><h1>h</h1><img src='none.png'>"
        "<p style='color:#ccc'>pale</p></main>"
    )
    browser.open(bad, 400)
    browser.run(f"{AXE}; 1")
    assert [found.partition(":")[0] for found in browser.run(FOUND)] == [
        "color-contrast",
        "image-alt",
    ]


def box(element, side):
    return f"document.querySelector('{element}').getBoundingClientRect().{side}"


@WIDTHS
@pytest.mark.parametrize("page", PAGES)
def test_loads_without_complaint_and_fits_the_window(browser, site, page, width):
    browser.open(site.parent / page, width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.body.scrollWidth") <= width
    blocks = "[...document.querySelectorAll('section > *, nav, main > *, .scroll')]"
    assert (
        browser.run(
            f"{blocks}.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
        )
        == 0
    )
    empty = "[...document.images].filter(i => i.loading !== 'lazy' && !i.naturalWidth).length"
    assert browser.run(empty) == 0
    assert browser.run("getComputedStyle(document.body).margin") == "0px"  # the sheet is there
    assert browser.complaints() == []


def test_the_check_for_complaints_sees_a_missing_picture_and_an_error(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><img src='none.png'><script>nosuch()</script><p style='width:2000px'>wide</p>"
    )
    browser.open(bad, 400)
    assert all(any(word in c for c in browser.complaints()) for word in ("none.png", "nosuch"))
    assert browser.run("document.documentElement.scrollWidth") > 400


def test_the_first_page_shows_headline_table_figure_and_map_on_one_screen(browser, site):
    browser.open(site, 1400, 900)
    for part in (".headline", "#experiments", "main svg"):
        assert browser.run(f"document.querySelectorAll('{part}').length") == 1
        assert browser.run(box(part, "bottom")) < 900
    assert browser.run("document.querySelectorAll('.papers li').length") == len(items())
    assert browser.run(box(".papers", "top")) < 900


@WIDTHS
def test_the_navigation_stays(browser, site, width):
    browser.open(site.parent / EXPERIMENT, width, 500)
    browser.run("scrollTo(0, document.body.scrollHeight)")
    assert browser.run("scrollY") > 300
    if width == 400:
        assert browser.run(box("nav.side a", "height")) == 0
        browser.run("document.elementFromPoint(30, 15).click()")
    assert (
        browser.run(box("nav.side a", "height")) > 0
        and 0 <= browser.run(box("nav.side a", "top")) < 100
    )


@WIDTHS
def test_a_claim_and_its_verdict_are_read_without_scrolling(browser, site, width):
    browser.open(site.parent / "site" / "claims.html", width)
    table = "[...document.querySelectorAll('section table')].find(t => t.caption.innerText.startsWith('Claims of'))"
    assert browser.run(f"{table}.tHead.rows[0].cells[1].textContent") == "verdict"
    for column in range(3):
        cell = f"{table}.tBodies[0].rows[0].cells[{column}]"
        assert browser.run(f"{cell}.getBoundingClientRect().right") <= width
        assert browser.run(f"{cell}.scrollWidth <= {cell}.clientWidth")


@WIDTHS
def test_the_matrix_scrolls_inside_itself_under_a_fixed_head_and_first_column(browser, site, width):
    browser.open(site.parent / EXPERIMENT, width, 500)
    browser.run("document.querySelector('#tasks details').open = true")
    name = ".matrix tbody tr:not(.group) th"
    before = browser.run(box(".matrix", "left"))
    browser.run("document.querySelector('.matrix').scrollTo(200, 300)")
    assert browser.run("document.querySelector('.matrix').scrollTop") > 0
    tops = [
        browser.run(box(element, "top")) for element in (".matrix thead th:nth-child(2)", ".matrix")
    ]
    assert abs(tops[0] - tops[1]) < 2 and browser.run(box(name, "left")) == before
    if width == 400:
        assert browser.run("document.querySelector('.matrix').scrollLeft") > 0
        assert browser.run(box(name, "width")) < 200


@WIDTHS
def test_a_figure_opens_large_and_closes(browser, site, width):
    browser.open(site.parent / EXPERIMENT, width)
    opened = "document.getElementById('large').open"
    for close in (
        browser.escape,
        lambda: browser.run("document.querySelector('dialog button').click()"),
    ):
        browser.run("document.querySelector('a.large').scrollIntoView()")
        browser.run("document.querySelector('a.large').click()")
        assert browser.run(opened)
        browser.run("document.querySelector('dialog img').decode()")
        assert browser.run(box("dialog img", "width")) >= 1.1 * browser.run(
            box("a.large img", "width")
        )
        assert browser.run("document.documentElement.scrollWidth") <= width
        close()
        assert not browser.run(opened)
    assert browser.complaints() == []


def test_a_table_sorts_by_numbers_and_by_names_with_what_is_missing_last(browser, tmp_path):
    odd = ResultTable.of(
        "Odd", dict(enumerate(zip(CELLS, "bacED", strict=True))), ["points", "name"], "row"
    )
    report.save_section(tmp_path, Section("odd", "Odd cells", {"": odd.html()}, [], {}, {}))
    browser.open(report.build_report(tmp_path).parent / "site" / "odd.html", 1280)
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


def test_the_first_table_sorts_within_each_model_and_benchmark(browser, site):
    browser.open(site, 1280)
    table = "document.getElementById('experiments')"
    before = browser.run(f"[...{table}.tBodies].map(b => b.rows[0].textContent)")
    browser.run(f"{table}.tHead.rows[0].cells[2].querySelector('button').click()")
    rows = "[...b.rows].map(r => r.cells[r.className ? 0 : 2].textContent)"
    groups = browser.run(f"[...{table}.tBodies].map(b => {rows})")
    assert [g[0] for g in groups] == [text.strip() for text in before] and len(groups) == 4
    rates = [
        [float(text.removesuffix("n")) for text in g[1:] if text[:1].isdigit()] for g in groups
    ]
    assert all(of_group == sorted(of_group) for of_group in rates) and max(map(len, rates)) > 2


def typed(browser, place, value):
    """Put a value into a control, as typing or choosing it does."""
    browser.run(f"{place}.value = '{value}'")
    browser.run(f"{place}.dispatchEvent(new Event('input', {{bubbles: true}}))")


def test_the_leaderboard_is_filtered_by_words_and_by_what_is_chosen(browser, site):
    browser.open(site.parent / "site" / "leaderboard.html", 1280)
    rows = "[...document.querySelectorAll('#leaderboard tbody tr')].filter(r => !r.hidden)"
    rows = f"{rows}.filter(r => !r.className && !r.parentElement.hidden)"
    shown = f"{rows}.map(r => r.cells[0].textContent + ' | ' + r.cells[1].textContent)"
    count = "document.querySelector('.filters output').textContent"
    everything = browser.run(shown)
    assert browser.run(count) == f"{len(everything)} of {len(everything)} rows"
    labels = "[...document.querySelectorAll('.filters label')].map(l => l.firstChild.data)"
    assert browser.run(labels)[1:] == ["Corpus", "Model", "Benchmark"]
    corpora = "[...document.querySelectorAll('.filters select')[0].options].map(o => o.value)"
    assert "authors' contexts" in browser.run(corpora) and "published" not in browser.run(corpora)
    typed(browser, "document.querySelectorAll('.filters select')[0]", "authors\\' contexts")
    published = browser.run(shown)
    assert published == [row for row in everything if row.endswith("| authors' contexts")]
    assert browser.run(count) == f"{len(published)} of {len(everything)} rows"
    groups = "[...document.querySelectorAll('#leaderboard tbody')]"
    assert browser.run(f"{groups}.filter(b => b.hidden).length") > 0
    typed(browser, "document.querySelector('.filters input')", "func-pkg, block")
    both = browser.run(shown)
    assert 0 < len(both) < len(published) < len(everything)
    assert all(row.startswith(("Func-PKG", "Block-PKG")) for row in both)
    typed(browser, "document.querySelector('.filters input')", "")
    assert browser.run(shown) == published


def test_methods_of_a_table_are_filtered_and_no_retrieval_stays(browser, site):
    browser.open(site, 1280)
    row = "[...document.querySelector('#experiments').tHead.rows[0].cells]"
    shown = f"{row}.filter(c => !c.hidden).map(c => c.textContent)"
    everything = browser.run(shown)
    typed(browser, "document.querySelector('.filters input')", "block-pkg")
    assert browser.run(shown) == ["Corpus", "NoRAG", "Block-PKG"]
    assert browser.run("[...document.querySelectorAll('#experiments td:not([hidden])')].length") > 2
    typed(browser, "document.querySelector('.filters input')", "")
    assert browser.run(shown) == everything


def test_the_leaderboard_shows_what_tells_its_rows_apart_without_scrolling(browser, site):
    browser.open(site.parent / "site" / "leaderboard.html", 1280)
    edge = browser.run(box(".scroll", "right"))
    headings = "[...document.querySelectorAll('#leaderboard thead th')]"
    ends = browser.run(f"{headings}.map(c => c.getBoundingClientRect().right)")
    assert len(ends) == 10 and max(ends) <= edge


@WIDTHS
def test_names_of_rows_break_only_at_spaces_and_hyphens(browser, tmp_path, width):
    names = ["CodeLlama-7B-Instruct", "candidates of DocPrompting", "(Ideal Reranker)"]
    table = ResultTable.of(
        "Names", {name: ["1"] * 12 for name in names}, list("abcdefghijkl"), "row"
    )
    report.save_section(tmp_path, Section("names", "Names", {"": table.html()}, [], {}, {}))
    browser.open(report.build_report(tmp_path).parent / "site" / "names.html", width)
    # A word that is broken has boxes on two lines.
    broken = """[...document.querySelectorAll('tbody th')].flatMap(cell => {
      const text = cell.firstChild;
      return [...text.data.matchAll(/[^ -]+/g)].filter(word => {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        return range.getClientRects().length > 1;
      }).map(word => word[0]);
    })"""
    assert browser.run(broken) == []


@WIDTHS
def test_a_long_table_scrolls_in_its_frame_under_its_headings(browser, site, width):
    browser.open(site.parent / "site" / "leaderboard.html", width)
    frame = ".scroll"
    browser.run(f"document.querySelector('{frame}').scrollTo(0, 600)")
    assert browser.run(f"document.querySelector('{frame}').scrollTop") > 0
    heading = "#leaderboard thead th:nth-child(2)"
    assert abs(browser.run(box(heading, "top")) - browser.run(box(frame, "top"))) < 2


def test_prints_whole_without_controls(browser, site):
    browser.open(site.parent / EXPERIMENT, 800)
    browser.run("document.querySelector('#tasks details').open = true")
    browser.send("Emulation.setEmulatedMedia", media="print")
    place = "document.querySelector('.matrix')"
    assert browser.run(f"{place}.scrollHeight <= {place}.clientHeight + 1")
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert (
        browser.run("getComputedStyle(document.querySelector('button.sort'), '::after').display")
        == "none"
    )
    browser.send("Emulation.setEmulatedMedia", media="")
