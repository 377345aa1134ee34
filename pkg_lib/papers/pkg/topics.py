"""Topics of tasks (Section 6.2): the first rule that fits (topic_rules.tsv), else the nearest description.

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
from typing import Any

import numpy as np
import pandas as pd

from pkg_lib.analysis.stats import CONFIDENCE, holm, mcnemar
from pkg_lib.analysis.tables import HERE, csv_text
from pkg_lib.core.reading import Damaged, is_there, read_text
from pkg_lib.core.store import advice_for, page_text, slug, write_text
from pkg_lib.core.types import BenchmarkMissing, Task, UserError, digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.retrieval.embed import DEFAULT, Embedder

REFERENCE = HERE / "reference"
HINT = re.compile(r"\n(Test|Function|\nYour code should pass these tests):\s.*\Z", re.DOTALL)
NEAREST = "nearest description"


@cache
def topics() -> pd.DataFrame:
    """The ten topics in the figures' order: index topic; short (on an axis), source, description."""
    return pd.read_csv(REFERENCE / "topics.csv", index_col="topic")


@cache
def rules() -> list[Any]:
    """The rules in the order in which they are tried: category, topic, where (text or solution), pattern."""
    table = pd.read_csv(REFERENCE / "topic_rules.tsv", sep="\t", quoting=csv.QUOTE_NONE)
    compiled = table["pattern"].map(lambda pattern: re.compile(pattern, re.IGNORECASE))
    return list(table.assign(pattern=compiled).itertuples(index=False))


def _path(results: Path, benchmark: str) -> Path:
    return results / "tasks" / f"{slug(benchmark)}.topics.csv"


def stored_topics(results: Path, benchmark: str) -> pd.DataFrame | None:
    """The stored assignment, index task id; None without. UserError for a damaged file."""
    path = _path(results, benchmark)
    return read_task_file(path) if is_there(path) else None


def topics_of(benchmark: str, results: Path) -> pd.DataFrame:
    """`assign` of all tasks, kept in results/tasks. BenchmarkMissing without tasks and file."""

    def assigned(tasks: list[Task]) -> pd.DataFrame:
        encode = Embedder().encode
        return assign(
            tasks, encode([statement(t) for t in tasks]), encode(list(topics()["description"]))
        )

    return kept(_path(results, benchmark), benchmark, made_from, assigned)


def kept(
    path: Path,
    benchmark: str,
    made_from: Callable[[list[Task], str], str],
    make: Callable[[list[Task]], pd.DataFrame],
) -> pd.DataFrame:
    """A stored frame, made anew where its first line names other tasks and the tasks can be had."""
    try:
        tasks = load_benchmark(benchmark)
    except BenchmarkMissing:
        if is_there(path):
            return read_task_file(path)
        raise
    mark = f"# made from {made_from(tasks, DEFAULT)}"
    if page_text(path).partition("\n")[0] == mark:
        with suppress(UserError):  # a damaged file is replaced below
            return read_task_file(path)
    write_text(path, f"{mark}\n{csv_text(make(tasks))}")
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
        text = io.StringIO(read_text(path, advice_for))
        frame = pd.read_csv(text, comment="#", index_col="task_id", keep_default_na=False)
        return frame[list(columns)] if columns else frame
    except (ValueError, KeyError) as e:
        why = " ".join(str(e)[:200].split())
        raise Damaged.of(path, f"it is no table of tasks ({why})", None, advice_for) from e


def statement(task: Task) -> str:
    """The task in words: MBPP's text without its hint, HumanEval's docstring without examples."""
    if task.benchmark.startswith("mbpp"):
        return HINT.sub("", task.prompt)
    functions = [n for n in ast.walk(ast.parse(task.prompt)) if isinstance(n, ast.FunctionDef)]
    texts = [ast.get_docstring(f) or "" for f in functions if f.name == task.entry_point]
    return re.split(r"\n\s*(?:>>>|Examples?\b|For example)", texts[-1])[0] if texts else task.prompt


def assign(tasks: Sequence[Task], vectors: np.ndarray, descriptions: np.ndarray) -> pd.DataFrame:
    """Index task id; category, topic, by ("rule" or "embedding"), nearest (what the embedding would say).

    Unit vectors of the tasks' `statement`s [tasks, d], and of the topics' descriptions [topics, d].
    """
    rows = {}
    for task, best in zip(tasks, (vectors @ descriptions.T).argmax(axis=1), strict=True):
        parts, near = {"text": statement(task), "solution": task.solution}, topics().index[best]
        rule = next(
            (r for r in rules() if r.pattern.search(parts[r.where])), None
        )  # the first that fits
        decided = (rule.category, rule.topic, "rule") if rule else (NEAREST, near, "embedding")
        rows[task.id] = (*decided, near)
    frame = pd.DataFrame.from_dict(
        rows, orient="index", columns=["category", "topic", "by", "nearest"]
    )
    return frame.rename_axis("task_id")


def made_from(tasks: Sequence[Task], embedder: str) -> str:
    """Identifies everything that `assign` decides by."""
    files = [(REFERENCE / name).read_text("utf8") for name in ("topics.csv", "topic_rules.tsv")]
    return digest(
        embedder, *files, *(part for t in tasks for part in (t.id, statement(t), t.solution))
    )


def share_above(
    column: pd.Series, others: pd.DataFrame, topic: pd.Series
) -> tuple[int, float, float, float] | None:
    """(tasks, share of topics in which `column` solves more than each of `others`, low, high), or None.

    The 95 % bounds: the topics where that is shown, and all but those where the opposite of one is (McNemar,
    Holm over topics and others). A bootstrap would repeat the sign of small differences, which is a coin's.
    """
    known = column.notna() & others.notna().all(axis=1) & topic.notna()
    if not known.any():
        return None
    change = others[known].astype(int).rsub(column[known].astype(int), axis=0)
    helped, hurt = ((change * sign > 0).groupby(topic[known]).sum().to_numpy() for sign in (1, -1))
    p = [mcnemar(a, b) for a, b in zip(helped.ravel().tolist(), hurt.ravel().tolist(), strict=True)]
    shown = np.reshape(holm(p), helped.shape) < 1 - CONFIDENCE
    more, fewer = helped > hurt, helped < hurt
    low, high = (shown & more).all(axis=1).mean(), 1 - (shown & fewer).any(axis=1).mean()
    return int(known.sum()), float(more.all(axis=1).mean()), float(low), float(high)
