"""Case studies: the groups, the rule that takes cases, the table of changed tasks and the figure."""

from types import SimpleNamespace

import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Context, Outcome, UserError
from pkg_lib.papers.pkg import case_studies
from pkg_lib.papers.pkg.case_figures import draw_scores
from pkg_lib.papers.pkg.case_studies import CaseStudy, by_score, select_cases, tasks_by_change
from tests.analysis.checks import legible

PASSED, UNKNOWN = Outcome("passed"), Outcome("not_measured")
FAILED = Outcome("failed", "NameError", "NameError: name 'x' is not defined")
ASSERTED = Outcome("failed", "AssertionError")
WITHOUT = {"a": FAILED, "b": PASSED, "c": PASSED, "d": FAILED, "e": UNKNOWN, "f": ASSERTED}
WITH = {"a": PASSED, "b": FAILED, "c": PASSED, "d": FAILED, "e": PASSED, "f": PASSED}


def context(task, score=None, defines=None):
    return Context(task, "Block-PKG", "x", "d:1-2", score or 0.0, defines_task=defines)


CONTEXTS = {
    "a": context("a", 0.25, True),
    "b": context("b", 0.5, False),
    "c": context("c", 0.75),
    "d": context("d"),
}


def study(without=WITHOUT, with_=WITH, contexts=CONTEXTS, shown=("a",)):
    cases = SimpleNamespace(method="Block-PKG", contexts=contexts, outcomes=(without, with_))
    picked = {"helped": [SimpleNamespace(task_id=t) for t in shown], "hurt": []}
    groups = tasks_by_change(without, with_)
    return CaseStudy(SimpleNamespace(), cases, groups, frozenset("f"), picked)


def test_tasks_are_grouped_by_what_the_method_changed():
    groups = tasks_by_change(WITHOUT, WITH)
    assert groups == {"helped": ["a", "f"], "hurt": ["b"], "both pass": ["c"], "both fail": ["d"]}


def test_the_highest_score_comes_first_then_the_order_given_and_those_without_one_last():
    scores = {"a": 0.1, "b": 0.5, "c": 0.5, "d": -0.3}
    contexts = {task: context(task, score) for task, score in scores.items()}
    assert by_score(["z", "a", "b", "c", "d"], contexts) == ["b", "c", "a", "d", "z"]


def test_at_least_one_case_of_each_kind_is_shown():
    with pytest.raises(UserError, match="count is 0"):
        select_cases(SimpleNamespace(), count=0)


def test_the_table_holds_every_changed_task_with_its_ends_and_its_context():
    table = case_studies.changed_table(study())
    assert list(table.frame.index) == ["a", "f", "b"]
    assert table.frame.loc["a"].tolist() == ["helped", "NameError", "passed", "0.250", "yes"]
    assert table.frame.loc["f"].tolist() == [
        "helped",
        "AssertionError (its own)",
        "passed",
        DASH,
        DASH,
    ]
    assert "helped (2) and hurt (1)" in table.title
    assert table.title in case_studies.folded(table)
    nothing = case_studies.changed_table(study({"c": PASSED}, {"c": PASSED}, shown=()))
    assert nothing.frame.empty and nothing.notes == ("There is no such task.",)


def test_scores_are_of_the_tasks_that_have_one_and_mark_the_cases():
    scores = case_studies.retrieval_scores(study())
    assert scores["task"].tolist() == ["a", "b", "c"]
    assert scores["shown"].tolist() == [True, False, False]
    assert case_studies.retrieval_scores(study(contexts={})).empty


def test_findings_count_changes_and_contexts_that_define_the_function():
    sentences = case_studies.case_findings(study(shown=()), 2)
    assert "Of 5 tasks" in sentences[0] and "solves 2 that" in sentences[0]
    assert "1 of 1 helped and 0 of 1 hurt" in sentences[1]
    assert case_studies.cases_html(study(), "hurt").startswith("<p>There is no such task")


def test_the_figure_is_legible_and_counts_every_group():
    many = {f"t{i}": context(f"t{i}", 0.3 + i / 300) for i in range(120)}
    verdicts = {task: (PASSED, FAILED)[i % 2] for i, task in enumerate(many)}
    after = {task: (FAILED, PASSED, PASSED)[i % 3] for i, task in enumerate(many)}
    of_many = study(verdicts, after, many, shown=["t1"])
    sizes = {group: len(tasks) for group, tasks in of_many.groups.items()}
    scores = case_studies.retrieval_scores(of_many)
    figure = draw_scores(scores, sizes, "cosine", "Block-PKG on HumanEval")
    shown = legible(figure)
    assert {str(size) for size in sizes.values()} <= set(shown)
    dots = sum(len(group.get_offsets()) for group in figure.axes[0].collections)
    assert dots == len(many)
