"""Two models beside each other: whether the one gains or loses more by a column than the other."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from pkg_lib.analysis.stats import bootstrap_of_steps, mcnemar
from pkg_lib.papers.claims import model_pairs
from pkg_lib.papers.claims.claim_study import Run

NAMES = {"none": "None", "Func_PKG": "Func-PKG", "Block_PKG": "Block-PKG"}


def run(model, corpus="published", **columns):
    frame = pd.DataFrame({NAMES.get(n, n): pd.array(v, "boolean") for n, v in columns.items()})
    return Run(SimpleNamespace(model=model, benchmark="mbpp", corpus=corpus), frame)


def test_the_second_models_difference_minus_the_firsts_on_tasks_measured_in_all_four():
    a = run("a", none=[1, 1, 0, 0, 1, 1], Func_PKG=[0, 1, 0, 1, 1, pd.NA], BM25=[1] * 6, Ideal=[1] * 6)
    b = run("b", none=[1, 1, 1, 1, pd.NA, 1], Func_PKG=[0, 0, 0, 0, 1, 1], Block_PKG=[1] * 6, Ideal=[1] * 6)
    (pair,) = model_pairs.pairs([a, b])
    assert (pair.where, pair.column, pair.models, pair.n) == ("MBPP, published", "Func-PKG", ("a", "b"), 4)
    assert pair.none == (0.5, 1.0) and pair.gains == (0.0, -1.0) and pair.value == -1.0
    assert pair.low <= pair.value <= pair.high
    # The changes are 0, -1, -1 and -2: of the eight sums of signs two are 4 away from 0.
    assert pair.p == pytest.approx(2 / 8)


def test_only_different_models_on_the_same_benchmark_and_corpus_are_paired():
    one = {"none": [1, 0], "Func_PKG": [0, 1]}
    runs = [run("a", **one), run("a", "textbook", **one), run("b", "stdlib", **one)]
    assert model_pairs.pairs(runs) == []
    assert len(model_pairs.pairs([*runs, run("b", **one), run("c", **one)])) == 3
    assert model_pairs.pairs([run("a", Func_PKG=[1]), run("b", **one)]) == []
    assert (
        model_pairs.pairs(
            [run("a", none=[1, pd.NA], Func_PKG=[1, 1]), run("b", none=[pd.NA, 1], Func_PKG=[1, 1])]
        )
        == []
    )


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=9))
def test_the_test_counts_all_signs(changes):
    values = np.array(changes)
    sums = [abs(int(np.dot(signs, values))) for signs in product((-1, 1), repeat=len(values))]
    expected = np.mean([s >= abs(values.sum()) for s in sums])
    assert model_pairs.sign_test(model_pairs.change_counts(values)) == pytest.approx(expected)


@given(st.integers(0, 60), st.integers(0, 60))
def test_with_one_step_alone_it_is_mcnemars(helped, hurt):
    assert model_pairs.sign_test(np.array([0, hurt, 7, helped, 0])) == pytest.approx(mcnemar(helped, hurt))


def test_the_interval_is_the_bootstrap_over_tasks():
    changes = np.repeat([-2, -1, 0, 1, 2], [20, 60, 150, 30, 5])
    low, high = bootstrap_of_steps(model_pairs.STEPS, model_pairs.change_counts(changes))
    peer = bootstrap((changes,), np.mean, method="percentile", rng=1).confidence_interval
    assert (low, high) == pytest.approx((peer.low, peer.high), abs=0.01)


def test_table_and_findings_say_what_is_beyond_chance():
    none = [1] * 40
    a, b = (
        run("a", none=none, Func_PKG=none, BM25=none),
        run("b", none=none, Func_PKG=[0] * 40, BM25=[0] + [1] * 39),
    )
    found = model_pairs.pairs([a, b])
    grid = model_pairs.table(found)
    shown = list(grid.frame.loc["MBPP, published: Func-PKG"])
    assert shown[:6] == ["40", "100.0", "100.0", "0.0", "\u2212100.0", "\u2212100.0"]
    assert (
        grid.frame["p (Holm)"].tolist() == ["< 0.001", "1.000"] and grid.notes[-1] == "First: a; second: b."
    )
    three = model_pairs.table(model_pairs.pairs([a, b, run("c", none=none, BM25=none)]))
    assert "MBPP, published: BM25 (a / c)" in three.frame.index and len(three.frame) == 4
    clear, rest = model_pairs.findings(found)
    assert clear.startswith(
        "MBPP, published, Func-PKG: to None 0.0 points with a and \u2212100.0 points with b"
    )
    assert "BM25" not in clear
    assert "not shown for MBPP, published, BM25 (\u22122.5)" in rest


def test_without_two_models_the_table_says_so():
    assert model_pairs.findings([]) == []
    assert model_pairs.table([]).frame.index.tolist() == ["no two models are measured on the same"]
