"""How far the topics by rules can be trusted: against the labels of one reader, a language model."""

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pkg_lib.analysis.cells import wilson_range
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import counted_values
from pkg_lib.analysis.stats import RESAMPLES, percentile_interval
from pkg_lib.analysis.tables import DASH, number, percent, reference_table
from pkg_lib.papers.pkg.topics import topics

SILENT = "no rule speaks"
BY_RULE = "rule"
AGREEMENT_COLUMNS = (
    "tasks",
    "agree",
    "agreement, %",
    "95 % interval",
    "Cohen's kappa",
    "95 % interval of kappa",
)


def reader_labels(assigned: pd.DataFrame) -> pd.Series:
    """Read the reader's labels of the assigned tasks.

    Args:
        assigned: The frame of `topics.topics_of`.

    Returns:
        Topic by task id; empty for a benchmark that was not labelled.
    """
    labels = reference_table("topics_labels", comment="#", index_col="task_id")["topic"]
    return labels[labels.index.isin(assigned.index)]


def categories_table(assigned: pd.DataFrame) -> ResultTable:
    """Tabulate the fine categories of each topic.

    Args:
        assigned: The frame of `topics.topics_of`.

    Returns:
        One row per topic; the largest category first.
    """
    rows = {}
    for topic in topics().index:
        topic_categories = assigned.loc[assigned["topic"] == topic, "category"]
        categories = ", ".join(counted_values(topic_categories))
        rows[topic] = [str(len(topic_categories)), categories]
    title = f"Topics of {len(assigned)} tasks"
    return ResultTable.of(title, rows, ["tasks", "fine categories"], "topic")


def cohens_kappa(
    labels: pd.Series,
    answers: pd.Series,
) -> tuple[float, float, float]:
    """Compute Cohen's kappa with a percentile bootstrap interval over tasks.

    All resamples are computed at once by sklearn's formula, which takes minutes one by one.

    Args:
        labels: Topic by task id.
        answers: Topic by task id, or SILENT.

    Returns:
        Kappa and both ends of its interval; NaN if there is one label only, where chance would
        always agree.
    """
    names = [*topics().index, SILENT]
    given = np.asarray(pd.Categorical(labels, names).codes)
    answered = np.asarray(pd.Categorical(answers, names).codes)
    if len({*given, *answered}) < 2:
        return np.nan, np.nan, np.nan
    n = len(given)
    tasks = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    agreement = (given == answered)[tasks].mean(axis=1)
    chance = np.zeros(RESAMPLES)
    for code in range(len(names)):
        share_given = (given[tasks] == code).mean(axis=1)
        share_answered = (answered[tasks] == code).mean(axis=1)
        chance += share_given * share_answered
    defined = chance < 1
    kappas = (agreement[defined] - chance[defined]) / (1 - chance[defined])
    return cohen_kappa_score(given, answered), *percentile_interval(kappas)


def _agreement_cells(
    labels: pd.Series,
    answers: pd.Series,
) -> list[str]:
    """The cells of AGREEMENT_COLUMNS."""
    agree = int((labels == answers).sum())
    if labels.empty:
        return ["0", *[DASH] * 5]
    kappas = cohens_kappa(labels, answers)
    kappa, kappa_low, kappa_high = (number(k, 2) for k in kappas)
    return [
        str(len(labels)),
        str(agree),
        percent(agree / len(labels)),
        wilson_range(agree, len(labels)),
        kappa,
        f"{kappa_low} to {kappa_high}",
    ]


def reader_agreement_table(assigned: pd.DataFrame) -> ResultTable:
    """Compare the topics by rules, and those by embedding, with the reader's labels.

    Args:
        assigned: The frame of `topics.topics_of`.

    Returns:
        One row per way to assign topics.
    """
    labels = reader_labels(assigned)
    checked = assigned.loc[labels.index]
    silent = checked["by"] != BY_RULE
    ways = {
        "rules, then embedding": checked["topic"],
        "rules alone": checked["topic"].mask(silent, SILENT),
        "embedding alone": checked["nearest"],
    }
    rows = {way: _agreement_cells(labels, answers) for way, answers in ways.items()}
    note = (
        f"No rule applies to {silent.sum()} of these {len(checked)} tasks. For rules alone that "
        "is a disagreement. Intervals: Wilson for the agreement, percentile bootstrap over tasks "
        "for kappa. One reader, a language model, labelled the tasks and then wrote the rules. The "
        "agreement shows how well the rules repeat that reading, and not how well two readers "
        "agree."
    )
    if labels.empty:
        note = "Only tasks of MBPP's test split were labelled."
    title = "Topics by the method against those of one reader, a language model"
    return ResultTable.of(title, rows, AGREEMENT_COLUMNS, "method", note)


def reader_disagreements_table(assigned: pd.DataFrame) -> ResultTable:
    """List the tasks on which the method and the reader differ.

    Args:
        assigned: The frame of `topics.topics_of`.

    Returns:
        One row per task.
    """
    labels = reader_labels(assigned)
    checked = assigned.loc[labels.index]
    different = checked[checked["topic"] != labels]
    columns = {
        "by the reader": labels[different.index],
        "by the method": different["topic"],
        "category": different["category"],
    }
    frame = pd.DataFrame(columns).rename_axis("task")
    return ResultTable("Where method and labels differ", frame)


def rules_sentence(assigned: pd.DataFrame) -> str:
    """Say how many tasks the rules decide.

    Args:
        assigned: The frame of `topics.topics_of`.

    Returns:
        The sentence.
    """
    ruled = assigned[assigned["by"] == BY_RULE]
    return (
        f"Rules give {len(ruled)} of {len(assigned)} tasks one of {ruled['category'].nunique()} "
        "fine categories. The nearest description of a topic decides for the other "
        f"{len(assigned) - len(ruled)}."
    )


def reader_agreement_finding(agreement: ResultTable) -> str:
    """Say how well the topics agree with the reader's labels.

    Args:
        agreement: The table of `reader_agreement_table`.

    Returns:
        The sentence.
    """
    tasks, agree, share, _, kappa, bounds = agreement.frame.iloc[0]
    if tasks == "0":
        return "The topics of this benchmark were not checked against labels."
    return (
        f"The topics agree with the labels of one reader, a language model, in {agree} of {tasks} "
        f"tasks ({share} %); Cohen's kappa {kappa} ({bounds})."
    )
