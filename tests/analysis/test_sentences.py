"""Computed sentences: they omit what is unknown, and sign and p-value decide the group."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.analysis import sentences
from pkg_lib.analysis.sentences import chance, compared, counted_values, decided, difference
from pkg_lib.analysis.stats import Difference

MINUS = "\N{MINUS SIGN}"
HEADS = ("Above", "Below", "No difference")


def test_sentence_about_a_difference_states_only_known_values():
    assert (
        difference(math.nan) == "\N{EN DASH} percentage points"
        and difference(0.051) == "+5.1 percentage points"
    )
    found = Difference(164, -0.051, -0.089, -0.014, 3, 9, 0.01)
    assert compared("Block-PKG", found, "NoRAG", sized=True) == (
        f"Block-PKG {MINUS}5.1 percentage points against NoRAG ({MINUS}8.9 to {MINUS}1.4, n = 164, p = 0.010)"
    )
    assert (chance(math.nan), chance(0.0001)) == ("", "p < 0.001")


@given(st.floats(-1, 1), st.floats(0, 1) | st.just(math.nan))
def test_sign_and_corrected_p_value_decide_the_group(value, p):
    names = ["n", "difference", "low", "high", "p_corrected"]
    rows = pd.DataFrame([[9, value, value, value, p]], ["x"], names)
    sentences = decided(rows, HEADS)
    expected = [] if math.isnan(p) else [HEADS[0 if value > 0 else 1] if p < 0.05 else HEADS[2]]
    assert [next(h for h in HEADS if s.startswith(h)) for s in sentences] == expected


def test_counts_are_listed_by_frequency_and_then_by_name():
    assert counted_values(pd.Series(["b", "a", "c", "c"])) == ["c 2", "a 1", "b 1"]
    assert counted_values(pd.Series(dtype=str)) == []


@pytest.mark.parametrize(
    ("count", "total", "clause"),
    [
        (0, 3, "no method wins"),
        (1, 3, "1 of 3 methods wins"),
        (2, 3, "2 of 3 methods win"),
        (3, 3, "every method wins"),
        (1, 1, "every method wins"),
    ],
)
def test_how_many_agrees_with_its_verb(count, total, clause):
    assert sentences.how_many(count, total, "method", "win") == clause
