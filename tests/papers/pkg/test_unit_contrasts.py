"""RQ3: contrasts between units from verdicts whose differences are known, and their figure."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Context, Generation
from pkg_lib.papers.pkg.unit_contrasts import (
    compare_units,
    contrasts_table,
    draw_contrasts,
    paired_contrasts,
    published_contrasts,
    tasks_without_answer,
    unit_findings,
    units_table,
)
from tests.analysis.checks import CODE, legible

TASKS = [f"HumanEval/{i}" for i in range(40)]
# Method -> number of the first tasks that it solves.
SOLVED = {
    "NoRAG": 20,
    "BM25": 8,
    "VoyageEmb": 16,
    "Func-BM25": 28,
    "Func-PKG": 20,
    "Block-PKG": 24,
    "Reranked": 24,
}


@pytest.fixture
def verdicts():
    columns = {m: [i < n for i in range(len(TASKS))] for m, n in SOLVED.items()}
    return pd.DataFrame(columns, TASKS).astype("boolean")


def contexts_of(method, defines):
    return [
        Context(task, method, "x", defines_task=answer)
        for task, answer in zip(TASKS, defines, strict=True)
    ]


def study(verdicts, contexts=()):
    """What the comparison reads of an experiment; every context adds three tokens."""
    contexts = dict(contexts)

    def completions(method):
        tokens = 10 if method == "NoRAG" else 13
        return {task: Generation("k", task, "", [], "end", tokens) for task in TASKS}

    return SimpleNamespace(
        benchmark="humaneval",
        benchmark_spec=SimpleNamespace(title="HumanEval"),
        retrievers=[m for m in SOLVED if m != "Reranked"],
        verdicts=lambda: verdicts,
        contexts=lambda method: contexts.get(method, []),
        completions=completions,
    )


def test_a_contrast_is_the_finer_unit_minus_the_coarser_one(verdicts):
    contrasts = paired_contrasts(verdicts)
    assert contrasts["difference"].to_dict() == pytest.approx(
        {
            "Func-BM25 against BM25": 0.5,
            "Func-PKG against VoyageEmb": 0.1,
            "Block-PKG against VoyageEmb": 0.2,
            "Block-PKG against Func-PKG": 0.1,
            "Reranked against Block-PKG": 0.0,
        }
    )
    assert contrasts.loc["Func-BM25 against BM25", ["n", "helped", "hurt"]].tolist() == [40, 20, 0]
    assert (contrasts["p_corrected"] >= contrasts["p"]).all()


def test_tasks_with_the_answer_are_left_out_of_the_second_difference(verdicts):
    contexts = {
        "BM25": contexts_of("BM25", [True] * 10 + [False] * 30),
        "Func-BM25": contexts_of("Func-BM25", [False] * 35 + [None] * 5),
    }
    clean = paired_contrasts(verdicts, tasks_without_answer(contexts))
    assert clean["n"].tolist() == [25, 40, 40, 40, 40]


def test_published_contrasts_are_fractions_and_absent_without_a_table(verdicts):
    published = published_contrasts("humaneval", verdicts)
    assert published.shape[0] == 5 and published.shape[1] >= 5
    assert published.abs().max(axis=None) < 1
    assert published_contrasts("mbpp-all", verdicts).shape == (5, 0)


def test_tables_show_what_was_measured_and_a_dash_for_what_was_not(verdicts):
    verdicts["VoyageEmb"] = pd.NA
    contexts = {"BM25": contexts_of("BM25", [True] * 10 + [False] * 28 + [None] * 2)}
    comparison = compare_units(study(verdicts, contexts))
    units = units_table(comparison).frame
    assert units.loc["BM25", "pass@1, %"] == "20.0"
    assert units.loc["BM25", "mean tokens added"] == "3"
    assert units.loc["BM25", "contexts that define the function"] == "10 of 38"
    assert (
        units.loc["VoyageEmb", "pass@1, %"] == units.loc["VoyageEmb", "contexts shortened"] == DASH
    )
    contrasts = contrasts_table(comparison).frame
    first = contrasts.loc["Func-BM25 against BM25"]
    assert (first["tasks"], first["difference"], first["only the first"]) == ("40", "+50.0", "20")
    assert contrasts.loc["Func-PKG against VoyageEmb", "tasks"] == DASH
    assert contrasts.loc["Reranked against Block-PKG", "tasks without such a context"] == DASH


def test_findings_name_the_significant_contrast_and_what_is_missing(verdicts):
    verdicts["VoyageEmb"] = pd.NA
    findings = unit_findings(compare_units(study(verdicts)))
    assert findings[0].startswith("Only one difference is significant after correction: ")
    assert "Func-BM25 solves 50.0 percentage points more than BM25" in findings[0]
    missing = findings[-1]
    assert missing.startswith("Not measured")
    assert "Func-PKG against VoyageEmb" in missing and "Func-BM25" not in missing


@pytest.mark.parametrize("absent", [[], ["BM25", "VoyageEmb"], list(CODE)])
@pytest.mark.parametrize("benchmark", ["humaneval", "mbpp-all"])
def test_the_figure_is_legible_and_draws_the_differences(verdicts, benchmark, absent):
    verdicts[absent] = pd.NA
    contrasts = paired_contrasts(verdicts)
    title = f"qwen2.5-coder-0.5b-instruct, {benchmark}"
    figure = draw_contrasts(contrasts, published_contrasts(benchmark, verdicts), title)
    assert ("not measured" in legible(figure)) == bool(absent)
    lines = figure.axes[0].lines
    here = next(line for line in lines if line.get_label().startswith("here"))
    known = [100 * value for value in contrasts["difference"] if not math.isnan(value)]
    assert here.get_xdata() == pytest.approx(known)


def test_equal_methods_have_an_axis_of_readable_width_and_no_interval(verdicts):
    same = verdicts.apply(lambda column: verdicts["NoRAG"])
    contrasts = paired_contrasts(same)
    figure = draw_contrasts(contrasts, published_contrasts("my-benchmark", same), "mine")
    left, right = figure.axes[0].get_xlim()
    assert (left, right) == (-1, 1)
    texts = legible(figure)
    assert "1e-17" not in texts
    assert "95 % interval" not in texts


def test_small_differences_of_many_tasks_are_within_the_figure():
    row = {"n": 4000, "difference": 0.011, "low": 0.007, "high": 0.0155}
    contrasts = pd.DataFrame([row], index=["Func-BM25 against BM25"])
    figure = draw_contrasts(contrasts, pd.DataFrame(index=contrasts.index), "mine")
    left, right = figure.axes[0].get_xlim()
    assert left <= 0 and right >= 1.55
