"""The claims as data: whole, known to the code, true to the published tables; and what is printed of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from checks import legible
from notebook_code import definitions

from pkg_lib.analysis.tables import COLUMNS
from pkg_lib.core.types import UserError
from pkg_lib.papers.claims import claim_report, claim_tests, claims
from pkg_lib.papers.claims.claims import NOT_ATTEMPTED, table
from pkg_lib.papers.claims.stored_runs import StoredRuns

CLAIMS, NOTEBOOK = claims.load(), definitions("claims")
CHECKS = NOTEBOOK["CHECKS"]
MODELS = ["qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"]
NUMBERS = ("about", "at most", "at least", "equal", "scale")


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    runs = StoredRuns(MODELS, ["humaneval", "mbpp"], ["published"], results)
    return claim_tests.measure(runs, CLAIMS, CHECKS)


@pytest.fixture(scope="module")
def some(unmeasured):
    """The ledger with made-up measurements of every claim about runs, all verdicts among them."""

    def evidence(c, i, model, corpus):
        effect = 0.1 * (-1) ** (i + corpus)
        more = {"low": effect - 0.06, "high": effect + 0.06, "family": f"{c.id}{model}{corpus}", "pair": "p"}
        more |= {"n": 100, "effect": effect, "p": 0.001 * (i % 3) * 500, "discordant": 0.3}
        return replace(claim_tests.claimed_by(c), subject=model, where=f"x, corpus-{corpus}", **more)

    runs = ("paired", "share", "error_shift")
    return claims.judge(
        (c, [evidence(c, i, m, k) for m in MODELS for k in range(3)] if c.test in runs else measured)
        for i, (c, measured) in enumerate(unmeasured)
    )


def test_there_are_claims_with_ids_of_their_own():
    assert len(CLAIMS) >= 100 and len({c.id for c in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_a_claim_is_whole_its_test_is_known_and_its_cells_are_the_papers(claim):
    assert claim.version in ("first", "second", "both")
    assert claim.place and claim.says and claim.needs and len(claim.says) < 100
    assert (claim.test in CHECKS) != (claim.test in claim_tests.TESTS)
    assert claim.test == "unavailable" or claims.allowed(claim.relation, 0.0)
    columns = claim.columns
    columns += [c for k in ("passed", "failed", "among") for c in claim.args.get(k, ())]
    assert claim.test in CHECKS or set(columns) <= set(COLUMNS)
    assert not (claim.relation in NUMBERS and math.isnan(claim_tests.claimed_by(claim).target))
    for number, row, column, value in claim.cells:
        printed = table(number)[column]
        cell = printed.mean() if row == "Avg." else printed[row]
        assert cell == pytest.approx(value, abs=0.05 + 1e-9 if row == "Avg." else 0), (number, row, column)


def test_named_counts_and_gains_follow_from_the_tables():
    by_id = {c.id: claim_tests.claimed_by(c) for c in CLAIMS}
    assert by_id["block-none-he"].target == pytest.approx(0.06)
    assert by_id["block-none-he"].spread == (-0.02, 0.14)
    assert by_id["only-block"].target == 16 / 164
    assert by_id["tokens-block-func"].target == pytest.approx(-99.5)
    assert math.isnan(by_id["unrelated-he"].target)
    assert by_id["closed-reranked-mini"].target == pytest.approx(0.03)
    assert by_id["closed-block-he"].target == 0


def test_nothing_is_reproduced_without_a_measurement(unmeasured):
    nothing = claims.judge(unmeasured)
    assert all((a.verdict == NOT_ATTEMPTED) == (a.claim.test in claim_tests.TESTS) for a in nothing)
    assert not any("this study's models" in s for s in NOTEBOOK["findings"](nothing))


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_unknown_names_are_mistakes_of_the_user(tmp_path, wrong):
    names = [MODELS, ["humaneval"], ["textbook"]]
    names[wrong] = ["nosuch"]
    with pytest.raises(UserError, match="unknown"):
        _ = StoredRuns(*names, tmp_path).runs


@pytest.mark.parametrize(
    ("id", "numbers"),
    [
        ("paper-bm25-drop-he", [-14.2]),
        ("paper-up-to-20", [20.0, 52.6]),
        ("paper-up-to-8", [24, 8, 27, 11]),
        ("paper-9-4", [9.4, 10.5]),
        ("paper-rerank-4", [4.8, 4.0]),
        ("paper-dense-over-sparse", [8]),
        ("paper-closed-mini", [0.6, 3.0]),
        ("paper-table7-table2", [7.5, 3.5, -44.5, 3.5, 14.5, 18.5]),
        ("paper-table8-sums", [0, 0, 1, -1]),
        ("paper-tutorials-25", [26.2]),
        ("paper-name-errors", [13, -73, 14]),
        ("paper-versions", [2, 0, 1, 0, 2]),
        ("paper-averages", [0] * 6),
        ("paper-func-helps", [3.8, -3.6]),
        ("paper-block-best", [2.2, 2.8]),
        ("paper-bm25-all", [10]),
        ("paper-code-llms", [2.0, 2.75, 2.0, -0.25]),
    ],
)
def test_what_the_papers_own_tables_give(id, numbers):
    """Worked out by hand from the printed tables."""
    claim = next(c for c in CLAIMS if c.id == id)
    readings = CHECKS[claim.test](claim.args | {"cells": claim.cells}).values()
    assert [round(v, 2) for v in readings] == pytest.approx(numbers, abs=0.05)


def test_a_wrong_average_is_seen():
    cells = [("1", "Avg.", "None", 49.0), ("1", "Avg.", "BM25", 35.8), ("2", "Avg.", "None", 45.4)]
    assert list(CHECKS["averages_off"]({"cells": cells}).values()) == [1, 0]


def test_the_ledger_shows_every_claim_and_every_measurement(some):
    ledger, evidence = claim_report.ledger(some).frame, claim_report.evidence(some).frame
    assert list(ledger.index) == [c.id for c in CLAIMS]
    assert len(evidence) == sum(len(a.evidence) for a in some)
    assert set(ledger["verdict"]) <= set(claims.OVERALL) and "mixed" in set(ledger["verdict"])
    assert ledger.at["pruning", "here (95 % interval)"].startswith("missing: ")
    assert ledger.at["block-none-he", "published"] == "+6.0 (\N{MINUS SIGN}2.0 to +14.0)"


@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp"])
def test_figure_is_legible_and_has_a_panel_a_model_and_a_mark_a_measurement(benchmark, some):
    assert legible(NOTEBOOK["forest"]([], benchmark), 17)
    figure = NOTEBOOK["forest"](some, benchmark)
    assert legible(figure, 17) and figure.get_figheight() < 9.7
    assert [a.get_title(loc="left") for a in figure.axes] == MODELS
    evidence = [e for a in NOTEBOOK["drawn"](some, benchmark) for e in a.evidence if e.subject == MODELS[0]]
    marks = [line for line in figure.axes[0].lines if line.get_marker() in NOTEBOOK["SHAPES"]]
    assert len(marks) == len(evidence)
    assert {m.get_color() for m in marks} == {NOTEBOOK["LOOK"][e.verdict][0] for e in evidence}
    assert len({m.get_marker() for m in marks}) == len({e.where for e in evidence})
