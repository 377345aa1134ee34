"""pass@1 by context validity, copying and prompt variants, from small experiments."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from pkg_lib.analysis.cells import difference_cell, mean_cell, rate_cell, rate_of_counts
from pkg_lib.analysis.stats import BASELINE, ORACLE, Difference
from pkg_lib.papers.pkg import validity_tables, variant_tables
from tests.analysis.checks import legible

SMALL = "qwen2.5-coder-0.5b-instruct"


class Stored:
    """Results of which these verdicts are stored."""

    model, benchmark, corpus, limit = SMALL, "humaneval", "published", None
    frame = pd.DataFrame(
        {
            BASELINE: [True, True, False, True, True],
            "Func-PKG": [True, False, False, False, True],
            "Func-PKG, context first": [True, True, False, False, True],
            "Func-PKG, leak-free": [True, True, False, False, None],
        },
        list("abcde"),
        dtype="boolean",
    )

    def offers(self, method):
        return method in self.frame or method == "Func-PKG, unpruned"

    def verdicts(self, methods):
        return self.frame.reindex(columns=methods).astype("boolean")


def rates(**of_kind):
    """Rates of one method; kind -> (tasks, passed without, passed with the context)."""
    rows = {}
    for kind, (n, without, with_context) in of_kind.items():
        difference = (with_context - without) / n if n else math.nan
        rows["0.5B HumanEval", "Func-PKG", kind] = {
            BASELINE: without,
            "method": with_context,
            "n": n,
            "difference": difference,
            "low": difference,
            "high": difference,
            "helped": 1,
            "hurt": 2,
            "p": 0.5,
        }
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame.index = pd.MultiIndex.from_tuples(rows, names=["experiment", "method", "context"])
    return frame


def test_cells_print_rates_and_differences_with_intervals():
    verdicts = pd.Series([True, False, pd.NA], dtype="boolean")
    assert rate_cell(verdicts) == rate_of_counts(1, 2) == "50.0 (9.5–90.5)"
    assert rate_cell(verdicts[2:]) == rate_of_counts(0, 0) == "–"
    assert mean_cell(pd.Series([0.5, 0.5])) == "50.0 (50.0–50.0)"
    assert mean_cell(pd.Series(dtype=float)) == "–"
    assert difference_cell(Difference(4, -0.05, -0.1, 0.0)) == "−5.0 (−10.0 to 0.0)"


def test_the_validity_table_and_figure_leave_out_kinds_without_tasks():
    of = rates(all=(6, 3, 4), valid=(4, 2, 4), invalid=(2, 1, 0), unrelated=(0, 0, 0))
    rows = validity_tables.validity_table(of, "published").frame
    assert [name.rsplit(", ", 1)[1] for name in rows.index] == ["all", "valid", "invalid"]
    valid = rows.loc["0.5B HumanEval, Func-PKG, valid"]
    assert valid[BASELINE].startswith("50.0 (")
    assert valid["with the context"].startswith("100.0 (")
    shown = legible(validity_tables.validity_figure(of, {"0.5B HumanEval": Stored()}))
    assert "valid context" in shown and "0.5B HumanEval, Func-PKG (4)" in shown
    assert not [text for text in shown if text.startswith(("all", "unrelated"))]
    title = "pass@1 is higher in 1 of 1 rows with a valid context,\nand lower in 1 of 1 rows with another context"
    assert f"{title}\n{SMALL}" in shown


def test_answers_are_counted_over_models_methods_and_benchmarks():
    of = rates(all=(6, 3, 4), valid=(4, 2, 4), invalid=(2, 1, 0))
    counted = validity_tables.answers_finding(of, {"0.5B HumanEval": Stored()})
    assert "These 6 answers are of 1 model with 1 method on 1 benchmark." in counted


def test_findings_add_up_where_the_context_solves_the_task_and_elsewhere():
    of = rates(all=(9, 5, 5), valid=(4, 2, 4), invalid=(2, 1, 0), unrelated=(3, 2, 1))
    overall = validity_tables.validity_finding(of, ["Func-PKG", "Block-PKG"], "published")
    assert "from 50 % (2 of 4 answers) to 100 % (4)" in overall
    assert "from 60 % (3 of 5 answers) to 20 % (1)" in overall


def test_prompt_variants_are_compared_with_the_papers_prompt():
    runs = {"run": Stored()}
    comparisons = variant_tables.prompt_comparisons(runs, ["Func-PKG"])
    table = variant_tables.prompt_variants_table(runs, comparisons)
    assert '"context first" (the context is before the task' in table.notes[0]
    rows = table.frame
    against = "against the default prompt (95 %)"
    assert rows.loc["run, Func-PKG", against] == "–"
    assert rows.loc["run, Func-PKG, context first", against].startswith("+20.0 ")
    assert rows.loc["run, Func-PKG, context first", "pass@1"] == "60.0"
    figure = variant_tables.prompt_variants_figure(comparisons, ["m"])
    shown = legible(figure)
    assert {"run,\nFunc-PKG (5)", "default prompt", "context first"} <= set(shown)
    assert f"All 2 prompts with a context score below {BASELINE}\nm" in shown
    points = [line.get_xdata() for line in figure.axes[0].lines if line.get_marker() in "os"]
    assert points == [pytest.approx([-40]), pytest.approx([-20])]


def test_variants_of_a_method_are_compared_on_common_tasks():
    def table(method, variant):
        runs = {"run": Stored()}
        return variant_tables.variant_rates_table(
            runs, [method], [variant], "t", "all units", "all"
        )

    (row,) = table("Func-PKG", "leak-free").frame.to_dict("records")
    assert (row["tasks"], row["all units"], row["leak-free"]) == ("4", "25.0", "50.0")
    assert row["leak-free minus all"].startswith("+25.0 ")
    assert table("Func-PKG", "paper-literal").frame.empty, "nothing was measured"
    assert table("Block-PKG", "leak-free").frame.empty, "the corpus does not offer it"


def test_labels_are_the_models_size_and_the_benchmark():
    assert validity_tables.short_model_name(SMALL) == "0.5B"
    assert validity_tables.short_model_name("other") == "OTHER"


def test_agreement_counts_equal_verdicts():
    both = pd.DataFrame({"copy": [True, False, True], "method": [True, False, False]})
    assert validity_tables.agreement_cell(both) == rate_of_counts(2, 3)
    runs = {"run": SimpleNamespace(completions=lambda method: method == "Func-PKG")}
    completed = validity_tables.completed(runs, ["Func-PKG", ORACLE])
    assert completed == [("run", "Func-PKG")]
