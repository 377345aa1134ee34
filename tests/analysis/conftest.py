"""Verdict frames for the tests of tables, figures and report; the committed report."""

import shutil

import numpy as np
import pandas as pd
import pytest
from checks import CODE

from pkg_lib.analysis import report
from pkg_lib.analysis.tables import single
from pkg_lib.core.store import ROOT
from pkg_lib.papers.pkg import task_pages


def make_verdicts(n=40, seed=1, columns=CODE):
    rng = np.random.default_rng(seed)
    base = rng.random(n) < 0.6
    frame = pd.DataFrame(
        {c: np.where(rng.random(n) < 0.15, ~base, base) for c in columns},
        [f"HumanEval/{i}" for i in range(n)],
    )
    frame["NoRAG"] = base
    frame["Ideal Reranker"] = frame[single(columns)].any(axis=1)
    return frame.astype("boolean")


@pytest.fixture
def verdicts():
    return make_verdicts()


@pytest.fixture
def controls(verdicts):
    wanted = {"return None": False, "canonical solution": True}
    return {
        name: pd.Series(value, verdicts.index, dtype="boolean") for name, value in wanted.items()
    }


MODEL = "qwen2.5-coder-0.5b-instruct"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The first page of the committed report, with HumanEval's tasks by one model and without notebooks."""
    results = tmp_path_factory.mktemp("results")
    shutil.copytree(ROOT / "results" / "tables", results / "tables")
    for folder in ("figures", f"runs/humaneval/{MODEL}"):
        (results / folder).parent.mkdir(parents=True, exist_ok=True)
        (results / folder).symlink_to(ROOT / "results" / folder)
    for name in (
        "leaderboard.json",
        "leaderboard.csv",
    ):  # kept, since no run is found behind a link
        shutil.copy(ROOT / "results" / name, results)
    return report.build_report(results, task_pages.build)
