"""The report: pages without a broken link, in their order, from sections that may be damaged."""

import base64
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from urllib.parse import unquote

import nbformat
import pytest
from checks import CODE
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
)
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import points, table_order
from pkg_lib.core.registry import load_plugins
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.study import NOTEBOOKS
from pkg_lib.papers.pkg.pass_tables import pass_table
from pkg_lib.retrieval.methods import METHODS

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
    """Every reference and every id of a page, and the elements left open."""

    VOID = frozenset({"meta", "img", "br", "hr", "link", "input", "col"})

    def __init__(self, page):
        super().__init__()
        self.references, self.ids, self.open = [], [], []
        self.feed(page.read_text("utf8"))

    def handle_starttag(self, tag, attrs):
        about = dict(attrs)
        assert tag != "img" or about["alt"]
        self.references += [about[k] for k in ("href", "src") if k in about]
        self.ids += [about["id"]] if "id" in about else []
        self.open += [tag] if tag not in self.VOID else []

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def broken(page):
    """References of a page that lead to no file, or to no element of it."""
    links, wrong = Links(page), []
    assert links.open == [] and len(links.ids) == len(set(links.ids))
    for reference in (r for r in links.references if not r.startswith("data:")):
        file, _, name = reference.partition("#")
        target = page.parent / unquote(file) if file else page
        if (
            "//" in reference
            or not target.is_file()
            or (name and unquote(name) not in Links(target).ids)
        ):
            wrong.append(reference)
    return wrong


def test_every_file_that_a_committed_page_links_to_is_committed():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    committed = {ROOT / name for name in listed.stdout.decode().split("\0")}
    if listed.returncode:
        pytest.skip("this is no git checkout")
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
    about = {"image/png": {"width": 480, "alt": alt}}
    return new_output("display_data", {"image/png": PIXEL, "text/plain": "x"}, metadata=about)


def save_notebook(results, stem, *outputs):
    path = results / "notebooks" / f"{stem}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    code = new_code_cell("1 + 1", id="b", outputs=list(outputs), execution_count=1)
    nbformat.write(new_notebook(cells=[new_markdown_cell("# Question", id="a"), code]), path)
    return path


@pytest.fixture
def results(tmp_path, verdicts, controls):
    table = pass_table("m-0.5b", verdicts, controls, "humaneval", "textbook+stdlib")
    table.save(tmp_path / "tables" / STEM)
    (tmp_path / "figures").mkdir()
    for suffix in ("png", "pdf"):  # what save_figure writes; its own tests look inside
        (tmp_path / "figures" / f"{STEM}.helped_hurt.{suffix}").write_bytes(b"a figure")
    captions = {"helped_hurt": "Tasks against None.", "never_drawn": "no such files"}
    parts = {"": table.html(), "Differences": "<p>None</p>"}
    section = Section(
        STEM, "A model", parts, ["A remark."], captions, PROVENANCE, table.summary(), [STEM]
    )
    report.save_section(tmp_path, section)
    save_notebook(tmp_path, STEM, picture("a chart"))
    return tmp_path


def built(results):
    """The first page, that of the experiment, and all pages, once the report is built."""
    first = report.build_report(results)
    return first, results / "site" / f"{PAGE}.html", sorted(results.rglob("*.html"))


def test_every_link_of_every_page_leads_to_a_file_of_these_results_and_a_broken_one_is_seen(
    results, verdicts
):
    first, page, pages = built(results)
    assert {first, page, results / "notebooks" / f"{STEM}.html"} <= set(pages)
    assert [broken(p) for p in pages] == [[]] * len(pages)
    wanted = {f"../tables/{STEM}.{s}" for s in ("csv", "md", "tex")} | {f"../notebooks/{STEM}.html"}
    wanted |= {f"../figures/{STEM}.helped_hurt.{s}" for s in ("pdf", "png")}
    assert wanted <= set(Links(page).references)
    text, rate = page.read_text("utf8"), f"{100 * verdicts['BM25'].mean():.1f}"
    assert (
        "never_drawn" not in text
        and "A remark." in text
        and "&#34;python&#34;: &#34;3.11&#34;" in text
    )
    assert rate in text and rate in first.read_text("utf8")
    assert not any(re.search("https?://", p.read_text("utf8")) for p in pages)
    (results / "tables" / f"{STEM}.tex").unlink()
    assert broken(page) == [f"../tables/{STEM}.tex"]
    page.write_text(text.replace('id="rq1_code_pkg"', ""))
    assert f"site/{PAGE}.html#rq1_code_pkg" in broken(first)
    assert broken(built(results)[1]) == []


def test_building_twice_gives_the_same_bytes_and_leaves_no_old_page(results):
    built(results)
    first = {p: p.read_bytes() for p in results.rglob("*") if p.is_file()}
    for page in [*results.rglob("*.html"), results / "site" / "report.css"]:
        page.unlink()
    (results / "site" / "old.html").write_text("old")
    built(results)
    assert {p: p.read_bytes() for p in results.rglob("*") if p.is_file()} == first


def test_a_picture_that_lies_in_figures_is_linked_and_another_stands_in_the_page(results):
    (results / "figures" / f"{STEM}.chart.png").write_bytes(base64.b64decode(PIXEL))
    save_notebook(results, STEM, picture("a chart"))
    save_notebook(results, "other", picture("a chart"))
    built(results)
    linked, whole = (
        (results / "notebooks" / f"{stem}.html").read_text("utf8") for stem in (STEM, "other")
    )
    assert (
        PIXEL not in linked
        and f"../figures/{STEM}.chart.png" in linked
        and 'alt="a chart"' in linked
    )
    assert PIXEL in whole


def test_an_empty_results_directory_gives_a_page_that_says_what_to_do(tmp_path):
    page = report.build_report(tmp_path)
    assert "pkg-lib run" in page.read_text("utf8") and broken(page) == []


def test_failed_notebooks_are_named_and_older_results_marked(results):
    error = new_output(
        "error", ename="UserError", evalue="no model", traceback=["UserError: no model"]
    )
    save_notebook(results, "other.rq1_code_pkg", error)
    first, page, _ = built(results)
    assert "stopped with an error" not in page.read_text("utf8")
    save_notebook(results, STEM, error)
    for _ in range(2):  # rendered now, and left alone
        built(results)
        assert "stopped with an error" in page.read_text("utf8")
    assert "notebooks/other.rq1_code_pkg.html" in Links(first).references and broken(first) == []


def test_render_follows_the_notebook_and_leaves_out_progress_bars(tmp_path):
    progress = new_output("stream", name="stderr", text="100%|####|")
    widget = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
        "text/plain": "50%|##|",
    }
    outputs = (progress, new_output("display_data", widget), picture("first chart"))
    page = report.render_notebook(save_notebook(tmp_path, "n", *outputs))
    assert "first chart" in page.read_text("utf8") and "##" not in page.read_text("utf8")
    before = page.stat().st_mtime_ns
    assert report.render_notebook(page.with_suffix(".ipynb")).stat().st_mtime_ns == before
    save_notebook(tmp_path, "n", picture("second chart"))
    assert "second chart" in report.render_notebook(page.with_suffix(".ipynb")).read_text("utf8")


def test_damaged_files_are_named_in_one_line_and_keep_no_other_from_the_report(results):
    old = json.loads((results / "tables" / f"{STEM}.json").read_text())
    wrong = json.dumps(old | {"stem": "y", "summary": [["1.0", ""]]})
    damaged = {"tables/w.json": "{", "tables/x.json": '{"stem": 1}', "tables/y.json": wrong}
    damaged |= {"notebooks/u.ipynb": "{}", "notebooks/v.ipynb": '{"cel'}
    for name, text in damaged.items():
        (results / name).write_text(text)
    with pytest.raises(UserError, match=r"index\.html shows the rest") as error:
        report.build_report(results)
    text = (results / "index.html").read_text("utf8")
    assert f"site/{PAGE}.html" in text and all(n in text and n in str(error.value) for n in damaged)
    assert "\n" not in str(error.value) and broken(results / "index.html") == []


@pytest.mark.parametrize("kind", ["fifo", "loop"])
def test_a_file_that_cannot_be_opened_is_named_and_never_waited_for(
    results, kind, monkeypatch, no_waiting
):
    monkeypatch.setenv("PKG_RESULTS", str(results))
    report.build_report(results)
    for path in sorted(p for p in results.rglob("*") if p.is_file()):
        kept = path.read_bytes()
        path.unlink()
        os.mkfifo(path) if kind == "fifo" else path.symlink_to(path.name)
        if path.parent.name == "figures" or path.suffix in (".md", ".tex"):  # needed by no page
            report.build_report(results)
        else:
            with pytest.raises(UserError) as error:
                report.build_report(results)
            assert str(path) in str(error.value) and "\n" not in str(error.value)
        path.unlink()
        path.write_bytes(kept)


def section(model, benchmark, corpus, name="rq1", summary=None, about=None):
    provenance = about or {"model": model, "benchmark": benchmark, "corpus": corpus, "tasks": 164}
    rates = {"NoRAG": ("50.0", "")} if summary is None else summary
    return Section(f"{model}.{benchmark}.{corpus}.{name}", name, {}, [], {}, provenance, rates)


def test_experiments_have_a_page_each_and_studies_too(tmp_path):
    rates = {"NoRAG": ("1.0", ""), "JSON-PKG": ("2.0 (n=9)", "#AABBCC")}
    sections = [
        section("b", "mbpp", "stdlib"),
        section("b", "humaneval", "stdlib", "errors", {}),
        section("b", "humaneval", "stdlib"),
        section("b", "humaneval", "stdlib", "first5.rq1", {}),
        section("a", "humaneval", "stdlib", summary=rates),
        section("a", "mbpp", "graphs", "build", {}, {"corpus": "stdlib"}),
    ]
    assert [(p.name, p.group, [s.stem for s in p.sections]) for p in pages(sections)] == [
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
    text = (
        report.build_report(tmp_path).read_text("utf8").split("</table>")[0].split("<tbody>", 1)[1]
    )
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in text.split("</tr>")[:-1]]
    cells = [[re.sub("<[^>]*>", "", cell) for cell in row] for row in rows]
    first, second, third = ["stdlib", "1.0", "2.0n"], ["stdlib", "50.0", ""], ["stdlib", "50.0", ""]
    assert cells == [
        ["HumanEval, a"],
        first,
        ["HumanEval, b"],
        second,
        ["MBPP (first test shown), b"],
        third,
    ]


def test_the_headline_stands_on_the_stored_differences_and_counts_no_choice_among_columns(
    results, verdicts
):
    """Reranked and Ideal choose among the columns: they are no way to retrieve."""
    text = report.build_report(results).read_text("utf8")
    columns = [c for c in CODE if c not in ("NoRAG", "Reranked", "Ideal Reranker")]
    gaps = (verdicts[columns].mean() - verdicts["NoRAG"].mean()).astype(float).sort_values()
    assert "In 1 experiment, single retrieval methods (without rerankers) were compared" in text
    more, fewer = (gaps > 0).sum(), (gaps < 0).sum()
    assert 0 < more < len(gaps) and f"no retrieval (NoRAG) {len(gaps)} times" in text
    assert f"Retrieval solves more tasks in {more} and fewer in {fewer} of them." in text
    assert f"from {points(gaps.iloc[0])} ({gaps.index[0]}; " in text
    assert text.count("<circle") == len(gaps)


def numbered(tables: int, figures: int) -> set[str]:
    """The captions of a paper: its tables and figures are numbered from 1."""
    tables_of = {f"Table {n}" for n in range(1, tables + 1)}
    return tables_of | {f"Figure {n}" for n in range(1, figures + 1)}


# Name of a paper -> the numbers of its captions, read once from its text.
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


def test_every_item_has_a_status_and_a_reason_and_no_other_group():
    assert {item.paper for item in items()} == {
        group for groups in PAPERS.values() for group in groups
    }
    for item in items():
        assert item.status in STATUSES and item.why and item.about, item
        assert bool(item.notebook) == (item.status in MEASURED), item


@pytest.mark.parametrize("item", [i for i in items() if i.notebook], ids=str)
def test_the_notebook_table_or_figure_of_an_item_is_there(item):
    assert (NOTEBOOKS / f"{item.notebook}.ipynb").exists()
    found = []
    for path in sorted((ROOT / "results" / "tables").glob("*.json")):
        stored = json.loads(path.read_text("utf8"))
        section = isinstance(stored, dict) and "provenance" in stored and "parts" in stored
        if not section or not path.stem.endswith(item.notebook):
            continue
        if item.benchmark in ("", stored["provenance"].get("benchmark")):
            found += [name for name, _ in [*stored["parts"], *stored["figures"]]]
    assert found and (not item.place or item.place in found)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_documentation_of_a_paper_says_the_same(paper):
    page = {"PKG, first version": "pkg_first"}.get(paper, paper.lower())
    assert coverage(paper) in (ROOT / "docs" / f"paper_{page}.md").read_text("utf8")


def test_every_table_and_figure_of_the_papers_is_one_click_from_the_first_page_at_a_place_that_is_made(
    site,
):
    text = site.read_text("utf8")
    assert broken(site) == [] and "waits_for" not in text
    for item in items():
        about = item.about.replace(chr(39), "&#39;")
        if not item.notebook:
            why = item.why.replace(chr(39), "&#39;")
            assert f"{item.item}: {about} ({item.status}: {why})" in text, item
            continue
        assert f">{item.item}</a>: {about}" in text or f"{item.item}: {about}:" in text, item
        code = (NOTEBOOKS / f"{item.notebook}.ipynb").read_text("utf8")
        assert not item.place or f'\\"{item.place}\\"' in code or f'.{item.place}\\"' in code, item


def test_the_first_page_names_its_models_methods_and_corpora_and_shortens_links(site):
    text = site.read_text("utf8")
    for name in ("NoRAG", "Func-PKG", "Ideal Reranker"):
        assert f"<dt>{name}</dt>" in text
    assert "<dt>Corpus authors&#39; contexts</dt>" in text
    assert "Models run here: qwen2.5-coder-0.5b-instruct, qwen2.5-coder-1.5b-instruct." in text
    assert 'aria-label="Figure 3, qwen2.5-coder-1.5b-instruct">1.5B</a>' in text


def test_models_of_one_size_keep_their_names():
    names = ["a-7b", "b-7B-instruct", "c-0.5b", "endpoint:mine", "x2b-model"]
    short = ["a-7b", "b-7B-instruct", "0.5B", "endpoint:mine", "x2b-model"]
    assert short_models(names) == dict(zip(names, short, strict=True))


def test_the_corpus_published_is_called_the_authors_contexts(tmp_path):
    (page,) = pages([section("m-7b", "humaneval", "published")])
    assert (page.label, page.title) == (
        "authors' contexts",
        "m-7b, HumanEval (164 tasks), the authors' contexts",
    )
    heading = "Cost: m-7b, HumanEval (164 tasks), corpus published"  # as stored before
    about = page.sections[0].provenance
    assert Section("m.humaneval.published.cost", heading, {}, [], {}, about).short == "Cost"


def test_a_part_names_the_subjects_of_the_papers_tables_and_its_caption_is_not_repeated(tmp_path):
    tables = {"Table 2": "Table 2: methods", "Other": "Another title"}
    parts = {
        part: ResultTable.of(title, {"a": ["1"]}, ["n"], "row").html()
        for part, title in tables.items()
    }
    report.save_section(tmp_path, Section("evor", "EVOR", parts, [], {}, {}))
    text = (report.build_report(tmp_path).parent / "site" / "evor.html").read_text("utf8")
    assert text.count(">Table 2: methods</h2>") == 1
    assert "<caption hidden><span>Table 2: methods</span>" in text
    assert "<caption><span>Another title</span>" in text and ">Other</h2>" in text


def test_a_page_says_which_version_made_it_and_leads_to_the_documentation(results, tmp_path):
    page = built(results)[1]
    assert f"pkg-lib {__version__}" in page.read_text("utf8")
    assert "documentation</a>" not in page.read_text("utf8")
    checkout = tmp_path / "checkout"
    for name in ("pkg_lib/__init__.py", "README.md", "docs/index.md", "results/README.md"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("")
    shutil.copytree(results / "tables", checkout / "results" / "tables")
    first = report.build_report(checkout / "results")
    assert 'href="../docs/index.md">documentation</a>' in first.read_text("utf8")
    assert [broken(p) for p in (first, first.parent / "site" / page.name)] == [[], []]


def test_an_item_of_an_experiment_that_is_not_there_says_what_it_waits_for(site, tmp_path):
    shutil.copytree(
        site.parent / "tables", tmp_path / "tables", ignore=shutil.ignore_patterns("*rq2_text_pkg*")
    )
    index = report.build_report(tmp_path)
    assert "(notebook rq2_text_pkg on HumanEval)" in index.read_text("utf8")
    assert broken(index) == []


def test_an_item_leads_to_the_place_of_each_model_that_is_labelled_with_it(site):
    places = re.findall(
        r'<a href="(site/[^"]*)" aria-label="Figure 3, ([^"]*)"', site.read_text("utf8")
    )
    models = ["qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"]
    assert [model for _, model in places] == models
    for reference, model in places:
        assert slug_of(model) in reference and reference.endswith("radar")


def slug_of(model):
    return model.replace(".", "_")


def test_a_page_begins_with_a_lead_and_its_figures_and_folds_further_findings(results):
    path = results / "tables" / f"{STEM}.json"
    more = [f"Finding {n}." for n in range(5)]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"findings": more}))
    text = built(results)[1].read_text("utf8")
    lead = re.search('<p class="lead">(.*?)</p>', text)[1]
    assert 0 < len(SENTENCE_END.split(lead)) <= LEAD_SENTENCES and more[0] in lead
    order = [text.index(part) for part in ('class="lead"', "<figure", "<table", more[1])]
    assert order == sorted(order)
    folded = [
        re.sub("<[^>]*>", " ", part) for part in re.findall("<details.*?</details>", text, re.S)
    ]
    assert all(any(finding in part for part in folded) for finding in more[1:])


def test_a_caption_folds_its_values_and_no_sentence(results):
    path = results / "tables" / f"{STEM}.json"
    section = json.loads(path.read_text())
    values = "Rates: " + ", ".join(f"method {n} {n} %" for n in range(20))
    sentences = "A change of the prompt. Wording: the words before a context. " * 3
    for caption, folded in ((values, 1), (sentences, 0)):
        figures = {name: caption for name, _ in section["figures"]}
        path.write_text(json.dumps(section | {"figures": list(figures.items())}))
        text = built(results)[1].read_text("utf8")
        captions = re.findall("<figcaption>(.*?)</figcaption>", text, re.S)
        assert captions and all(c.count("<details>") == folded for c in captions)


def test_the_leaderboard_explains_the_methods_and_variants_that_it_has(site):
    text = (site.parent / "site" / "leaderboard.html").read_text("utf8")
    explained = set(re.findall("<dt>(.*?)</dt>", text))
    assert {"NoRAG", "EVOR", "…, swapped", "…, codellama prompt"} <= explained
    assert "…, no delimiters" not in explained  # no row has it


def test_every_notebook_that_adds_a_section_has_a_lead(site):
    for page in site.parent.glob("site/*.html"):
        leads = re.findall('<p class="lead">(.*?)</p>', page.read_text("utf8"))
        assert leads, page
        assert all(0 < len(SENTENCE_END.split(lead)) <= LEAD_SENTENCES for lead in leads), page


def test_a_section_of_a_single_notebook_has_a_page_of_its_name():
    about = {"model": "m", "benchmark": "humaneval", "corpus": "stdlib", "tasks": 20}
    (page,) = pages([Section("quickstart", "Quickstart", {}, [], {}, about)])
    assert (page.name, page.group) == ("quickstart", ACROSS)


def test_a_study_of_ones_own_names_no_paper_of_which_nothing_is_measured(tmp_path):
    about = {"model": "mine", "benchmark": "humaneval", "corpus": "stdlib", "tasks": 20}
    rates = {"NoRAG": ("50.0", ""), "BM25": ("\N{EN DASH}", "")}
    section = Section("mine.humaneval.stdlib.rq1_code_pkg", "mine", {}, [], {}, about, rates)
    report.save_section(tmp_path, section)
    text = report.build_report(tmp_path).read_text("utf8")
    assert ">NoRAG</th>" in text and ">BM25</th>" not in text  # BM25 was not run
    assert "not measured</summary>" not in text
    assert 'aria-label="Table 1, mine"' in text
    assert not any(paper in text for paper in ("cAST", "DKB", "EVOR"))


def test_a_users_method_is_next_to_no_retrieval(monkeypatch, tmp_path):
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
    assert len(sizes) > 100 and max(sizes) < 300_000
