"""Tasks of our own on the EVOR authors' library: their data, documents, verdicts, and a library that is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pkg_lib.core.store import read_rows
from pkg_lib.core.types import BenchmarkMissingError, Task, UserError
from pkg_lib.execution.sandbox import run_jobs
from pkg_lib.papers.evor import new_science
from pkg_lib.papers.evor.execution_feedback import read_feedback
from pkg_lib.papers.evor.scipy_tasks import FILE, LEFT_OUT, PLAIN_SCIPY, ScipyTasks
from pkg_lib.papers.evor.templates import HERE
from pkg_lib.papers.evor.watched_tasks import NOT_CALLED
from tests.benchmarks.fill_scipy_tasks import filled

VARIABLE = new_science.VARIABLE
ALGORITHM = '''\
from scipy.spatial import Voronoi
try:
    open({mark!r}, "w")
except OSError:
    pass


def knn(center, search_scope, k=1, p=2):
    """Find the nearest points.

    In a tree.
    """
    import scipy.spatial as sp

    return sp.cKDTree(search_scope).query(center, k, p=p)


def numeric_integrate(y): return sum(y)


def _hidden():
    pass


class Partition(Voronoi):
    """Regions."""

    def __init__(self, points: list, size: int = 3) -> None:
        super().__init__(points)
        self.size = size

    @property
    def area(self):
        return self.size**2

    @classmethod
    def of(cls, *points):
        return cls(points)

    def __add__(self, other):
        return self
'''


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A directory with a library of three functions and a class."""
    package = tmp_path / "ScipyM" / "newScience"
    (package / "algorithm").mkdir(parents=True)
    (package / "__init__.py").write_text("from .algorithm import algorithm\n")
    (package / "algorithm/__init__.py").write_text("from .algorithm import *")
    text = ALGORITHM.format(mark=str(tmp_path / "imported"))
    (package / "algorithm/algorithm.py").write_text(text)
    monkeypatch.setenv(VARIABLE, str(package.parent))
    return package


@pytest.fixture
def authors_benchmark():
    benchmark = ScipyTasks()
    try:
        benchmark.tasks()
    except BenchmarkMissingError as e:
        pytest.skip(str(e))
    return benchmark


def outcomes(benchmark: ScipyTasks, tasks: list[Task], solution: Callable[[Task], str]):
    jobs = [benchmark.job(task, solution(task)) for task in tasks]
    return list(run_jobs(jobs, benchmark.limits(tasks[0]), workers=1))


# The data file


def test_each_task_has_several_cases_and_a_statement_that_names_no_accepted_function():
    rows = list(read_rows(HERE / FILE))
    assert len(rows) >= 60
    for field in ("id", "statement", "solution"):
        assert len({row[field] for row in rows}) == len(rows)
    for row in rows:
        assert len(row["inputs"]) == len(row["expected"]) >= 3
        assert len(set(row["expected"])) > 1 and "None" not in row["expected"]
        words = row["statement"].split()
        assert not any(api.rpartition(".")[2] in words for api in row["apis"])
        assert not any(api.endswith(LEFT_OUT) for api in row["apis"])
        assert "scipy" not in row["solution"] and "newScience" not in row["scipy_solution"]


def test_expected_values_are_what_plain_scipy_computes(library):
    tasks = {task.id: task for task in ScipyTasks().tasks()}
    for row in read_rows(HERE / FILE):
        computed = filled(row)
        test = tasks[row["id"]].hidden_tests.text
        for given, expected in zip(row["inputs"], computed["expected"], strict=True):
            space = {"called_functions": ["any"], "solve": None}
            exec(test.partition("assert _same")[0], space)
            stored = row["expected"][row["inputs"].index(given)]
            assert space["_same"](eval(expected), eval(stored)), (row["id"], given)


# Reading and documents


def test_documents_are_made_without_importing_the_library(library, tmp_path):
    documents = ScipyTasks().documents()
    assert list(documents) == [
        "ns.algorithm.knn",
        "ns.algorithm.numeric_integrate",
        "ns.algorithm.Partition",
        "ns.algorithm.Partition.area",
        "ns.algorithm.Partition.of",
        "ns.algorithm.Partition.__add__",
    ]
    assert documents["ns.algorithm.knn"] == (
        "ns.algorithm.knn(center, search_scope, k=1, p=2)\n\n"
        "Find the nearest points.\n\nIn a tree.\n\n"
        "Calls scipy.spatial.cKDTree.\n\n"
        "import scipy.spatial as sp\n\nreturn sp.cKDTree(search_scope).query(center, k, p=p)"
    )
    assert documents["ns.algorithm.Partition"] == (
        "ns.algorithm.Partition(points: list, size: int=3) -> None\n\n"
        "Regions.\n\nExtends scipy.spatial.Voronoi.\n\n"
        "super().__init__(points)\nself.size = size"
    )
    assert documents["ns.algorithm.Partition.area"] == (
        "ns.algorithm.Partition.area\n\nreturn self.size**2"
    )
    assert documents["ns.algorithm.Partition.of"].startswith("ns.algorithm.Partition.of(*points)")
    assert not (tmp_path / "imported").exists()


def test_what_does_not_work_with_the_installed_scipy_has_no_document(library):
    (library / "func_operation").mkdir()
    text = "def numeric_integrate(y):\n    return 0\n\n\ndef optimize(f):\n    return 0\n"
    (library / "func_operation/func_operation.py").write_text(text)
    documents = ScipyTasks().documents()
    assert "ns.func_operation.optimize" in documents
    assert "ns.func_operation.numeric_integrate" not in documents


def test_a_library_that_is_missing_is_one_line_that_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    advice = rf"clone github.com/xlang-ai/arks and set {VARIABLE} to .*updated_libraries/ScipyM"
    for use in (ScipyTasks().tasks, ScipyTasks().documents):
        with pytest.raises(BenchmarkMissingError, match=advice) as error:
            use()
        assert "\n" not in str(error.value)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(BenchmarkMissingError, match=r"holds no newScience/__init__\.py: clone"):
        ScipyTasks().tasks()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x = 1\n" * 200_000, "larger than"),
        (b"def broken(:\n", "sparse.py is not Python"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_library_that_cannot_be_read_whole_is_refused(library, content, message):
    (library / "sparse.py").write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        ScipyTasks().tasks()
    assert "\n" not in str(error.value)


# Verdicts


def test_a_solution_passes_only_if_it_calls_the_library_in_the_sandbox(library, tmp_path):
    benchmark = ScipyTasks()
    tasks = [task for task in benchmark.tasks() if task.accepted == ("newScience.algorithm.knn",)]
    verdicts = {}
    for name in benchmark.controls:
        verdicts[name] = outcomes(benchmark, tasks, lambda task, n=name: benchmark.control(task, n))
    assert {o.status for o in verdicts["canonical solution"]} == {"passed"}
    assert {o.status for o in verdicts["return None"]} == {"failed"}
    assert {o.status for o in verdicts[PLAIN_SCIPY]} == {"failed"}
    assert all(NOT_CALLED in o.detail for o in verdicts[PLAIN_SCIPY])
    assert {benchmark.needed(task) for task in tasks} == {frozenset({"ns.algorithm.knn"})}
    assert not (tmp_path / "imported").exists()


def test_methods_of_a_class_can_be_accepted_and_called_through_an_instance(library):
    benchmark = ScipyTasks()
    row = {"id": "own", "signature": "solve(n)", "inputs": ["2", "3"], "expected": ["4", "9"]}
    square = (
        "    points = [[0, 0], [1, 0], [0, 1], [2, 2]]\n    p = ns.algorithm.Partition(points, n)\n"
    )
    solutions = [
        f"{square}    p.of(*points)\n    return p.area\n",
        f"{square}    ns.algorithm.Partition.of(*points)\n    return np.array(p.area)\n",
        f"{square}    p + p\n    return p.area\n",
    ]
    accepted = ["newScience.algorithm.Partition.of"]
    tasks = [benchmark.watched_task(row, "", accepted, solution) for solution in solutions]
    verdicts = outcomes(benchmark, tasks, lambda task: task.solution)
    assert [o.status for o in verdicts] == ["passed", "passed", "failed"]


def test_drafts_and_scripts_import_the_library(library):
    benchmark = ScipyTasks()
    task = benchmark.tasks()[0]
    draft = "    return ns.algorithm.nearest(a, b)\n"
    jobs = [
        benchmark.script_job(task, "from newScience.algorithm import knn\nknn([0.0], [[1.0]])"),
        benchmark.draft_job(task, draft, ("solve(1, 2)",)),
    ]
    works, fails = (read_feedback(o) for o in run_jobs(jobs, benchmark.limits(task), workers=1))
    assert works.ok
    assert fails.error.startswith("AttributeError: module 'newScience.algorithm")
    assert fails.line == draft.strip()


# With the authors' library


@pytest.mark.slow
@pytest.mark.parametrize("name", ScipyTasks.controls)
def test_controls_on_the_authors_library(authors_benchmark, name):
    benchmark = authors_benchmark
    tasks = benchmark.tasks()
    verdicts = outcomes(benchmark, tasks, lambda task: benchmark.control(task, name))
    expected = "passed" if benchmark.controls[name] else "failed"
    wrong = [(t.id, o) for t, o in zip(tasks, verdicts, strict=True) if o.status != expected]
    assert not wrong
    if name == PLAIN_SCIPY:
        assert all(NOT_CALLED in o.detail for o in verdicts)


def test_tasks_need_every_function_of_the_authors_library(authors_benchmark):
    documents = authors_benchmark.documents()
    public = {name for name in documents if name.count(".") == 2}
    assert len(public) == 38
    accepted = set()
    for task in authors_benchmark.tasks():
        assert authors_benchmark.needed(task)
        accepted.update(task.accepted)
    missing = {name for name in public if name.replace("ns.", "newScience.", 1) not in accepted}
    assert not missing
