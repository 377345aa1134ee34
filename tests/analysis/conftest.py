"""Verdicts and controls for the tests of tables, figures and the report, and the committed report."""

import shutil

import numpy as np
import pandas as pd
import pytest
from checks import CODE

from pkg_lib.analysis import report
from pkg_lib.analysis.tables import single
from pkg_lib.core.store import ROOT
from pkg_lib.papers.pkg import task_pages

MODEL = "qwen2.5-coder-0.5b-instruct"


def make_verdicts(n=40, seed=1, columns=CODE):
    """Make random verdicts in which every method differs from NoRAG on some tasks.

    Args:
        n: Number of tasks.
        seed: Seed of the random numbers.
        columns: Names of the methods.

    Returns:
        Verdicts [task, method].
    """
    rng = np.random.default_rng(seed)
    base = rng.random(n) < 0.6
    verdicts = {}
    for column in columns:
        differs = rng.random(n) < 0.15
        verdicts[column] = np.where(differs, ~base, base)
    tasks = [f"HumanEval/{i}" for i in range(n)]
    frame = pd.DataFrame(verdicts, tasks)
    frame["NoRAG"] = base
    frame["Ideal Reranker"] = frame[single(columns)].any(axis=1)
    return frame.astype("boolean")


@pytest.fixture
def verdicts():
    """Verdicts of all methods for code on 40 tasks."""
    return make_verdicts()


@pytest.fixture
def controls(verdicts):
    """Verdicts of the control rows: one fails every task, the other passes every task."""
    tasks = verdicts.index
    return {
        "return None": pd.Series(False, tasks, dtype="boolean"),
        "canonical solution": pd.Series(True, tasks, dtype="boolean"),
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The first page of the committed report, with the HumanEval tasks of one model.

    The report has no notebooks.
    """
    committed = ROOT / "results"
    results = tmp_path_factory.mktemp("results")
    shutil.copytree(committed / "tables", results / "tables")
    for folder in ("figures", f"runs/humaneval/{MODEL}"):
        link = results / folder
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(committed / folder)
    # The leaderboard is copied because no run is found behind a link.
    for name in ("leaderboard.json", "leaderboard.csv"):
        shutil.copy(committed / name, results)
    return report.build_report(results, task_pages.build)
