"""Estimators agree with their definitions and with independent computations."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

from pkg_lib.analysis import stats
from pkg_lib.core.types import Context, UserError
from pkg_lib.evaluation import controls


def series(values):
    return pd.Series(values, [f"T/{i}" for i in range(len(values))], dtype="boolean")


def test_pass_at_1_excludes_and_counts_unmeasured_tasks():
    rate = stats.pass_at_1(series([True, False, None, True]))
    assert (rate.passed, rate.measured, rate.total, rate.value) == (2, 3, 4, pytest.approx(2 / 3))
    assert stats.pass_at_1(series([None, None])).value is None


def test_wilson_is_absent_without_data_and_stays_within_0_and_1():
    assert (
        stats.wilson(0, 5)[0] == 0
        and stats.wilson(5, 5)[1] == 1
        and np.isnan(stats.wilson(0, 0)).all()
    )


COLUMN, BASE = series([True, False, True, None, True]), series([False, True, True, True, None])
PAIRED = [stats.paired_bootstrap, stats.paired_score]


def test_compares_only_tasks_that_both_methods_measured():
    assert stats.helped_and_hurt(COLUMN, BASE) == (["T/0"], ["T/1"])
    score = stats.paired_score(COLUMN, BASE)
    assert (score.n, score.value, score.low, score.high) == (3, 0, *stats.score_interval(1, 1, 3))
    assert [paired(series([True, None]), series([None, True])) for paired in PAIRED] == [None, None]


def test_bootstrap_agrees_with_resampled_tasks_and_is_seeded():
    rng = np.random.default_rng(5)
    column, base = rng.random(80) < 0.6, rng.random(80) < 0.5
    difference = stats.paired_bootstrap(series(column), series(base))
    drawn = rng.integers(0, 80, size=(10_000, 80))
    low, high = np.quantile((column.astype(int) - base)[drawn].mean(axis=1), [0.025, 0.975])
    assert difference.value == pytest.approx(column.mean() - base.mean())
    assert (difference.low, difference.high) == pytest.approx((low, high), abs=0.013)
    assert difference == stats.paired_bootstrap(series(column), series(base))
    same = stats.paired_bootstrap(series(base), series(base))
    assert (same.value, same.n) == (0, 80)
    assert np.isnan([same.low, same.high]).all()  # no resample differs: there is no interval


def test_interval_of_a_mean_comes_from_resampled_tasks():
    assert stats.bootstrap_mean(pd.Series(dtype=float)) is None
    mean = stats.bootstrap_mean(pd.Series([0.5, 0.5, 0.5]))
    assert (mean.n, mean.value, mean.low, mean.high) == (3, 0.5, 0.5, 0.5)
    verdicts = np.random.default_rng(5).random(80) < 0.6
    mean = stats.bootstrap_mean(pd.Series(verdicts))
    passed = stats.mean_pass_at_k(pd.DataFrame({0: series(verdicts)}), 1)
    assert mean.value == pytest.approx(passed.value)
    assert (mean.low, mean.high) == pytest.approx((passed.low, passed.high), abs=0.013)


def test_mean_difference_pairs_by_task_and_excludes_unmeasured_tasks():
    values = pd.Series({"a": 1.0, "b": 0.5, "c": np.nan, "d": 9.0})
    baseline = pd.Series({"b": 0.25, "a": 0.0, "c": 0.0, "e": 9.0})
    difference = stats.mean_difference(values, baseline)
    assert (difference.n, difference.value) == (2, 0.625)
    assert 0.25 <= difference.low <= 0.625 <= difference.high <= 1.0
    assert stats.mean_difference(values[["d"]], baseline) is None
    assert stats.mean_difference(values[["c"]], baseline) is None


def standard_errors(helped, hurt, n, difference):
    """How far what was seen lies from a difference, by the likeliest of all shares that have it."""
    low, high = max(0.0, -difference), (1 - difference) / 2

    def unlikely(lost):
        shares = np.array([lost + difference, lost, 1 - difference - 2 * lost])
        return -float(
            np.array([helped, hurt, n - helped - hurt]) @ np.log(np.clip(shares, 1e-300, None))
        )

    lost = minimize_scalar(
        unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    ).x
    return (helped - hurt - n * difference) / math.sqrt(n * (2 * lost + difference - difference**2))


@pytest.mark.parametrize(
    ("helped", "hurt", "n"), [(1, 3, 10), (0, 2, 19), (5, 5, 17), (30, 12, 339), (150, 86, 1600)]
)
def test_score_interval_contains_what_a_score_test_does_not_reject(helped, hurt, n):
    low, high = stats.score_interval(helped, hurt, n)
    assert standard_errors(helped, hurt, n, low) == pytest.approx(1.96, abs=1e-3)
    assert standard_errors(helped, hurt, n, high) == pytest.approx(-1.96, abs=1e-3)
    assert stats.score_interval(hurt, helped, n) == pytest.approx((-high, -low))


@pytest.mark.parametrize("n", [1, 10, 339])
def test_score_interval_has_a_width_at_the_boundaries(n):
    most = stats.wilson(0, n)[1]
    assert stats.score_interval(0, 0, n) == pytest.approx((-most, most))
    assert stats.score_interval(0, n, n)[0] == -1 and stats.score_interval(n, 0, n)[1] == 1
    assert -1 < stats.score_interval(n, 0, n)[0] < 1


def test_holm_equals_the_closed_bonferroni_test_and_ignores_missing_p_values():
    for seed in range(7):
        p = np.random.default_rng(seed).random(1 + seed) ** 3
        sets = [
            list(s)
            for size in range(1, len(p) + 1)
            for s in itertools.combinations(range(len(p)), size)
        ]
        closed = [max(min(1, len(s) * p[s].min()) for s in sets if i in s) for i in range(len(p))]
        assert stats.holm(p) == pytest.approx(closed)
    assert stats.holm([0.01, 0.04, math.nan, 0.03]) == pytest.approx(
        [0.03, 0.06, math.nan, 0.06], nan_ok=True
    )


def test_does_not_test_the_oracle_or_unmeasured_methods():
    base, always, never = (
        series([False, True, True, False] * 10),
        series([True] * 40),
        series([None] * 40),
    )
    table = stats.paired_differences(
        pd.DataFrame({"NoRAG": base, "BM25": always, "VoyageEmb": never, "Ideal Reranker": always})
    )
    assert table.loc["BM25", ["n", "helped", "hurt"]].tolist() == [40, 20, 0]
    assert table.at["BM25", "p"] == table.at["BM25", "p_corrected"] == pytest.approx(2 * 0.5**20)
    assert table.at["VoyageEmb", "n"] == 0 and table.at["Ideal Reranker", "difference"] == 0.5
    assert table.loc[["VoyageEmb", "Ideal Reranker"], "p"].isna().all()


CONTROLS = {"return None": series([False] * 4), "canonical solution": series([True] * 4)}


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        (
            "return None",
            [False, True, False, False],
            "0 % and is wrong on 1 of 4 tasks .first: T/1",
        ),
        (
            "canonical solution",
            [True, True, False, True],
            "100 % and is wrong on 1 of 4 tasks .first: T/2",
        ),
        (
            "canonical solution",
            [True, True, True, None],
            "not measured on 1 of 4 tasks .first: T/3",
        ),
        ("return None", [False, False], "not measured on 2 of 4 tasks .first: T/2"),
        ("return None", None, "is missing"),
    ],
)
def test_refuses_and_names_wrong_or_unmeasured_controls(name, values, says):
    tasks = CONTROLS[name].index
    controls.check_controls(CONTROLS, tasks)
    others = {n: v for n, v in CONTROLS.items() if n != name}
    with pytest.raises(controls.ControlError, match=f"'{name}' .*{says}") as error:
        controls.check_controls(
            others if values is None else others | {name: series(values)}, tasks
        )
    assert isinstance(error.value, UserError) and "\n" not in str(error.value)


def test_own_function_counts_checked_tasks_and_distinguishes_the_others_from_zero():
    def contexts(column, *marks):
        return [Context(f"t/{i}", column, None, defines_task=mark) for i, mark in enumerate(marks)]

    marks = {"BM25": (True, False, None), "VoyageEmb": (None, None)}
    counts = stats.count_defining_contexts(
        {column: contexts(column, *row) for column, row in marks.items()}
    )
    assert counts.loc["BM25"].tolist() == [3, 2, 1]
    assert counts.at["VoyageEmb", "known"] == 0 and counts.at["VoyageEmb", "defining"] is pd.NA


@pytest.mark.parametrize("tasks", [6, 30, 93])
def test_smallest_significant_gain_is_the_first_below_5_percent(tasks):
    gained = stats.smallest_significant_gain(tasks)
    assert stats.mcnemar(gained, 0) < 0.05 <= stats.mcnemar(gained - 1, 0)


def test_too_few_tasks_show_no_gain():
    assert stats.smallest_significant_gain(5) is None
    assert math.isnan(stats.detectable_gain(5))


def test_detectable_gain_is_found_with_its_power():
    """At the gain, the chance of at least 6 gained tasks of 93 is the power."""
    gain = stats.detectable_gain(93, power=0.8)
    chances = [math.comb(93, k) * gain**k * (1 - gain) ** (93 - k) for k in range(6)]
    assert 1 - sum(chances) == pytest.approx(0.8)
