"""The claims that the EVOR paper makes on its own tables."""

import pytest

from pkg_lib.papers.claims import evor_claims
from pkg_lib.papers.evor.evor_results import EvorResults

CLAIMS = {claim.id: claim for claim in evor_claims.load_evor_claims()}


def test_every_claim_has_a_test_and_every_check_has_a_claim():
    tests = {claim.test for claim in CLAIMS.values()}
    assert tests == {"paired", *evor_claims.CHECKS}


def test_paired_claims_name_two_methods():
    paired = [claim for claim in CLAIMS.values() if claim.test == "paired"]
    assert {len(claim.methods) for claim in paired} == {2}


@pytest.mark.parametrize(
    ("claim", "numbers"),
    [
        ("gain-chatgpt", {"ChatGPT": 16.1}),
        ("baselines-small", {"MPSC": 0.1, "ExeDec": 0.5, "Reflexion": 1.6}),
        ("web-small", {"ChatGPT, without": 1.1, "CodeLlama, without": 0.2}),
        ("ring-zero", {"MPSC": 0.0, "ExeDec": 0.0, "Reflexion": 0.0}),
    ],
)
def test_checks_read_the_published_numbers(claim, numbers):
    check = evor_claims.CHECKS[CLAIMS[claim].test]
    assert check(CLAIMS[claim].args) == pytest.approx(numbers)


def test_recomputed_claims_agree_or_disagree_with_the_tables_of_the_paper():
    """They say nothing about the models of this study."""
    verdicts = evor_claims.evor_claims_table(EvorResults("a model", [])).frame["verdict"]
    assert verdicts["gain-chatgpt"] == "agrees with the paper's tables"
    assert verdicts["gain-intro"] == "disagrees with the paper's tables"
    recomputed = {name for name, claim in CLAIMS.items() if claim.test in evor_claims.CHECKS}
    assert not any("these models" in verdicts[name] for name in recomputed)
