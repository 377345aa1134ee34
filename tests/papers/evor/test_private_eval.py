"""A library under new names: the authors' rule, and the library itself as a program meets it."""

from __future__ import annotations

import pytest

from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.papers.evor import renaming
from pkg_lib.papers.evor.private_eval import whole_program


def judged(rules, task, solution):
    job = rules.job(task, solution)
    return next(run_jobs([job], rules.limits(task))) if isinstance(job, Job) else job


@pytest.mark.parametrize("way", range(3))
def test_controls(private, way):
    make, ways = private
    rules = make(ways[way])
    for task in rules.tasks():
        for name, passes in rules.controls.items():
            assert (judged(rules, task, rules.control(task, name)).status == "passed") == passes, (
                task.id,
                name,
            )


def test_the_rule_and_the_library_differ_on_names_of_other_things(private):
    make, ways = private
    rule, module = make(ways[0]), make(ways[1])
    function, _ = rule.tasks()
    listed = function.solution.replace("    return", "    columns = []\n    columns.append(name)\n    return")
    assert "append" in judged(rule, function, listed).detail
    assert judged(module, function, listed).status == "passed"


@pytest.mark.parametrize(
    ("program", "error", "line"),
    [
        ("import pandas", "No module named 'pandas'", "import pandas"),
        (
            "import monkey as mk\nkf = mk.DataFrame()",
            "module 'monkey' has no attribute 'DataFrame'",
            "kf = mk.DataFrame()",
        ),
        (
            "import monkey as mk\nmk.KnowledgeFrame().drop(1)",
            "'KnowledgeFrame' object has no attribute 'drop'",
            "mk.KnowledgeFrame().drop(1)",
        ),
        (
            "import monkey as mk\nmk.KnowledgeFrame({'a': [1]}).sip(columns='b')",
            "KeyError",
            "mk.KnowledgeFrame({'a': [1]}).sip(columns='b')",
        ),
        (
            "from monkey import KnowledgeFrame as K\nassert length(K({'a': [1]})) == len([1])\n[].append(2)",
            "",
            "",
        ),
    ],
)
def test_errors_speak_in_new_names(private, program, error, line):
    make, ways = private
    rules = make(ways[0])
    task = rules.tasks()[0]
    feedback = rules.feedback(next(run_jobs([rules.look(task, program, ())], rules.limits(task))))
    assert error in feedback.error and feedback.line == line
    assert feedback.ok == (not error)


def test_a_task_that_cannot_pass_is_left_out(private):
    make, ways = private
    rules = make(ways[0])
    rules.about.left_out = [2]
    assert [t.id for t in rules.tasks()] == ["PandasEval/1"]


def test_documents_have_new_names_in_code_alone(private):
    make, ways = private
    text = make(ways[0]).documents()["monkey.KnowledgeFrame.sip"]
    assert text.startswith("monkey.KnowledgeFrame.sip(") and "Drop specified labels" in text
    assert "kf.sip(" in renaming.session(text) and "df.drop(" not in text


@pytest.mark.parametrize(
    ("prompt", "code", "name", "whole"),
    [
        ("import m\ndef f(a):\n", "def f(a):\n    return 1", "f", "import m\ndef f(a):\n    return 1"),
        (
            "import m\ndef f(a):\n",
            "import m\ndef f(a):\n    return 1",
            "f",
            "import m\ndef f(a):\n    return 1",
        ),
        ("import m\ndef f(a):\n", "    return 1", "f", "import m\ndef f(a):\n    return 1"),
        ("import m\nb =\n", "b = 2", "", "import m\nb = 2"),
        ("import m\nb =\n", " 2", "", "import m\nb = 2"),
        ("import m\nb =\n", "import m\nb = 2", "", "import m\nb = 2"),
        ("import m\n# two\n", "b = 2", "", "import m\n# two\nb = 2"),
    ],
)
def test_what_a_models_code_means(prompt, code, name, whole):
    assert whole_program(prompt, code, name) == whole
