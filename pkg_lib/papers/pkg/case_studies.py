"""Case studies (Appendix B.5): tasks that a method changed, and the cases that a rule takes from them.

No case is picked by hand. The rule takes the changed tasks with the highest retrieval score. It leaves out
tasks whose failed solution was ended by an assertion of its own before any test, since that solution may be
correct.
"""

from collections.abc import (
    Iterable,
    Mapping,
)
from dataclasses import dataclass

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import (
    BASELINE,
    mcnemar,
)
from pkg_lib.analysis.tables import (
    DASH,
    number,
    probability,
    render,
)
from pkg_lib.core.types import (
    Context,
    Outcome,
    UserError,
)
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.cases import (
    Case,
    MethodCases,
    compared_method,
    fragment,
    measure,
    score,
    sentence,
)

HELPED, HURT = "helped", "hurt"
# (status without retrieval, status with the method) -> what the method changed.
CHANGES = {
    ("failed", "passed"): HELPED,
    ("passed", "failed"): HURT,
    ("passed", "passed"): "both pass",
    ("failed", "failed"): "both fail",
}
HEADING_LEVEL = 4  # of the parts of a case
NO_CASE = "<p>There is no such task, so there is no case to show.</p>"
CHANGED_NOTE = (
    "Without retrieval and with the method: passed, or the error that ended the solution. Its own: an "
    "assertion in the solution itself."
)
DEFINES = {
    None: DASH,
    True: "yes",
    False: "no",
}


@dataclass(frozen=True)
class CaseStudy:
    """What a method changed in the tasks of an experiment.

    Attributes:
        results: The experiment.
        cases: The tasks without retrieval and with the method.
        groups: What the method changed -> ids of the tasks, in the benchmark's order. A task that was not
            measured in both is in no group.
        own_assertions: Tasks whose solution was ended by an assertion of its own.
        shown: "helped" and "hurt" -> the cases that the rule takes.
    """

    results: Results
    cases: MethodCases
    groups: dict[str, list[str]]
    own_assertions: frozenset[str]
    shown: dict[str, list[Case]]

    @property
    def method(self) -> str:
        """The method that is compared with no retrieval."""
        return self.cases.method


def select_cases(
    results: Results,
    method: str = "",
    count: int = 2,
) -> CaseStudy:
    """Group the tasks by what a method changed, and take the cases to show.

    Args:
        results: The experiment.
        method: A method with contexts; "" for the corpus' last one that is stored.
        count: How many helped and how many hurt tasks are shown.

    Returns:
        The groups and the cases.

    Raises:
        UserError: The corpus does not offer the method, or `count` is below 1.
    """
    if count < 1:
        raise UserError(f"count is {count}; show at least 1 case of each kind")
    method = compared_method(results, method)
    cases = MethodCases(results, method, public=True)
    groups = tasks_by_change(*cases.outcomes)
    own = results.own_assertions(BASELINE) | results.own_assertions(method)
    shown = {}
    for change in (HELPED, HURT):
        candidates = [task for task in groups[change] if task not in own]
        taken = by_score(candidates, cases.contexts)[:count]
        shown[change] = [cases.case(task) for task in taken]
    return CaseStudy(results, cases, groups, own, shown)


def tasks_by_change(
    without: Mapping[str, Outcome],
    with_method: Mapping[str, Outcome],
) -> dict[str, list[str]]:
    """Group tasks by their outcomes without retrieval and with a method.

    Args:
        without: Outcome by task id without retrieval.
        with_method: Outcome by task id with the method.

    Returns:
        Every value of `CHANGES` -> ids of its tasks.
    """
    groups: dict[str, list[str]] = {change: [] for change in CHANGES.values()}
    for task, outcome in without.items():
        change = CHANGES.get((outcome.status, with_method[task].status))
        if change:
            groups[change].append(task)
    return groups


def by_score(
    tasks: Iterable[str],
    contexts: Mapping[str, Context],
) -> list[str]:
    """Order tasks by the retrieval score of their context.

    Args:
        tasks: Ids of the tasks.
        contexts: Context by task id.

    Returns:
        The ids, the highest score first. Tasks of equal score keep their order; those without a score come
        last.
    """
    scores = pd.Series({task: score(contexts.get(task)) for task in tasks}, dtype=float)
    return list(scores.sort_values(ascending=False, kind="stable").index)


def changed_table(study: CaseStudy) -> ResultTable:
    """Show every task that the method helped or hurt.

    Args:
        study: The tasks.

    Returns:
        One row per task, the highest retrieval score first.
    """
    contexts = study.cases.contexts
    rows = {}
    for change in (HELPED, HURT):
        for task in by_score(study.groups[change], contexts):
            rows[task] = [change, *_outcome_cells(study, task), *_context_cells(contexts.get(task))]
    helped, hurt = len(study.groups[HELPED]), len(study.groups[HURT])
    title = f"Tasks that {study.method} helped ({helped}) and hurt ({hurt})"
    columns = [
        "change",
        BASELINE,
        study.method,
        measure(study.method),
        "context defines the function",
    ]
    note = CHANGED_NOTE if rows else "There is no such task."
    return ResultTable.of(title, rows, columns, "task", note)


def _outcome_cells(
    study: CaseStudy,
    task: str,
) -> list[str]:
    own = " (its own)" if task in study.own_assertions else ""
    cells = []
    for outcomes in study.cases.outcomes:
        outcome = outcomes[task]
        cells.append(f"{outcome.error}{own}" if outcome.error else outcome.status)
    return cells


def _context_cells(context: Context | None) -> list[str]:
    defines = context.defines_task if context else None
    return [number(score(context), 3), DEFINES[defines]]


def folded(table: ResultTable) -> str:
    """Write a table that a reader unfolds by clicking on its title.

    Args:
        table: The table.

    Returns:
        A fragment of HTML.
    """
    return render(
        "folded.html.j2",
        summary=table.title,
        body=table.html(),
    )


def cases_html(
    study: CaseStudy,
    change: str,
) -> str:
    """Write the cases that the rule takes, each of them folded.

    Args:
        study: The tasks.
        change: "helped" or "hurt".

    Returns:
        A fragment of HTML.
    """
    parts = []
    for case in study.shown[change]:
        body = fragment(case, HEADING_LEVEL)
        parts.append(
            render(
                "folded.html.j2",
                summary=sentence(case),
                body=body,
            )
        )
    return "".join(parts) or NO_CASE


def retrieval_scores(study: CaseStudy) -> pd.DataFrame:
    """Collect the retrieval score of every task.

    Args:
        study: The tasks.

    Returns:
        ``group`` (what the method changed), ``task``, ``score`` and ``shown`` (whether it is a case). Tasks
        without a score are left out.
    """
    shown = {case.task_id for cases in study.shown.values() for case in cases}
    rows = []
    for group, tasks in study.groups.items():
        for task in tasks:
            value = score(study.cases.contexts.get(task))
            if value is not None:
                rows.append((group, task, value, task in shown))
    return pd.DataFrame(
        rows,
        columns=[
            "group",
            "task",
            "score",
            "shown",
        ],
    )


def case_findings(
    study: CaseStudy,
    count: int,
) -> list[str]:
    """Say what the method changed, and how the cases were chosen.

    Args:
        study: The tasks.
        count: How many cases of each kind were to be shown.

    Returns:
        Sentences.
    """
    helped, hurt = study.groups[HELPED], study.groups[HURT]
    measured = sum(map(len, study.groups.values()))
    p = probability(mcnemar(len(helped), len(hurt)))
    contexts = study.cases.contexts
    sentences = [
        f"Of {measured} tasks measured in both, {study.method} solves {len(helped)} that {BASELINE} does "
        f"not solve, and {BASELINE} solves {len(hurt)} that {study.method} does not (McNemar's exact test: "
        f"p {p}).",
    ]
    if not len(helped) + len(hurt):
        return sentences
    return [
        *sentences,
        f"The context defines the function asked for in {_defining(helped, contexts)} helped and "
        f"{_defining(hurt, contexts)} hurt tasks.",
        f"The cases are the {count} of each kind with the highest score (the first ones if there are no "
        "scores), without those that an assertion of their own ended.",
    ]


def _defining(
    tasks: Iterable[str],
    contexts: Mapping[str, Context],
) -> str:
    """How many of the checked contexts define the function that their task asks for."""
    known = [contexts[task].defines_task for task in tasks if task in contexts]
    checked = [answer for answer in known if answer is not None]
    return f"{sum(checked)} of {len(checked)}"
