"""The commands of a new user's first hour, typed in a fresh checkout: exit code, lines, and nothing left for
git."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from pkg_lib.data.benchmarks import load_benchmark

MODEL = "qwen2.5-coder-0.5b-instruct"
LARGE = "--dry-run --model codellama-7b-instruct"
BAR = re.compile(r"\[\d\d:\d\d[<,]")  # of a progress bar
OFFLINE = {"HF_HUB_OFFLINE": "1", "PKG_MBPP_DIR": "", "PKG_PAPER_DIR": ""}


class Typed(NamedTuple):
    """A command, its exit code, the lines that it may write (progress bars not counted), and words among
    them."""

    command: str
    code: int
    out: range
    words: tuple[str, ...] = ()


NONE, ONE = range(1), range(1, 2)
COMMANDS = [
    Typed("--help", 0, range(15, 50), ("repo-tasks", "make-tasks", "lab")),
    Typed("list", 0, range(5, 6), (MODEL, "Block-PKG")),
    Typed("nosuch", 2, NONE, ("No such command 'nosuch'",)),
    Typed("--nosuch", 2, NONE, ("--nosuch",)),
    Typed("repo-tasks nosuch", 2, NONE, ("unknown step 'nosuch'",)),
    Typed("make-tasks /no/such --source a --tests b --output x.jsonl", 2, NONE, ("/no/such",)),
    Typed("lab --version", 0, ONE),
    Typed("--notebook error_types --parameter column=nosuch", 2, ONE, ("unknown column 'nosuch'",)),
    Typed(LARGE, 0, range(10, 80), ("left out: codellama-7b-instruct | mbpp",)),
    Typed(f"{LARGE} --benchmark mbpp", 2, NONE, ("PKG_MBPP_DIR",)),
    Typed(
        f"{LARGE} --tokens-per-second 400 --prices notebooks/prices.csv", 0, range(10, 80), ("US dollars",)
    ),
    Typed(f"show {MODEL} humaneval HumanEval/20", 0, range(2, 3), ("results/shown/",)),
    Typed("replay {folder}/none", 2, range(3, 9), ("nothing of", "could be measured")),
    Typed("replay {folder}/several", 0, range(3, 9), ("pass@1", "pass@2", "100.0")),
    Typed(
        "--notebook error_types --parameter column=Func-PKG --benchmark humaneval",
        0,
        range(20, 60),
        ("python-docs: column Func-PKG is not measured",),
    ),
    Typed("--notebook explore -p query=sort -p corpus=source:{folder}", 0, range(3, 4), ("notebooks/own/",)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A corpus of one file, and samples for `replay`: of unknown tasks alone, and two a task."""
    place = tmp_path_factory.mktemp("folder")
    (place / "a.py").write_text(
        "def sort(items):\n    if not items:\n        return []\n    return sorted(items)\n"
    )
    several = [(t.id, t.solution) for t in load_benchmark("humaneval") for _ in range(2)]
    for name, rows in {"none": [("HumanEval/999", "    pass")], "several": several}.items():
        path = place / name / "humaneval" / "method.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps({"task_id": t, "completion": c}) + "\n" for t, c in rows))
    return place


@pytest.mark.parametrize("typed", COMMANDS, ids=lambda t: t.command)
def test_a_command_does_what_it_says_and_leaves_nothing_for_git(checkout, folder, tmp_path, typed):
    # What is replayed is kept in the results, as an input of the notebooks: that is the user's to commit.
    results = {"PKG_RESULTS": str(tmp_path)} if typed.command.startswith("replay") else {}
    done = checkout.run(*typed.command.format(folder=folder).split(), **OFFLINE, **results)
    about = f"{typed.command}\n{done.stdout}\n{done.stderr}"
    errors = [line for line in done.stderr.splitlines() if line.strip() and not BAR.search(line)]
    assert (done.returncode, len(errors)) == (typed.code, typed.code // 2), about
    assert len(done.stdout.splitlines()) in typed.out, about
    assert all(word in done.stdout + done.stderr for word in typed.words), about
    assert "None None" not in about and "Traceback" not in about
    assert checkout.git("status", "--porcelain") == ""


def test_the_package_runs_from_any_directory_and_by_its_script(checkout, tmp_path):
    for command in ([checkout.python, "-m", "pkg_lib"], [checkout.python.with_name("pkg-lib")]):
        about = {"cwd": tmp_path, "env": checkout.environment(), "capture_output": True, "text": True}
        done = subprocess.run([*command, "list"], **about)
        assert done.returncode == 0 and MODEL in done.stdout, done.stderr


def test_one_model_runs_with_an_empty_results_directory(checkout, tmp_path, committed):
    """Of the stored results only what the model itself wrote is there: no samples to replay, no measured
    speeds or graphs."""
    for stage in ("contexts", "generations", "evaluations"):
        (tmp_path / "mine").mkdir(exist_ok=True)
        os.rename(committed / stage, tmp_path / "mine" / stage)
    command = f"--model {MODEL} --benchmark humaneval --corpus textbook+stdlib --limit 4"
    done = checkout.run(*command.split(), cwd=tmp_path, PKG_RESULTS="mine", **OFFLINE)
    about = done.stdout + done.stderr
    assert done.returncode == 0, about
    assert "rq1_code_pkg | " in about and "claims" not in about and "closed_models" not in about
    assert (tmp_path / "mine" / "index.html").exists() and checkout.git("status", "--porcelain") == ""
