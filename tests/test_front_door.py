"""The first commands of a new user in a fresh checkout: exit code, output, and no change that git reports."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from pkg_lib.data.benchmarks import load_benchmark

MODEL = "qwen2.5-coder-0.5b-instruct"
LARGE = "--dry-run --model codellama-7b-instruct"
ERRORS = (
    f"--notebook error_types --parameter method=Func-PKG --model {MODEL} --benchmark humaneval "
    "--corpus textbook+stdlib --corpus python-docs"
)
PROGRESS_BAR = re.compile(r"\[\d\d:\d\d[<,]")
OFFLINE = {"HF_HUB_OFFLINE": "1", "PKG_MBPP_DIR": "", "PKG_PAPER_DIR": ""}


# (command, exit code, maximum number of lines of output, parts of the output).
COMMANDS = [
    ("--help", 0, 50, ("Study:", "cast", "lab")),
    ("cast --help", 0, 20, ("chunk", "make-tasks")),
    ("list", 0, 160, (MODEL, "Block-PKG")),
    ("nosuch", 2, 0, ("No such command 'nosuch'",)),
    ("lab --version", 0, 1, ()),
    ("cast make-tasks /no/such --source a --tests b --output x.jsonl", 2, 0, ("/no/such",)),
    ("--notebook error_types --parameter method=nosuch", 2, 1, ("'nosuch'",)),
    (LARGE, 0, 80, ("left out: codellama-7b-instruct | mbpp",)),
    (f"{LARGE} --benchmark mbpp", 2, 0, ("PKG_MBPP_DIR",)),
    (f"{LARGE} --tokens-per-second 400 --prices notebooks/prices.csv", 0, 80, ("US dollars",)),
    (f"show {MODEL} humaneval HumanEval/20", 0, 80, ("[user]", "results/shown/")),
    ("replay {folder}/none", 2, 9, ("no completion in", "could be judged", "HumanEval/999")),
    ("replay {folder}/several", 0, 9, ("pass@1", "pass@2", "100.0")),
    ("replay {folder}/gpt-4o", 0, 9, ("100.0", "mbpp_results/gpt-4o", "PKG_PAPER_DIR")),
    (ERRORS, 0, 60, ("python-docs: method Func-PKG is not measured",)),
    ("--notebook explore -p query=sort -p corpus=source:{folder}", 0, 4, ("notebooks/own/",)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with a corpus of one file and samples for `replay`.

    The samples belong to an unknown task, to all tasks (two each), and to a closed model.
    """
    place = tmp_path_factory.mktemp("folder")
    code = "def sort(items):\n    if not items:\n        return []\n    return sorted(items)\n"
    (place / "a.py").write_text(code)
    several = [(t.id, t.solution) for t in load_benchmark("humaneval") for _ in range(2)]
    samples = {"none": [("HumanEval/999", "    pass")], "several": several, "gpt-4o": several[:1]}
    for name, rows in samples.items():
        path = place / name / "humaneval" / "method.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(
            "".join(json.dumps({"task_id": t, "completion": c}) + "\n" for t, c in rows)
        )
    return place


@pytest.mark.parametrize(
    ("command", "code", "most", "words"), COMMANDS, ids=[c[0] for c in COMMANDS]
)
def test_a_command_works_as_documented_and_leaves_the_checkout_unchanged(
    checkout, folder, tmp_path, command, code, most, words
):
    # `replay` stores its verdicts in the results, where they are inputs of the notebooks. The user may commit them.
    results = {"PKG_RESULTS": str(tmp_path)} if command.startswith("replay") else {}
    done = checkout.run(*command.format(folder=folder).split(), **OFFLINE, **results)
    about = f"{command}\n{done.stdout}\n{done.stderr}"
    errors = [
        line for line in done.stderr.splitlines() if line.strip() and not PROGRESS_BAR.search(line)
    ]
    assert (done.returncode, len(errors)) == (code, code // 2), about
    assert len(done.stdout.splitlines()) <= most, about
    assert all(word in done.stdout + done.stderr for word in words), about
    assert "None None" not in about and "Traceback" not in about
    assert checkout.git("status", "--porcelain") == ""


def test_the_package_runs_from_any_directory_as_module_and_script(checkout, tmp_path):
    for command in ([checkout.python, "-m", "pkg_lib"], [checkout.python.with_name("pkg-lib")]):
        about = {
            "cwd": tmp_path,
            "env": checkout.environment(),
            "capture_output": True,
            "text": True,
        }
        done = subprocess.run([*command, "list"], **about)
        assert done.returncode == 0 and MODEL in done.stdout, done.stderr


def test_runs_one_model_with_an_empty_results_directory(checkout, tmp_path, committed):
    """The directory contains only the files of the model: no samples to replay, no measured speeds or graphs."""
    experiments = (f"cache/{MODEL}/humaneval", f"runs/humaneval/{MODEL}", "contexts/humaneval")
    for experiment in experiments:
        for corpus in ("none", "textbook+stdlib"):
            mine = tmp_path / "mine" / experiment
            mine.mkdir(parents=True, exist_ok=True)
            (committed / experiment / corpus).rename(mine / corpus)
    command = f"--model {MODEL} --benchmark humaneval --corpus textbook+stdlib --limit 4"
    done = checkout.run(*command.split(), cwd=tmp_path, PKG_RESULTS="mine", **OFFLINE)
    about = done.stdout + done.stderr
    assert done.returncode == 0, about
    assert "rq1_code_pkg | " in about and "claims" not in about and "closed_models" not in about
    assert (tmp_path / "mine" / "index.html").exists() and checkout.git(
        "status", "--porcelain"
    ) == ""
