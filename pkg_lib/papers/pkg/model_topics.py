"""Topics of tasks by a model, the paper's way (Section 6.2): fine categories first, then a topic for each.

    results/tasks/topics/MODEL/BENCHMARK.csv        category and topic of each task
    results/tasks/topics/MODEL/BENCHMARK.log.json   how many answers could be used, and how they were made
    results/tasks/topics/MODEL/answers/BENCHMARK.jsonl   the answers; a stopped run continues

The paper's prompts are not published; these are ours. The paper lets the model name its ten broad topics.
Here it chooses among the ten topics of the rules (`topics`), so that the two labellings can be compared.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.metrics import adjusted_rand_score, cohen_kappa_score

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, csv_text, percent
from pkg_lib.core.models import model_spec
from pkg_lib.core.reading import Kinds
from pkg_lib.core.store import read_json, slug, versions, write_json, write_text
from pkg_lib.core.types import Request
from pkg_lib.data.benchmark import tasks_digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Backend, Decoding, Generator, Prompt
from pkg_lib.papers.pkg.topics import NEAREST, read_task_file, statement, topics

MAX_NEW_TOKENS = 24
MAX_STATEMENT = 2000  # characters of a task that the model is shown
# What is taken of an answer. Everything else in it is ignored: an answer is untrusted text.
MAX_ANSWER = 400  # characters that are looked at
MAX_CATEGORY, MAX_WORDS = 60, 8  # characters and words of a category
UNLABELLED = "no topic"
LOG: Kinds = {"model": str, "tasks": int, "categories": int, "tasks_without_category": int}
# No examples, and the question last: a small model repeats examples, and answers by number with 1.
CATEGORY_PROMPT = """\
Problem: {statement}

What is the main topic of this programming problem? Answer with one to four words only, and name no function.

Topic:"""
TOPIC_PROMPT = """\
Category: {category}

Which of these topics of programming problems does the category belong to?

{topics}

Answer with the name of one topic only.

Topic of "{category}":"""


def label_tasks(
    benchmark: str,
    model: str,
    results: Path,
    limit: int | None = None,
    backend: Backend | None = None,
) -> dict[str, Any]:
    """Let a model sort the tasks of a benchmark into topics.

    The model names a fine category for each task, and then chooses a topic for each distinct category.
    Answers are cached, so the same call continues an interrupted one.

    Args:
        benchmark: Name of the benchmark.
        model: Name of any model.
        results: Directory of the results.
        limit: Only the first tasks; None takes all.
        backend: What generates; by default the model itself.

    Returns:
        The log: how many tasks, categories and answers there are, and how many could not be used.

    Raises:
        UserError: The benchmark or the model is unknown or unavailable.
    """
    tasks = load_benchmark(benchmark, limit)
    folder = results / "tasks" / "topics" / slug(model)
    parameters = {"do_sample": False, "dtype": "bfloat16", "max_new_tokens": MAX_NEW_TOKENS}
    parameters |= {"stage": "topics", "style": model_spec(model).style, "stop": "first line"}
    decoding = Decoding(parameters, stop=_has_line)
    generator = Generator(model, decoding, GenerationCache(folder / "answers"), results, backend)
    file = f"{slug(benchmark)}.jsonl"

    prompts = {
        t.id: CATEGORY_PROMPT.format(statement=statement(t)[:MAX_STATEMENT].strip()) for t in tasks
    }
    asked = _complete(generator, prompts, file, "categories")
    categories = {i: read_category(generator.stored(text).raw) for i, text in prompts.items()}

    names = "\n".join(f"- {name}" for name in topics().index)
    distinct = sorted({category for category in categories.values() if category})
    prompts = {c: TOPIC_PROMPT.format(topics=names, category=c) for c in distinct}
    asked += _complete(generator, prompts, file, "topics")
    topic_of = {c: read_topic(generator.stored(text).raw) for c, text in prompts.items()}

    rows = [(t.id, categories[t.id], topic_of.get(categories[t.id], "")) for t in tasks]
    frame = pd.DataFrame(rows, columns=["task_id", "category", "topic"]).set_index("task_id")
    log: dict[str, Any] = {"model": model, "benchmark": benchmark, "tasks": len(tasks)}
    log |= {
        "categories": len(distinct),
        "answers": len(tasks) + len(distinct),
        "asked_in_this_run": asked,
    }
    log |= {"tasks_without_category": int((frame["category"] == "").sum())}
    log |= {"tasks_without_topic": int((frame["topic"] == "").sum())}
    log |= {"tasks_digest": tasks_digest(tasks), "revision": generator.revision}
    log |= {"decoding": parameters, "versions": versions()}
    write_text(folder / f"{slug(benchmark)}.csv", csv_text(frame))
    write_json(folder / f"{slug(benchmark)}.log.json", log)
    return log


def _complete(generator: Generator, prompts: dict[str, str], file: str, what: str) -> int:
    """Ask for what the cache does not have; return how many prompts that was."""
    requests = [Request(name, text, "") for name, text in prompts.items()]
    return generator.complete([Prompt(request, file, {"step": what}) for request in requests], what)


def _has_line(text: str) -> bool:
    """Whether an answer has its first line, after which nothing is read."""
    return "\n" in text.lstrip()


def _first_line(raw: str) -> str:
    """The first line of an answer that holds anything, in printable characters."""
    lines = (line.strip() for line in raw[:MAX_ANSWER].splitlines())
    line = next(filter(None, lines), "")
    return "".join(c for c in line if c.isprintable())


def read_category(raw: str) -> str:
    """Read a fine category from a model's answer.

    Args:
        raw: The answer; only the beginning is looked at.

    Returns:
        The category in lower case without quotation marks and Markdown, at most MAX_CATEGORY characters; ""
        for an answer that names none, such as a whole sentence.
    """
    line = re.sub(r"[*_`\"'#<>|]", " ", _first_line(raw)).lower()
    line = re.sub(r"^\W*((main )?(topic|category)\s*:)?\W*", "", line)
    words = line.strip(" .,:;-").split()
    category = " ".join(words)
    if (
        not re.search(r"[^\W\d_]", category)
        or len(words) > MAX_WORDS
        or len(category) > MAX_CATEGORY
    ):
        return ""
    return category


def read_topic(raw: str) -> str:
    """Read one of the ten topics from a model's answer.

    Args:
        raw: The answer, which should be a topic's name. Only the beginning is looked at.

    Returns:
        The topic that the first line names; "" where it names none or several.
    """
    line = _first_line(raw).casefold()
    named = [name for name in topics().index if name.casefold() in line]
    return named[0] if len(named) == 1 else ""


def stored_labels(results: Path, benchmark: str) -> dict[str, pd.DataFrame]:
    """Read the labels that models gave.

    Args:
        results: Directory of the results.
        benchmark: Name of the benchmark.

    Returns:
        Model to its labels: index task id; category and topic, "" where the model gave none.

    Raises:
        UserError: A file is damaged.
    """
    labels = {}
    for path in sorted((results / "tasks" / "topics").glob(f"*/{slug(benchmark)}.log.json")):
        model = read_json(path, LOG)["model"]
        frame = read_task_file(path.with_name(f"{slug(benchmark)}.csv"), ("category", "topic"))
        known = frame["topic"].isin(topics().index)
        labels[model] = frame.assign(topic=frame["topic"].where(known, ""))
    return labels


def agreement_table(results: Path, benchmark: str, ruled: pd.DataFrame) -> ResultTable | None:
    """Compare the topics of the rules with those that models gave.

    A task without a topic by the model counts as a disagreement. Cohen's kappa compares the topics by their
    names, the adjusted Rand index only which tasks are together.

    Args:
        results: Directory of the results.
        benchmark: Name of the benchmark.
        ruled: The labels by rules: index task id; topic, category and by (`topics.assign`).

    Returns:
        One row for each model; None where no model has labelled the tasks.

    Raises:
        UserError: A file of labels is damaged.
    """
    rows = {}
    for model, frame in stored_labels(results, benchmark).items():
        both = frame.join(ruled[["topic", "category"]], how="inner", rsuffix="_ruled")
        if both.empty:
            continue
        unlabelled = both["topic"] == ""
        ours, theirs = both["topic_ruled"], both["topic"].mask(unlabelled, UNLABELLED)
        # One label alone is agreed on by chance, always: kappa is not defined.
        kappa = cohen_kappa_score(ours, theirs) if len({*ours, *theirs}) > 1 else None
        fine = both[(both["category"] != "") & (both["category_ruled"] != NEAREST)]
        scores = [
            kappa,
            adjusted_rand_score(ours, theirs),
            adjusted_rand_score(fine["category_ruled"], fine["category"])
            if len(fine) > 1
            else None,
        ]
        categories = both.loc[both["category"] != "", "category"].nunique()
        counts = [len(both), categories, unlabelled.sum(), percent((ours == theirs).mean())]
        rows[model] = [*map(str, counts), *(DASH if s is None else f"{s:.2f}" for s in scores)]
    if not rows:
        return None
    heads = ["tasks", "fine categories", "without a topic", "same topic, %", "Cohen's kappa"]
    heads += ["adjusted Rand index", "adjusted Rand index, fine categories"]
    notes = (
        "The model names a fine category for each task and then one of the ten topics for each category. "
        "A task without a topic by the model counts as a disagreement.",
        "Kappa and the adjusted Rand index are 0 for labels that agree by chance and 1 for equal labels. "
        "Fine categories are compared on the tasks for which a rule gives one.",
        "The paper's model (DeepSeek-Coder-7B) named 134 categories on MBPP; its labels are not published.",
    )
    return ResultTable.of("Topics by rules against topics by a model", rows, heads, "model", *notes)
