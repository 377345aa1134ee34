"""Test that the official package evalplus gives the stored verdicts on HumanEval+ and MBPP+, task by task.

    python -m venv /tmp/evalplus && /tmp/evalplus/bin/pip install --no-deps evalplus==0.3.1
    PKG_EVALPLUS_PYTHON=/tmp/evalplus/bin/python tests/run.sh tests/execution/test_official_evalplus.py

The package reads inputs and a reference solution, whereas our benchmarks read tests as code. Its `trusted_exec`
computes the expected values. Its `unsafe_execute` runs and compares, with special rules for single tasks. A model
wrote the solutions, so guard and time limit are those of the sandbox. The dependencies of the package are not needed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pkg_lib.data import evalplus, mbpp
from pkg_lib.data.records import read_records
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import MODEL
from pkg_lib.execution.sandbox import Job, Limits, run_jobs

PYTHON = "PKG_EVALPLUS_PYTHON"
MODULES = (
    "config",
    "eval/_special_oracle",
    "eval/utils",
    "gen/util/__init__",
    "data/mbpp",
    "eval/__init__",
)
# Imports of each other, and of packages that these functions do not use.
IMPORTS = re.compile(
    r"^(import (psutil|wget)|from evalplus\S* import (\([^)]*\)|.*))$", re.MULTILINE
)
OWN_GUARD = """
reliability_guard = lambda **_: None
query_maximum_memory_bytes = lambda: None

@contextlib.contextmanager
def time_limit(seconds):
    start = time.process_time()
    yield
    if time.process_time() - start > seconds:
        raise TimeoutException
"""
CALL = """
import json
from types import SimpleNamespace

def official(dataset, problem, solution):
    problem = json.loads(problem)
    inputs, name, special = problem["inputs"], problem["entry_point"], []
    if dataset == "mbpp":
        inputs, special = mbpp_deserialize_inputs(problem["task_id"], inputs), MBPP_OUTPUT_NOT_NONE_TASKS
    reference = problem["prompt"] + problem["canonical_solution"]
    expected, times = trusted_exec(reference, inputs, name, record_time=True, output_not_none=name in special)
    limits = [max(DEFAULT_MIN_TIME_LIMIT, DEFAULT_GT_TIME_LIMIT_FACTOR * t) for t in times]
    status, details, progress = SimpleNamespace(value=_UNKNOWN), [False] * len(inputs), SimpleNamespace(value=0)
    about = (dataset, name, solution, inputs, expected, limits, problem["atol"], True)
    unsafe_execute(*about, status, details, progress)
    assert status.value == _SUCCESS and all(details)
"""
FILES = {"humaneval+": "HumanEvalPlus.jsonl.gz", "mbpp+": "MbppPlus.jsonl.gz"}
# (our verdict, their verdict). The solution of HumanEval/39 is right, but takes some seconds because it divides up to
# the root of 99194853094755497. The package allows 1 s per input, or four times the time of the reference. We allow
# 15 s for all inputs of a task.
EXPLAINED = {"HumanEval/39": ("passed", "failed")}


@pytest.fixture(scope="module")
def source() -> str:
    """Return the source code of the package as one text."""
    python = os.environ.get(PYTHON, sys.executable)
    ask = [python, "-c", "import evalplus; print(evalplus.__path__[0])"]
    found = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
    if not found:
        pytest.skip(
            f"evalplus is not installed; {PYTHON} names the Python of an environment that has it"
        )
    texts = [Path(found, f"{name}.py").read_text() for name in MODULES]
    return IMPORTS.sub("", "\n".join(texts)) + OWN_GUARD + CALL


def problems(benchmark: str) -> dict[str, dict]:
    path = Path(os.environ.get(evalplus.VARIABLE, ""), FILES[benchmark])
    if not (path.is_file() and mbpp.DATA.variable in os.environ):
        pytest.skip(f"{evalplus.VARIABLE} and {mbpp.DATA.variable} do not name the data sets")
    return {
        row["task_id"].replace("Mbpp", "MBPP"): row for row in read_records(path, benchmark, dict)
    }


def verdicts(source: str, benchmark: str, programs: list[tuple[dict, str]]) -> list[str]:
    """Return the verdict of each (problem, program), on the base inputs and, in a new process, on the others."""
    jobs = []
    for problem, program in programs:
        fields = {
            k: problem[k]
            for k in ("task_id", "prompt", "canonical_solution", "entry_point", "atol")
        }
        texts = [
            json.dumps(fields | {"inputs": problem[part]}) for part in ("base_input", "plus_input")
        ]
        calls = tuple(f"official({benchmark[:-1]!r}, {text!r}, {program!r})" for text in texts)
        jobs.append(Job(problem["task_id"], source, calls, seconds=60))
    return [o.status for o in run_jobs(jobs, Limits(memory_mb=4096))]


@pytest.mark.parametrize(("benchmark", "number"), [("humaneval+", 164), ("mbpp+", 196)])
def test_the_official_package_gives_every_verdict_of_a_column(benchmark, number, source, committed):
    known, run = problems(benchmark), Results(MODEL, benchmark)
    solutions = run.solutions("NoRAG")
    Evaluator(run)._judge(run.files("NoRAG").samples, solutions, run.benchmark_spec.job)
    ours = {i: o.status for i, o in run.outcomes("NoRAG").items()}
    programs = [(known[t.id], run.benchmark_spec.program(t, solutions[t.id])) for t in run.tasks]
    theirs = dict(zip(ours, verdicts(source, benchmark, programs), strict=True))
    different = {i: (ours[i], theirs[i]) for i in ours if ours[i] != theirs[i]}
    assert (
        different == {i: pair for i, pair in EXPLAINED.items() if i in ours} and len(ours) == number
    )


@pytest.mark.parametrize("benchmark", FILES)
def test_the_official_package_tells_right_from_wrong_solutions(benchmark, source):
    """The package passes right solutions and fails wrong ones, so the comparison above can fail."""
    some = list(problems(benchmark).values())[:3]
    right = [(p, p["prompt"] + p["canonical_solution"]) for p in some]
    wrong = [(p, f"{program}\n{p['entry_point']} = lambda *_: None") for p, program in right]
    assert verdicts(source, benchmark, right + wrong) == ["passed"] * 3 + ["failed"] * 3
