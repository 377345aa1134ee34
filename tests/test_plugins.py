"""User-supplied plugins: a method, a corpus, a benchmark and a model, each in one file."""

from __future__ import annotations

import json
import os

import commands
import pytest

METHOD = """
from pkg_lib import Context, Method  # the public names that docs/own_method.md uses
from pkg_lib.retrieval.methods import METHODS

class Longest:
    column = "Toy"
    def __init__(self, knowledge):
        self.text = max((d.text for d in knowledge.documents), key=len)
    def retrieve(self, tasks):
        return [Context(t.id, "Toy", self.text, "toy") for t in tasks]

METHODS.register(Method("Toy", Longest, ("code",), "row"))
"""
CORPUS = """
from pkg_lib.core.types import Document
from pkg_lib.data.corpora import CORPORA, CorpusSource

texts = ["def two():\\n    return 2\\n", "def add(a, b):\\n    return a + b\\n"]
CORPORA.register(CorpusSource("toy-corpus", lambda: [Document(f"toy/{i}", t) for i, t in enumerate(texts)], "a file"))
"""
BENCHMARK = """
from pkg_lib.core.types import ProgramTests, Task
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.benchmarks import BENCHMARKS

class Toy(Benchmark):
    name = prompts = "toy-benchmark"
    title = "Toy benchmark"
    home = "a file"
    seconds = 3.0
    def tasks(self):
        heads = {"one": 1, "two": 2}
        return [
            Task(f"Toy/{i}", self.name, f"def {n}():\\n    '''A number.'''\\n", n, ProgramTests(f"assert {n}() == {v}"), f"    return {v}\\n")
            for i, (n, v) in enumerate(heads.items())
        ]
    def program(self, task, solution):
        return task.prompt + solution

BENCHMARKS.register(Toy())
"""
MODEL = """
from pkg_lib.core.models import MODELS, ModelSpec

MODELS.register(ModelSpec("toy-model", {folder!r}, "chat", 0.001))
"""


@pytest.fixture
def plugins(tmp_path, tiny_model):
    """Return the environment variables for the four plugins and an empty results directory."""
    texts = (METHOD, CORPUS, BENCHMARK, MODEL.format(folder=str(tiny_model)))
    paths = []
    for number, text in enumerate(texts):
        path = tmp_path / f"plugin{number}.py"
        path.write_text(text)
        paths.append(path)
    return {
        "PKG_RESULTS": str(tmp_path / "results"),
        "PKG_PLUGINS": os.pathsep.join(map(str, paths)),
        "HF_HUB_OFFLINE": "1",
    }


def call(plugins, *words, code=0) -> str:
    """Run a command, which must exit with a code; return its output and its errors."""
    done = commands.run(*words, **plugins)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


CHOICE = "--model toy-model --benchmark toy-benchmark --corpus toy-corpus".split()


def test_list_doctor_and_dry_run_know_the_names_of_plugins(plugins):
    listed = call(plugins, "list")
    for name in ("toy-model", "toy-benchmark", "toy-corpus", "Toy"):
        assert name in listed
    states = call(plugins, "doctor")
    assert "available, 2 tasks" in states
    assert "available, 2 documents" in states
    assert "toy-model" in states
    planned = call(plugins, *CHOICE, "--dry-run", "--notebook", "rq1_code_pkg")
    assert "toy-model | toy-benchmark | toy-corpus: 2 tasks" in planned
    assert "  Toy                0        2" in planned


@pytest.mark.slow
def test_plugins_appear_in_the_table_and_the_report(plugins, tmp_path):
    options = ("--method", "NoRAG", "--method", "Toy", "--notebook", "rq1_code_pkg")
    assert "4 completions generated" in call(plugins, *CHOICE, *options)
    results = tmp_path / "results"
    (section,) = results.glob("tables/*.rq1_code_pkg.json")
    table = section.with_suffix(".csv").read_text()
    assert "toy-model,Toy," in table
    provenance = json.loads(section.read_text())["provenance"]
    assert provenance["benchmark"] == "toy-benchmark"
    assert provenance["tasks"] == 2
    assert (results / "index.html").exists()
    pages = [path.read_text() for path in results.rglob("*.html")]
    assert any("Toy benchmark" in page for page in pages)


FAULTS = {
    "no tasks": ("heads = {", "heads = {} and {", "has no tasks"),
    "equal ids": ('f"Toy/{i}"', '"Toy/0"', "two tasks 'Toy/0'"),
    "a prompt that is no text": (
        "f\"def {n}():\\n    '''A number.'''\\n\"",
        "5",
        "task 1: prompt must be text",
    ),
    "a test that is no text": (
        'ProgramTests(f"assert {n}() == {v}")',
        "ProgramTests(v)",
        "task 1: test must be text",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_reports_wrong_tasks_of_a_benchmark_in_one_line(plugins, tmp_path, fault):
    right, wrong, message = FAULTS[fault]
    assert BENCHMARK.count(right) == 1
    (tmp_path / "plugin2.py").write_text(BENCHMARK.replace(right, wrong))
    error = call(plugins, *CHOICE, "--method", "NoRAG", "--dry-run", code=2)
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("right", "wrong", "control"),
    [
        ("return {v}", "return -1", "canonical solution"),
        ("assert {n}() == {v}", "assert {n}", "return None"),
    ],
)
def test_wrong_tests_stop_a_run_before_anything_is_generated(
    plugins, tmp_path, right, wrong, control
):
    assert BENCHMARK.count(right) == 1
    (tmp_path / "plugin2.py").write_text(BENCHMARK.replace(right, wrong))
    error = call(plugins, *CHOICE, "--method", "NoRAG", code=2)
    assert f"control row '{control}'" in error
    assert "Toy/0" in error
    assert not list((tmp_path / "results" / "cache").rglob("*.jsonl*"))


def test_reports_a_missing_plugin_in_one_line(plugins, tmp_path):
    plugins["PKG_PLUGINS"] = str(tmp_path / "no.py")
    error = call(plugins, "list", code=2)
    assert error.startswith("error: PKG_PLUGINS names")
    assert error.count("\n") == 1
