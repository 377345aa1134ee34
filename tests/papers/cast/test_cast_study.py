"""What cast.ipynb reads; its tables are compared with the committed ones by the golden test."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from pkg_lib.analysis.stats import ControlError
from pkg_lib.analysis.tables import DASH, MINUS
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError
from pkg_lib.papers.cast import cast_study
from pkg_lib.papers.cast.cast_study import CastRuns

MODEL = "qwen2.5-coder-0.5b-instruct"


@pytest.fixture
def results(tmp_path):
    shutil.copytree(ROOT / "results/repo_tasks", tmp_path / "repo_tasks")
    return tmp_path


def test_what_is_not_stored_is_not_measured(results):
    runs = CastRuns(results, MODEL)
    assert runs.column("split-only, MiniLM").isna().all() and runs.matches("split-only, MiniLM", "edit").empty
    assert runs.matches("cast, MiniLM", "edit", "repoeval").empty
    assert runs.measure("BM25", "cast 1", "nDCG@5").empty
    path = runs.packages.outcome_file(MODEL, "None")
    path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines()[1:]))
    assert CastRuns(results, MODEL).column("None").isna().sum() == 1
    assert cast_study.mean_cell(pd.Series(dtype=float)) == DASH
    assert cast_study.pass_cell(runs.column("split-only, MiniLM")) == DASH
    assert cast_study.difference_cells(None) == [DASH] * 3


def test_a_mean_is_known_with_its_interval():
    values = pd.Series([0.0, 1.0] * 20)
    mean = cast_study.mean_interval(values)
    assert mean.value == 0.5 and mean.n == 40 and 0.3 < mean.low < 0.4 < 0.6 < mean.high < 0.7
    shifted = cast_study.mean_difference(values + 0.25, values)
    assert (shifted.value, shifted.low, shifted.high) == (0.25, 0.25, 0.25)
    one = cast_study.mean_difference(pd.Series({"a": 1.0, "b": 0.0}), pd.Series({"b": 1.0, "c": 5.0}))
    assert cast_study.difference_cells(one)[:2] == ["1", f"{MINUS}100.0"]


def test_a_wrong_control_stops_every_table(results):
    path = results / "repo_tasks/evaluations/controls/pass.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | {"status": "passed"}), *rest]) + "\n")
    with pytest.raises(ControlError, match=r"'pass' is wrong for 1 tasks \(first: "):
        CastRuns(results, MODEL)


def test_a_run_that_is_not_there_is_one_line(results, tmp_path_factory):
    with pytest.raises(UserError, match="unknown model"):
        CastRuns(results, "gpt")
    with pytest.raises(UserError, match="no repository tasks"):
        CastRuns(tmp_path_factory.mktemp("empty"), MODEL)
    with pytest.raises(UserError, match="no verdicts of"):
        CastRuns(results, "qwen2.5-coder-1.5b-instruct")


def test_published_numbers_are_the_paper_s():
    wanted = {"benchmark": "RepoEval", "retriever": "Jina-v2-code", "chunking": "cAST"}
    assert cast_study.published("table5_retrieval", metric="R@10", **wanted) == "94.7"
    assert cast_study.published("table2_split_only", "BGE", metric="nDCG", variant="split-only") == "53.5"
    assert cast_study.published("table5_retrieval", retriever="none") == DASH
