"""Two models beside each other: whether the one gains or loses more by a column than the other."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notebook_code import definitions

from pkg_lib.analysis.stats import mcnemar
from pkg_lib.papers.claims.stored_runs import Measured

CLAIMS = definitions("claims")
pairs, sign_test = CLAIMS["pairs"], CLAIMS["sign_test"]
ONE = {"None": [1, 0], "Func-PKG": [0, 1]}


def run(model, columns, corpus="published"):
    frame = pd.DataFrame({name: pd.array(v, "boolean") for name, v in columns.items()})
    return Measured(model, f"MBPP, {corpus}", frame)


def test_the_second_models_difference_minus_the_firsts_on_tasks_measured_in_all_four():
    a = {"None": [1, 1, 0, 0, 1, 1], "Func-PKG": [0, 1, 0, 1, 1, pd.NA], "BM25": [1] * 6, "Ideal": [1] * 6}
    b = {"None": [1, 1, 1, 1, pd.NA, 1], "Func-PKG": [0, 0, 0, 0, 1, 1], "Ideal": [1] * 6}
    (pair,) = pairs([run("a", a), run("b", b)]).itertuples()
    assert (pair.models, pair.where, pair.column, pair.n) == (("a", "b"), "MBPP, published", "Func-PKG", 4)
    assert pair.none == (0.5, 1.0) and pair.gains == (0.0, -1.0) and pair.difference == -1.0
    assert pair.low <= pair.difference <= pair.high
    # The changes are 0, -1, -1 and -2: of the eight sums of signs two are 4 away from 0.
    assert pair.p == pair.p_holm == pytest.approx(2 / 8)


def test_only_different_models_on_the_same_benchmark_and_corpus_are_paired():
    runs = [run("a", ONE), run("a", ONE, "textbook"), run("b", ONE, "stdlib")]
    assert len(pairs(runs)) == 0 and len(pairs([*runs, run("b", ONE), run("c", ONE)])) == 3
    apart = [{"None": known, "Func-PKG": [1, 1]} for known in ([1, pd.NA], [pd.NA, 1])]
    for first, second in (({"Func-PKG": [1]}, ONE), apart):
        assert len(pairs([run("a", first), run("b", second)])) == 0


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=9))
def test_the_test_counts_all_signs_and_with_one_step_alone_it_is_mcnemars(changes):
    values = np.array(changes)
    sums = [abs(int(np.dot(signs, values))) for signs in product((-1, 1), repeat=len(values))]
    expected = np.mean([s >= abs(values.sum()) for s in sums])
    counts = np.array([(values == step).sum() for step in range(-2, 3)])
    assert sign_test(counts) == pytest.approx(expected)
    ones = counts * [0, 1, 1, 1, 0]
    assert sign_test(ones) == pytest.approx(mcnemar(int(ones[3]), int(ones[1])))
