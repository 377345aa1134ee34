"""The report as a reader sees and uses it: opened from disk in a headless Chromium."""

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
PAGES = [
    "index.html",
    EXPERIMENT,
    "site/claims.html",
    "site/leaderboard.html",
    "site/what_helps.html",
    "site/evor.html",
    "site/tasks/humaneval/index.html",
    "site/tasks/humaneval/humaneval-0.html",
    "notebooks/claims.html",
    "notebooks/explore.html",
]
CELLS = ["2.5", "\N{EN DASH}", "10.0 (n=3)", "\N{MINUS SIGN}4.0", "+1.0"]


@pytest.fixture(scope="module")
def browser(site):
    """A browser, with two rendered notebooks beside the report."""
    folder = site.parent / "notebooks"
    folder.mkdir()
    for name in ("claims", "explore"):  # these have wide tables and pictures
        source = ROOT / "results" / "notebooks" / f"{name}.ipynb"
        copy = shutil.copy(source, folder)
        report.render_notebook(Path(copy))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        yield browser
        browser.close()


def axe() -> str | None:
    """Return the text of axe.min.js, from the file in PKG_AXE or from an installed package."""
    if "PKG_AXE" in os.environ:
        return Path(os.environ["PKG_AXE"]).read_text("utf8")
    for package in ("axe_playwright_python", "axe_core_python"):
        spec = importlib.util.find_spec(package)
        if spec and spec.submodule_search_locations:
            folder = Path(spec.submodule_search_locations[0])
            return (folder / "axe.min.js").read_text("utf8")
    return None


AXE = axe()
# JavaScript: serious violations, each with its first elements.
VIOLATIONS = """axe.run().then(result => result.violations
  .filter(v => ['serious', 'critical'].includes(v.impact))
  .map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => n.html.slice(0, 120)).join(' ')}`))"""
needs_axe = pytest.mark.skipif(
    AXE is None,
    reason="no axe-core: pip install --no-deps axe-playwright-python, or PKG_AXE names axe.min.js",
)


def open_all_details(browser):
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")


@needs_axe
@WIDTHS
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_serious_violation(browser, site, page, width):
    browser.open(site.parent / page, width)
    open_all_details(browser)
    browser.run(f"{AXE}; 1")
    assert browser.run(VIOLATIONS) == []


@needs_axe
def test_axe_detects_a_picture_without_alt_text_and_low_contrast(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><html lang=en><title>t</title><main><h1>h</h1><img src='none.png'>"
        "<p style='color:#ccc'>pale</p></main>"
    )
    browser.open(bad, 400)
    browser.run(f"{AXE}; 1")
    rules = [violation.partition(":")[0] for violation in browser.run(VIOLATIONS)]
    assert rules == ["color-contrast", "image-alt"]


def box(element, side):
    """Return JavaScript for a side, width or height of an element's box."""
    return f"document.querySelector('{element}').getBoundingClientRect().{side}"


@WIDTHS
@pytest.mark.parametrize("page", PAGES)
def test_page_loads_without_problems_and_fits_the_window(browser, site, page, width):
    browser.open(site.parent / page, width)
    open_all_details(browser)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.body.scrollWidth") <= width
    blocks = "[...document.querySelectorAll('section > *, nav, main > *, .scroll')]"
    too_wide = f"{blocks}.filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
    assert browser.run(f"{too_wide}.length") == 0
    empty = "[...document.images].filter(i => i.loading !== 'lazy' && !i.naturalWidth)"
    assert browser.run(f"{empty}.length") == 0
    margin = browser.run("getComputedStyle(document.body).margin")
    assert margin == "0px", "the style sheet was not loaded"
    assert browser.problems() == []


def test_browser_reports_a_missing_picture_and_a_script_error(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><img src='none.png'><script>nosuch()</script><p style='width:2000px'>wide</p>"
    )
    browser.open(bad, 400)
    problems = "\n".join(browser.problems())
    assert "none.png" in problems
    assert "nosuch" in problems
    assert browser.run("document.documentElement.scrollWidth") > 400


def test_first_screen_shows_headline_table_and_figure_and_what_else_was_found(browser, site):
    browser.open(site, 1400, 900)
    for part in (".headline", "#experiments", "main svg"):
        assert browser.run(f"document.querySelectorAll('{part}').length") == 1
        assert browser.run(box(part, "bottom")) < 900
    assert browser.run("document.querySelectorAll('.papers li').length") == len(items())
    assert browser.run(box("#by-paper h2", "bottom")) < 900
    assert browser.run(box("#by-paper", "bottom")) <= browser.run(box(".papers", "top"))


def test_a_hint_says_where_a_table_goes_on(browser, site):
    hints = "[...document.querySelectorAll('#what_helps .hint')].filter(h => !h.hidden).map(h => h.textContent).join()"
    browser.open(site.parent / "site" / "what_helps.html", 400)
    shown = browser.run(hints)
    assert "more columns on the right" in shown
    assert "more rows below" in shown
    browser.open(site.parent / "site" / "quickstart.html", 1280)
    assert browser.run("[...document.querySelectorAll('.hint')].every(h => h.hidden)")


def test_a_table_fades_where_it_goes_on_until_it_is_scrolled_there(browser, site):
    browser.open(site.parent / "site" / "what_helps.html", 400)
    wide = "[...document.querySelectorAll('.scroll')].find(f => f.scrollWidth > f.clientWidth + 50)"
    to_the_right = f"getComputedStyle({wide}).maskImage.split('linear-gradient')[1] ?? ''"
    assert "0.2" in browser.run(to_the_right)
    browser.run(f"{wide}.scrollTo({wide}.scrollWidth, {wide}.scrollHeight)")
    browser.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")
    assert "0.2" not in browser.run(to_the_right)


@WIDTHS
def test_navigation_stays_visible_while_scrolling(browser, site, width):
    browser.open(site.parent / EXPERIMENT, width, 500)
    browser.run("scrollTo(0, document.body.scrollHeight)")
    assert browser.run("scrollY") > 300
    if width == 400:
        assert browser.run(box("nav.side a", "height")) == 0
        browser.run("document.elementFromPoint(30, 15).click()")
    assert browser.run(box("nav.side a", "height")) > 0
    assert 0 <= browser.run(box("nav.side a", "top")) < 100


@WIDTHS
def test_claim_and_its_verdict_are_visible_without_scrolling(browser, site, width):
    browser.open(site.parent / "site" / "claims.html", width)
    table = "[...document.querySelectorAll('section table')].find(t => t.caption.innerText.startsWith('Claims of'))"
    assert browser.run(f"{table}.tHead.rows[0].cells[1].textContent") == "verdict"
    for column in range(3):
        cell = f"{table}.tBodies[0].rows[0].cells[{column}]"
        assert browser.run(f"{cell}.getBoundingClientRect().right") <= width
        assert browser.run(f"{cell}.scrollWidth <= {cell}.clientWidth")


@WIDTHS
def test_matrix_scrolls_under_a_fixed_head_and_first_column(browser, site, width):
    browser.open(site.parent / EXPERIMENT, width, 500)
    browser.run("document.querySelector('#tasks details').open = true")
    name = ".matrix tbody tr:not(.group) th"
    before = browser.run(box(".matrix", "left"))
    browser.run("document.querySelector('.matrix').scrollTo(200, 300)")
    assert browser.run("document.querySelector('.matrix').scrollTop") > 0
    heading_top = browser.run(box(".matrix thead th:nth-child(2)", "top"))
    matrix_top = browser.run(box(".matrix", "top"))
    assert abs(heading_top - matrix_top) < 2
    assert browser.run(box(name, "left")) == before
    if width == 400:
        assert browser.run("document.querySelector('.matrix').scrollLeft") > 0
        assert browser.run(box(name, "width")) < 200


@WIDTHS
def test_figure_opens_enlarged_and_closes(browser, site, width):
    def press_close_button():
        browser.run("document.querySelector('dialog button').click()")

    browser.open(site.parent / EXPERIMENT, width)
    is_open = "document.getElementById('large').open"
    for close in (browser.escape, press_close_button):
        browser.run("document.querySelector('a.large').scrollIntoView()")
        browser.run("document.querySelector('a.large').click()")
        assert browser.run(is_open)
        browser.run("document.querySelector('dialog img').decode()")
        enlarged = browser.run(box("dialog img", "width"))
        assert enlarged >= 1.1 * browser.run(box("a.large img", "width"))
        assert browser.run("document.documentElement.scrollWidth") <= width
        close()
        assert not browser.run(is_open)
    assert browser.problems() == []


def test_table_sorts_by_numbers_and_names_with_missing_values_last(browser, tmp_path):
    rows = dict(enumerate(zip(CELLS, "bacED", strict=True)))
    table = ResultTable.of("Odd", rows, ["points", "name"], "row")
    report.save_section(tmp_path, Section("odd", "Odd cells", {"": table.html()}, [], {}, {}))
    browser.open(report.build_report(tmp_path).parent / "site" / "odd.html", 1280)
    table = "document.querySelector('#odd table')"

    def sort_by(column):
        browser.run(f"{table}.tHead.rows[0].cells[{column}].querySelector('button').click()")
        cells = browser.run(f"[...{table}.tBodies[0].rows].map(r => r.cells[{column}].textContent)")
        states = browser.run(f"[...{table}.tHead.rows[0].cells].map(c => c.ariaSort)")
        return cells, states

    missing = "\N{EN DASH}"
    minus_four = "\N{MINUS SIGN}4.0"
    ascending = [minus_four, "+1.0", "2.5", "10.0 (n=3)", missing]
    descending = ["10.0 (n=3)", "2.5", "+1.0", minus_four, missing]
    assert sort_by(1) == (ascending, ["none", "ascending", "none"])
    assert sort_by(1) == (descending, ["none", "descending", "none"])
    assert sort_by(1) == (CELLS, ["none", "none", "none"])
    assert sort_by(2) == (["a", "b", "c", "D", "E"], ["none", "none", "ascending"])


def test_first_table_sorts_within_each_model_and_benchmark(browser, site):
    browser.open(site, 1280)
    table = "document.getElementById('experiments')"
    before = browser.run(f"[...{table}.tBodies].map(b => b.rows[0].textContent)")
    browser.run(f"{table}.tHead.rows[0].cells[2].querySelector('button').click()")
    rows = "[...b.rows].map(r => r.cells[r.className ? 0 : 2].textContent)"
    groups = browser.run(f"[...{table}.tBodies].map(b => {rows})")
    assert len(groups) == 4
    assert [group[0] for group in groups] == [text.strip() for text in before]
    numbers_of_rates = []
    for _heading, *cells in groups:
        rates = [float(text.removesuffix("n")) for text in cells if text[:1].isdigit()]
        assert rates == sorted(rates)
        numbers_of_rates.append(len(rates))
    assert max(numbers_of_rates) > 2


def enter(browser, control, value):
    """Put a value into a control, as typing or selecting it does."""
    browser.run(f"{control}.value = '{value}'")
    browser.run(f"{control}.dispatchEvent(new Event('input', {{bubbles: true}}))")


SEARCH = "document.querySelector('.filters input')"


def test_leaderboard_is_filtered_by_words_and_by_selected_values(browser, site):
    browser.open(site.parent / "site" / "leaderboard.html", 1280)
    rows = "[...document.querySelectorAll('#leaderboard tbody tr')].filter(r => !r.hidden)"
    rows = f"{rows}.filter(r => !r.className && !r.parentElement.hidden)"
    place = "[...document.querySelectorAll('#leaderboard thead th')].findIndex(c => /Corpus/.test(c.textContent))"
    place = browser.run(place)
    shown = f"{rows}.map(r => r.cells[0].textContent + ' | ' + r.cells[{place}].textContent)"
    count = "document.querySelector('.filters output').textContent"
    everything = browser.run(shown)
    assert browser.run(count) == f"{len(everything)} of {len(everything)} rows"
    labels = "[...document.querySelectorAll('.filters label')].map(l => l.firstChild.data)"
    assert browser.run(labels)[1:] == ["Model", "Corpus", "Benchmark"]
    corpus = "document.querySelectorAll('.filters select')[1]"
    corpora = browser.run(f"[...{corpus}.options].map(o => o.value)")
    assert "authors' contexts" in corpora
    assert "published" not in corpora
    enter(browser, corpus, "authors\\' contexts")
    published = browser.run(shown)
    assert published == [row for row in everything if row.endswith("| authors' contexts")]
    assert browser.run(count) == f"{len(published)} of {len(everything)} rows"
    groups = "[...document.querySelectorAll('#leaderboard tbody')]"
    assert browser.run(f"{groups}.filter(b => b.hidden).length") > 0
    enter(browser, SEARCH, "func-pkg; block")
    both = browser.run(shown)
    assert 0 < len(both) < len(published) < len(everything)
    assert all(row.startswith(("Func-PKG", "Block-PKG")) for row in both)
    with_comma = next(row.partition(" | ")[0] for row in everything if row.startswith("Func-PKG, "))
    enter(browser, corpus, "")
    enter(browser, SEARCH, with_comma)
    assert browser.run(shown) == [row for row in everything if with_comma in row], (
        "a comma is part of a name"
    )
    enter(browser, corpus, "authors\\' contexts")
    enter(browser, SEARCH, "")
    assert browser.run(shown) == published


def test_filter_hides_other_methods_of_a_table_but_keeps_no_rag(browser, site):
    browser.open(site, 1280)
    row = "[...document.querySelector('#experiments').tHead.rows[0].cells]"
    shown = f"{row}.filter(c => !c.hidden).map(c => c.textContent)"
    everything = browser.run(shown)
    enter(browser, SEARCH, "block-pkg")
    assert browser.run(shown) == ["Corpus", "NoRAG", "Block-PKG"]
    assert browser.run("[...document.querySelectorAll('#experiments td:not([hidden])')].length") > 2
    enter(browser, SEARCH, "")
    assert browser.run(shown) == everything


def test_leaderboard_shows_all_its_columns_without_scrolling(browser, site):
    browser.open(site.parent / "site" / "leaderboard.html", 1280)
    edge = browser.run(box(".scroll", "right"))
    headings = "[...document.querySelectorAll('#leaderboard thead th')]"
    ends = browser.run(f"{headings}.map(c => c.getBoundingClientRect().right)")
    assert len(ends) == 10
    assert max(ends) <= edge


@WIDTHS
def test_row_names_break_only_at_spaces_and_hyphens(browser, tmp_path, width):
    names = ["CodeLlama-7B-Instruct", "candidates of DocPrompting", "(Ideal Reranker)"]
    rows = {name: ["1"] * 12 for name in names}
    table = ResultTable.of("Names", rows, list("abcdefghijkl"), "row")
    report.save_section(tmp_path, Section("names", "Names", {"": table.html()}, [], {}, {}))
    browser.open(report.build_report(tmp_path).parent / "site" / "names.html", width)
    # A broken word has boxes on two lines.
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
def test_long_table_scrolls_in_its_frame_under_fixed_headings(browser, site, width):
    browser.open(site.parent / "site" / "leaderboard.html", width)
    frame = ".scroll"
    browser.run(f"document.querySelector('{frame}').scrollTo(0, 600)")
    assert browser.run(f"document.querySelector('{frame}').scrollTop") > 0
    heading = "#leaderboard thead th:nth-child(2)"
    heading_top = browser.run(box(heading, "top"))
    assert abs(heading_top - browser.run(box(frame, "top"))) < 2


def test_printed_page_is_complete_and_has_no_controls(browser, site):
    browser.open(site.parent / EXPERIMENT, 800)
    browser.run("document.querySelector('#tasks details').open = true")
    browser.send("Emulation.setEmulatedMedia", media="print")
    matrix = "document.querySelector('.matrix')"
    assert browser.run(f"{matrix}.scrollHeight <= {matrix}.clientHeight + 1")
    navigation = "getComputedStyle(document.querySelector('nav'))"
    assert browser.run(f"{navigation}.display") == "none"
    sort_arrow = "getComputedStyle(document.querySelector('button.sort'), '::after')"
    assert browser.run(f"{sort_arrow}.display") == "none"
    browser.send("Emulation.setEmulatedMedia", media="")
