"""The claims as data: whole, known to the code, and true to the published tables; and what is printed of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from checks import legible

from pkg_lib.analysis.tables import COLUMNS
from pkg_lib.core.types import UserError
from pkg_lib.execution.errors import TABLE7
from pkg_lib.papers.claims import claim_figures, claim_report, claim_tests, claims, paper_checks
from pkg_lib.papers.claims.claim_study import columns_of
from pkg_lib.papers.claims.claims import NOT_ATTEMPTED, OVERALL, REPRODUCED
from pkg_lib.papers.claims.paper_checks import AVERAGE, CHECKS, table

CLAIMS = claims.load()
MODELS = ["qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"]


def study(results, corpora=("pkg-contexts", "python-docs")):
    return claim_tests.Study(MODELS, ["humaneval", "mbpp"], list(corpora), results)


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory):
    return claim_tests.measure(study(tmp_path_factory.mktemp("results")), CLAIMS)


@pytest.fixture(scope="module")
def nothing(unmeasured):
    """The ledger where no run is stored."""
    return claims.judge(unmeasured)


@pytest.fixture(scope="module")
def some(unmeasured):
    """The ledger with made-up measurements of every claim about runs, all verdicts among them."""
    measured = []
    for i, (c, found) in enumerate(unmeasured):
        claimed = claim_tests.claimed_by(c)
        if c.test in ("paired", "share", "error_shift"):
            found = [
                replace(
                    claimed,
                    subject=m,
                    where=f"x, corpus-{k}",
                    n=100,
                    effect=0.1 * (-1) ** (i + k),
                    p=0.001 * (i % 3) * 500,
                    low=0.1 * (-1) ** (i + k) - 0.06,
                    high=0.1 * (-1) ** (i + k) + 0.06,
                    family=f"{c.id}{m}{k}",
                    pair="p",
                    discordant=0.3,
                )
                for m in MODELS
                for k in range(3)
            ]
        measured.append((c, found))
    return claims.judge(measured)


def test_there_are_claims_with_ids_of_their_own():
    assert len(CLAIMS) >= 25
    assert len({c.id for c in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_a_claim_is_whole_and_its_test_is_known(claim):
    assert claim.version in ("first", "second", "both")
    assert claim.place and claim.says and claim.needs and len(claim.says) < 100
    assert (claim.test in CHECKS) != (claim.test in claim_tests.TESTS)
    assert claim.test == "unavailable" or claim.relation in claims.RELATIONS
    columns = columns_of(claim.args)
    columns += [c for k in ("passed", "failed", "among") for c in claim.args.get(k, ())]
    if claim.test in claim_tests.TESTS:
        assert set(columns) <= set(COLUMNS)
    assert claim.args.get("error", "NameError") in TABLE7


NUMBERS = ("about", "at most", "at least", "equal", "scale")


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.relation in NUMBERS], ids=lambda c: c.id)
def test_a_claim_of_a_number_names_it(claim):
    assert not math.isnan(claim_tests.claimed_by(claim).target)


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.cells], ids=lambda c: c.id)
def test_its_cells_are_those_of_the_published_tables(claim):
    for number, row, column, value in claim.cells:
        published = table(number)
        found = published[column].mean() if row == AVERAGE else published.at[row, column]
        assert found == pytest.approx(value, abs=0.05 + 1e-9 if row == AVERAGE else 0), (number, row, column)


def test_named_counts_and_gains_follow_from_the_tables():
    by_id = {c.id: claim_tests.claimed_by(c) for c in CLAIMS}
    assert by_id["block-none-he"].target == pytest.approx(0.06) and by_id["block-none-he"].spread == (
        -0.02,
        0.14,
    )
    assert by_id["only-block"].target == 16 / 164
    assert by_id["tokens-block-func"].target == pytest.approx(-99.5)
    assert math.isnan(by_id["unrelated-he"].target)
    assert (
        by_id["closed-reranked-mini"].target == pytest.approx(0.03) and by_id["closed-block-he"].target == 0
    )


def test_nothing_is_reproduced_without_a_measurement(nothing):
    runs = [a for a in nothing if a.claim.test in claim_tests.TESTS]
    assert {a.verdict for a in runs} == {NOT_ATTEMPTED} and all(a.why for a in runs)
    assert all(a.evidence for a in nothing if a.verdict == REPRODUCED)
    paper = [a for a in nothing if a.claim.test in CHECKS]
    assert paper and NOT_ATTEMPTED not in {a.verdict for a in paper}


def test_unknown_names_are_mistakes_of_the_user(tmp_path):
    for names in (
        (["gpt"], ["humaneval"], ["textbook"]),
        (MODELS, ["x"], ["textbook"]),
        (MODELS, ["mbpp"], ["y"]),
    ):
        with pytest.raises(UserError, match="unknown"):
            claim_tests.Study(*names, tmp_path)


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
    assert [round(v, 2) for _, v in CHECKS[claim.test](claim.args, claim.cells)] == pytest.approx(
        numbers, abs=0.05
    )


def test_a_wrong_average_is_seen():
    cells = [("1", AVERAGE, "None", 49.0), ("1", AVERAGE, "BM25", 35.8), ("2", AVERAGE, "None", 45.4)]
    assert [n for _, n in paper_checks.averages_off({}, cells)] == [1, 0]


def test_the_ledger_shows_every_claim_and_every_measurement(some):
    ledger, evidence, counts = (
        claim_report.ledger(some),
        claim_report.evidence(some),
        claim_report.counts(some),
    )
    assert list(ledger.frame.index) == [c.id for c in CLAIMS]
    assert len(evidence.frame) == sum(len(a.evidence) for a in some)
    assert [int(n) for n in counts.frame.loc["all"]] == [*claims.tally(some).values(), len(CLAIMS)]
    assert set(ledger.frame["verdict"]) <= set(OVERALL) and "mixed" in set(ledger.frame["verdict"])
    assert "missing: " in ledger.frame.at["pruning", "here (95 % interval)"]
    assert ledger.frame.at["block-none-he", "published"] == "+6.0 (\N{MINUS SIGN}2.0 to +14.0)"
    for grid in (ledger, evidence, counts, claim_report.missing(some)):
        assert grid.csv() and grid.markdown() and grid.latex() and grid.html()


def test_findings_count_what_the_ledger_has(some, nothing):
    said = claim_report.findings(some)
    tally = claims.tally(some)
    assert said[0].startswith(f"{len(CLAIMS)} claims: {tally[REPRODUCED]} reproduced")
    assert any(s.startswith(f"On {MODELS[1]}:") for s in said) and any("could have shown" in s for s in said)
    assert not any("this study's models" in s for s in claim_report.findings(nothing))


@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp"])
@pytest.mark.parametrize("ledger", ["some", "nothing"])
def test_figure_texts_are_at_least_7_pt_inside_and_do_not_overlap(benchmark, ledger, request):
    figure = claim_figures.forest(request.getfixturevalue(ledger), benchmark)
    assert legible(figure, 17) and figure.get_figheight() < 9.7


def test_figure_has_a_panel_a_model_and_a_mark_a_measurement(some):
    figure = claim_figures.forest(some, "humaneval")
    assert [a.get_title(loc="left") for a in figure.axes] == MODELS
    drawn = [a for found in claim_figures.drawn(some, "humaneval").values() for a in found]
    marks = [line for line in figure.axes[0].lines if line.get_marker() in claim_figures.SHAPES]
    assert len(marks) == sum(e.subject == MODELS[0] for a in drawn for e in a.evidence)
    colours = {claim_figures.LOOK[e.verdict][0] for a in drawn for e in a.evidence if e.subject == MODELS[0]}
    assert {m.get_color() for m in marks} == colours
    corpora = {e.where.rpartition(", ")[2] for a in drawn for e in a.evidence}
    named = {t.get_text() for legend in figure.legends for t in legend.get_texts()}
    assert corpora <= named and len({m.get_marker() for m in marks}) == len(corpora)
