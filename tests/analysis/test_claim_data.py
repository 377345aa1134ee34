"""The claims as data: whole, known to the code, true to the published tables.

Also what is made of them: checks of the paper against itself, the ledger, its figure, and models in pairs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from checks import legible

from pkg_lib.analysis.stats import mcnemar
from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import UserError
from pkg_lib.papers.claims import claim_tests, claims
from pkg_lib.papers.claims.claim_figure import LOOK, SHAPES, claim_figure, drawn_claims
from pkg_lib.papers.claims.claim_ledger import in_unit, ledger_findings, ledger_row
from pkg_lib.papers.claims.claim_tests import Measured, StoredRuns
from pkg_lib.papers.claims.claims import NOT_ATTEMPTED, table
from pkg_lib.papers.claims.model_pairs import model_pairs, sign_test
from pkg_lib.papers.claims.paper_checks import CHECKS
from pkg_lib.retrieval.methods import METHODS

CLAIMS = {c.id: c for c in claims.load()}
MODELS = ["qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"]
NUMBERS = ("about", "at most", "at least", "equal", "scale")


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    runs = StoredRuns(MODELS, ["humaneval", "mbpp"], ["published"], results)
    return claim_tests.measure(runs, CLAIMS.values(), CHECKS)


@pytest.fixture(scope="module")
def some(unmeasured):
    """The ledger with made-up measurements of every claim about runs, all verdicts among them."""

    def evidence(c, i, model, corpus):
        effect = 0.1 * (-1) ** (i + corpus)
        more = {
            "low": effect - 0.06,
            "high": effect + 0.06,
            "family": f"{c.id}{model}{corpus}",
            "pair": "p",
        }
        more |= {"n": 100, "effect": effect, "p": 0.001 * (i % 3) * 500, "discordant": 0.3}
        return replace(
            claim_tests.claimed_by(c), subject=model, where=f"x, corpus-{corpus}", **more
        )

    runs = ("paired", "share", "error_shift")
    return claims.judge(
        (
            c,
            [evidence(c, i, m, k) for m in MODELS for k in range(3)]
            if c.test in runs
            else measured,
        )
        for i, (c, measured) in enumerate(unmeasured)
    )


def test_every_claim_is_whole_its_test_is_known_and_its_cells_are_the_papers():
    assert len(CLAIMS) == len(claims.load()) >= 100
    for claim in CLAIMS.values():
        assert claim.version in ("first", "second", "both")
        assert claim.place and claim.says and claim.needs and len(claim.says) < 100
        assert (claim.test in CHECKS) != (claim.test in claim_tests.TESTS), claim.id
        assert claim.test == "unavailable" or claims.allowed(claim.relation, 0.0)
        columns = [
            *claim.methods,
            *(c for k in ("passed", "failed", "among") for c in claim.args.get(k, ())),
        ]
        assert claim.test in CHECKS or set(columns) <= set(METHODS), claim.id
        assert not (
            claim.relation in NUMBERS and math.isnan(claim_tests.claimed_by(claim).target)
        ), claim.id
        for number, row, column, value in claim.cells:
            printed = table(number)[column]
            cell, half = (printed.mean(), 0.05 + 1e-9) if row == "Avg." else (printed[row], 0)
            assert cell == pytest.approx(value, abs=half), (number, row, column)


def test_nothing_is_reproduced_without_a_measurement(unmeasured):
    nothing = claims.judge(unmeasured)
    assert all((a.verdict == NOT_ATTEMPTED) == (a.claim.test in claim_tests.TESTS) for a in nothing)
    assert not any("this study's models" in s for s in ledger_findings(nothing))


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_unknown_names_are_mistakes_of_the_user(tmp_path, wrong):
    names = [MODELS, ["humaneval"], ["textbook"]]
    names[wrong] = ["nosuch"]
    with pytest.raises(UserError, match="unknown"):
        _ = StoredRuns(*names, tmp_path).runs


def test_a_wrong_printed_average_is_seen():
    cells = [
        ("1", "Avg.", "NoRAG", 49.0),
        ("1", "Avg.", "BM25", 35.8),
        ("2", "Avg.", "NoRAG", 45.4),
    ]
    assert list(CHECKS["averages_off"]({"cells": cells}).values()) == [1, 0]


def test_a_row_of_the_ledger_says_what_was_measured_or_what_is_missing(some):
    rows = {a.claim.id: ledger_row(a) for a in some}
    assert {row["verdict"] for row in rows.values()} <= set(claims.OVERALL)
    assert rows["graph-storage"]["here (95 % interval)"].startswith("missing: ")
    assert in_unit(-0.3, "tokens") == "0" and in_unit(math.nan, "tokens") == DASH


@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp"])
def test_figure_is_legible_and_has_a_panel_a_model_and_a_mark_a_measurement(benchmark, some):
    assert legible(claim_figure([], benchmark), 17)
    figure = claim_figure(some, benchmark)
    assert legible(figure, 17) and figure.get_figheight() < 9.7
    assert [a.get_title(loc="left").replace("\n", "") for a in figure.axes] == MODELS
    evidence = [
        e for a in drawn_claims(some, benchmark) for e in a.evidence if e.subject == MODELS[0]
    ]
    marks = [line for line in figure.axes[0].lines if line.get_marker() in SHAPES]
    assert len(marks) == len(evidence)
    assert {m.get_color() for m in marks} == {LOOK[e.verdict][0] for e in evidence}
    assert len({m.get_marker() for m in marks}) == len({e.where for e in evidence})


def run(model, columns, corpus="published"):
    frame = pd.DataFrame({name: pd.array(v, "boolean") for name, v in columns.items()})
    return Measured(model, f"MBPP, {corpus}", frame)


def test_models_are_paired_on_tasks_measured_in_all_four_of_the_same_benchmark_and_corpus():
    a = {
        "NoRAG": [1, 1, 0, 0, 1, 1],
        "Func-PKG": [0, 1, 0, 1, 1, pd.NA],
        "BM25": [1] * 6,
        "Ideal Reranker": [1] * 6,
    }
    b = {"NoRAG": [1, 1, 1, 1, pd.NA, 1], "Func-PKG": [0, 0, 0, 0, 1, 1], "Ideal Reranker": [1] * 6}
    alone = [run("a", a, "textbook"), run("b", b, "stdlib")]
    (pair,) = model_pairs([run("a", a), run("b", b), *alone]).itertuples()
    assert (pair.models, pair.where, pair.column, pair.n) == (
        ("a", "b"),
        "MBPP, published",
        "Func-PKG",
        4,
    )
    assert pair.none == (0.5, 1.0) and pair.gains == (0.0, -1.0)
    assert pair.low <= pair.difference == -1.0 <= pair.high
    # The changes are 0, -1, -1 and -2: of the eight sums of signs two are 4 away from 0.
    assert pair.p == pair.p_corrected == pytest.approx(2 / 8)
    apart = [{"NoRAG": known, "Func-PKG": [0, 1]} for known in ([1, pd.NA], [pd.NA, 1])]
    assert len(model_pairs([run("a", apart[0]), run("b", apart[1])])) == 0


def test_the_sign_test_counts_all_signs_and_with_one_step_alone_is_mcnemars():
    rng = np.random.default_rng(0)
    for size in range(1, 9):
        values = rng.integers(-2, 3, size)
        sums = [abs(int(np.dot(signs, values))) for signs in product((-1, 1), repeat=size)]
        counts = np.array([(values == step).sum() for step in range(-2, 3)])
        assert sign_test(counts) == pytest.approx(np.mean([s >= abs(values.sum()) for s in sums]))
        helped, hurt = map(int, rng.integers(0, 60, 2))
        assert sign_test(np.array([0, hurt, 7, helped, 0])) == pytest.approx(mcnemar(helped, hurt))
