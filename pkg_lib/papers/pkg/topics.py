"""Sort tasks into topics (Section 6.2).

The first fitting rule of topic_rules.tsv decides. If none fits, the nearest description of a topic does.
The paper's 134 categories are not published. It names nine topics; Bit Manipulation is the tenth here.
"""

import ast
import csv
import io
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pkg_lib.analysis.stats import CONFIDENCE, holm, mcnemar
from pkg_lib.analysis.tables import HERE, csv_text, reference_table
from pkg_lib.core.embedders import DEFAULT
from pkg_lib.core.python_syntax import parsed_or_none
from pkg_lib.core.reading import DamagedFileError, is_there, read_text
from pkg_lib.core.store import advice_for, page_text, slug, write_text
from pkg_lib.core.types import BenchmarkMissingError, Task, UserError, digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.retrieval.embed import Embedder

REFERENCE = HERE / "reference"
HINT = re.compile(r"\n(Test|Function|\nYour code should pass these tests):\s.*\Z", re.DOTALL)
EXAMPLES = re.compile(r"\n\s*(?:>>>|Examples?\b|For example)")
NEAREST = "nearest description"


@cache
def topics() -> pd.DataFrame:
    """Return the ten topics in the order of the figures.

    Returns:
        Index topic; short (for an axis), source, description.
    """
    return reference_table("topics", index_col="topic")


class TopicRule(NamedTuple):
    """A rule that gives a task a category and a topic.

    Attributes:
        category: The fine category.
        topic: The topic.
        where: What the pattern is searched in: "text" or "solution".
        pattern: The pattern.
    """

    category: str
    topic: str
    where: str
    pattern: re.Pattern[str]


@cache
def rules() -> list[TopicRule]:
    """Return the rules in the order in which they are tried.

    Returns:
        The rules of topic_rules.tsv.
    """
    table = pd.read_csv(REFERENCE / "topic_rules.tsv", sep="\t", quoting=csv.QUOTE_NONE)
    found = []
    for row in table.to_dict("records"):
        pattern = re.compile(row["pattern"], re.IGNORECASE)
        rule = TopicRule(
            category=row["category"],
            topic=row["topic"],
            where=row["where"],
            pattern=pattern,
        )
        found.append(rule)
    return found


def _path(results: Path, benchmark: str) -> Path:
    return results / "tasks" / f"{slug(benchmark)}.topics.csv"


def stored_topics(results: Path, benchmark: str) -> pd.DataFrame | None:
    """Read the stored topics of a benchmark.

    Args:
        results: The results directory.
        benchmark: Name of the benchmark.

    Returns:
        The frame of `assign`; None if it is not stored.

    Raises:
        UserError: The file is damaged.
    """
    path = _path(results, benchmark)
    if not is_there(path):
        return None
    return read_task_file(path)


def topics_of(benchmark: str, results: Path) -> pd.DataFrame:
    """Give every task of a benchmark a topic, and keep the result in results/tasks.

    Args:
        benchmark: Name of the benchmark.
        results: The results directory.

    Returns:
        The frame of `assign`.

    Raises:
        BenchmarkMissingError: The tasks are not available, and no topics are stored.
    """
    path = _path(results, benchmark)
    return kept(path, benchmark, made_from, _assign_all)


def _assign_all(tasks: list[Task]) -> pd.DataFrame:
    """Encode tasks and descriptions, and give every task a topic."""
    embedder = Embedder()
    statements = [statement(task) for task in tasks]
    descriptions = list(topics()["description"])
    vectors = embedder.encode(statements)
    topic_vectors = embedder.encode(descriptions)
    return assign(tasks, vectors, topic_vectors)


def kept(
    path: Path,
    benchmark: str,
    made_from: Callable[[list[Task], str], str],
    make: Callable[[list[Task]], pd.DataFrame],
) -> pd.DataFrame:
    """Read a stored table of tasks, and regenerate it if it was made from other tasks.

    The first line of the file identifies what it was made from. If the tasks are unavailable, the stored
    table is returned.

    Args:
        path: The file.
        benchmark: Name of the benchmark.
        made_from: Identifies what the table of given tasks and embedder is made from.
        make: Makes the table of the tasks.

    Returns:
        The table, index task id.

    Raises:
        BenchmarkMissingError: The tasks are not available, and nothing is stored.
    """
    try:
        tasks = load_benchmark(benchmark)
    except BenchmarkMissingError:
        if is_there(path):
            return read_task_file(path)
        raise
    source = made_from(tasks, DEFAULT)
    expected = f"# made from {source}"
    first_line, _, _ = page_text(path).partition("\n")
    if first_line == expected:
        with suppress(UserError):  # a damaged file is replaced below
            return read_task_file(path)
    table = csv_text(make(tasks))
    write_text(path, f"{expected}\n{table}")
    return read_task_file(path)


def read_task_file(path: Path, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Read a table of tasks in results/tasks.

    Args:
        path: The file.
        columns: Columns that it must have.

    Returns:
        The table, index task id.

    Raises:
        UserError: The file is damaged.
    """
    try:
        text = read_text(path, advice_for)
        lines = io.StringIO(text)
        frame = pd.read_csv(lines, comment="#", index_col="task_id", keep_default_na=False)
        return frame[list(columns)] if columns else frame
    except (ValueError, KeyError) as error:
        words = str(error)[:200].split()
        reason = " ".join(words)
        why = f"it is no table of tasks ({reason})"
        raise DamagedFileError.of(path, why, None, advice_for) from error


def statement(task: Task) -> str:
    """Return what a task asks for, in words.

    Args:
        task: The task.

    Returns:
        MBPP's text without its hint, or HumanEval's docstring without its examples; the whole prompt if it
        has no such docstring.
    """
    if task.benchmark.startswith("mbpp"):
        return HINT.sub("", task.prompt)
    docstring = None
    program = parsed_or_none(task.prompt)
    for node in ast.walk(program) if program else ():
        if isinstance(node, ast.FunctionDef) and node.name == task.entry_point:
            docstring = ast.get_docstring(node) or ""
    if docstring is None:
        return task.prompt
    return EXAMPLES.split(docstring)[0]


def assign(tasks: Sequence[Task], vectors: np.ndarray, descriptions: np.ndarray) -> pd.DataFrame:
    """Give every task a category and a topic.

    Args:
        tasks: The tasks.
        vectors: Unit vectors of their `statement`s [tasks, d].
        descriptions: Unit vectors of the topics' descriptions [topics, d].

    Returns:
        Index task id; category, topic, by ("rule" or "embedding"), and nearest (the topic whose description
        is nearest).
    """
    similarities = vectors @ descriptions.T
    nearest = similarities.argmax(axis=1)
    names = list(topics().index)
    rows = {}
    for task, number in zip(tasks, nearest, strict=True):
        near = names[number]
        row = (NEAREST, near, "embedding", near)
        rule = _first_fitting_rule(task)
        if rule:
            row = (rule.category, rule.topic, "rule", near)
        rows[task.id] = row
    columns = ["category", "topic", "by", "nearest"]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return frame.rename_axis("task_id")


def _first_fitting_rule(task: Task) -> TopicRule | None:
    parts = {
        "text": statement(task),
        "solution": task.solution,
    }
    for rule in rules():
        part = parts[rule.where]
        if rule.pattern.search(part):
            return rule
    return None


def made_from(tasks: Sequence[Task], embedder: str) -> str:
    """Identify everything that `assign` decides by.

    Args:
        tasks: The tasks.
        embedder: Name of the encoder.

    Returns:
        A digest.
    """
    parts = [embedder]
    for name in ("topics.csv", "topic_rules.tsv"):
        path = REFERENCE / name
        parts.append(path.read_text("utf8"))
    for task in tasks:
        parts += [task.id, statement(task), task.solution]
    return digest(*parts)


class TopicShare(NamedTuple):
    """The share of topics in which a method solves more tasks than others.

    Attributes:
        tasks: Number of tasks that all methods measured.
        share: The share of topics.
        low: The share of topics in which this is significant.
        high: The share of topics in which the opposite is not significant for any of the others.
    """

    tasks: int
    share: float
    low: float
    high: float


def share_above(
    verdicts: pd.Series,
    others: pd.DataFrame,
    topic: pd.Series,
) -> TopicShare | None:
    """Measure in which share of the topics a method solves more tasks than each of the others.

    Significance is by McNemar's exact test with Holm's correction over topics and other methods. A bootstrap
    would repeat the sign of small differences, which is due to chance.

    Args:
        verdicts: Verdicts of the method, boolean per task.
        others: Verdicts of the others [task, method].
        topic: Topic per task.

    Returns:
        The share with its bounds; None if no task has all verdicts and a topic.
    """
    measured_by_others = others.notna().all(axis=1)
    known = verdicts.notna() & measured_by_others & topic.notna()
    if not known.any():
        return None
    passed = verdicts[known].astype(int)
    passed_by_others = others[known].astype(int)
    change = passed_by_others.rsub(passed, axis=0)
    helped = _count_by_topic(change > 0, topic)
    hurt = _count_by_topic(change < 0, topic)
    p = list(map(mcnemar, helped.ravel().tolist(), hurt.ravel().tolist()))
    corrected = np.reshape(holm(p), helped.shape)
    is_significant = corrected < 1 - CONFIDENCE
    more = helped > hurt
    fewer = helped < hurt
    shown_more = (is_significant & more).all(axis=1)
    shown_fewer = (is_significant & fewer).any(axis=1)
    return TopicShare(
        tasks=int(known.sum()),
        share=float(more.all(axis=1).mean()),
        low=float(shown_more.mean()),
        high=float(1 - shown_fewer.mean()),
    )


def _count_by_topic(tasks: pd.DataFrame, topic: pd.Series) -> np.ndarray:
    """How many tasks of each topic are marked, [topic, method]."""
    topic_of_task = topic.loc[tasks.index]
    counts = tasks.groupby(topic_of_task).sum()
    return counts.to_numpy()
