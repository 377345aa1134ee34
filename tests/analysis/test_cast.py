"""cast.ipynb's tables and findings on stored runs made by hand."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from pkg_lib.analysis.stats import ControlError
from pkg_lib.analysis.tables import DASH, MINUS
from pkg_lib.core.types import Outcome, UserError
from pkg_lib.papers.cast import cast_findings, cast_tables
from pkg_lib.papers.cast import cast_store as store
from pkg_lib.papers.cast.cast_figures import pass_rates, ranking
from pkg_lib.papers.cast.cast_study import (
    Study,
    mean_difference,
    mean_interval,
    published,
    reference,
    require_columns,
)
from pkg_lib.papers.cast.judging import CONTROLS
from pkg_lib.papers.cast.retrieving import MEAN, OWN

MODEL = "qwen2.5-coder-0.5b-instruct"
IDS = [f"p/m:f{i}" for i in range(8)]
LEAKING = "cast, MiniLM, body in corpus"


def task_row(name):
    return {
        "id": name,
        "package": "p",
        "path": "m.py",
        "qualified": name[-2:],
        "lines": [1, 3],
        "tests": ["t"],
        "prompt_sha256": "",
    }


def judged(results, column, passed, ids=IDS):
    about = {
        "detail": "",
        "finish": "end",
        "body_sha256": "",
        "exact": 0.0,
        "edit": 0.5,
        "identifiers_exact": 0.0,
        "identifiers_f1": 0.25,
    }
    rows = [
        {"task_id": i, "status": "passed" if i in passed else "failed", "error": "", **about} for i in ids
    ]
    store.save_rows(store.outcome_file(results, MODEL, column), rows)


def context_rows(results, column, holding):
    rows = [
        {"task_id": i, "chunks": ["m.py:1-3"], "tokens": 10, "holds_body": i in holding, "prompt_sha256": i}
        for i in IDS
    ]
    path = store.context_file(results, column)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))


@pytest.fixture
def results(tmp_path):
    home = store.home(tmp_path)
    home.mkdir()
    (home / "tasks.jsonl").write_text("".join(json.dumps(task_row(i)) + "\n" for i in IDS))
    (home / "tasks.meta.json").write_text(json.dumps({"packages": {"p": {"version": "1", "tasks": 8}}}))
    for control, wanted in CONTROLS.items():
        store.save_outcomes(
            tmp_path, "controls", control, {i: Outcome("passed" if wanted else "failed") for i in IDS}
        )
    judged(tmp_path, "None", IDS[:2])
    judged(tmp_path, "cast, BM25", IDS[:6])
    judged(tmp_path, "fixed-size, BM25", IDS[:3])
    judged(tmp_path, "cast, MiniLM", IDS[:1], IDS[:4])
    judged(tmp_path, LEAKING, IDS[:4])
    for column in ("cast, BM25", "fixed-size, BM25", LEAKING):
        context_rows(tmp_path, column, IDS[:5] if column == LEAKING else ())
    metrics = dict.fromkeys(("nDCG@5", "nDCG@10", "P@5", "P@10", "R@5", "R@10"), 0.0)
    rows = []
    for chunking, mapping, values in (
        ("fixed-size", OWN, 0.5),
        ("cast", MEAN, 0.75),
        ("cast", OWN, 0.25),
        ("cast 1000", MEAN, 1.0),
    ):
        for number, i in enumerate(IDS):
            value = values + (0.1 if number % 2 and chunking == "fixed-size" else 0)
            about = {
                "task_id": i,
                "package": "p",
                "ranker": "BM25",
                "chunking": chunking,
                "mapping": mapping,
                "chunks": 3,
                "gold": 1,
            }
            rows.append(about | metrics | {"nDCG@5": value})
    pd.DataFrame(rows).to_csv(home / "retrieval.csv", index=False)
    figures = {
        "files": 1,
        "chunks": 4,
        "size_mean": 900.0,
        "lines_p50": 40.0,
        "fill": 0.45,
        "functions": 20,
        "functions_cut": 5,
        "functions_cut_that_fit": 4,
        "bytes_lost": 7,
        "limit": 2000,
    }
    kinds = [
        {"language": "python", "method": m, "mode": "as-published", **figures} for m in ("cast", "fixed-size")
    ]
    kinds[0]["functions_cut"] = 1
    pd.DataFrame(kinds).to_csv(home / "chunk_statistics.csv", index=False)
    return tmp_path


@pytest.fixture
def study(results):
    return Study(results, MODEL)


def cell(grid, row, column):
    return grid.frame.loc[row, column]


def test_table_1_sets_ours_beside_the_published_numbers(study):
    grid = cast_tables.table1(study)
    assert cell(grid, "RepoEval: nDCG@5", ("here, cAST", "BM25")).startswith("75.0 (75.0")
    assert cell(grid, "RepoEval: nDCG@5", ("here, cAST", "MiniLM")) == DASH
    assert cell(grid, "RepoEval: nDCG@5", ("published, cAST", "GIST")) == "75.9"
    assert cell(grid, "RepoEval: nDCG@5", ("published, Fixed-size", "CodeSage")) == "83.0"
    passes = grid.frame.filter(like="Pass@1 (here", axis=0).iloc[0]
    assert passes["here, cAST", "BM25"].startswith("75.0 (") and passes[
        "here, Fixed-size", "BM25"
    ].startswith("37.5 (")
    assert passes["here, cAST", "MiniLM"].endswith("n=4)") and passes["here, Fixed-size", "MiniLM"] == DASH
    assert passes["published, cAST", "BGE"] == "51.7"
    assert cell(grid, "SWE-bench: Claude-3.7-Sonnet Pass@1", ("published, Fixed-size", "BGE")) == "13.7"
    assert cell(grid, "CrossCodeEval, Python: EM (id)", ("published, cAST", "CodeSage")) == "39.9"


def test_every_published_cell_is_there(study):
    """No printed number is lost by a wrong key."""
    for grid in (cast_tables.table1(study), cast_tables.table2(study)):
        theirs = grid.frame[[c for c in grid.frame if c[0].startswith("published")]]
        assert not (theirs == DASH).any().any() and not (theirs == "").any().any()
    five = cast_tables.table5(study).frame
    theirs = five[five.index.str.endswith("(published)")]
    assert sorted(theirs.to_numpy().ravel()) == sorted(reference("table5_retrieval")["value_percent"])
    assert theirs.loc["SWE-bench: BGE-base (published)", ("cAST", "nDCG@5")] == "44.0"
    assert (
        (five[five.index.str.contains("BGE|SWE-bench") & five.index.str.endswith("(here)")] == DASH)
        .all()
        .all()
    )
    assert cell(cast_tables.table5(study), "RepoEval: BM25 (here)", ("cAST", "nDCG@5")).startswith(
        "75.0 (75.0"
    )


def test_tables_2_to_4_show_what_was_measured_and_dashes_elsewhere(study):
    two = cast_tables.table2(study)
    assert (
        cell(two, "nDCG@5", ("here, split-only", "BM25")) == DASH
        and cell(two, "nDCG@5", ("published, split-only", "BGE")) == "53.5"
    )
    four = cast_tables.table4(study)
    assert (
        cell(four, "nDCG@5, BM25 (here)", "1,000").startswith("100.0")
        and cell(four, "nDCG@5, BM25 (here)", "3,000") == DASH
    )
    assert cell(four, "nDCG, BGE (published)", "2,500") == "72.3"
    three = cast_tables.table3(study)
    assert (
        three.frame.iloc[0, 0].startswith("75.0 (")
        and cell(three, "GIST + StarCoder2 (published)", "8,000 tokens") == "58.2"
    )


def test_differences_are_paired_and_carry_the_published_range(study):
    grid = cast_tables.differences(study)
    assert list(grid.frame.loc["nDCG@5, BM25"][:2]) == ["8", "+20.0"]
    assert grid.frame.loc["nDCG@5, BM25"].iloc[-1] == f"{MINUS}0.2 to +3.8"
    assert list(grid.frame.loc["Pass@1, BM25"][:2]) == ["8", "+37.5"]
    assert list(grid.frame.loc["Pass@1, MiniLM"][:4]) == [DASH] * 4


def test_a_mean_is_known_with_its_interval():
    values = pd.Series([0.0, 1.0] * 20)
    found = mean_interval(values)
    assert found.value == 0.5 and found.n == 40 and 0.3 < found.low < 0.4 < 0.6 < found.high < 0.7
    assert mean_interval(pd.Series([], dtype=float)) is None
    shifted = mean_difference(values + 0.25, values)
    assert (shifted.value, shifted.low, shifted.high) == (0.25, 0.25, 0.25)
    assert mean_difference(pd.Series({"a": 1.0, "b": 0.0}), pd.Series({"b": 1.0, "c": 5.0})).value == -1.0


def test_findings_name_the_direction_and_what_decides(study):
    said = cast_findings.findings(study)
    text = " ".join(said)
    assert f"{MODEL} passes 2 of 8 tasks (25.0 %)" in text
    assert "Retrieval with BM25, cAST less fixed-size: nDCG@5 +20.0 points" in text and ": higher" in text
    assert f"on its own chunks {MINUS}30.0 points" in text and ": lower" in text
    assert "1,000 has the highest nDCG@5 (100.0)" in text
    assert "ES, cAST less fixed-size: BM25 0.0 points (0.0 to 0.0): no difference beyond chance, n=8" in text
    assert "held lines of the very body in 5 of 8 tasks" in text
    assert "same prompt in 8 of 8 tasks" in text
    assert "python 5.0 % (fixed-size 25.0 %)" in text


def test_a_wrong_control_stops_every_table(results):
    bad = {i: Outcome("passed" if i == IDS[3] else "failed") for i in IDS}
    store.save_outcomes(results, "controls", "pass", bad)
    with pytest.raises(ControlError, match=r"'pass' is wrong for 1 tasks \(first: p/m:f3\)"):
        Study(results, MODEL)


def test_what_is_missing_is_one_line(results, tmp_path_factory):
    with pytest.raises(UserError, match="unknown model"):
        Study(results, "gpt")
    with pytest.raises(UserError, match="no repository tasks"):
        Study(tmp_path_factory.mktemp("empty"), MODEL)
    with pytest.raises(UserError, match="no verdicts of"):
        require_columns(Study(results, "qwen2.5-coder-1.5b-instruct"))


def test_chunks_and_passes(study):
    chunks = cast_tables.chunks_grid(study).frame
    assert (
        chunks.loc["python: cast", "functions cut %"] == "5.0"
        and chunks.loc["python: fixed-size", "bytes lost"] == "7"
    )
    passes = cast_tables.passes(study).frame
    assert list(passes.loc["cast, BM25", ["n", "to None", "helped", "hurt"]]) == ["8", "+50.0", "4", "0"]
    assert list(passes.loc["None", ["to None", "ES"]]) == [DASH, "50.0"]


def test_figures_are_drawn_from_what_is_there(study):
    assert [t.get_text() for t in ranking(study).axes[0].get_yticklabels()] == [
        "fixed-size",
        "cast",
        "cast 1000",
    ]
    assert len(pass_rates(study).axes[0].patches) == len(study.verdicts.columns)


def test_the_reference_is_the_paper_s():
    frame = reference("table5_retrieval")
    assert (
        published(
            frame,
            "value_percent",
            benchmark="RepoEval",
            retriever="Jina-v2-code",
            chunking="cAST",
            metric="R@10",
        )
        == "94.7"
    )
    assert published(frame, "value_percent", benchmark="RepoEval", retriever="none") == ""
    assert np.isclose(frame["value_percent"].astype(float).max(), 94.7)
