"""Topics of tasks (Section 6.2, Figures 3 to 5): task -> fine category -> one of ten topics.

The paper let a model name 134 categories and group them; neither list is published. Here an ordered list of rules
(reference/topic_rules.tsv) gives the category: the first pattern that the task's text, or its reference solution, holds. Where
every rule is silent, the topic is that whose description (reference/topics.csv) has the nearest embedding.
The paper's text names nine topics; the tenth stands only in its figures, so Bit Manipulation takes its place.
"""

from __future__ import annotations

import ast
import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import CONFIDENCE, RESAMPLES, wilson
from pkg_lib.analysis.tables import DASH, HERE, percent
from pkg_lib.core.store import slug
from pkg_lib.core.types import Task, UserError, digest

REFERENCE = HERE / "reference"
HINT = re.compile(r"\n(Test|Function): .*\Z", re.DOTALL)
NEAREST = "nearest description"
SILENT = "no rule speaks"


@dataclass(frozen=True, slots=True)
class Rule:
    """A fine category and the pattern of a task's text or solution (`where`) that decides for it."""

    category: str
    topic: str
    where: str
    pattern: re.Pattern[str]


@cache
def topics() -> pd.DataFrame:
    """The ten topics in the order of the figures: index topic; short (its name on an axis), source, description."""
    return pd.read_csv(REFERENCE / "topics.csv", index_col="topic")


@cache
def rules() -> tuple[Rule, ...]:
    """The rules in the order in which they are tried."""
    rows = pd.read_csv(REFERENCE / "topic_rules.tsv", sep="\t", quoting=csv.QUOTE_NONE).itertuples(
        index=False
    )
    return tuple(Rule(r.category, r.topic, r.where, re.compile(r.pattern, re.IGNORECASE)) for r in rows)


def stored_topics(results: Path, benchmark: str) -> pd.DataFrame | None:
    """The assignment that stands in the results, index task id, or None where there is none.

    Raises UserError for a damaged file.
    """
    path = topics_path(results, benchmark)
    return read_task_file(path) if path.exists() else None


def read_task_file(path: Path) -> pd.DataFrame:
    """A file of results/tasks, index task id. UserError where it is damaged."""
    try:
        return pd.read_csv(path, comment="#", index_col="task_id", keep_default_na=False)
    except (ValueError, KeyError) as e:
        raise UserError(f"{path} is damaged; delete it, it is made again") from e


def topics_path(results: Path, benchmark: str) -> Path:
    """Where the topics of a benchmark's tasks are kept."""
    return results / "tasks" / f"{slug(benchmark)}.topics.csv"


def statement(task: Task) -> str:
    """What the task says in words: MBPP's text without the hint that the prompt adds, HumanEval's docstring."""
    if task.benchmark.startswith("mbpp"):
        return HINT.sub("", task.prompt)
    functions = [n for n in ast.walk(ast.parse(task.prompt)) if isinstance(n, ast.FunctionDef)]
    said = [ast.get_docstring(f) or "" for f in functions if f.name == task.entry_point]
    return re.split(r"\n\s*(?:>>>|Examples?\b|For example)", said[-1])[0] if said else task.prompt


def by_rules(text: str, solution: str = "") -> Rule | None:
    """The first rule that speaks, or None."""
    parts = {"text": text, "solution": solution}
    return next((r for r in rules() if r.pattern.search(parts[r.where])), None)


def nearest(vectors: np.ndarray, descriptions: np.ndarray) -> list[str]:
    """The topic with the highest cosine to each task: unit vectors [tasks, d] and [topics, d] in the order of `topics()`."""
    names = list(topics().index)
    return [names[i] for i in (vectors @ descriptions.T).argmax(axis=1)]


def assign(tasks: Sequence[Task], vectors: np.ndarray, descriptions: np.ndarray) -> pd.DataFrame:
    """Index task id; category, topic, by ("rule" or "embedding"), nearest (what the embedding alone would say).

    `vectors` are of the tasks' `statement`s [tasks, d], `descriptions` of the topics' descriptions [topics, d].
    """
    rows = {}
    for task, near in zip(tasks, nearest(vectors, descriptions), strict=True):
        rule = by_rules(statement(task), task.solution)
        decided = (rule.category, rule.topic, "rule") if rule else (NEAREST, near, "embedding")
        rows[task.id] = (*decided, near)
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["category", "topic", "by", "nearest"])
    return frame.rename_axis("task_id")


def made_from(tasks: Sequence[Task], embedder: str) -> str:
    """Identifies everything that `assign` decides by."""
    files = [(REFERENCE / name).read_text("utf8") for name in ("topics.csv", "topic_rules.tsv")]
    return digest(embedder, *files, *(part for t in tasks for part in (t.id, statement(t), t.solution)))


@cache
def reader_labels() -> pd.Series:
    """task id -> topic of the 100 tasks of MBPP that were read one by one."""
    return pd.read_csv(REFERENCE / "topics_labels.csv", comment="#", index_col="task_id")["topic"]


def agreement(assigned: pd.DataFrame) -> Grid:
    """The method, its rules alone and the embedding alone against the reader's labels, with Cohen's kappa and intervals."""
    title, labels = "Topics by the method against those of one reader, a language model", reader_labels()
    labels = labels[labels.index.isin(assigned.index)]
    found = assigned.loc[labels.index]
    answers = {
        "rules, then embedding": found["topic"],
        "rules alone": found["topic"].where(found["by"] == "rule", SILENT),
        "embedding alone": found["nearest"],
    }
    rows = {name: _agreement_row(labels, answer) for name, answer in answers.items()}
    names = ["tasks", "agree", "agreement, %", "95 % interval", "Cohen's kappa", "95 % interval of kappa"]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=names).rename_axis("method")
    if labels.empty:
        return Grid(title, frame, ("Only tasks of MBPP's test split were labelled.",))
    silent = int((found["by"] != "rule").sum())
    note = (
        f"Rules are silent for {silent} of these {len(found)} tasks; for rules alone that is a disagreement. Intervals: Wilson "
        "for the agreement, percentile bootstrap over tasks for kappa. One reader, a language model, labelled the tasks and then "
        "wrote the rules: this says how well rules repeat that reading, not how well two readers agree."
    )
    return Grid(title, frame, (note,))


def _agreement_row(labels: pd.Series, answer: pd.Series) -> tuple[str, ...]:
    agree, bounds = int((labels == answer).sum()), wilson(int((labels == answer).sum()), len(labels))
    if bounds is None:
        return ("0", *[DASH] * 5)
    value, low, high = kappa(labels, answer)
    share = f"{percent(bounds[0])} to {percent(bounds[1])}"
    return (
        str(len(labels)),
        str(agree),
        percent(agree / len(labels)),
        share,
        _two(value),
        f"{_two(low)} to {_two(high)}",
    )


def kappa(
    labels: pd.Series, answer: pd.Series, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float, float]:
    """Cohen's kappa and its percentile bootstrap interval over tasks; NaN where it is not defined (one label alone)."""
    names = [*topics().index, SILENT]
    a, b = (np.asarray(pd.Categorical(s, names).codes) for s in (labels, answer))
    if len({*a, *b}) < 2:  # chance alone would agree always, and kappa be 0 / 0
        return (math.nan,) * 3
    draws = np.random.default_rng(seed).integers(len(a), size=(resamples, len(a)))
    # The same formula as sklearn's, over all resamples at once: one by one they would take minutes.
    seen, (mine, theirs) = (
        (a == b)[draws].mean(axis=1),
        (_shares(codes[draws], len(names)) for codes in (a, b)),
    )
    chance = (mine * theirs).sum(axis=1)
    tail, known = (1 - CONFIDENCE) / 2, chance < 1
    low, high = np.quantile((seen[known] - chance[known]) / (1 - chance[known]), [tail, 1 - tail])
    return float(cohen_kappa_score(a, b)), float(low), float(high)


def _shares(codes: np.ndarray, names: int) -> np.ndarray:
    """How often each name stands in a row: int [resamples, tasks] -> float [resamples, names]."""
    return np.stack([(codes == k).mean(axis=1) for k in range(names)], axis=1)


def _two(value: float) -> str:
    return DASH if np.isnan(value) else f"{value:.2f}"


def agreement_sentence(found: Grid) -> str:
    """What `agreement` says of the method, in one sentence."""
    tasks, agree, share, _, value, spread = found.frame.iloc[0]
    if tasks == "0":
        return "The topics of this benchmark were not checked against labels."
    whose = "the labels of one reader, a language model,"
    return f"The topics agree with {whose} in {agree} of {tasks} tasks ({share} %); Cohen's kappa {value} ({spread})."


def disagreements(assigned: pd.DataFrame) -> Grid:
    """The labelled tasks on which method and labels differ."""
    labels = reader_labels()
    labels = labels[labels.index.isin(assigned.index)]
    found = assigned.loc[labels.index]
    differ = found[found["topic"] != labels]
    both = {"by the reader": labels[differ.index], "by the method": differ["topic"]}
    frame = pd.DataFrame(both | {"category": differ["category"]})
    return Grid("Where method and labels differ", frame.rename_axis("task"))


def categories(assigned: pd.DataFrame) -> Grid:
    """topic -> its tasks, its fine categories and their tasks, over the whole benchmark."""
    counts = assigned.groupby(["topic", "category"]).size()
    rows = {}
    for topic in topics().index:
        mine = (
            counts[topic].sort_values(ascending=False, kind="stable")
            if topic in counts
            else pd.Series(dtype=int)
        )
        rows[topic] = (str(int(mine.sum())), ", ".join(f"{c} {n}" for c, n in mine.items()))
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["tasks", "fine categories"]).rename_axis(
        "topic"
    )
    return Grid(f"Topics of {len(assigned)} tasks", frame)


def method_sentence(assigned: pd.DataFrame) -> str:
    """How the topics came about, in one sentence."""
    ruled = int((assigned["by"] == "rule").sum())
    fine = assigned.loc[assigned["by"] == "rule", "category"].nunique()
    rest = len(assigned) - ruled
    given = f"Rules give {ruled} of {len(assigned)} tasks one of {fine} fine categories"
    return f"{given}; the nearest description of a topic decides for the other {rest}."
