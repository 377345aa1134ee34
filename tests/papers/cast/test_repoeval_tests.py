"""RepoEval executed: tests of a repository that judge RepoEval's functions, and their verdicts."""

import json
import shutil
from dataclasses import replace

import pytest

from pkg_lib.core.store import read_rows, write_text
from pkg_lib.core.types import BenchmarkMissingError, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.functions import DATA, FILE, NamedTests
from pkg_lib.data.packages import is_test_file
from pkg_lib.evaluation.pipeline import run_tests
from pkg_lib.papers.cast import cast_steps, repoeval_tests

NAME = "me_shapes"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def repoeval(functions, shapes, tmp_path, monkeypatch, results):
    """RepoEval with one repository: every function of `shapes`, without tests."""
    data = tmp_path / "data"
    shutil.copytree(shapes, data / "repositories" / NAME)
    lines = []
    for number, task in enumerate(functions.values()):
        nameless = replace(task, repository=NAME, id=f"{NAME}/{number}", hidden_tests=NamedTests())
        lines.append(json.dumps(nameless.record()))
    write_text(data / FILE, "\n".join(lines) + "\n")
    monkeypatch.setenv(DATA.variable, str(data))
    tested = (repoeval_tests.RepositoryWithTests(NAME, "shapes", ()),)
    monkeypatch.setattr(repoeval_tests, "REPOSITORIES", tested)
    monkeypatch.setattr(cast_steps, "TESTED_REPOSITORIES", tested)
    return data


def benchmark():
    return BENCHMARKS[repoeval_tests.NAME]


def test_finds_the_tests_that_judge_a_function_and_executes_them(repoeval, results):
    said = []
    cast_steps.run(results / "repo_tasks", said.append, ["repoeval"])
    tasks = {task.entry_point: task for task in benchmark().tasks()}
    assert set(tasks) == {"size", "area"}
    assert all(task.test_names for task in tasks.values())
    assert said[0].startswith(NAME) and "tasks: 2" in said[0]
    ordered = list(tasks.values())
    right = run_tests(ordered, [task.solution for task in ordered])
    wrong = run_tests(ordered, [task.indent + "return -1" for task in ordered])
    assert [outcome.status for outcome in right] == ["passed", "passed"]
    assert [outcome.status for outcome in wrong] == ["failed", "failed"]
    for control, passes in benchmark().controls.items():
        outcomes = run_tests(ordered, [benchmark().control(task, control) for task in ordered])
        assert all((outcome.status == "passed") == passes for outcome in outcomes)


def test_stores_no_text_of_the_tasks(repoeval, results):
    cast_steps.run(results / "repo_tasks", str, ["repoeval"])
    rows = list(read_rows(results / "repo_tasks" / repoeval_tests.FILE))
    assert rows and all(set(row) == {"id", "tests", "prompt_sha256"} for row in rows)


def test_refuses_tasks_that_have_changed_since(repoeval, results):
    cast_steps.run(results / "repo_tasks", str, ["repoeval"])
    path = repoeval / FILE
    path.write_text(path.read_text().replace("class Square", "class Squared"))
    with pytest.raises(UserError, match="cast prepare repoeval"):
        benchmark().tasks()


def test_says_what_is_missing(repoeval, results, monkeypatch):
    with pytest.raises(BenchmarkMissingError, match="cast prepare repoeval"):
        benchmark().tasks()
    cast_steps.run(results / "repo_tasks", str, ["repoeval"])
    needy = (repoeval_tests.RepositoryWithTests(NAME, "shapes", ("no_such_library",)),)
    monkeypatch.setattr(repoeval_tests, "REPOSITORIES", needy)
    with pytest.raises(BenchmarkMissingError, match="no_such_library"):
        benchmark().tasks()


def test_test_files_are_known_by_their_names():
    assert is_test_file("tests/test_a.py") and is_test_file("tracr/rasp/rasp_test.py")
    assert not is_test_file("tests/__init__.py") and not is_test_file("tracr/tests_common.py")
