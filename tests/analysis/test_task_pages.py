"""Task pages: one page per task from stored rows, without texts that may not be copied."""

import pytest
from test_report import Links, broken

from pkg_lib.analysis import report
from pkg_lib.analysis.contents import Section
from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.storage import method_files
from pkg_lib.papers.pkg import task_pages
from pkg_lib.retrieval.methods import RERANKED

MODELS = ("m", "n")
NAMES = {"norag": "NoRAG", "bm25": "BM25", "block_pkg": "Block-PKG", "reranked": RERANKED}
SECRET = "AssertionError | failing: assert secret"


def row(task, solution, status="passed", error="", detail=""):
    about = {"status": status, "error": error, "detail": detail, "sha256": "x"}
    return {"task_id": task, "solution": solution} | about


def save(results, model, benchmark, **columns):
    for column, rows in columns.items():
        files = method_files(results, model, benchmark, "stdlib", NAMES[column])
        write_jsonl(files.selections if column == "reranked" else files.samples, rows)
    about = {"model": model, "benchmark": benchmark, "corpus": "stdlib", "tasks": 2}
    stem = f"{model}.{benchmark}.stdlib.rq1_code_pkg"
    report.save_section(results, Section(stem, model, {}, [], {}, about, {"NoRAG": ("50.0", "")}))


def build(results):
    report.build_report(results, task_pages.build)


@pytest.fixture
def results(tmp_path):
    first = "def f(x):\n    '''Doc.'''\n    y = x\n    z = y\n    return z"
    markup, twice = "</pre><script>bad()</script>", first.replace("return z", "return 2 * z")
    columns = {
        "norag": [
            row("MBPP/1", first),
            row("MBPP/2", markup, "failed", "NameError", "NameError: no f"),
        ],
        "bm25": [row("MBPP/1", twice), row("MBPP/2", "pass", "not_measured")],
        "block_pkg": [
            row("MBPP/1", first),
            row("MBPP/2", "def g(): 1", "failed", "AssertionError", SECRET),
        ],
        "reranked": [{"task_id": "MBPP/1", "chosen": "BM25"}],
    }
    save(tmp_path, "m", "mbpp", **columns)
    other = [
        row("MBPP/1", first),
        row("MBPP/2", "def g(): 1", "failed", "TypeError", "TypeError: x"),
    ]
    save(tmp_path, "n", "mbpp", norag=other)
    kept = {"task_id": "MBPP/1", "source": "stdlib/a.py:1-2", "text": "kept text"}
    contexts = [kept, kept | {"task_id": "MBPP/2", "text": None}]
    write_jsonl(method_files(tmp_path, "m", "mbpp", "stdlib", "BM25").contexts, contexts)
    build(tmp_path)
    return tmp_path


def page(results, number):
    return (results / "site" / "tasks" / "mbpp" / f"mbpp-{number}.html").read_text("utf8")


def test_every_task_has_a_page_that_its_experiments_link_to(results):
    for built in results.rglob("*.html"):
        assert broken(built) == []
    for model in MODELS:
        found = Links(results / "site" / f"{model}.mbpp.stdlib.html").references
        assert {"tasks/mbpp/mbpp-1.html", "tasks/mbpp/mbpp-2.html"} <= set(found)
    index = Links(results / "site" / "tasks" / "mbpp" / "index.html")
    assert {"mbpp-1.html", "mbpp-2.html"} <= set(index.references)
    page = (results / "site" / "tasks" / "mbpp" / "mbpp-1.html").read_text("utf8")
    assert "--corpus stdlib</code>" in page, "the default corpus may have no results"


def test_equal_solutions_appear_once_with_all_their_methods(results):
    text = page(results, 1)
    assert text.count("<pre id=") == 2 and "m: NoRAG, Block-PKG (stdlib) · n: NoRAG" in text
    assert (
        "4 lines as in the first solution" in text
        and text.count("z = y") == 1
        and "return 2 * z" in text
    )
    assert "BM25 ★ passed" in text and "stdlib/a.py:1-2" in text and "kept text" in text
    assert "not copied into results/" in text


def test_verdicts_depend_on_the_executed_program_and_hidden_texts_are_omitted(results):
    text = page(results, 2)
    assert "NoRAG NameError" in text and "NoRAG TypeError" in text and "BM25 –" in text
    # The same solution failed in two ways: it is one, with its first verdict.
    assert text.count("<pre id=") == 2
    assert "secret" not in text and "<script>bad" not in text and "&lt;/pre&gt;" in text
    grid = (results / "site" / "m.mbpp.stdlib.html").read_text("utf8")
    assert "<td class=f>✗</td><td>–</td><td class=f>✗</td>" in grid


def test_page_of_a_published_task_shows_its_text(tmp_path):
    save(tmp_path, "m", "humaneval", norag=[row("HumanEval/10", "def f(): 1")])
    build(tmp_path)
    text = (tmp_path / "site" / "tasks" / "humaneval" / "humaneval-10.html").read_text("utf8")
    assert "make_palindrome" in text and "not copied" not in text


def test_pages_change_only_with_the_stored_rows(results):
    path = results / "site" / "tasks" / "mbpp" / "mbpp-2.html"
    path.write_text("left alone")
    build(results)
    assert path.read_text() == "left alone"
    stored = method_files(results, "n", "mbpp", "", "NoRAG").samples
    write_jsonl(stored, [r | {"error": "IndexError"} for r in read_rows(stored)])
    build(results)
    assert "NoRAG IndexError" in page(results, 2)


def test_reports_a_damaged_file_and_keeps_existing_pages(results):
    method_files(results, "m", "mbpp", "stdlib", "BM25").samples.write_text("{\n")
    with pytest.raises(UserError, match="bm25"):
        build(results)
    assert "NoRAG NameError" in page(results, 2)
    assert broken(results / "index.html") == []
