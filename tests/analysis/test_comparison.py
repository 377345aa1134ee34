"""pass@k and paired comparisons agree with their definitions and with independent computations."""

import itertools

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from pkg_lib.analysis.comparison import compare, pass_at_k
from pkg_lib.core.types import UserError

VERDICTS = pd.DataFrame(
    {
        "NoRAG": [False, False, False, True, True, None],
        "Func-PKG": [True, True, True, True, False, True],
        "VoyageEmb": [None] * 6,
        "Ideal Reranker": [True] * 5 + [None],
    },
    [f"HumanEval/{i}" for i in range(6)],
    dtype="boolean",
)


def verdicts_of_samples(*tasks):
    """Return the verdicts [task, (method, sample)] of one method."""
    frame = pd.DataFrame(tasks, dtype="boolean")
    return pd.concat({"sampled": frame}, axis="columns")


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(1, 6))
def test_pass_at_k_is_the_share_of_k_subsets_with_a_correct_sample(verdicts, k):
    row = pass_at_k(verdicts_of_samples(verdicts), k).loc["sampled"]
    subsets = list(itertools.combinations(verdicts, k))
    assert row["n"] == (1 if subsets else 0)
    assert row["samples"] == len(verdicts)
    if subsets:
        with_correct_sample = sum(any(subset) for subset in subsets)
        assert row["pass_at_k"] == pytest.approx(with_correct_sample / len(subsets))


def test_pass_at_k_covers_the_tasks_with_k_measured_samples():
    results = verdicts_of_samples([True, False, None], [True, None, None], [False, False, False])
    table = pd.concat([pass_at_k(results, k) for k in (1, 2, 3, 4)])
    assert table["n"].tolist() == [3, 2, 1, 0]
    assert table["tasks"].tolist() == [3, 3, 3, 3]
    assert table["pass_at_k"][:3].tolist() == pytest.approx([(0.5 + 1 + 0) / 3, 0.5, 0])
    assert table.iloc[3, 3:].isna().all()
    with pytest.raises(ValueError, match="k=0"):
        pass_at_k(results, 0)


def test_one_sample_per_task_has_wilsons_interval():
    table = pass_at_k(VERDICTS)
    assert list(table.index) == list(VERDICTS)
    assert table["samples"].tolist() == [1, 1, 1, 1]
    row = table.loc["Func-PKG"]
    wilson = binomtest(5, 6).proportion_ci(0.95, method="wilson")
    assert (row["low"], row["high"]) == pytest.approx((wilson.low, wilson.high))
    assert table.at["VoyageEmb", "n"] == 0
    assert table.loc["VoyageEmb", "low":].isna().all()


def test_compares_methods_in_percentage_points_on_their_shared_tasks():
    table = compare(VERDICTS)
    assert list(table.index) == ["Func-PKG", "VoyageEmb", "Ideal Reranker"]
    row = table.loc["Func-PKG"]
    assert row[["n", "helped", "hurt"]].tolist() == [5, 3, 1]
    assert row["difference"] == pytest.approx(40)
    assert row[["low", "high"]].isna().all(), "too few tasks for a bootstrap"
    twice = compare(pd.concat([VERDICTS] * 2, ignore_index=True)).loc["Func-PKG"]
    assert twice["low"] < 40 < twice["high"]
    assert row["p"] == pytest.approx(binomtest(3, 4).pvalue)
    assert row["p_corrected"] == row["p"]
    assert table.at["VoyageEmb", "n"] == 0
    assert table.loc[["VoyageEmb", "Ideal Reranker"], "p"].isna().all()


def test_any_method_may_be_the_baseline_and_p_values_are_corrected_over_methods():
    results = VERDICTS.assign(BM25=VERDICTS["NoRAG"], Other=~VERDICTS["NoRAG"])
    table = compare(results, "BM25", correction="bonferroni")
    tested = table["p"].notna().sum()
    corrected = (tested * table["p"].dropna()).clip(upper=1)
    assert table["p_corrected"].dropna().tolist() == pytest.approx(corrected.tolist())
    with pytest.raises(UserError, match="Sparse"):
        compare(results, "Sparse")


def test_a_baseline_without_a_verdict_is_an_error_in_one_line():
    results = VERDICTS.assign(NoRAG=pd.array([pd.NA] * len(VERDICTS), "boolean"))
    with pytest.raises(UserError, match="no result of NoRAG is stored") as refused:
        compare(results)
    assert "\n" not in str(refused.value)
