"""Functions of a package as tasks: found by tracing, selected by the controls, judged in the sandbox."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib import Condition, load_results
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import Outcome, digest
from pkg_lib.data.functions import WINDOW_LINES, RepoTask, as_task, candidates, functions, replaced
from pkg_lib.papers.cast import cast_steps, function_bodies


def test_candidates_have_a_body_of_three_to_thirty_lines(package):
    files = package.files()
    by_name = {function.qualified: function for function in candidates(package, files)}
    assert list(by_name) == [
        "area",
        "unused",
        "Square.size",
        "Square.quiet",
        "broken",
        "miscounted",
    ]
    lines = files["shapes/__init__.py"].split("\n")
    area, size = by_name["area"], by_name["Square.size"]
    assert lines[area.body[0] - 1] == "    if radius < 0:"
    assert lines[size.first - 1] == "    @property"
    assert lines[size.body[0] - 1] == "        side = self.side * scale"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(): return 1\n", []),
        ('def f():\n    """d"""; x = 1\n    return x\n', []),
        ("def f():\n    def g():\n        return 1\n    return g\n", ["f"]),
        ("if 1:\n    async def f():\n        return 1\n", ["f"]),
        ("def f(a=(\n    1,\n)): return a\n", []),
        ("def f(\n    a,\n): return [\n    a,\n]\n", []),
        ("def f():\n    @g\n    def h():\n        return 1\n    return h\n", ["f"]),
        ("def broken(:\n", []),
        ('def f():\n    """d"""\n', []),
    ],
)
def test_finds_functions_whose_body_has_lines_of_its_own(text, names):
    assert [f.name for f in functions("m.py", text)] == names


def test_the_prompt_ends_before_the_body_and_the_whole_body_is_replaced(package, functions):
    for task in functions.values():
        text = package.files()[task.path]
        assert text.startswith(task.prompt + task.solution)
        assert replaced(task, text, task.solution) == text
        prompt_lines = task.prompt.rstrip("\n").split("\n")
        assert task.query.split("\n") == prompt_lines[-WINDOW_LINES:]


@given(
    st.lists(
        st.sampled_from(["x = 1", "", "# c", "if x:", "    y = 2", "return x"]),
        min_size=1,
        max_size=12,
    )
)
def test_replacing_a_body_changes_nothing_else(lines):
    before, after = "def f(x):\n", "\n\ndef g():\n    pass\n"
    body = "\n".join(f"    {line}" for line in lines)
    task = RepoTask(
        id="i",
        benchmark="packages",
        prompt=before,
        entry_point="f",
        solution=body,
        repository="p",
        path="m.py",
        context_start_lineno=0,
        lineno=1,
        def_lineno=0,
    )
    assert replaced(task, before + body + after, "    new") == before + "    new" + after


def test_truncates_the_prompt_at_a_line_but_not_in_the_signature(package):
    signature = "def f(\n    a,\n):\n"
    text = "# filler\n" * 2000 + f"{signature}    b = a\n    c = b\n    return c\n"
    (function,) = functions("m.py", text)
    task = as_task(package, function, text, ())
    assert len(task.prompt) <= 8000
    assert task.prompt.endswith(signature)
    lines = text.split("\n")[task.context_start_lineno : task.lineno]
    assert "".join(f"{line}\n" for line in lines) == task.prompt


def test_tracing_finds_the_tests_that_call_a_function(functions):
    assert functions["area"].test_names == (
        "tests.test_shapes:AreaTests.test_negative",
        "tests.test_shapes:AreaTests.test_one",
    )
    assert functions["unused"].test_names == ()
    assert functions["size"].test_names == ("tests.test_shapes:TestSquare.test_size",)
    assert functions["quiet"].test_names == ("tests.test_shapes:test_quiet",)


def test_failing_tests_make_the_functions_of_their_traceback_suspects(package, functions):
    coverage = cast_steps.trace(package, package.files())
    assert coverage.failing == (
        "tests.test_shapes:AreaTests.test_count",
        "tests.test_shapes:AreaTests.test_of_another_library",
        "tests.test_shapes:AreaTests.test_skipped",
        "tests.test_shapes:AreaTests.test_wrong",
    )
    assert list(coverage.unusable) == ["tests.test_needs"]
    suspects = set()
    for function in candidates(package, package.files()):
        if (function.path, function.first) in coverage.suspects:
            suspects.add(function.name)
    assert suspects == {"broken", "miscounted"}


def test_tasks_are_functions_whose_tests_reject_the_failing_controls(package):
    tasks, counts = cast_steps.build(package, 10)
    assert [task.entry_point for task in tasks] == ["size", "area"]  # in the order of their ids
    assert counts["called by a test that fails here"] == 2
    assert counts["modules of tests that cannot be imported here"] == 1
    assert counts["called by no test that passes"] == 1
    assert counts["tried with the controls"] == 3
    single, _ = cast_steps.build(package, 1)
    first_id = min((task.id for task in tasks), key=digest)
    assert [task.id for task in single] == [first_id]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (
            "    if radius < 0:\n        raise ValueError\n    return radius * radius * math.pi",
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
        ("    open('/usr/x', 'w').close()\n    return 3.14159", "failed", "Others"),
        ("    import socket\n    socket.socket()\n    return 3.14159", "failed", "Others"),
    ],
)
def test_judges_bodies_by_the_tests_of_the_package(
    package, functions, monkeypatch, body, status, error
):
    monkeypatch.setattr(function_bodies, "SECONDS", 1.0)
    job = function_bodies.job_of(functions["area"], package, package.files(), body)
    (outcome,) = cast_steps.run_jobs([job], function_bodies.limits_of(package))
    assert (outcome.status, outcome.error) == (status, error)


def test_a_sample_cannot_import_the_tests(package, functions):
    """The tests' source is sent after the sample's, so that no test module can be imported before."""
    body = "    pass\n\n\nimport tests.test_shapes"
    job = function_bodies.job_of(functions["area"], package, package.files(), body)
    (outcome,) = cast_steps.run_jobs([job], function_bodies.limits_of(package))
    assert outcome.status == "failed"
    assert outcome.detail.split(":")[0] == "ModuleNotFoundError"
    assert "AreaTests" not in job.solution


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("passed", "failed", "failed"), True),
        (("passed", "passed", "failed"), False),
        (("failed", "failed", "failed"), False),
        (("passed", "not_measured", "failed"), False),
    ],
)
def test_a_task_needs_the_expected_outcome_of_every_control(outcomes, expected):
    by_control = {}
    for control, status in zip(function_bodies.CONTROLS, outcomes, strict=True):
        by_control[control] = Outcome(status)
    assert cast_steps.controls_hold(by_control) is expected


def test_provenance_needs_no_tasks(monkeypatch):
    """A report is built without RepoEval, although the limits of a task depend on its package."""
    monkeypatch.delenv("PKG_REPOEVAL_DIR", raising=False)
    condition = Condition("qwen2.5-coder-0.5b-instruct", "repoeval-tests", "repository", "NoRAG")
    stored = load_results(condition, ROOT / "results")
    assert stored.tasks_absent
    assert stored.provenance()["packages"] == ""
    assert stored.provenance()["tasks"] == len(stored.outcomes("NoRAG")) == 106
