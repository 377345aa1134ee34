"""The report: its pages, links, order and texts, also when stored sections are damaged."""

import base64
import json
import os
import re
import shutil
import subprocess
from html import escape, unescape
from html.parser import HTMLParser
from urllib.parse import unquote

import nbformat
import pytest
from checks import CODE
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from pkg_lib import __version__
from pkg_lib.analysis import report
from pkg_lib.analysis.contents import (
    ACROSS,
    LEAD_SENTENCES,
    PAPERS,
    SENTENCE_END,
    STATUSES,
    Section,
    coverage,
    items,
    pages,
    short_models,
    texts_of,
)
from pkg_lib.analysis.notebook_report import NotebookReport
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import points, table_order
from pkg_lib.core.registry import load_plugins
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.study import NOTEBOOKS
from pkg_lib.papers.pkg.pass_tables import pass_table
from pkg_lib.retrieval.methods import METHODS, Method

PAGE = "m-0_5b.humaneval.textbook-stdlib"
STEM = f"{PAGE}.rq1_code_pkg"
PROVENANCE = {
    "model": "m-0.5b",
    "benchmark": "humaneval",
    "corpus": "textbook+stdlib",
    "versions": {"python": "3.11"},
}
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


class Links(HTMLParser):
    """Parser of a page that collects its references, its ids and its unclosed elements."""

    VOID = frozenset({"meta", "img", "br", "hr", "link", "input", "col", "wbr"})

    def __init__(self, page):
        super().__init__()
        self.references = []
        self.ids = []
        self.open = []
        self.feed(page.read_text("utf8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "img":
            assert attributes["alt"]
        for name in ("href", "src"):
            if name in attributes:
                self.references.append(attributes[name])
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def is_broken(reference, page):
    """Tell whether a reference leads outside, to no file, or to no element of a file."""
    file, _, name = reference.partition("#")
    target = page.parent / unquote(file) if file else page
    if "//" in reference or not target.is_file():
        return True
    return bool(name) and unquote(name) not in Links(target).ids


def broken(page):
    """Check the elements of a page and return its broken references."""
    links = Links(page)
    assert links.open == []
    assert len(links.ids) == len(set(links.ids))
    references = [r for r in links.references if not r.startswith("data:")]
    return [reference for reference in references if is_broken(reference, page)]


def test_every_file_linked_from_a_committed_page_is_committed():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    committed = {ROOT / name for name in listed.stdout.decode().split("\0")}
    pages = [ROOT / "results" / "index.html", *(ROOT / "results" / "site").glob("*.html")]
    missing = []
    for page in pages:
        for reference in set(Links(page).references):
            file = unquote(reference.partition("#")[0])
            is_file = file and not file.startswith("data:") and "//" not in file
            if is_file and (page.parent / file).resolve() not in committed:
                missing.append(f"{page.name}: {reference}")
    assert not missing


def picture(alt):
    """Make the output of a notebook cell that shows a picture."""
    metadata = {"image/png": {"width": 480, "alt": alt}}
    data = {"image/png": PIXEL, "text/plain": "x"}
    return new_output("display_data", data, metadata=metadata)


def save_notebook(results, stem, *outputs):
    """Write a notebook whose only code cell has some outputs, and return its path."""
    path = results / "notebooks" / f"{stem}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    code = new_code_cell("1 + 1", id="b", outputs=list(outputs), execution_count=1)
    nbformat.write(new_notebook(cells=[new_markdown_cell("# Question", id="a"), code]), path)
    return path


@pytest.fixture
def results(tmp_path, verdicts, controls):
    """Results with one section, its table, its figure and its notebook."""
    table = pass_table("m-0.5b", verdicts, controls, "humaneval", "textbook+stdlib")
    table.save(tmp_path / "tables" / STEM)
    (tmp_path / "figures").mkdir()
    for suffix in ("png", "pdf"):  # the formats of save_figure, which has tests of its own
        (tmp_path / "figures" / f"{STEM}.helped_hurt.{suffix}").write_bytes(b"a figure")
    captions = {"helped_hurt": "Tasks against None.", "never_drawn": "no such files"}
    parts = {"": table.html(), "Differences": "<p>None</p>"}
    section = Section(
        STEM, "A model", parts, ["A remark."], captions, PROVENANCE, table.summary(), [STEM]
    )
    report.save_section(tmp_path, section)
    save_notebook(tmp_path, STEM, picture("a chart"))
    return tmp_path


def build(results):
    """Build the report; return its first page and the page of the experiment."""
    first = report.build_report(results)
    return first, results / "site" / f"{PAGE}.html"


def read_files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_link_of_every_page_leads_to_a_stored_file(results):
    first, page = build(results)
    pages = set(results.rglob("*.html"))
    assert {first, page, results / "notebooks" / f"{STEM}.html"} <= pages
    for any_page in pages:
        assert broken(any_page) == []
        assert not re.search("https?://", any_page.read_text("utf8"))
    assert set(Links(page).references) >= {
        f"../tables/{STEM}.csv",
        f"../tables/{STEM}.md",
        f"../tables/{STEM}.tex",
        f"../notebooks/{STEM}.html",
        f"../figures/{STEM}.helped_hurt.pdf",
        f"../figures/{STEM}.helped_hurt.png",
    }


def test_page_shows_rates_remarks_and_provenance(results, verdicts):
    first, page = build(results)
    text = page.read_text("utf8")
    assert "never_drawn" not in text
    assert "A remark." in text
    assert "&#34;python&#34;: &#34;3.11&#34;" in text
    rate = f"{100 * verdicts['BM25'].mean():.1f}"
    assert rate in text
    assert rate in first.read_text("utf8")


def test_check_of_links_detects_a_missing_file_and_a_missing_element(results):
    first, page = build(results)
    (results / "tables" / f"{STEM}.tex").unlink()
    assert broken(page) == [f"../tables/{STEM}.tex"]
    text = page.read_text("utf8")
    page.write_text(text.replace('id="rq1_code_pkg"', ""))
    assert f"site/{PAGE}.html#rq1_code_pkg" in broken(first)
    build(results)
    assert broken(page) == []


def test_building_twice_gives_equal_files_and_removes_old_pages(results):
    build(results)
    files = read_files(results)
    for page in [*results.rglob("*.html"), results / "site" / "report.css"]:
        page.unlink()
    (results / "site" / "old.html").write_text("old")
    build(results)
    assert read_files(results) == files


def test_notebook_page_links_to_a_stored_figure_and_embeds_other_pictures(results):
    (results / "figures" / f"{STEM}.chart.png").write_bytes(base64.b64decode(PIXEL))
    save_notebook(results, STEM, picture("a chart"))
    save_notebook(results, "other", picture("a chart"))
    build(results)
    linking = (results / "notebooks" / f"{STEM}.html").read_text("utf8")
    assert PIXEL not in linking
    assert f"../figures/{STEM}.chart.png" in linking
    assert 'alt="a chart"' in linking
    embedding = (results / "notebooks" / "other.html").read_text("utf8")
    assert PIXEL in embedding


def test_report_of_an_empty_results_directory_explains_how_to_run(tmp_path):
    page = report.build_report(tmp_path)
    assert "pkg-lib run" in page.read_text("utf8")
    assert broken(page) == []


def test_report_names_failed_notebooks_and_marks_their_older_results(results):
    error = new_output(
        "error", ename="UserError", evalue="no model", traceback=["UserError: no model"]
    )
    save_notebook(results, "other.rq1_code_pkg", error)
    first, page = build(results)
    assert "stopped with an error" not in page.read_text("utf8")
    save_notebook(results, STEM, error)
    for _ in range(2):  # first rendered, then unchanged
        build(results)
        assert "stopped with an error" in page.read_text("utf8")
    assert "notebooks/other.rq1_code_pkg.html" in Links(first).references
    assert broken(first) == []


def test_rendered_notebook_is_updated_and_omits_progress_bars(tmp_path):
    progress = new_output("stream", name="stderr", text="100%|####|")
    widget = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
        "text/plain": "50%|##|",
    }
    outputs = (progress, new_output("display_data", widget), picture("first chart"))
    notebook = save_notebook(tmp_path, "n", *outputs)
    page = report.render_notebook(notebook)
    text = page.read_text("utf8")
    assert "first chart" in text
    assert "##" not in text
    before = page.stat().st_mtime_ns
    assert report.render_notebook(notebook).stat().st_mtime_ns == before
    save_notebook(tmp_path, "n", picture("second chart"))
    assert "second chart" in report.render_notebook(notebook).read_text("utf8")


def test_report_names_damaged_files_in_one_line_and_shows_all_others(results):
    section = json.loads((results / "tables" / f"{STEM}.json").read_text())
    wrong_summary = section | {"stem": "y", "summary": [["1.0", ""]]}
    damaged = {
        "tables/w.json": "{",
        "tables/x.json": '{"stem": 1}',
        "tables/y.json": json.dumps(wrong_summary),
        "notebooks/u.ipynb": "{}",
        "notebooks/v.ipynb": '{"cel',
    }
    for name, text in damaged.items():
        (results / name).write_text(text)
    with pytest.raises(UserError, match=r"index\.html shows the rest") as error:
        report.build_report(results)
    index = results / "index.html"
    text = index.read_text("utf8")
    message = str(error.value)
    assert f"site/{PAGE}.html" in text
    for name in damaged:
        assert name in text
        assert name in message
    assert "\n" not in message
    assert broken(index) == []


@pytest.mark.parametrize("kind", ["fifo", "loop"])
def test_report_names_a_file_that_cannot_be_opened_and_does_not_wait_for_it(
    results, kind, monkeypatch, no_waiting
):
    monkeypatch.setenv("PKG_RESULTS", str(results))
    report.build_report(results)
    files = [path for path in results.rglob("*") if path.is_file()]
    for path in sorted(files):
        contents = path.read_bytes()
        path.unlink()
        if kind == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(path.name)
        is_unread = path.parent.name == "figures" or path.suffix in (".md", ".tex")
        if is_unread:
            report.build_report(results)
        else:
            with pytest.raises(UserError) as error:
                report.build_report(results)
            assert str(path) in str(error.value)
            assert "\n" not in str(error.value)
        path.unlink()
        path.write_bytes(contents)


def make_section(model, benchmark, corpus, name="rq1", summary=None, provenance=None):
    """Make the section of an experiment, with a rate of NoRAG unless a summary is given."""
    if provenance is None:
        provenance = {"model": model, "benchmark": benchmark, "corpus": corpus, "tasks": 164}
    if summary is None:
        summary = {"NoRAG": ("50.0", "")}
    return Section(f"{model}.{benchmark}.{corpus}.{name}", name, {}, [], {}, provenance, summary)


def test_each_experiment_and_each_study_has_a_page(tmp_path):
    rates = {"NoRAG": ("1.0", ""), "JSON-PKG": ("2.0 (n=9)", "#AABBCC")}
    sections = [
        make_section("b", "mbpp", "stdlib"),
        make_section("b", "humaneval", "stdlib", "errors", {}),
        make_section("b", "humaneval", "stdlib"),
        make_section("b", "humaneval", "stdlib", "first5.rq1", {}),
        make_section("a", "humaneval", "stdlib", summary=rates),
        make_section("a", "mbpp", "graphs", "build", {}, {"corpus": "stdlib"}),
    ]

    def describe(page):
        stems = [section.stem for section in page.sections]
        return page.name, page.group, stems

    assert [describe(page) for page in pages(sections)] == [
        ("a.humaneval.stdlib", "HumanEval, a", ["a.humaneval.stdlib.rq1"]),
        (
            "b.humaneval.stdlib",
            "HumanEval, b",
            ["b.humaneval.stdlib.rq1", "b.humaneval.stdlib.errors"],
        ),
        ("b.humaneval.stdlib.first5", "HumanEval, b", ["b.humaneval.stdlib.first5.rq1"]),
        ("b.mbpp.stdlib", "MBPP (first test shown), b", ["b.mbpp.stdlib.rq1"]),
        ("a.mbpp.graphs.build", ACROSS, ["a.mbpp.graphs.build"]),
    ]
    for part in sections:
        report.save_section(tmp_path, part)
    text = report.build_report(tmp_path).read_text("utf8")
    table = text.split("</table>")[0].split("<tbody>", 1)[1]
    rows = []
    for row in table.split("</tr>")[:-1]:
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        rows.append([re.sub("<[^>]*>", "", cell) for cell in cells])
    assert rows == [
        ["HumanEval, a"],
        ["stdlib", "1.0", "2.0n"],
        ["HumanEval, b"],
        ["stdlib", "50.0", ""],
        ["MBPP (first test shown), b"],
        ["stdlib", "50.0", ""],
    ]


def test_headline_summarises_the_stored_differences_without_rerankers(results, verdicts):
    """Reranked and Ideal Reranker select among methods; they do not retrieve."""
    text = report.build_report(results).read_text("utf8")
    methods = [m for m in CODE if m not in ("NoRAG", "Reranked", "Ideal Reranker")]
    gaps = verdicts[methods].mean() - verdicts["NoRAG"].mean()
    gaps = gaps.astype(float).sort_values()
    assert f"Of {len(gaps)} comparisons of a retrieval method with no retrieval" in text
    more = (gaps > 0).sum()
    fewer = (gaps < 0).sum()
    assert 0 < more < len(gaps)
    assert f"solves more tasks in {more} and fewer in {fewer}." in text
    assert f"by {points(gaps.iloc[-1])} to {points(gaps.iloc[0])} percentage points" in text
    assert text.count("<circle") == len(gaps)


def numbered(tables: int, figures: int) -> set[str]:
    """Return the captions of a paper whose tables and figures are numbered from 1."""
    captions = {f"Table {n}" for n in range(1, tables + 1)}
    return captions | {f"Figure {n}" for n in range(1, figures + 1)}


# The captions of each paper, read once from its text.
CAPTIONS = {
    "PKG": numbered(tables=9, figures=12),
    "PKG, first version": numbered(tables=5, figures=12),
    "EVOR": numbered(tables=7, figures=6),
    "cAST": numbered(tables=9, figures=2),
    "DKB": numbered(tables=13, figures=2),
}
BESIDE_CAPTIONS = {"Claim ledger", "Appendix B.5"}
MEASURED = STATUSES[:2]


@pytest.mark.parametrize("paper", CAPTIONS)
def test_every_caption_of_a_paper_is_listed_once(paper):
    listed = [item.item for item in items() if item.paper in PAPERS[paper]]
    assert len(listed) == len(set(listed))
    assert set(listed) - BESIDE_CAPTIONS == CAPTIONS[paper]


def test_every_item_has_a_paper_a_status_and_a_reason():
    papers = {name for names in PAPERS.values() for name in names}
    assert {item.paper for item in items()} == papers
    for item in items():
        assert item.status in STATUSES, item
        assert item.why, item
        assert item.about, item
        assert bool(item.notebook) == (item.status in MEASURED), item


@pytest.mark.parametrize("item", [i for i in items() if i.notebook], ids=str)
def test_notebook_and_table_or_figure_of_an_item_exist(item):
    assert (NOTEBOOKS / f"{item.notebook}.ipynb").exists()
    found = []
    for path in sorted((ROOT / "results" / "tables").glob("*.json")):
        stored = json.loads(path.read_text("utf8"))
        is_section = isinstance(stored, dict) and "provenance" in stored and "parts" in stored
        if not is_section or not path.stem.endswith(item.notebook):
            continue
        if item.benchmark in ("", stored["provenance"].get("benchmark")):
            found += [name for name, _ in [*stored["parts"], *stored["figures"]]]
    assert found
    if item.place:
        assert item.place in found


@pytest.mark.parametrize("paper", PAPERS)
def test_documentation_of_a_paper_has_the_same_coverage_table(paper):
    page = {"PKG, first version": "pkg_first"}.get(paper, paper.lower())
    assert coverage(paper) in (ROOT / "docs" / f"paper_{page}.md").read_text("utf8")


def test_first_page_links_to_every_measured_table_and_figure_of_the_papers(site):
    text = site.read_text("utf8")
    assert broken(site) == []
    assert "waits_for" not in text
    for item in items():
        about = item.about.replace("'", "&#39;")
        if not item.notebook:
            why = re.sub(r"`([^`]+)`", r"<code>\1</code>", item.why)
            assert f"{item.item}: {about} ({item.status}: {why})" in text, item
            continue
        assert f">{item.item}</a>: {about}" in text or f"{item.item}: {about}:" in text, item
        if item.place:
            code = (NOTEBOOKS / f"{item.notebook}.ipynb").read_text("utf8")
            assert f'\\"{item.place}\\"' in code or f'.{item.place}\\"' in code, item


def test_first_page_explains_models_methods_and_corpora_and_shortens_links(site):
    text = site.read_text("utf8")
    for name in ("NoRAG", "Func-PKG", "Ideal Reranker"):
        assert f"<dt>{name}</dt>" in text
    assert "<dt>Corpus authors&#39; contexts</dt>" in text
    models = "qwen2.5-coder-0.5b-instruct and qwen2.5-coder-1.5b-instruct"
    assert f"2 models were run here: {models}." in text
    assert 'aria-label="Figure 3, qwen2.5-coder-1.5b-instruct">1.5B</a>' in text


def test_models_of_equal_size_keep_their_full_names():
    names = ["a-7b", "b-7B-instruct", "c-0.5b", "endpoint:mine", "x2b-model"]
    short = ["a-7b", "b-7B-instruct", "0.5B", "endpoint:mine", "x2b-model"]
    assert short_models(names) == dict(zip(names, short, strict=True))


def test_corpus_published_is_called_the_authors_contexts(tmp_path):
    (page,) = pages([make_section("m-7b", "humaneval", "published")])
    assert page.label == "authors' contexts"
    assert page.title == "m-7b, HumanEval (164 tasks), the authors' contexts"
    earlier_heading = "Cost: m-7b, HumanEval (164 tasks), corpus published"
    provenance = page.sections[0].provenance
    section = Section("m.humaneval.published.cost", earlier_heading, {}, [], {}, provenance)
    assert section.short == "Cost"


def test_the_first_figure_leads_and_the_others_follow_their_tables(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    notebook = NotebookReport("evor", "EVOR")
    for part in ("", "One", "Two", "Three"):
        notebook.table(ResultTable.of(f"T {part}", {"a": ["1"]}, ["n"], "row"), None, part)
        if part in ("One", "Two"):
            notebook.figure(Figure(), part.lower(), f"Figure {part}")
    notebook.close({})
    text = (report.build_report(tmp_path).parent / "site" / "evor.html").read_text("utf8")
    found = re.findall(r"<figure id=\"(.*?)\"|<span>(T .*?)</span>", text)
    places = [anchor[-3:] or table for anchor, table in found]
    assert places == ["one", "T ", "T One", "T Two", "two", "T Three"]


def test_a_part_begins_with_its_findings_after_its_introduction(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    notebook = NotebookReport("what_helps", "What helps")
    notebook.table(ResultTable.of("Copies", {"a": ["1"]}, ["n"], "row"), None, "Copying")
    shown = notebook.add_findings(["It copies.", "Often."], part="Copying")
    assert shown.data == "- It copies.\n- Often."
    notebook.close({})
    text = (report.build_report(tmp_path).parent / "site" / "what_helps.html").read_text("utf8")
    introduction = texts_of("leads")["parts"]["what_helps"]["Copying"]
    paragraphs = [introduction, "It copies.", "Often."]
    places = [text.index(f"<p>{escape(paragraph)}</p>") for paragraph in paragraphs]
    assert places == sorted(places)
    assert text.index(">Copying</h") < places[0] and places[-1] < text.index("<table")


def test_heading_of_a_paper_table_has_its_title_and_the_caption_does_not_repeat_it(tmp_path):
    def table(title):
        return ResultTable.of(title, {"a": ["1"]}, ["n"], "row").html()

    parts = {"Table 2": table("Table 2: methods"), "Other": table("Another title")}
    report.save_section(tmp_path, Section("evor", "EVOR", parts, [], {}, {}))
    text = (report.build_report(tmp_path).parent / "site" / "evor.html").read_text("utf8")
    assert text.count(">Table 2: methods</h2>") == 1
    assert "<caption hidden><span>Table 2: methods</span>" in text
    assert "<caption><span>Another title</span>" in text
    assert ">Other</h2>" in text


def test_page_names_the_version_and_links_to_the_documentation_of_a_checkout(results, tmp_path):
    _first, page = build(results)
    text = page.read_text("utf8")
    assert f"pkg-lib {__version__}" in text
    assert "documentation</a>" not in text
    checkout = tmp_path / "checkout"
    for name in ("pkg_lib/__init__.py", "README.md", "docs/index.md", "results/README.md"):
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    shutil.copytree(results / "tables", checkout / "results" / "tables")
    first = report.build_report(checkout / "results")
    assert 'href="site/docs/docs-index.html">documentation</a>' in first.read_text("utf8")
    assert broken(first) == []
    assert broken(first.parent / "site" / page.name) == []


def test_documentation_is_pages_whose_links_lead_to_pages_and_files(results, tmp_path):
    texts = {
        "pkg_lib/__init__.py": "",
        "README.md": "# The suite\n\n[Start](docs/start.md#first-step) [out](../../beyond.md) [L](LICENSE) [w](https://a.b/c.md)\n",
        "LICENSE": "",
        "docs/index.md": "# Docs\n",
        "docs/start.md": "# Start\n\n## First `step`!\n\n| a |\n| - |\n| 1 |\n\n[up](../README.md)\n",
        "docs/other.md": "nobody links here",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(results / "tables", tmp_path / "results" / "tables")
    folder = report.build_report(tmp_path / "results").parent / "site" / "docs"
    pages = {path.name: path for path in folder.iterdir()}
    assert set(pages) == {"readme.html", "docs-index.html", "docs-start.html"}
    elsewhere = "https://a.b/c.md"
    outside = "../../beyond.md"
    assert all(set(broken(page)) <= {elsewhere, outside} for page in pages.values())
    readme = Links(pages["readme.html"]).references
    assert {"docs-start.html#first-step", "../../../LICENSE", outside, elsewhere} <= set(readme)
    assert "<td>1</td>" in pages["docs-start.html"].read_text("utf8")
    assert "<title>The suite</title>" in pages["readme.html"].read_text("utf8")


def test_item_of_a_missing_experiment_names_the_notebook_it_needs(site, tmp_path):
    without_text_pkg = shutil.ignore_patterns("*rq2_text_pkg*")
    shutil.copytree(site.parent / "tables", tmp_path / "tables", ignore=without_text_pkg)
    index = report.build_report(tmp_path)
    assert "(notebook rq2_text_pkg on HumanEval)" in index.read_text("utf8")
    assert broken(index) == []


def test_item_links_to_the_figure_of_each_model_by_a_labelled_link(site):
    link = r'<a href="(site/[^"]*)" aria-label="Figure 3, ([^"]*)"'
    links = re.findall(link, site.read_text("utf8"))
    models = [model for _, model in links]
    assert models == ["qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"]
    for reference, model in links:
        assert model.replace(".", "_") in reference
        assert reference.endswith("radar")


def test_page_begins_with_a_lead_and_figures_and_folds_further_findings(results):
    path = results / "tables" / f"{STEM}.json"
    section = json.loads(path.read_text())
    findings = [f"Finding {n}." for n in range(5)]
    path.write_text(json.dumps(section | {"findings": findings}))
    _first, page = build(results)
    text = page.read_text("utf8")
    lead = re.search('<p class="lead">(.*?)</p>', text)[1]
    assert 0 < len(SENTENCE_END.split(lead)) <= LEAD_SENTENCES
    assert findings[0] in lead
    order = [text.index(part) for part in ('class="lead"', "<figure", "<table", findings[1])]
    assert order == sorted(order)
    details = re.findall("<details.*?</details>", text, re.S)
    folded = [re.sub("<[^>]*>", " ", part) for part in details]
    for finding in findings[1:]:
        assert any(finding in part for part in folded)


def test_caption_folds_a_list_of_values_but_no_sentences(results):
    path = results / "tables" / f"{STEM}.json"
    section = json.loads(path.read_text())
    values = "Rates: " + ", ".join(f"method {n} {n} %" for n in range(20))
    sentences = "A change of the prompt. Wording: the words before a context. " * 3
    for caption, folded in ((values, 1), (sentences, 0)):
        figures = {name: caption for name, _ in section["figures"]}
        path.write_text(json.dumps(section | {"figures": list(figures.items())}))
        _first, page = build(results)
        captions = re.findall("<figcaption>(.*?)</figcaption>", page.read_text("utf8"), re.S)
        assert captions
        assert all(c.count("<details>") == folded for c in captions)


def test_leaderboard_explains_only_the_methods_and_variants_of_its_rows(site):
    text = (site.parent / "site" / "leaderboard.html").read_text("utf8")
    explained = set(re.findall("<dt>(.*?)</dt>", text))
    assert {
        "NoRAG",
        "EVOR",
        "swapped",
        "codellama prompt",
        "library-documents",
        "newLISP",
    } <= explained
    assert "no delimiters" not in explained  # no row has it


def test_every_page_has_short_leads(site):
    for page in site.parent.glob("site/*.html"):
        leads = re.findall('<p class="lead">(.*?)</p>', page.read_text("utf8"))
        assert leads, page
        for lead in leads:
            assert lead, page
            assert len(SENTENCE_END.split(lead)) <= LEAD_SENTENCES, page


def test_section_of_a_single_notebook_has_a_page_of_its_name():
    about = {"model": "m", "benchmark": "humaneval", "corpus": "stdlib", "tasks": 20}
    (page,) = pages([Section("quickstart", "Quickstart", {}, [], {}, about)])
    assert (page.name, page.group) == ("quickstart", ACROSS)


def test_report_of_a_users_study_names_no_unmeasured_paper(tmp_path):
    about = {"model": "mine", "benchmark": "humaneval", "corpus": "stdlib", "tasks": 20}
    rates = {"NoRAG": ("50.0", ""), "BM25": ("\N{EN DASH}", "")}
    section = Section("mine.humaneval.stdlib.rq1_code_pkg", "mine", {}, [], {}, about, rates)
    report.save_section(tmp_path, section)
    text = report.build_report(tmp_path).read_text("utf8")
    assert ">NoRAG</th>" in text
    assert ">BM25</th>" not in text, "BM25 was not measured"
    assert "not measured</summary>" not in text
    assert 'aria-label="Table 1, mine"' in text
    for paper in ("cAST", "DKB", "EVOR"):
        assert paper not in text


def save_toy_experiment(folder, benchmark, differences):
    """Save an experiment of which nothing is known but the differences from NoRAG."""
    about = {"model": "mine", "benchmark": benchmark, "corpus": "stdlib", "tasks": 4}
    stem = f"mine.{benchmark}.stdlib"
    rates = dict.fromkeys(("NoRAG", *differences), ("50.0", ""))
    main = Section(f"{stem}.rq1_code_pkg", "mine", {}, [], {}, about, rates)
    others = [
        Section(f"{stem}.cost", "Cost: mine", {"": "<p>tokens</p>"}, [], {}, about),
        Section(f"{stem}.overlap", "Overlap: mine", {}, [], {"venn": "regions"}, about),
    ]
    for section in (main, *others):
        report.save_section(folder, section)
    (folder / "figures").mkdir()
    for suffix in ("pdf", "png"):
        (folder / "figures" / f"{stem}.overlap.venn.{suffix}").write_bytes(b"")
    lines = ["source,model,method,difference_points,p_corrected,measured"]
    for method, difference in differences.items():
        lines.append(f"This study,mine,{method},{difference},1.0,4")
    (folder / "tables" / f"{main.stem}.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("benchmark", ["humaneval", "my-benchmark"])
def test_items_of_a_paper_are_shown_for_its_benchmarks_only(tmp_path, benchmark):
    save_toy_experiment(tmp_path, benchmark, {"BM25": -25.0, "Func-PKG": 25.0})
    text = unescape(report.build_report(tmp_path).read_text("utf8"))
    text += unescape((tmp_path / "site" / f"mine.{benchmark}.stdlib.html").read_text("utf8"))
    is_papers = benchmark == "humaneval"
    assert ("The models of the PKG paper" in text) == is_papers
    assert ("Table 1, mine" in text) == is_papers
    assert ("Figure 6, mine" in text) == is_papers
    assert "Table 8" not in text, "the section of costs has no part of that name"


def test_headline_of_equal_rates_has_no_range_and_no_count_of_zero(tmp_path):
    save_toy_experiment(tmp_path, "my-benchmark", {"BM25": 0.0, "Func-PKG": 0.0})
    text = report.build_report(tmp_path).read_text("utf8")
    assert "none changes the number of solved tasks" in text
    assert "0.0 to 0.0" not in text
    assert "none of these changes" not in text


def test_first_page_says_that_a_method_is_a_plugins(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "Mine", Method("Mine", object, ("code",), "row"))
    save_toy_experiment(tmp_path, "my-benchmark", {"BM25": 0.0, "Mine": 0.0})
    text = report.build_report(tmp_path).read_text("utf8")
    assert "<dt>Mine</dt><dd>a method of a plugin" in text
    assert "<dt>BM25</dt><dd>the row whose words" in text


def test_a_users_method_follows_no_rag_in_tables(monkeypatch, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from pkg_lib import Method\n"
        "from pkg_lib.retrieval.methods import METHODS\n"
        "class Mine: pass\n"
        "METHODS.register(Method('Mine', Mine, ('code',), 'row'))\n"
    )
    monkeypatch.setenv("PKG_PLUGINS", str(plugin))
    load_plugins()
    try:
        assert table_order()[:2] == ["NoRAG", "Mine"]
        assert sorted(table_order()) == sorted(METHODS)
    finally:
        del METHODS["Mine"]


def test_no_page_is_too_large_to_read(site):
    sizes = [p.stat().st_size for p in site.parent.rglob("*.html")]
    assert len(sizes) > 100
    assert max(sizes) < 300_000


@pytest.mark.parametrize("notebook", texts_of("terms")["pages"])
def test_a_page_explains_its_terms_before_its_tables(site, notebook):
    page = unescape((site.parent / "site" / f"{notebook}.html").read_text("utf8"))
    fold = page.index("Terms of this page")
    assert fold < page.index("<table")
    for term in texts_of("terms")["pages"][notebook]:
        assert f"<dt>{term}</dt>" in page[fold : page.index("<table")]


def test_introductions_belong_to_parts_that_sections_have():
    for notebook, texts in texts_of("leads")["parts"].items():
        headings = set()
        for path in (ROOT / "results").glob(f"tables/*{notebook}.json"):
            headings |= dict(json.loads(path.read_text("utf8"))["parts"]).keys()
        assert set(texts) <= headings, notebook
