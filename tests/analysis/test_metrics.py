"""metrics: estimators against their definitions and independent computations."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest
from statsmodels.stats.multitest import multipletests

from pkg_lib.analysis import stats as metrics
from pkg_lib.core.types import Context, UserError


def series(values):
    return pd.Series(values, [f"T/{i}" for i in range(len(values))], dtype="boolean")


def test_pass_at_k_is_the_share_of_k_subsets_with_a_correct_sample():
    for n, k in [(5, 1), (5, 2), (6, 6), (7, 3)]:
        for c in range(n + 1):
            draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
            assert metrics.pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_is_absent_below_k_samples_and_stable_for_many():
    assert metrics.pass_at_k(4, 4, 5) is None
    assert metrics.pass_at_k(100_000, 1, 50_000) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="c=3"):
        metrics.pass_at_k(2, 3, 1)


def test_pass_at_1_leaves_out_what_was_not_measured_and_counts_it():
    rate = metrics.pass_at_1(series([True, False, None, True]))
    assert (rate.passed, rate.measured, rate.total) == (2, 3, 4)
    assert rate.value == pytest.approx(2 / 3)
    assert metrics.pass_at_1(series([None, None])).value is None


@pytest.mark.parametrize(("passed", "n"), [(0, 20), (20, 20), (101, 164), (1, 3)])
def test_wilson_agrees_with_scipy(passed, n):
    theirs = binomtest(passed, n).proportion_ci(method="wilson")
    assert metrics.wilson(passed, n) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_wilson_stays_inside_and_is_absent_without_data():
    assert metrics.wilson(0, 5)[0] == 0.0
    assert metrics.wilson(5, 5)[1] == 1.0
    assert metrics.wilson(0, 0) is None


def test_helped_and_hurt_use_only_tasks_measured_in_both():
    column, base = series([True, False, True, None, True]), series([False, True, True, True, None])
    assert metrics.helped_and_hurt(column, base) == (["T/0"], ["T/1"])


def test_bootstrap_agrees_with_resampling_the_tasks_themselves():
    rng = np.random.default_rng(5)
    column, base = rng.random(80) < 0.6, rng.random(80) < 0.5
    found = metrics.paired_bootstrap(series(column), series(base))
    drawn = rng.integers(0, 80, size=(10_000, 80))
    low, high = np.quantile((column.astype(int) - base)[drawn].mean(axis=1), [0.025, 0.975])
    assert found.value == pytest.approx(column.mean() - base.mean())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.013)


def test_bootstrap_is_seeded_and_absent_without_common_tasks():
    column, base = series([True, False, True, True]), series([False, True, False, True])
    assert metrics.paired_bootstrap(column, base) == metrics.paired_bootstrap(column, base)
    assert metrics.paired_bootstrap(series([True, None]), series([None, True])) is None
    same = metrics.paired_bootstrap(base, base)
    assert (same.value, same.low, same.high, same.n) == (0, 0, 0, 4)


def test_bootstrap_interval_covers_the_true_difference_about_as_often_as_it_says():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(200):
        u = rng.random(150)
        found = metrics.paired_bootstrap(
            series(u < 0.65), series((u < 0.5) ^ (rng.random(150) < 0.1)), resamples=1000
        )
        covered += found.low <= 0.15 <= found.high
    assert 178 <= covered <= 200  # 95 % of 200 is 190


def standard_errors(helped, hurt, n, difference):
    """How far what was seen lies from a difference, by the likeliest shares that have it, sought among all
    such shares."""
    low, high = max(0.0, -difference), (1 - difference) / 2

    def unlikely(lost):
        shares = np.array([lost + difference, lost, 1 - difference - 2 * lost])
        return -float(np.array([helped, hurt, n - helped - hurt]) @ np.log(np.clip(shares, 1e-300, None)))

    lost = minimize_scalar(unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    return (helped - hurt - n * difference) / math.sqrt(n * (2 * lost + difference - difference**2))


@pytest.mark.parametrize(
    ("helped", "hurt", "n"), [(1, 3, 10), (0, 2, 19), (5, 5, 17), (30, 12, 339), (150, 86, 1600)]
)
def test_the_score_interval_holds_what_a_score_test_does_not_reject(helped, hurt, n):
    low, high = metrics.score_interval(helped, hurt, n)
    assert standard_errors(helped, hurt, n, low) == pytest.approx(1.96, abs=1e-3)
    assert standard_errors(helped, hurt, n, high) == pytest.approx(-1.96, abs=1e-3)
    assert metrics.score_interval(hurt, helped, n) == pytest.approx((-high, -low))


@pytest.mark.parametrize("n", [1, 10, 17, 339])
def test_the_score_interval_has_a_width_at_the_edges(n):
    most = metrics.wilson(0, n)[1]
    assert metrics.score_interval(0, 0, n) == pytest.approx((-most, most))
    assert metrics.score_interval(0, n, n)[0] == -1 and metrics.score_interval(n, 0, n)[1] == 1
    assert -1 < metrics.score_interval(n, 0, n)[0] < 1


def test_the_score_interval_is_of_the_tasks_measured_in_both():
    column, base = series([True, False, True, None, True]), series([False, True, True, True, None])
    found = metrics.paired_score(column, base)
    assert (found.n, found.value, found.low, found.high) == (3, 0, *metrics.score_interval(1, 1, 3))
    assert metrics.paired_score(series([True, None]), series([None, True])) is None


def test_mcnemar_is_the_exact_sign_test():
    assert metrics.mcnemar(0, 0) == 1.0
    assert metrics.mcnemar(5, 0) == pytest.approx(2 * 0.5**5)
    assert metrics.mcnemar(3, 9) == metrics.mcnemar(9, 3)


def test_holm_steps_down_and_ignores_what_was_not_tested():
    found = metrics.holm([0.01, 0.04, math.nan, 0.03])
    assert found[:2] == pytest.approx([0.03, 0.06])
    assert math.isnan(found[2])
    assert found[3] == pytest.approx(0.06)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_agrees_with_statsmodels(p_values):
    assert metrics.holm(p_values) == multipletests(p_values, method="holm")[1].tolist()


def test_compare_does_not_test_the_oracle_nor_what_is_missing():
    base = [False, True, True, False] * 10
    always, never = series([True] * 40), series([None] * 40)
    frame = pd.DataFrame({"None": series(base), "BM25": always, "Dense": never, "Ideal": always})
    found = metrics.compare(frame)
    assert found.loc["BM25", ["n", "helped", "hurt"]].tolist() == [40, 20, 0]
    assert found.at["BM25", "p"] == found.at["BM25", "p_holm"] == pytest.approx(2 * 0.5**20)
    assert found.at["Dense", "n"] == 0
    assert found.loc[["Dense", "Ideal"], "p"].isna().all()
    assert found.at["Ideal", "difference"] == 0.5


def controls(n=4):
    return {"return None": series([False] * n), "canonical solution": series([True] * n)}


def test_control_rows_pass_when_they_are_0_and_100():
    metrics.check_controls(controls(), series([True] * 4).index)


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        (
            "return None",
            [False, True, False, False],
            "'return None' passed 1 of 4 .*score 0 %.*first wrong: T/1",
        ),
        (
            "canonical solution",
            [True, True, False, True],
            "'canonical solution' passed 3 of 4 .*score 100 %.*first wrong: T/2",
        ),
        (
            "canonical solution",
            [True, True, True, None],
            "passed 3 of 3 measured tasks .4 in all.*first wrong: T/3",
        ),
        ("return None", [False, False], "first wrong: T/2"),
    ],
)
def test_wrong_or_unmeasured_controls_are_refused_by_name(name, values, says):
    broken = controls() | {name: series(values)}
    with pytest.raises(metrics.ControlError, match=says) as error:
        metrics.check_controls(broken, series([True] * 4).index)
    assert isinstance(error.value, UserError)
    assert "\n" not in str(error.value)


def test_a_missing_control_is_refused():
    with pytest.raises(metrics.ControlError, match="'canonical solution' is missing"):
        metrics.check_controls({"return None": series([False])}, series([True]).index)


def test_own_function_counts_what_was_looked_at_and_keeps_the_rest_apart_from_zero():
    def contexts(column, *marks):
        return [Context(f"t/{i}", column, None, defines_task=mark) for i, mark in enumerate(marks)]

    found = metrics.own_function(
        {"BM25": contexts("BM25", True, False, None), "Dense": contexts("Dense", None, None)}
    )
    assert found.loc["BM25"].tolist() == [3, 2, 1]
    assert found.at["Dense", "known"] == 0
    assert found.at["Dense", "defining"] is pd.NA
