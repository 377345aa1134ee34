"""A library under new names: the authors' rule, and the library itself as a program meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.papers.evor import renaming
from pkg_lib.papers.evor.execution_feedback import read_feedback
from pkg_lib.papers.evor.private_eval import WAYS, PrivateEval, whole_program


def judged(rules, task, solution):
    job = rules.job(task, solution)
    return next(run_jobs([job], rules.limits(task))) if isinstance(job, Job) else job


@pytest.mark.parametrize("way", range(3))
def test_controls(private, way):
    make, ways = private
    rules = make(ways[way])
    for task in rules.tasks():
        for name, passes in rules.controls.items():
            outcome = judged(rules, task, rules.control(task, name))
            assert (outcome.status == "passed") == passes, (task.id, name)
            # A program that does not parse would fail whatever the test asks.
            assert outcome.error != "SyntaxError", (task.id, name)


def outcomes(rules, tasks, solution):
    jobs = [rules.job(t, solution(t)) for t in tasks]
    ran = iter(run_jobs([j for j in jobs if isinstance(j, Job)], rules.limits(tasks[0])))
    return {
        t.id: (next(ran) if isinstance(j, Job) else j).status
        for t, j in zip(tasks, jobs, strict=True)
    }


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("PKG_PRIVATE_EVAL_DIR"), reason="the authors' data are not available"
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", ["monkey", "beatnum"])
def test_the_authors_solutions_pass_and_empty_or_public_ones_do_not(library, way):
    rules = PrivateEval(library, way)
    tasks = rules.tasks()
    for name, passes in rules.controls.items():
        found = outcomes(rules, tasks, lambda t, name=name: rules.control(t, name))
        assert {*found.values()} == {"passed" if passes else "failed"}, (name, found)
    assert len(tasks) == {"monkey": 80, "beatnum": 93}[library]


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("PKG_PRIVATE_EVAL_DIR"), reason="the authors' data are not available"
)
@pytest.mark.parametrize("library", ["monkey", "beatnum"])
def test_what_is_left_out_passes_under_no_names(library):
    whys = PrivateEval(library).left_out()
    public = PrivateEval(library, "-public")
    public.about.left_out = []
    tasks = [t for t in public.tasks() if whys.get(t.id, "").startswith("its own")]
    assert {*outcomes(public, tasks, lambda t: t.solution).values()} == {"failed"}
    asserting_nothing = [i for i, why in whys.items() if why == "its test asserts nothing"]
    assert asserting_nothing == {"monkey": ["PandasEval/49"], "beatnum": []}[library]


def test_the_rule_and_the_library_differ_on_names_of_other_things(private):
    make, ways = private
    rule, module = make(ways[0]), make(ways[1])
    function, _ = rule.tasks()
    listed = function.solution.replace(
        "    return", "    columns = []\n    columns.append(name)\n    return"
    )
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
        ("from monkey import *\nassert length(KnowledgeFrame({'a': [1]})) == len([1])", "", ""),
        ("from monkey import *\nDataFrame()", "name 'DataFrame' is not defined", "DataFrame()"),
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
    feedback = read_feedback(
        next(run_jobs([rules.draft_job(task, program, ())], rules.limits(task)))
    )
    assert error in feedback.error and feedback.line == line
    assert feedback.ok == (not error)


def test_a_task_that_cannot_pass_is_left_out(private):
    make, ways = private
    rules = make(ways[0])
    rules.about.left_out = [2]
    assert [t.id for t in rules.tasks()] == ["PandasEval/1"]
    assert rules.left_out() == {
        "PandasEval/2": "its own solution fails with the installed packages"
    }


def test_a_task_whose_test_asserts_nothing_is_left_out(private):
    make, ways = private
    path = Path(os.environ["PKG_PRIVATE_EVAL_DIR"], "monkey.jsonl")
    path.write_text(path.read_text().replace("assert count == 2", "count == 2"))
    rules = make(ways[0])
    assert [t.id for t in rules.tasks()] == ["PandasEval/1"]
    assert rules.left_out() == {"PandasEval/2": "its test asserts nothing"}


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("import monkey as mk\nprint(mk.KnowledgeFrame({'a': [1]}), repr(mk.Collections([1])))", ""),
        ("import numpy\nprint(numpy.zeros(2))", ""),
        ("import monkey as mk\nmk.knowledge.frames", "module 'monkey' has no attribute 'knowledge'"),
        ("import monkey as mk\nmk.KnowledgeFrame().sip_them()", "'KnowledgeFrame' object has no attribute 'sip_them'"),
        ("import monkey as mk\nmk.KnowledgeFrame.drop", "type object 'KnowledgeFrame' has no attribute 'drop'"),
        ("from monkey import DataFrame", "module 'monkey' has no attribute 'DataFrame'"),
    ],
)  # fmt: skip
def test_what_is_printed_and_what_does_not_exist(private, program, error):
    make, ways = private
    rules = make(ways[0])
    rules.about.names["Series"] = "Collections"
    feedback = read_feedback(
        next(
            run_jobs(
                [rules.draft_job(rules.tasks()[0], program, ())], rules.limits(rules.tasks()[0])
            )
        )
    )
    assert error in feedback.error and feedback.ok == (not error)


def test_documents_have_new_names_in_code_alone(private):
    make, ways = private
    text = make(ways[0]).documents()["monkey.KnowledgeFrame.sip"]
    assert text.startswith("monkey.KnowledgeFrame.sip(") and "Drop specified labels" in text
    assert "kf.sip(" in renaming.session(text) and "df.drop(" not in text


@pytest.mark.parametrize(
    ("prompt", "code", "name", "whole"),
    [
        (
            "import m\ndef f(a):\n",
            "def f(a):\n    return 1",
            "f",
            "import m\ndef f(a):\n    return 1",
        ),
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


NAMES = {"statistics": "figures", "mean": "average", "median": "middle"}
ROWS = [
    {
        "task_id": "Figures/0",
        "prompt": "import {statistics}\n\ndef centre(numbers):\n    # the arithmetic {mean}\n",
        "canonical_solution": ["    return {statistics}.{mean}(numbers)"],
        "entry_point": "centre",
        "test": "def check(candidate):\n    assert candidate([1, 3]) == 2",
        "oracle_docs": [],
    },
    {
        "task_id": "Figures/1",
        "prompt": "import {statistics} as f\nnumbers = [3, 1, 2]\n# the value in the middle\nvalue =",
        "canonical_solution": [" f.{median}(numbers)"],
        "entry_point": "none",
        "test": "def check():\n    assert value == 2",
        "oracle_docs": [],
    },
]


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Two tasks on a library that no source file names: what the directory says is all there is."""
    lines = []
    for row in ROWS:
        prompt, solution = row["prompt"], row["canonical_solution"][0]
        public = {name: name for name in NAMES}
        new = {"prompt": prompt.format(**NAMES), "canonical_solution": [solution.format(**NAMES)]}
        old = {
            "public_prompt": prompt.format(**public),
            "public_solution": [solution.format(**public)],
        }
        lines.append(json.dumps(row | new | old))
    (tmp_path / "figures.jsonl").write_text("\n".join(lines))
    (tmp_path / "figures.names.json").write_text(json.dumps(NAMES))
    monkeypatch.setenv("PKG_PRIVATE_EVAL_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_another_library_of_the_form_works_by_its_directory(directory, way):
    rules = PrivateEval("figures", way)
    for task in rules.tasks():
        for name, passes in rules.controls.items():
            assert (judged(rules, task, rules.control(task, name)).status == "passed") == passes, (
                task.id,
                name,
            )
    assert len(rules.controls) == (2 if way == "-public" else 3)
    assert "statistics" in rules.limits(task).preload
    name = "statistics.mean" if way == "-public" else "figures.average"
    assert rules.documents()[name].startswith(f"{name}(data)")
    assert rules.needed(rules.tasks()[0]) == {name}


def test_a_file_of_the_directory_says_what_names_do_not(directory):
    about = 'documented = ["statistics.NormalDist"]\nleft_out = [1]'
    (directory / "figures.toml").write_text(about)
    rules = PrivateEval("figures")
    assert [t.id for t in rules.tasks()] == ["Figures/0"]
    assert "figures.NormalDist.samples" in rules.documents()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("figures.names.json", None),
        ("figures.names.json", "{"),
        ("figures.names.json", "[1]"),
        ("figures.names.json", '{"absent_library": "figures"}'),
        ("figures.toml", "public ="),
        ("figures.toml", 'documented = ["statistics.Absent"]'),
        ("figures.jsonl", '{"task_id": "Figures/0"}'),
    ],
)
def test_a_broken_file_is_one_line_when_its_benchmark_is_asked_for(directory, file, text):
    (directory / file).write_text(text) if text else (directory / file).unlink()
    with pytest.raises(
        UserError,
        match=rf"{file}.*; mend it, or figures.names.json|figures.jsonl, line 1 is damaged",
    ):
        PrivateEval("figures").tasks()


def test_a_directory_is_registered_without_being_read(directory):
    (directory / "figures.names.json").write_text("{")
    command = [sys.executable, "-m", "pkg_lib", "list"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"beatnum-public", "figures", "figures-module", "figures-public"} <= {
        *done.stdout.split()
    }


def test_what_a_model_may_write_is_named_and_the_rest_goes_on(private):
    make, ways = private
    rules = make(ways[0])
    rules.seconds = 1.0
    task, _ = rules.tasks()
    without_code = [
        rules.solution(task, raw) for raw in ("", "I would not know.", "```python\n```")
    ]
    drafts = ["while True: pass", "raise ValueError('x' * 2**20)", *without_code, task.solution]
    outcomes = run_jobs([rules.draft_job(task, draft, ()) for draft in drafts], rules.limits(task))
    loop, large, *nothing, right = map(read_feedback, outcomes)
    assert loop.error.startswith("Timeout")
    assert large.error.startswith("ValueError: xxx") and len(large.error) < 300
    assert all(not f.ok and "Error" in f.error for f in nothing)
    assert right.ok
    assert {judged(rules, task, s).status for s in without_code} == {"failed"}


def test_documents_are_the_librarys_own_whatever_is_loaded_beside_it():
    import numpy as np
    import scipy.special  # noqa: F401 adds to numpy's docstring

    assert "Array API" in np.sinc.__doc__
    assert "Array API" not in renaming.documents_apart(["numpy"], {})["numpy.sinc"]
