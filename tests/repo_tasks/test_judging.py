"""Tests that decide: found by tracing, chosen by the controls, run in the sandbox."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Outcome
from pkg_lib.data.functions import as_task, candidates, read_package
from pkg_lib.execution.sandbox import Limits
from pkg_lib.papers.cast import covering, judging
from pkg_lib.papers.cast import task_building as building


@pytest.fixture
def traced(package):
    files = read_package(package)
    return files, covering.trace(package, files)


def tasks_of(package, traced):
    files, coverage = traced
    return {f.name: as_task(package, f, files[f.path], coverage.tests(f)) for f in candidates(package, files)}


def test_tracing_finds_who_calls_what(package, traced):
    tasks = tasks_of(package, traced)
    assert tasks["area"].tests == (
        "tests.test_shapes:AreaTests.test_negative",
        "tests.test_shapes:AreaTests.test_one",
    )
    assert tasks["size"].tests == ("tests.test_shapes:TestSquare.test_size",)
    assert tasks["quiet"].tests == ("tests.test_shapes:test_quiet",)
    assert tasks["unused"].tests == ()


def test_failing_tests_and_unusable_modules_are_told(traced):
    _, coverage = traced
    names = ("count", "of_another_library", "skipped", "wrong")
    assert coverage.failing == tuple(f"tests.test_shapes:AreaTests.test_{n}" for n in names)
    assert (
        list(coverage.unusable) == ["tests.test_needs"] and "pytest" in coverage.unusable["tests.test_needs"]
    )


def test_a_failing_test_speaks_against_what_its_error_came_through_else_against_all_that_it_called(
    package, traced
):
    """Broken here by another version of a library, say: tests of its refusals pass all the same, and would decide nothing."""
    files, coverage = traced
    assert [f.name for f in candidates(package, files) if coverage.speaks_against(f)] == [
        "broken",
        "miscounted",
    ]
    assert tasks_of(package, traced)["broken"].tests == ("tests.test_shapes:AreaTests.test_broken_bad",)


def test_only_functions_that_their_tests_tell_from_none_are_tasks(package):
    built = building.build(package, 10)
    assert [t.function_name for t in built.tasks] == [
        "size",
        "area",
    ]  # by id: shapes/__init__:Square.size, shapes/__init__:area
    assert built.counts["a test that fails here speaks against it"] == 2
    assert built.counts["modules of tests that cannot be imported here"] == 1
    assert built.counts["called by no test that passes"] == 1 and built.counts["tried with the controls"] == 3
    assert all(building.decided(own) for own in built.outcomes.values())
    assert [t.id for t in building.build(package, 1).tasks] == [
        min(built.outcomes, key=lambda i: building.digest(i))
    ]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (
            "    import math\n    if radius < 0:\n        raise ValueError\n    return radius * radius * math.pi",
            "passed",
            "",
        ),
        ("    return 3", "failed", "AssertionError"),
        ("    return undefined", "failed", "NameError"),
        ("    return (", "failed", "SyntaxError"),
        ("  return 1\n    return 2", "failed", "IndentationError"),
        ("    while True: pass", "failed", "Timeout"),
        ("    raise SystemExit(0)", "failed", "Others"),
        ("    import os\n    os._exit(0)", "failed", "Others"),
        ("    import numpy\n    return 3.14159", "failed", "ForbiddenImport"),
        ("    import sys\n    sys._getframe()\n    return 3.14159", "failed", "Suspicious"),
        ("    open('/tmp/x', 'w').close()\n    return 3.14159", "failed", "Others"),
        ("    import socket\n    socket.socket()\n    return 3.14159", "failed", "Others"),
    ],
)
def test_verdicts(package, traced, monkeypatch, body, status, error):
    monkeypatch.setattr(judging, "SECONDS", 1.0)
    files, _ = traced
    (outcome,) = judging.judge(package, files, [(tasks_of(package, traced)["area"], body)])
    assert (outcome.status, outcome.error) == (status, error)


def test_a_sample_finds_neither_the_tests_nor_other_packages_on_the_disk(package, traced, monkeypatch):
    """The tests' text comes after the sample's; before, no module of tests can be imported."""
    files, _ = traced
    task = tasks_of(package, traced)["area"]
    body = "    import importlib\n    importlib.import_module('tests.test_shapes')\n    return 3.14159"
    before = judging.job(task, package, files, "    pass\n\n\nimport tests.test_shapes")
    (at_import,) = judging.run_jobs([before], judging.limits(package))
    assert (at_import.status, at_import.detail.split(":")[0]) == ("failed", "ModuleNotFoundError")
    assert "AreaTests" not in judging.job(task, package, files, body).solution


def test_limits_name_what_the_package_brings(package):
    found = judging.limits(package)
    assert (found.packages, found.brought, found.preload) == ("stdlib", ("shapes", "tests"), ())


def test_the_default_limits_bring_and_preload_nothing():
    """The evaluation of HumanEval and MBPP is as it was."""
    assert (Limits().brought, Limits().preload, Limits().packages) == ((), (), "stdlib+numpy")


@pytest.mark.parametrize(
    ("outcomes", "wanted"),
    [
        (("passed", "failed", "failed"), True),
        (("passed", "passed", "failed"), False),
        (("failed", "failed", "failed"), False),
        (("passed", "not_measured", "failed"), False),
    ],
)
def test_controls_decide(outcomes, wanted):
    own = {c: Outcome(s) for c, s in zip(judging.CONTROLS, outcomes, strict=True)}
    assert building.decided(own) is wanted
