"""report: findings that follow the numbers, and a page without a broken link."""

import base64
import json
from html.parser import HTMLParser
from urllib.parse import unquote

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from pkg_lib.analysis import findings, report
from pkg_lib.analysis.contents import headline, matrix, pages
from pkg_lib.analysis.stats import own_function
from pkg_lib.analysis.tables import CODE, TITLES, table1
from pkg_lib.core.types import Context, UserError

STEM = "m-0_5b.humaneval.textbook-stdlib.rq1_code_pkg"
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
        self.references, self.ids, self.images, self.open = [], [], [], []
        self.feed(page.read_text("utf8"))

    def handle_starttag(self, tag, attrs):
        about = dict(attrs)
        self.references += [about[k] for k in ("href", "src") if k in about]
        self.ids += [about["id"]] if "id" in about else []
        self.images += [about] if tag == "img" else []
        self.open += [tag] if tag not in self.VOID else []

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def broken(page):
    """References of a page that lead to no file, or to no element of it."""
    links, found = Links(page), []
    assert links.open == [] and len(links.ids) == len(set(links.ids))
    for reference in links.references:
        if not reference.startswith("data:"):
            file, _, name = reference.partition("#")
            target = page.parent / unquote(file) if file else page
            there = "//" not in reference and target.is_file()
            if not there or (name and unquote(name) not in Links(target).ids):
                found.append(reference)
    return found


def notebook(*outputs):
    code = new_code_cell("1 + 1", id="b", outputs=list(outputs), execution_count=1)
    return new_notebook(cells=[new_markdown_cell("# Question", id="a"), code])


def picture(alt):
    return new_output(
        "display_data",
        {"image/png": PIXEL, "text/plain": "x"},
        metadata={"image/png": {"width": 480, "alt": alt}},
    )


def save_notebook(results, stem, *outputs):
    path = results / "notebooks" / f"{stem}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook(*outputs), path)
    return path


@pytest.fixture
def results(tmp_path, verdicts, controls):
    table = table1({"m-0.5b": verdicts}, controls, "humaneval", "textbook+stdlib")
    table.save(tmp_path / "tables" / STEM)
    (tmp_path / "figures").mkdir()
    for suffix in ("png", "pdf"):  # what save_figure writes; its own tests look inside
        (tmp_path / "figures" / f"{STEM}.helped_hurt.{suffix}").write_bytes(b"a figure")
    captions = {"helped_hurt": findings.caption_changes(verdicts), "never_drawn": "no such files"}
    parts = {"": table.html(), "Differences": findings.differences_html(verdicts)}
    said = [*findings.findings(verdicts, "humaneval"), "A remark."]
    report.save_section(
        tmp_path, report.Section(STEM, "A model", parts, said, captions, PROVENANCE, table.summary(), [STEM])
    )
    save_notebook(tmp_path, STEM, picture("a chart"))
    return tmp_path


PAGE = "m-0_5b.humaneval.textbook-stdlib"


def test_every_link_of_every_page_leads_to_a_file(results):
    page = report.build_report(results)
    assert page == results / "index.html"
    built = {p.relative_to(results).as_posix(): p for p in results.rglob("*.html")}
    assert {"index.html", f"site/{PAGE}.html", f"notebooks/{STEM}.html"} <= built.keys()
    assert [broken(p) for p in built.values()] == [[]] * len(built)
    assert f"site/{PAGE}.html" in {r.split("#")[0] for r in Links(page).references}
    wanted = {f"../tables/{STEM}.{s}" for s in ("csv", "md", "tex")}
    wanted |= {
        f"../notebooks/{STEM}.html",
        f"../figures/{STEM}.helped_hurt.pdf",
        f"../figures/{STEM}.helped_hurt.png",
    }
    assert wanted <= set(Links(built[f"site/{PAGE}.html"]).references)
    assert "never_drawn" not in built[f"site/{PAGE}.html"].read_text("utf8")


def test_the_link_check_itself_sees_a_missing_file_and_a_missing_element(results):
    report.build_report(results)
    page = results / "site" / f"{PAGE}.html"
    (results / "tables" / f"{STEM}.tex").unlink()
    assert broken(page) == [f"../tables/{STEM}.tex"]
    page.write_text(page.read_text("utf8").replace('id="rq1_code_pkg"', ""))
    assert f"site/{PAGE}.html#rq1_code_pkg" in broken(results / "index.html")
    report.build_report(results)
    assert broken(page) == []


def test_the_pages_need_no_network_and_describe_their_pictures(results):
    report.build_report(results)
    for page in results.rglob("*.html"):
        assert "http://" not in page.read_text("utf8") and "https://" not in page.read_text("utf8")
        assert all(image.get("alt") for image in Links(page).images)


def test_a_page_that_belongs_to_no_section_any_more_goes(results):
    report.build_report(results)
    (results / "site" / "old.html").write_text("old")
    report.build_report(results)
    assert [p.name for p in (results / "site").glob("*.html")] == [f"{PAGE}.html"]


def test_a_picture_that_lies_in_figures_is_linked_and_another_stands_in_the_page(results):
    (results / "figures" / f"{STEM}.chart.png").write_bytes(base64.b64decode(PIXEL))
    save_notebook(results, STEM, picture("a chart"))
    save_notebook(results, "other", picture("a chart"))
    report.build_report(results)
    linked, whole = ((results / "notebooks" / f"{stem}.html").read_text("utf8") for stem in (STEM, "other"))
    assert PIXEL not in linked and f"../figures/{STEM}.chart.png" in linked and 'alt="a chart"' in linked
    assert PIXEL in whole


def test_a_summary_that_is_no_mapping_is_refused(tmp_path):
    with pytest.raises(TypeError, match="x"):
        report.save_section(tmp_path, report.Section("x", "X", {}, [], {}, {}, []))


def test_building_twice_gives_the_same_bytes(results):
    report.build_report(results)
    first = {p: p.read_bytes() for p in results.rglob("*") if p.is_file()}
    for page in [*results.rglob("*.html"), results / "site" / "report.css"]:
        page.unlink()
    report.build_report(results)
    assert {p: p.read_bytes() for p in results.rglob("*") if p.is_file()} == first


def test_section_shows_table_findings_and_provenance(results, verdicts):
    index = report.build_report(results)
    text = (results / "site" / f"{PAGE}.html").read_text("utf8")
    rate = f"{100 * verdicts['BM25'].mean():.1f}"
    assert rate in text and rate in index.read_text("utf8")
    assert "A remark." in text
    assert "DeepSeek-Coder-7B" in text
    assert "&#34;python&#34;: &#34;3.11&#34;" in text


def test_an_empty_results_directory_gives_a_page_that_says_what_to_do(tmp_path):
    page = report.build_report(tmp_path)
    assert "./run_all.sh" in page.read_text("utf8")
    assert broken(page) == []


def test_failed_notebooks_are_named_and_older_results_marked(results):
    error = new_output(
        "error", ename="UserError", evalue="no such model", traceback=["UserError: no such model"]
    )
    save_notebook(results, "other.rq1_code_pkg", error)
    page, section = report.build_report(results), results / "site" / f"{PAGE}.html"
    assert "stopped with an error" not in section.read_text("utf8")
    save_notebook(results, STEM, error)
    for _ in range(2):  # rendered now, and left alone
        report.build_report(results)
        assert "stopped with an error" in section.read_text("utf8")
    assert "notebooks/other.rq1_code_pkg.html" in Links(page).references
    assert broken(page) == []


def test_render_follows_the_notebook_and_leaves_out_progress_bars(tmp_path):
    path = save_notebook(
        tmp_path, "n", new_output("stream", name="stderr", text="100%|####|"), picture("first chart")
    )
    page = report.render_notebook(path)
    assert "first chart" in page.read_text("utf8") and "####" not in page.read_text("utf8")
    before = page.stat().st_mtime_ns
    assert report.render_notebook(path).stat().st_mtime_ns == before
    save_notebook(tmp_path, "n", picture("second chart"))
    assert "second chart" in report.render_notebook(path).read_text("utf8")


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("tables/x.json", "{"),
        ("tables/x.json", '{"stem": 1}'),
        ("notebooks/x.ipynb", "{}"),
        ("notebooks/x.ipynb", '{"cel'),
    ],
)
def test_damaged_files_are_named_in_one_line(tmp_path, place, text):
    path = tmp_path / place
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(UserError, match=path.name) as error:
        report.build_report(tmp_path)
    assert "\n" not in str(error.value)


def test_one_damaged_section_does_not_keep_the_others_from_the_report(results):
    (results / "tables" / "x.json").write_text("{")
    old = json.loads((results / "tables" / f"{STEM}.json").read_text())
    (results / "tables" / "y.json").write_text(
        json.dumps(old | {"stem": "y", "summary": [["1.0", ""]]})
    )  # of an older version
    (results / "notebooks" / "z.ipynb").write_text("{}")
    with pytest.raises(UserError, match=r"x\.json.*y\.json.*z\.ipynb.*index\.html shows the rest"):
        report.build_report(results)
    page = results / "index.html"
    text = page.read_text("utf8")
    assert f"site/{PAGE}.html" in text and all(name in text for name in ("x.json", "y.json", "z.ipynb"))
    assert broken(page) == []


def save(results, model, benchmark, corpus, name="rq1", summary=None, about=None):
    stem = f"{model}.{benchmark}.{corpus}.{name}"
    provenance = about or {"model": model, "benchmark": benchmark, "corpus": corpus, "tasks": 164}
    heading = f"{name}: {model}, {TITLES[benchmark]} (164 tasks), corpus {corpus}"
    rates = {"None": ["50.0", ""]} if summary is None else summary
    report.save_section(results, report.Section(stem, heading, {}, [], {}, provenance, rates))


def test_experiments_have_a_page_each_and_studies_too(tmp_path):
    save(tmp_path, "b", "mbpp", "stdlib")
    save(tmp_path, "b", "humaneval", "stdlib", "errors", {})
    save(tmp_path, "b", "humaneval", "stdlib")
    save(tmp_path, "b", "humaneval", "stdlib", "first5.rq1", {})
    save(
        tmp_path,
        "a",
        "humaneval",
        "stdlib",
        summary={"None": ["1.0", ""], "JSON-PKG": ["2.0 (n=9)", "#AABBCC"]},
    )
    save(tmp_path, "a", "mbpp", "graphs", "build", {}, {"corpus": "stdlib"})
    site = pages([report._section(p) for p in (tmp_path / "tables").glob("*.json")])
    assert [(p.name, p.group, [s.stem for s in p.sections]) for p in site] == [
        ("a.humaneval.stdlib", "HumanEval, a", ["a.humaneval.stdlib.rq1"]),
        ("b.humaneval.stdlib", "HumanEval, b", ["b.humaneval.stdlib.rq1", "b.humaneval.stdlib.errors"]),
        ("b.humaneval.stdlib.first5", "HumanEval, b", ["b.humaneval.stdlib.first5.rq1"]),
        ("b.mbpp.stdlib", "MBPP, b", ["b.mbpp.stdlib.rq1"]),
        ("a.mbpp.graphs.build", "Studies", ["a.mbpp.graphs.build"]),
    ]
    columns, groups = matrix(site)
    assert columns == ["None", "JSON-PKG"]
    assert [(group, [r["page"].label for r in rows]) for group, rows in groups] == [
        ("HumanEval, a", ["stdlib"]),
        ("HumanEval, b", ["stdlib"]),
        ("MBPP, b", ["stdlib"]),
    ]
    assert groups[0][1][0]["cells"] == [("1.0", "", ""), ("2.0", "9", "#AABBCC")]
    assert groups[1][1][0]["cells"] == [("50.0", "", ""), ("", "", "")]


def test_the_headline_counts_and_names_the_ends(tmp_path):
    save(tmp_path, "b", "mbpp", "stdlib")
    (page,) = pages([report._section(p) for p in (tmp_path / "tables").glob("*.json")])
    said = headline([(page, {"BM25": -4.0, "Dense": 1.5, "Func-PKG": -1.0, "Block-PKG": 0.0})])
    assert "1 of 4 retrieval columns in 1 experiments" in said and "2 solve fewer" in said
    assert "\N{MINUS SIGN}4.0 points of pass@1 (BM25; stdlib, MBPP, b)" in said and "+1.5 (Dense;" in said
    assert headline([]) == ""


def test_the_headline_stands_on_the_stored_differences_and_counts_no_choice_among_columns(results, verdicts):
    """Reranked and Ideal choose among the columns: they are no way to retrieve."""
    text = report.build_report(results).read_text("utf8")
    rates = verdicts[[c for c in CODE if c not in ("None", "Reranked", "Ideal")]].mean()
    above = int((rates > verdicts["None"].mean()).sum())
    assert f"{above} of {len(rates)} retrieval columns in 1 experiments" in text
    assert text.count("<circle") == len(rates)


def test_findings_name_a_clear_difference_and_its_direction(verdicts):
    verdicts["None"] = [True] * 20 + [False] * 20
    for name in CODE[1:]:
        verdicts[name] = verdicts["None"]
    verdicts["Func-PKG"] = True
    verdicts["BM25"] = False
    said = findings.findings(verdicts, "humaneval")
    assert said[0].startswith("Without retrieval (None) 20 of 40 tasks are solved: 50.0 %")
    above = next(s for s in said if s.startswith("Above None"))
    below = next(s for s in said if s.startswith("Below None"))
    assert "Func-PKG +50.0 points" in above and "BM25" not in above
    assert "BM25 \N{MINUS SIGN}50.0 points" in below and "Func-PKG" not in below
    assert "Highest of the retrieval columns: Func-PKG (100.0 %); lowest: BM25 (0.0 %)." in said
    assert "Ideal" not in " ".join(s for s in said if "beyond chance" in s)


def test_findings_claim_nothing_from_a_few_changed_tasks(verdicts):
    for name in CODE[1:]:
        verdicts[name] = verdicts["None"]
    verdicts.loc[verdicts.index[:2], "Func-PKG"] = True
    assert not any("beyond chance" in s for s in findings.findings(verdicts, "humaneval"))


def test_findings_without_measurements_say_so(verdicts):
    verdicts[list(CODE[1:])] = pd.NA
    said = findings.findings(verdicts, "humaneval")
    assert len(said) == 2 and said[1] == f"Not measured: {', '.join(CODE[1:])}."
    verdicts["None"] = pd.NA
    assert "nothing to compare" in findings.findings(verdicts, "humaneval")[-1]


def test_findings_compare_columns_on_the_same_tasks(verdicts):
    """A column measured on easy tasks alone must not look best."""
    for name in CODE:
        verdicts[name] = pd.array([True] * 20 + [False] * 20, dtype="boolean")
    verdicts.loc[verdicts.index[20:], "Dense"] = pd.NA
    said = findings.findings(verdicts, "humaneval")
    assert "All measured retrieval columns score 100.0 % on the 20 tasks measured in all of them." in said
    assert any("Reranked scores 100.0 %, 0.0 points against None" in s for s in said)
    assert not any("beyond chance" in s for s in said)


def test_changed_tasks_and_captions_list_ids_and_counts(verdicts):
    verdicts["None"] = [False] * 2 + [True] * 38
    verdicts["BM25"] = [True, False, False] + [True] * 37
    verdicts["Dense"] = pd.NA
    lines = findings.changed_tasks(verdicts).splitlines()
    assert lines[0] == "- **BM25** helped 1: HumanEval/0; hurt 1: HumanEval/2"
    assert lines[1] == "- **Dense**: not measured"
    assert "BM25 1 helped, 1 hurt" in findings.caption_changes(verdicts)
    assert "None 95.0, BM25 95.0, Dense \N{EN DASH}" in findings.caption_rates(verdicts, "humaneval")


def test_own_function_sentence_keeps_unknown_apart_from_zero():
    known = [Context("a", "BM25", None, defines_task=True), Context("b", "BM25", None, defines_task=False)]
    unknown = [Context("a", "Dense", None)]
    assert findings.own_function_sentence(own_function({"BM25": known, "Dense": unknown})).endswith(
        "asked for: BM25 1 of 2."
    )
    assert "not measured" in findings.own_function_sentence(own_function({"Dense": unknown}))


def test_section_files_are_stable_json(results):
    stored = json.loads((results / "tables" / f"{STEM}.json").read_text("utf8"))
    assert (stored["stem"], len(stored["summary"])) == (STEM, len(CODE))
    assert [title for title, _ in stored["parts"]] == ["", "Differences"]
