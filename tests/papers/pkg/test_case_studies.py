"""Case studies: groups of tasks, selection of cases, the table of changed tasks and the figure."""

from types import SimpleNamespace

import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Context, Outcome, UserError
from pkg_lib.papers.pkg import case_studies
from pkg_lib.papers.pkg.case_figures import draw_scores
from pkg_lib.papers.pkg.case_studies import CaseStudy, by_score, select_cases, tasks_by_change
from tests.analysis.checks import legible

PASSED = Outcome("passed")
UNKNOWN = Outcome("not_measured")
FAILED = Outcome("failed", "NameError", "NameError: name 'x' is not defined")
ASSERTED = Outcome("failed", "AssertionError")
WITHOUT = {"a": FAILED, "b": PASSED, "c": PASSED, "d": FAILED, "e": UNKNOWN, "f": ASSERTED}
WITH = {"a": PASSED, "b": FAILED, "c": PASSED, "d": FAILED, "e": PASSED, "f": PASSED}


def context(task, score=None, defines=None):
    """A context of Block-PKG for a task.

    Args:
        task: Id of the task.
        score: Retrieval score; None means 0.
        defines: Whether the context defines the requested function; None if unknown.
    """
    return Context(task, "Block-PKG", "x", "d:1-2", score or 0.0, defines_task=defines)


CONTEXTS = {
    "a": context("a", 0.25, True),
    "b": context("b", 0.5, False),
    "c": context("c", 0.75),
    "d": context("d"),
}


def study(without=WITHOUT, with_=WITH, contexts=CONTEXTS, shown=("a",)):
    """A case study of Block-PKG.

    Args:
        without: Outcomes without retrieval, by task.
        with_: Outcomes with Block-PKG, by task.
        contexts: Contexts by task.
        shown: Helped tasks that are shown in full.
    """
    cases = SimpleNamespace(method="Block-PKG", contexts=contexts, outcomes=(without, with_))
    helped = [SimpleNamespace(task_id=task) for task in shown]
    selected = {"helped": helped, "hurt": []}
    groups = tasks_by_change(without, with_)
    return CaseStudy(SimpleNamespace(), cases, groups, frozenset("f"), selected)


def test_groups_tasks_by_what_the_method_changed():
    groups = tasks_by_change(WITHOUT, WITH)
    assert groups == {"helped": ["a", "f"], "hurt": ["b"], "both pass": ["c"], "both fail": ["d"]}


def test_orders_tasks_by_score_then_by_given_order_and_unscored_last():
    scores = {"a": 0.1, "b": 0.5, "c": 0.5, "d": -0.3}
    contexts = {task: context(task, score) for task, score in scores.items()}
    assert by_score(["z", "a", "b", "c", "d"], contexts) == ["b", "c", "a", "d", "z"]


def test_rejects_a_count_of_zero_cases():
    with pytest.raises(UserError, match="count is 0"):
        select_cases(SimpleNamespace(), count=0)


def test_the_table_lists_every_changed_task_with_outcomes_and_context():
    table = case_studies.changed_table(study())
    assert list(table.frame.index) == ["a", "f", "b"]
    assert table.frame.loc["a"].tolist() == ["helped", "NameError", "passed", "0.250", "yes"]
    own_assertion = ["helped", "AssertionError (its own)", "passed", DASH, DASH]
    assert table.frame.loc["f"].tolist() == own_assertion
    assert "helped (2) and hurt (1)" in table.title
    assert table.title in case_studies.folded(table)
    unchanged = case_studies.changed_table(study({"c": PASSED}, {"c": PASSED}, shown=()))
    assert unchanged.frame.empty
    assert unchanged.notes == ("There is no such task.",)


def test_scores_cover_tasks_with_a_score_and_mark_the_shown_cases():
    scores = case_studies.retrieval_scores(study())
    assert scores["task"].tolist() == ["a", "b", "c"]
    assert scores["shown"].tolist() == [True, False, False]
    assert case_studies.retrieval_scores(study(contexts={})).empty


def test_findings_count_changes_and_contexts_that_define_the_function():
    changes, definitions, *_ = case_studies.case_findings(study(shown=()), 2)
    assert "Of 5 tasks" in changes
    assert "solves 2 that" in changes
    assert "1 of 1 helped and 0 of 1 hurt" in definitions
    assert case_studies.cases_html(study(), "hurt").startswith("<p>There is no such task")
    (nothing_changed,) = case_studies.case_findings(study(WITHOUT, WITHOUT), 2)
    assert "solves 0 that" in nothing_changed


def test_the_figure_is_legible_and_counts_every_group():
    contexts, before, after = {}, {}, {}
    for number in range(120):
        task = f"t{number}"
        contexts[task] = context(task, 0.3 + number / 300)
        before[task] = FAILED if number % 2 else PASSED
        after[task] = PASSED if number % 3 else FAILED
    case_study = study(before, after, contexts, shown=["t1"])
    sizes = {group: len(tasks) for group, tasks in case_study.groups.items()}
    scores = case_studies.retrieval_scores(case_study)
    figure = draw_scores(scores, sizes, "cosine", "Block-PKG on HumanEval")
    shown = legible(figure)
    assert {str(size) for size in sizes.values()} <= set(shown)
    dots = sum(len(group.get_offsets()) for group in figure.axes[0].collections)
    assert dots == len(contexts)
