"""Reranking by Equation 11, as printed and as in the authors' code: embedded texts and ties."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from pkg_lib.core.store import write_json
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.reranking import (
    WRONG_CODE,
    CandidateScore,
    choose,
    choose_as_printed,
    cosines,
    embedded_text,
    first_function,
)
from pkg_lib.evaluation.signals import visible_tasks
from pkg_lib.papers.pkg import encoder_limit
from pkg_lib.papers.pkg.encoder_limit import ENCODERS, WHOLE, count_cut, count_rows
from pkg_lib.papers.pkg.reranking_rules import BY_FORMULA, OF_SCRIPT, reranking_rules

REDUCED = [
    ("docstring", 'def f(x):\n    """Add one."""\n    return x + 1', "def f(x):\n    return x + 1"),
    (
        "comment",
        "def f(x):\n    # add one\n    return x + 1  # done",
        "def f(x):\n    return x + 1",
    ),
    ("only a docstring", 'def f(x):\n    """Nothing."""', "def f(x):"),
    (
        "imports and calls are removed",
        "import math\ndef f(x):\n    return x\nprint(f(1))",
        "def f(x):\n    return x",
    ),
    (
        "first of two functions",
        "def g(x):\n    return 0\ndef f(x):\n    return g(x)",
        "def g(x):\n    return 0",
    ),
    (
        "inner function is removed",
        "def f(x):\n    def g(y):\n        return y\n    return g(x)",
        "def f(x):\n    return g(x)",
    ),
    (
        "string inside a branch stays",
        "def f(x):\n    if x:\n        'why'\n        return 1\n    return 0",
        "def f(x):\n    if x:\n        'why'\n        return 1\n    return 0",
    ),
    (
        "inner function alone in a branch is removed",
        "def f(x):\n    if x:\n        def g(y):\n            return y\n    return 0",
        "def f(x):\n    if x:\n    return 0",
    ),
    ("pass stays", "def f(x):\n    pass", "def f(x):\n    pass"),
    ("class", "class A:\n    def f(self):\n        return 1", ""),
    ("not Python", "def f(x:\n", WRONG_CODE),
    ("empty", "", ""),
]


@pytest.mark.parametrize(
    ("code", "expected"), [row[1:] for row in REDUCED], ids=[row[0] for row in REDUCED]
)
def test_reduces_code_to_its_first_function(code, expected):
    assert first_function(code) == expected


def test_takes_the_last_definition_of_the_entry_point():
    head = 'def f(x):\n    """Add one."""\n'
    code = f"{head}\ndef f(x):\n    return x + 1\n"
    assert first_function(code, "f") == "def f(x):\n    return x + 1"


def test_embeds_a_bare_body_as_the_function_that_it_completes():
    head = 'def f(x):\n    """Add one."""\n'
    body = "    return x + 1\n"
    assert embedded_text(body, head + body, "f", runs=True) == "def f(x):\n    return x + 1"


def test_embeds_code_that_does_not_run_as_wrong_code():
    code = "def f(x): return y"
    assert embedded_text(code, code, "f", runs=False) == WRONG_CODE


def test_embeds_code_without_a_function_as_the_empty_text():
    code = "class Solution:\n    def f(self): return 1"
    assert embedded_text(code, "def f(x):\n    'doc'\n" + code, "f", runs=True) == ""


def score(cosine: float, printed: float, parses: bool = True, runs: bool = True) -> CandidateScore:
    return CandidateScore(parses, runs, runs, cosine, printed)


# Description, scores of the candidates, selection of the authors' code, selection as printed.
SELECTIONS = [
    ("nearest by each text", {"A": score(0.2, 0.9), "B": score(0.4, 0.1)}, "B", "A"),
    ("first of equals", {"A": score(0.5, 0.5), "B": score(0.5, 0.5)}, "A", "A"),
    (
        "candidate that does not run",
        {"A": score(0.1, 0.9, runs=False), "B": score(0.2, 0.3)},
        "B",
        "B",
    ),
    (
        "nearer candidate that does not run",
        {"A": score(0.5, 0.9, runs=False), "B": score(0.2, 0.3)},
        "A",
        "B",
    ),
    (
        "no candidate runs",
        {"A": score(0.1, 0.2, runs=False), "B": score(0.1, 0.3, runs=False)},
        "A",
        "B",
    ),
    (
        "only one candidate parses",
        {"A": score(0.1, 0.9, False, False), "B": score(0.1, 0.3, True, False)},
        "A",
        "B",
    ),
    (
        "a tie but for rounding",
        {"A": score(0.914482, 0.4), "B": score(0.914483, 0.400009)},
        "A",
        "A",
    ),
    (
        "more than a tie",
        {"A": score(0.91448, 0.4), "B": score(0.9145, 0.40002)},
        "B",
        "B",
    ),
    ("no candidate", {}, "", ""),
]


@pytest.mark.parametrize(
    ("scores", "authors", "printed"),
    [row[1:] for row in SELECTIONS],
    ids=[row[0] for row in SELECTIONS],
)
def test_selects_a_candidate(scores, authors, printed):
    assert choose(scores) == authors
    assert choose_as_printed(scores) == printed


def test_cosines_compare_the_query_with_both_texts():
    vectors = {"query": (1, 0), "reduced": (0.6, 0.8), "whole": (0, 1)}

    def encode(texts):
        return np.array([vectors[text] for text in texts], dtype="float32")

    assert cosines(encode, [("query", "whole", "reduced")]) == [(0.6, 0.0)]
    assert cosines(encode, []) == []


@pytest.mark.parametrize("name", ["mbpp", "mbpp-signature"])
def test_query_is_the_text_of_the_task_without_additions_of_the_prompt(name):
    if not os.environ.get("PKG_MBPP_DIR"):
        pytest.skip("MBPP is not available")
    rules = BENCHMARKS[name]
    for task in load_benchmark(name, limit=5):
        query = rules.reranking_query(task)
        assert task.prompt.startswith(query + "\n")
        assert "\n" not in query
        assert visible_tasks(rules, [task])[task.id].query == query
    for benchmark in ("humaneval", "mbpp-all-asserts"):
        (task,) = load_benchmark(benchmark, limit=1)
        assert BENCHMARKS[benchmark].reranking_query(task) == task.prompt


class Stored:
    """Results of two tasks whose candidates and scores are known."""

    label = "m | humaneval | textbook"
    results = Path("none")
    candidates: ClassVar[list[str]] = ["NoRAG", "VoyageEmb", "Func-BM25", "Func-PKG", "Block-PKG"]

    def verdicts(self, methods):
        passed = {
            "Reranked": [False, True],
            "Reranked, as printed": [False, True],
            "NoRAG": [True, True],
            "VoyageEmb": [False, True],
        }
        failed = [False, False]
        values = {method: passed.get(method, failed) for method in methods}
        frame = pd.DataFrame(values, index=["a", "b"])
        return frame.astype("boolean")

    def selections(self):
        cosines = {
            "NoRAG": 0.8,
            "VoyageEmb": 0.9,
            "Func-BM25": 0.1,
            "Func-PKG": 0.2,
            "Block-PKG": 0.3,
        }
        scores = {method: {"cosine": cosine} for method, cosine in cosines.items()}
        row = {"chosen": "VoyageEmb", "chosen_as_printed": "VoyageEmb", "candidates": scores}
        return {"a": row, "b": row}


def test_authors_code_reranks_four_of_the_candidates_that_the_paper_names():
    rules = reranking_rules(Stored())
    notes = " ".join(rules.notes)
    for method in ("NoRAG", "Block-PKG", "Func-PKG", "Func-BM25"):
        assert method in notes
    table = rules.frame
    row = table.loc[OF_SCRIPT]
    assert (row["pass@1"], row["tasks with another choice than in the first row"]) == (
        "100.0",
        "2",
    )
    assert (row["helped"], row["hurt"]) == ("1", "0")
    assert table.loc[BY_FORMULA, row.index[2]] == "0"


def test_note_reports_how_many_candidates_the_encoder_truncates(tmp_path, monkeypatch):
    def counted(where, unit, cut, texts=10):  # two tasks with five candidates each
        return {"where": where, "unit": unit, "texts": texts, "cut": dict.fromkeys(ENCODERS, cut)}

    counts = [
        counted(Stored.label, WHOLE, 3),
        counted(Stored.label, encoder_limit.REDUCED, 1),
        counted("another run", WHOLE, 199, 200),
    ]
    (tmp_path / "benchmarks").mkdir()
    write_json(tmp_path / "benchmarks" / "encoder_limit.json", {"counts": counts})
    without = reranking_rules(Stored()).notes
    assert not any("encoder" in note for note in without), "no counts are stored"
    monkeypatch.setattr(Stored, "results", tmp_path)
    *_, note = reranking_rules(Stored()).notes
    assert "30.0 %" in note
    assert "10.0 %" in note
    assert count_rows(tmp_path)[f"another run, {WHOLE}"] == ["200", "199 (99.5%)", "199 (99.5%)"]
    counts[0]["texts"] = 9  # counted before there were more candidates
    write_json(tmp_path / "benchmarks" / "encoder_limit.json", {"counts": counts})
    assert reranking_rules(Stored()).notes == without


@pytest.mark.slow
def test_counts_texts_over_the_limit_of_each_encoder():
    texts = ["short", "word " * 300, "word " * 600, "word " * 600]
    assert list(count_cut(texts).values()) == [3, 2]
    assert list(count_cut([]).values()) == [0, 0]
