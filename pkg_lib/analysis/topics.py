"""Topics of tasks (Section 6.2, Figures 3 to 5): task -> fine category -> one of ten topics.

The paper let a model name 134 categories and group them; neither list is published. Here an ordered list of rules
(reference/topic_rules.tsv) gives the category: the first pattern that the task's text, or its reference solution, holds. Where
every rule is silent, the topic is that whose description (reference/topics.csv) has the nearest embedding.
The paper's text names nine topics; the tenth stands only in its figures, so Bit Manipulation takes its place.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.metrics import CONFIDENCE, wilson
from pkg_lib.analysis.tables import DASH, HERE, percent
from pkg_lib.types import Task, digest

REFERENCE = HERE / "reference"
HINT = re.compile(r"\n(Test|Function): .*\Z", re.DOTALL)
NEAREST = "nearest description"
METHODS = ("rules, then embedding", "rules alone", "embedding alone")


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
    rows = pd.read_csv(REFERENCE / "topic_rules.tsv", sep="\t", quoting=csv.QUOTE_NONE).itertuples(index=False)
    return tuple(Rule(r.category, r.topic, r.where, re.compile(r.pattern, re.IGNORECASE)) for r in rows)


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
def hand_labels() -> pd.Series:
    """task id -> topic of the 100 tasks of MBPP that were read one by one."""
    return pd.read_csv(REFERENCE / "topics_hand_labels.csv", comment="#", index_col="task_id")["topic"]
