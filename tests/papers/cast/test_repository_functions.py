"""Functions of a package as tasks: found by tracing, chosen by the controls, judged in the sandbox."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.core.types import Outcome, digest
from pkg_lib.data.functions import WINDOW_LINES, RepoTask, as_task, candidates, functions, replaced
from pkg_lib.papers.cast import cast_steps, function_bodies


def test_candidates_have_a_body_of_three_to_thirty_lines(package):
    files = package.files()
    by_name = {f.qualified: f for f in candidates(package, files)}
    assert list(by_name) == [
        "area",
        "unused",
        "Square.size",
        "Square.quiet",
        "broken",
        "miscounted",
    ]
    lines = files["shapes/__init__.py"].split("\n")
    assert lines[by_name["area"].body[0] - 1] == "    if radius < 0:"
    assert lines[by_name["Square.size"].first - 1] == "    @property"
    assert lines[by_name["Square.size"].body[0] - 1] == "        side = self.side * scale"


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
def test_functions_with_lines_of_their_own(text, names):
    assert [f.name for f in functions("m.py", text)] == names


def test_the_prompt_ends_before_the_body_and_the_body_is_replaced_whole(package, functions):
    for task in functions.values():
        text = package.files()[task.path]
        assert text.startswith(task.prompt + task.solution)
        assert replaced(task, text, task.solution) == text
        assert task.query.split("\n") == task.prompt.rstrip("\n").split("\n")[-WINDOW_LINES:]


@given(
    st.lists(
        st.sampled_from(["x = 1", "", "# c", "if x:", "    y = 2", "return x"]),
        min_size=1,
        max_size=12,
    )
)
def test_replacing_a_body_touches_nothing_else(lines):
    before, after = "def f(x):\n", "\n\ndef g():\n    pass\n"
    body = "\n".join(f"    {line}" for line in lines)
    place = {
        "repository": "p",
        "path": "m.py",
        "context_start_lineno": 0,
        "lineno": 1,
        "def_lineno": 0,
    }
    task = RepoTask(
        id="i", benchmark="packages", prompt=before, entry_point="f", solution=body, **place
    )
    assert replaced(task, before + body + after, "    new") == before + "    new" + after


def test_the_prompt_is_cut_at_a_line_but_not_in_the_signature(package):
    text = "# filler\n" * 2000 + "def f(\n    a,\n):\n    b = a\n    c = b\n    return c\n"
    (function,) = functions("m.py", text)
    task = as_task(package, function, text, ())
    assert len(task.prompt) <= 8000 and task.prompt.endswith("def f(\n    a,\n):\n")
    lines = text.split("\n")[task.context_start_lineno : task.lineno]
    assert "".join(f"{line}\n" for line in lines) == task.prompt


def test_tracing_finds_who_calls_what(functions):
    area = ("tests.test_shapes:AreaTests.test_negative", "tests.test_shapes:AreaTests.test_one")
    assert functions["area"].test_names == area and functions["unused"].test_names == ()
    assert functions["size"].test_names == ("tests.test_shapes:TestSquare.test_size",)
    assert functions["quiet"].test_names == ("tests.test_shapes:test_quiet",)


def test_failing_tests_speak_against_the_functions_that_the_error_came_through(package, functions):
    coverage = cast_steps.trace(package, package.files())
    names = ("count", "of_another_library", "skipped", "wrong")
    assert coverage.failing == tuple(f"tests.test_shapes:AreaTests.test_{n}" for n in names)
    assert list(coverage.unusable) == ["tests.test_needs"]
    suspects = {
        f.name
        for f in candidates(package, package.files())
        if (f.path, f.first) in coverage.suspects
    }
    assert suspects == {"broken", "miscounted"}


def test_only_functions_that_their_tests_tell_from_none_are_tasks(package):
    tasks, counts = cast_steps.build(package, 10)
    assert [t.entry_point for t in tasks] == ["size", "area"]  # in the order of their ids
    assert counts["a test that fails here speaks against it"] == 2
    assert counts["modules of tests that cannot be imported here"] == 1
    assert counts["called by no test that passes"] == 1 and counts["tried with the controls"] == 3
    assert [t.id for t in cast_steps.build(package, 1)[0]] == [
        min((t.id for t in tasks), key=digest)
    ]


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
def test_verdicts(package, functions, monkeypatch, body, status, error):
    monkeypatch.setattr(function_bodies, "SECONDS", 1.0)
    job = function_bodies.job_of(functions["area"], package, package.files(), body)
    (outcome,) = cast_steps.run_jobs([job], function_bodies.limits_of(package))
    assert (outcome.status, outcome.error) == (status, error)


def test_a_sample_finds_the_tests_nowhere(package, functions):
    """The tests' text comes after the sample's; before, no module of tests can be imported."""
    task, files = functions["area"], package.files()
    before = function_bodies.job_of(task, package, files, "    pass\n\n\nimport tests.test_shapes")
    (at_import,) = cast_steps.run_jobs([before], function_bodies.limits_of(package))
    assert (at_import.status, at_import.detail.split(":")[0]) == ("failed", "ModuleNotFoundError")
    assert "AreaTests" not in before.solution


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
    by_control = {c: Outcome(s) for c, s in zip(function_bodies.CONTROLS, outcomes, strict=True)}
    assert cast_steps.as_they_must(by_control) is wanted
