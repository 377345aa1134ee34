"""A column, a corpus, a benchmark and a model of the user's own, each in one file, as a user sees them."""

from __future__ import annotations

import json
import os

import commands
import pytest

COLUMN = """
from pkg_lib import Context, Method  # public names, as docs/own_method.md has them
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
    """The environment of a command that is given the four files, and an empty results directory."""
    texts = (COLUMN, CORPUS, BENCHMARK, MODEL.format(folder=str(tiny_model)))
    paths = [tmp_path / f"plugin{n}.py" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return {
        "PKG_RESULTS": str(tmp_path / "results"),
        "PKG_PLUGINS": os.pathsep.join(map(str, paths)),
        "HF_HUB_OFFLINE": "1",
    }


def call(plugins, *words, code=0) -> str:
    done = commands.run(*words, **plugins)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


CHOICE = "--model toy-model --benchmark toy-benchmark --corpus toy-corpus".split()


def test_a_name_of_a_file_is_known_to_list_doctor_and_dry_run(plugins):
    listed = call(plugins, "list")
    assert all(name in listed for name in ("toy-model", "toy-benchmark", "toy-corpus", "Toy"))
    facts = call(plugins, "doctor")
    assert (
        "available, 2 tasks" in facts and "available, 2 documents" in facts and "toy-model" in facts
    )
    planned = call(plugins, *CHOICE, "--dry-run", "--notebook", "rq1_code_pkg")
    assert "toy-model | toy-benchmark | toy-corpus: 2 tasks" in planned
    assert "  Toy                0        2" in planned


@pytest.mark.slow
def test_files_of_ones_own_reach_the_table_and_the_report(plugins, tmp_path):
    columns = ("--method", "NoRAG", "--method", "Toy", "--notebook", "rq1_code_pkg")
    assert "4 completions generated" in call(plugins, *CHOICE, *columns)
    results = tmp_path / "results"
    (section,) = results.glob("tables/*.rq1_code_pkg.json")
    table = section.with_suffix(".csv").read_text()
    assert "toy-model,Toy," in table
    about = json.loads(section.read_text())
    assert about["provenance"]["benchmark"] == "toy-benchmark" and about["provenance"]["tasks"] == 2
    pages = [p for p in results.rglob("*.html") if "Toy benchmark" in p.read_text()]
    assert (results / "index.html").exists() and pages


def test_a_plugin_that_is_not_there_is_a_mistake_of_one_line(plugins, tmp_path):
    said = call(plugins | {"PKG_PLUGINS": str(tmp_path / "no.py")}, "list", code=2)
    assert said.startswith("error: PKG_PLUGINS names") and said.count("\n") == 1
