"""The claims as data: they are complete, their tests exist, and they agree with the published tables.

Other tests cover checks of the paper against itself, the ledger, its figure, and pairs of models.
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
from pkg_lib.papers.claims.claim_ledger import in_unit, ledger_row, verdicts_by_source
from pkg_lib.papers.claims.claim_tests import Measured, StoredRuns
from pkg_lib.papers.claims.claims import NOT_ATTEMPTED, table
from pkg_lib.papers.claims.model_pairs import model_pairs, sign_test
from pkg_lib.papers.claims.paper_checks import CHECKS
from pkg_lib.retrieval.methods import METHODS

CLAIMS = {claim.id: claim for claim in claims.load()}
MODELS = ["qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"]
NUMBERS = ("about", "at most", "at least", "equal", "scale")


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory):
    """All claims, measured on empty results."""
    results = tmp_path_factory.mktemp("results")
    runs = StoredRuns(MODELS, ["humaneval", "mbpp"], ["published"], results)
    return claim_tests.measure(runs, CLAIMS.values(), CHECKS)


@pytest.fixture(scope="module")
def assessed(unmeasured):
    """All claims, judged by invented measurements of the claims about runs.

    The measurements lead to all verdicts.
    """

    def make_evidence(claim, number, model, corpus):
        effect = 0.1 if (number + corpus) % 2 == 0 else -0.1
        return replace(
            claim_tests.claimed_by(claim),
            subject=model,
            where=f"x, corpus-{corpus}",
            n=100,
            effect=effect,
            low=effect - 0.06,
            high=effect + 0.06,
            p=0.001 * (number % 3) * 500,
            family=f"{claim.id}{model}{corpus}",
            pair="p",
            discordant=0.3,
        )

    measured = []
    for number, (claim, evidence) in enumerate(unmeasured):
        if claim.test in ("paired", "share", "error_shift"):
            pairs = product(MODELS, range(3))
            evidence = [make_evidence(claim, number, model, corpus) for model, corpus in pairs]
        measured.append((claim, evidence))
    return claims.judge(measured)


def test_every_claim_is_complete_and_its_test_exists():
    assert len(CLAIMS) == len(claims.load()) >= 100
    for claim in CLAIMS.values():
        assert claim.version in ("first", "second", "both")
        assert claim.place
        assert claim.says
        assert claim.needs
        assert len(claim.says) < 100
        assert (claim.test in CHECKS) != (claim.test in claim_tests.TESTS), claim.id
        if claim.test != "unavailable":
            assert claims.allowed(claim.relation, 0.0)
        if claim.relation in NUMBERS:
            assert not math.isnan(claim_tests.claimed_by(claim).target), claim.id


def test_claims_name_existing_methods():
    for claim in CLAIMS.values():
        if claim.test in CHECKS:
            continue
        methods = set(claim.methods)
        for argument in ("passed", "failed", "among"):
            methods.update(claim.args.get(argument, ()))
        assert methods <= set(METHODS), claim.id


def test_cells_of_claims_agree_with_the_published_tables():
    for claim in CLAIMS.values():
        for number, row, column, value in claim.cells:
            printed = table(number)[column]
            if row == "Avg.":
                expected = pytest.approx(value, abs=0.05 + 1e-9)
                assert printed.mean() == expected, (number, row, column)
            else:
                assert printed[row] == pytest.approx(value, abs=0), (number, row, column)


def test_nothing_is_reproduced_without_a_measurement(unmeasured):
    ledger = claims.judge(unmeasured)
    for assessed_claim in ledger:
        needs_runs = assessed_claim.claim.test in claim_tests.TESTS
        assert (assessed_claim.verdict == NOT_ATTEMPTED) == needs_runs
    rows = list(verdicts_by_source(ledger).frame.index)
    assert rows == ["the paper's own tables (recomputed)"]


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_rejects_unknown_names(tmp_path, wrong):
    names = [MODELS, ["humaneval"], ["textbook"]]
    names[wrong] = ["nosuch"]
    with pytest.raises(UserError, match="unknown"):
        _ = StoredRuns(*names, tmp_path).runs


def test_detects_a_wrong_printed_average():
    cells = [
        ("1", "Avg.", "NoRAG", 49.0),
        ("1", "Avg.", "BM25", 35.8),
        ("2", "Avg.", "NoRAG", 45.4),
    ]
    deviations = CHECKS["averages_off"]({"cells": cells})
    assert list(deviations.values()) == [1, 0]


def test_row_of_the_ledger_shows_the_measurement_or_what_is_missing(assessed):
    rows = {a.claim.id: ledger_row(a) for a in assessed}
    assert {row["verdict"] for row in rows.values()} <= set(claims.OVERALL)
    assert rows["graph-storage"]["here (95 % interval)"].startswith("missing: ")
    assert in_unit(-0.3, "tokens") == "0"
    assert in_unit(math.nan, "tokens") == DASH


@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp"])
def test_figure_is_legible_and_has_a_panel_per_model_and_a_marker_per_measurement(
    benchmark, assessed
):
    assert legible(claim_figure([], benchmark), 17)
    figure = claim_figure(assessed, benchmark)
    assert legible(figure, 17)
    assert figure.get_figheight() < 9.7
    titles = [axes.get_title(loc="left").replace("\n", "") for axes in figure.axes]
    assert titles == MODELS
    evidence = []
    for drawn in drawn_claims(assessed, benchmark):
        evidence += [e for e in drawn.evidence if e.subject == MODELS[0]]
    markers = [line for line in figure.axes[0].lines if line.get_marker() in SHAPES]
    assert len(markers) == len(evidence)
    colours = {marker.get_color() for marker in markers}
    assert colours == {LOOK[e.verdict][0] for e in evidence}
    shapes = {marker.get_marker() for marker in markers}
    assert len(shapes) == len({e.where for e in evidence})


def make_measured(model, verdicts, corpus="published"):
    """Make the measurement of a model from verdicts by method."""
    frame = pd.DataFrame({name: pd.array(v, "boolean") for name, v in verdicts.items()})
    return Measured(model, f"MBPP, {corpus}", frame)


def test_models_are_paired_on_tasks_that_both_measured_with_and_without_retrieval():
    a = {
        "NoRAG": [1, 1, 0, 0, 1, 1],
        "Func-PKG": [0, 1, 0, 1, 1, pd.NA],
        "BM25": [1] * 6,
        "Ideal Reranker": [1] * 6,
    }
    b = {
        "NoRAG": [1, 1, 1, 1, pd.NA, 1],
        "Func-PKG": [0, 0, 0, 0, 1, 1],
        "Ideal Reranker": [1] * 6,
    }
    measured = [
        make_measured("a", a),
        make_measured("b", b),
        # These corpora were measured with one model only.
        make_measured("a", a, "textbook"),
        make_measured("b", b, "stdlib"),
    ]
    (pair,) = model_pairs(measured).itertuples()
    assert pair.models == ("a", "b")
    assert pair.where == "MBPP, published"
    assert pair.column == "Func-PKG"
    assert pair.n == 4
    assert pair.none == (0.5, 1.0)
    assert pair.gains == (0.0, -1.0)
    assert pair.low <= pair.difference == -1.0 <= pair.high
    # The changes are 0, -1, -1 and -2. Two of the eight signed sums are 4 away from 0.
    assert pair.p == pytest.approx(2 / 8)
    assert pair.p_corrected == pair.p


def test_models_without_shared_tasks_are_not_paired():
    first_task_only = {"NoRAG": [1, pd.NA], "Func-PKG": [0, 1]}
    second_task_only = {"NoRAG": [pd.NA, 1], "Func-PKG": [0, 1]}
    measured = [make_measured("a", first_task_only), make_measured("b", second_task_only)]
    assert len(model_pairs(measured)) == 0


def test_sign_test_equals_the_enumeration_of_all_signs():
    rng = np.random.default_rng(0)
    for size in range(1, 9):
        values = rng.integers(-2, 3, size)
        sums = [abs(int(np.dot(signs, values))) for signs in product((-1, 1), repeat=size)]
        expected = np.mean([total >= abs(values.sum()) for total in sums])
        counts = np.array([(values == step).sum() for step in range(-2, 3)])
        assert sign_test(counts) == pytest.approx(expected)


def test_sign_test_of_single_steps_equals_the_mcnemar_test():
    rng = np.random.default_rng(0)
    for _ in range(8):
        helped, hurt = (int(count) for count in rng.integers(0, 60, 2))
        counts = np.array([0, hurt, 7, helped, 0])
        assert sign_test(counts) == pytest.approx(mcnemar(helped, hurt))
