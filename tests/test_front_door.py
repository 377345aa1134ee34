"""The commands of a new user's first hour, typed one by one in a fresh checkout: exit code, lines, and nothing left for git."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from pkg_lib.data.benchmarks import load_benchmark

MODEL = "qwen2.5-coder-0.5b-instruct"
BAR = re.compile(r"\[\d\d:\d\d[<,]")  # of a progress bar
OFFLINE = {"HF_HUB_OFFLINE": "1"}
WITHOUT_DATA = OFFLINE | {"PKG_MBPP_DIR": "", "PKG_PAPER_DIR": ""}


@dataclass(frozen=True)
class Typed:
    """A command, its exit code, the numbers of lines that it may write (progress bars not counted), and words among them."""

    command: str
    code: int
    out: range
    err: range
    words: tuple[str, ...] = ()


NONE, ONE = range(0, 1), range(1, 2)
QUICK = [
    Typed("--help", 0, range(15, 50), NONE, ("repo-tasks", "make-tasks", "lab")),
    Typed("list", 0, range(5, 6), NONE, (MODEL, "Block-PKG")),
    Typed("nosuch", 2, NONE, ONE, ("No such command 'nosuch'",)),
    Typed("--nosuch", 2, NONE, ONE, ("--nosuch",)),
    Typed("repo-tasks nosuch", 2, NONE, ONE, ("unknown step 'nosuch'",)),
    Typed("make-tasks /no/such --source a --tests b --output x.jsonl", 2, NONE, ONE, ("/no/such",)),
    Typed("lab --version", 0, ONE, NONE),
    Typed("--notebook error_types --parameter column=nosuch", 2, ONE, ONE, ("unknown column 'nosuch'",)),
    Typed(
        "--dry-run --model codellama-7b-instruct",
        0,
        range(10, 80),
        NONE,
        ("left out: codellama-7b-instruct | mbpp",),
    ),
    Typed("--dry-run --model codellama-7b-instruct --benchmark mbpp", 2, NONE, ONE, ("PKG_MBPP_DIR",)),
    Typed(
        "--dry-run --model codellama-7b-instruct --tokens-per-second 400 --prices notebooks/prices.csv",
        0,
        range(10, 80),
        NONE,
        ("US dollars",),
    ),
    Typed(f"show {MODEL} humaneval HumanEval/20", 0, range(2, 3), NONE, ("results/shown/",)),
    Typed("replay {samples}/none", 2, range(3, 9), ONE, ("nothing of", "could be measured")),
    Typed("replay {samples}/several", 0, range(3, 9), NONE, ("pass@1", "pass@2", "100.0")),
]
SLOW = [
    Typed(
        "--notebook error_types --parameter column=Func-PKG --benchmark humaneval",
        0,
        range(20, 60),
        NONE,
        ("left out: error_types | " + MODEL + " | humaneval | python-docs: column Func-PKG is not measured",),
    ),
    Typed(
        "--notebook explore -p query=sort -p corpus=source:{corpus}",
        0,
        range(3, 4),
        NONE,
        ("notebooks/own/",),
    ),
]


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> Path:
    """Two directories for `replay`: of unknown tasks alone, and of two samples a task."""
    folder = tmp_path_factory.mktemp("samples")
    for name, rows in {
        "none": [("HumanEval/999", "    pass")],
        "several": [(t.id, text) for t in load_benchmark("humaneval") for text in (t.solution, t.solution)],
    }.items():
        path = folder / name / "humaneval" / "method.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(
            "".join(json.dumps({"task_id": task, "completion": text}) + "\n" for task, text in rows)
        )
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.py").write_text(
        "def sort(items):\n    if not items:\n        return []\n    return sorted(items)\n"
    )
    return folder


def play(checkout, typed: Typed, places: dict[str, Path], results: Path | None = None) -> None:
    own = WITHOUT_DATA | ({"PKG_RESULTS": str(results)} if results else {})
    done = checkout.run(*(word.format(**places) for word in typed.command.split()), **own)
    about = f"{typed.command}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == typed.code, about
    told = [line for line in done.stderr.splitlines() if line.strip() and not BAR.search(line)]
    assert len(done.stdout.splitlines()) in typed.out and len(told) in typed.err, about
    assert all(word in done.stdout + done.stderr for word in typed.words), about
    assert "None None" not in about and "Traceback" not in about
    assert checkout.git("status", "--porcelain") == ""


@pytest.mark.parametrize("typed", QUICK, ids=lambda t: t.command)
def test_a_command_does_what_it_says_and_leaves_nothing_for_git(checkout, samples, corpus, tmp_path, typed):
    # What is replayed is kept in the results, as an input of the notebooks: that is the user's to commit.
    results = tmp_path if typed.command.startswith("replay") else None
    play(checkout, typed, {"samples": samples, "corpus": corpus}, results)


@pytest.mark.slow
@pytest.mark.parametrize("typed", SLOW, ids=lambda t: t.command)
def test_a_query_of_the_users_own_leaves_the_report_alone(checkout, samples, corpus, typed):
    play(checkout, typed, {"samples": samples, "corpus": corpus})


def test_the_package_runs_from_any_directory_and_by_its_script(checkout, tmp_path):
    for command in ([checkout.python, "-m", "pkg_lib"], [checkout.python.with_name("pkg-lib")]):
        done = subprocess.run(
            [*command, "list"], cwd=tmp_path, env=checkout.environment(), capture_output=True, text=True
        )
        assert done.returncode == 0 and MODEL in done.stdout, done.stderr


@pytest.mark.slow
def test_one_model_runs_with_an_empty_results_directory(checkout, tmp_path, committed):
    """Of the stored results only what the model itself wrote is there: no samples to replay, no measured speeds or graphs."""
    results = tmp_path / "mine"
    for stage in ("contexts", "generations", "evaluations"):
        (results / stage).parent.mkdir(exist_ok=True)
        os.rename(committed / stage, results / stage)
    done = checkout.run(
        "--model",
        MODEL,
        "--benchmark",
        "humaneval",
        "--corpus",
        "textbook+stdlib",
        "--limit",
        "4",
        cwd=tmp_path,
        PKG_RESULTS="mine",
        **WITHOUT_DATA,
    )
    about = done.stdout + done.stderr
    assert done.returncode == 0, about
    assert "rq1_code_pkg | " in about and "claims" not in about and "closed_models" not in about
    assert (results / "index.html").exists() and checkout.git("status", "--porcelain") == ""
