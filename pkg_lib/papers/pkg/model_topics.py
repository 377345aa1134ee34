"""Topics of tasks by a model (Section 6.2): a fine category per task, then a topic per category.

The paper asks a model for the category of each task (134 on MBPP) and then lets it group these
categories into ten broader topics. Its prompts are not published; the ones here are ours. There are
two ways to get from categories to topics:

- `OWN`: as in the paper. The model names up to ten topics for its own categories, and then assigns
  each category to one of them.
- `FIXED`: the model assigns each category to one of the ten topics of the rules (`topics`), so that
  both labellings have the same names.

Both ways share the categories, which are asked for once.

    results/tasks/topics/MODEL/BENCHMARK.csv             category and topic of each task, FIXED
    results/tasks/topics/MODEL/BENCHMARK.own.csv         the same, OWN
    results/tasks/topics/MODEL/BENCHMARK[.own].log.json  how they were made; unusable answers
    results/tasks/topics/MODEL/answers/BENCHMARK.jsonl   answers (.gz: packed); a stopped run continues
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    cohen_kappa_score,
)

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import csv_text, number, percent
from pkg_lib.core.models import model_spec
from pkg_lib.core.reading import Kinds
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import read_json, slug, versions, write_json, write_text
from pkg_lib.core.types import Request
from pkg_lib.data.benchmark import tasks_digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Backend, Decoding, Generator, StoredRequest
from pkg_lib.papers.pkg.topics import NEAREST, read_task_file, statement, topics

FIXED, OWN = GROUPINGS = ("fixed", "own")
TOPICS = 10  # how many topics the model may name, as in the paper
MAX_STATEMENT = 2000  # characters of a task that the model is shown
MAX_SHOWN = 150  # categories that are shown to be grouped, the most frequent first
# An answer is untrusted text: these limits say how much of it is read.
MAX_NEW_TOKENS = {"line": 24, "list": 160}
MAX_ANSWER = 400  # characters of an answer of one line
MAX_LIST = 4000  # characters of an answer with one topic per line
MAX_CATEGORY = 60  # characters of a category or topic
MAX_WORDS = 8  # words of a category or topic
MARKS = re.compile(r"[*_`\"'#<>|]")  # quotation marks and Markdown
UNLABELLED = "no topic"
LOG: Kinds = {"model": str, "tasks": int, "categories": int, "tasks_without_category": int}
# No examples, and the question last: a small model repeats examples, and answers by number with 1.
CATEGORY_PROMPT = """\
Problem: {statement}

What is the main topic of this programming problem? Answer with one to four words only, and name no function.

Topic:"""
GROUPING_PROMPT = """\
Categories of programming problems:

{categories}

Group these categories into ten broader topics. Answer with the names of the ten topics only, one per line, \
one to four words each.

Topics:"""
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
    grouping: str = FIXED,
    slots: int | None = None,
) -> dict[str, Any]:
    """Let a model sort the tasks of a benchmark into topics.

    Answers are cached, so the same call continues an interrupted one.

    Args:
        benchmark: Name of the benchmark.
        model: Name of any model.
        results: Directory of the results.
        limit: Only the first tasks; None takes all.
        backend: What generates; by default the model itself.
        grouping: `OWN` if the model names the topics, `FIXED` if they are those of the rules.
        slots: How many prompts are decoded together; None for as many as fit into memory.

    Returns:
        The log: how many tasks, categories and answers there are, how many could not be used, and
        the topics.

    Raises:
        UserError: The benchmark, the model or the grouping is unknown or unavailable.
    """
    if grouping not in GROUPINGS:
        raise unknown("grouping", grouping, GROUPINGS)
    tasks = load_benchmark(benchmark, limit)
    folder = results / "tasks" / "topics" / slug(model)
    cache = GenerationCache(folder / "answers")
    lines = Generator(model, _decoding(model, "line", slots), cache, results, backend)
    file = f"{slug(benchmark)}.jsonl"

    prompts = {}
    for task in tasks:
        text = statement(task)[:MAX_STATEMENT]
        prompts[task.id] = CATEGORY_PROMPT.format(statement=text.strip())
    asked = _complete(lines, prompts, file, "categories")
    categories = {i: read_category(_answer(lines, text)) for i, text in prompts.items()}
    counts = Counter(category for category in categories.values() if category)

    answers = len(tasks) + len(counts)
    if grouping == OWN:
        lines.release()
        lists = Generator(model, _decoding(model, "list", slots), cache, results, backend)
        # Categories of equally many tasks are in alphabetical order.
        frequent = sorted(counts, key=lambda category: (-counts[category], category))[:MAX_SHOWN]
        text = GROUPING_PROMPT.format(categories=_bullets(frequent))
        asked += _complete(lists, {"all categories": text}, file, "names of topics")
        names = read_topics(_answer(lists, text))
        lists.release()
        answers += 1
    else:
        names = list(topics().index)

    prompts = {}
    if names:
        offered = _bullets(names)
        for category in sorted(counts):
            prompts[category] = TOPIC_PROMPT.format(topics=offered, category=category)
    asked += _complete(lines, prompts, file, "topics")
    topic_of = {c: read_topic(_answer(lines, text), names) for c, text in prompts.items()}

    frame = pd.DataFrame({"category": pd.Series(categories, dtype=object)})
    frame["topic"] = [topic_of.get(category, "") for category in frame["category"]]
    has_no_category = frame["category"] == ""
    has_no_topic = frame["topic"] == ""
    log: dict[str, Any] = {
        "model": model,
        "benchmark": benchmark,
        "grouping": grouping,
        "topics": names,
        "tasks": len(tasks),
        "categories": len(counts),
        "answers": answers,
        "asked_in_this_run": asked,
        "tasks_without_category": int(has_no_category.sum()),
        "tasks_without_topic": int(has_no_topic.sum()),
        "tasks_digest": tasks_digest(tasks),
        "revision": lines.revision,
        "decoding": lines.decoding.parameters,
        "versions": versions(),
    }
    stem = _stem(benchmark, grouping)
    table = csv_text(frame.rename_axis("task_id"))
    write_text(folder / f"{stem}.csv", table)
    write_json(folder / f"{stem}.log.json", log)
    return log


def _stem(benchmark: str, grouping: str) -> str:
    """The name of the files of a labelling, without suffix."""
    suffix = ".own" if grouping == OWN else ""
    return slug(benchmark) + suffix


def _decoding(model: str, answer: str, slots: int | None) -> Decoding:
    """How the model answers with one line or with a list of lines."""
    parameters = {
        "do_sample": False,
        "dtype": "bfloat16",
        "max_new_tokens": MAX_NEW_TOKENS[answer],
        "stage": "topics",
        "style": model_spec(model).style,
        "stop": "first line" if answer == "line" else "end of list",
    }
    stop = _has_line if answer == "line" else _has_list
    return Decoding(parameters, stop=stop, slots=slots)


def _complete(generator: Generator, prompts: dict[str, str], file: str, what: str) -> int:
    """Ask for what the cache does not have; return how many prompts that was."""
    requests = []
    for name, text in prompts.items():
        request = Request(name, text, "")
        requests.append(StoredRequest(request, file, {"step": what}))
    return generator.complete(requests, what)


def _answer(generator: Generator, text: str) -> str:
    """The stored answer to a prompt that was completed."""
    generation = generator.stored(text)
    return generation.raw if generation else ""


def _bullets(names: Iterable[str]) -> str:
    return "\n".join(f"- {name}" for name in names)


def _has_line(text: str) -> bool:
    """Whether an answer has its first line, after which nothing is read."""
    return "\n" in text.lstrip()


def _has_list(text: str) -> bool:
    """Whether an answer has as many names of topics as are read, and one line more."""
    complete_lines = text[:MAX_LIST].rpartition("\n")[0]
    return len(_names(complete_lines)) > TOPICS


def _first_line(raw: str) -> str:
    """The first line of an answer that holds anything, in printable characters."""
    lines = map(str.strip, raw[:MAX_ANSWER].splitlines())
    line = next(filter(None, lines), "")
    return _printable(line)


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text))


def _name(line: str) -> str:
    """A name without quotation marks, Markdown and final punctuation; "" for a line without one."""
    plain = MARKS.sub(" ", line)
    words = plain.strip(" .,:;-").split()
    name = " ".join(words)
    has_letter = re.search(r"[^\W\d_]", name)
    if not has_letter or len(words) > MAX_WORDS or len(name) > MAX_CATEGORY:
        return ""
    return name


def read_category(raw: str) -> str:
    """Read a fine category from a model's answer.

    Args:
        raw: The answer; only the beginning is read.

    Returns:
        The category in lower case without quotation marks and Markdown, at most MAX_CATEGORY
        characters; "" for an answer that names none, such as a whole sentence.
    """
    line = MARKS.sub(" ", _first_line(raw))
    name = re.sub(r"^\W*((main )?(topic|category)\s*:)?\W*", "", line.lower())
    return _name(name)


def read_topics(raw: str) -> list[str]:
    """Read the names of topics from a model's answer.

    Args:
        raw: The answer, which should have one topic per line. Numbers, list marks and explanations
            after a colon are left out, and so are lines that introduce a list.

    Returns:
        At most TOPICS different names; none if the answer has no name.
    """
    return _names(raw[:MAX_LIST])[:TOPICS]


def _names(text: str) -> list[str]:
    """All different names of topics in a text, in order."""
    names: dict[str, str] = {}
    for line in text.splitlines():
        printable = _printable(line.strip())
        without_mark = re.sub(r"^\W*(\d+\W+)?", "", printable)
        head, colon, explanation = without_mark.partition(":")
        introduces = colon and not explanation.strip(" *_")
        name = "" if introduces else _name(head)
        if name:
            names.setdefault(name.casefold(), name)
    return list(names.values())


def read_topic(raw: str, names: Sequence[str]) -> str:
    """Read one of the offered topics from a model's answer.

    Args:
        raw: The answer, which should be a topic's name. Only the beginning is read.
        names: The topics that were offered.

    Returns:
        The topic that the first line names; "" if it names none or several. A name that is part of
        another name in the line does not count.
    """
    line = _first_line(raw).casefold()
    found = [name for name in names if name.casefold() in line]
    whole = [name for name in found if not _is_part_of_another(name, found)]
    return whole[0] if len(whole) == 1 else ""


def _is_part_of_another(name: str, names: Sequence[str]) -> bool:
    """Whether a name is part of another one of some names."""
    others = [other.casefold() for other in names if other != name]
    return any(name.casefold() in other for other in others)


def stored_labels(results: Path, benchmark: str, grouping: str = FIXED) -> dict[str, pd.DataFrame]:
    """Read the labels that models gave.

    Args:
        results: Directory of the results.
        benchmark: Name of the benchmark.
        grouping: `OWN` or `FIXED`.

    Returns:
        Model to its labels: index task id; category and topic, "" if the model gave none.

    Raises:
        UserError: A file is damaged.
    """
    labels = {}
    stem = _stem(benchmark, grouping)
    fields: Kinds = LOG | {"topics": list} if grouping == OWN else LOG
    folder = results / "tasks" / "topics"
    for path in sorted(folder.glob(f"*/{stem}.log.json")):
        log = read_json(path, fields)
        names = log["topics"] if grouping == OWN else list(topics().index)
        frame = read_task_file(path.with_name(f"{stem}.csv"), ("category", "topic"))
        known = frame["topic"].isin(names)
        labels[log["model"]] = frame.assign(topic=frame["topic"].where(known, ""))
    return labels


def agreement_table(results: Path, benchmark: str, ruled: pd.DataFrame) -> ResultTable | None:
    """Compare the topics of the rules with those that models gave.

    Cohen's kappa compares topics by their names, so it needs the fixed topics. The adjusted Rand
    index and the adjusted mutual information compare which tasks are together.

    Args:
        results: Directory of the results.
        benchmark: Name of the benchmark.
        ruled: The labels by rules: index task id; topic, category and by (`topics.assign`).

    Returns:
        One row for each model and grouping; None if no model has labelled the tasks.

    Raises:
        UserError: A file of labels is damaged.
    """
    rows = []
    by_rules = ruled[["topic", "category"]]
    for grouping in GROUPINGS:
        labels = stored_labels(results, benchmark, grouping)
        for model, frame in labels.items():
            both = frame.join(by_rules, how="inner", rsuffix="_ruled")
            if both.empty:
                continue
            cells = _agreement(both, grouping)
            rows.append({"model": model} | cells)
    if not rows:
        return None
    notes = (
        "The model names a fine category for each task. With fixed topics it then chooses one of "
        "the rules' ten topics for each category. With its own, it first names up to ten topics "
        "for its categories, as in the paper. Tasks without a topic by the model count as a topic "
        "of their own.",
        "Kappa, the adjusted Rand index and the adjusted mutual information are 0 for labels that "
        "agree by chance and 1 for equal labels. Kappa needs equal names. Fine categories are "
        "compared on the tasks for which a rule gives one.",
        "The paper's model (DeepSeek-Coder-7B) named 134 categories on MBPP; its labels are not "
        "published.",
    )
    frame = pd.DataFrame(rows, dtype=object).set_index("model")
    return ResultTable("Topics by rules against topics by a model", frame, notes)


def _agreement(both: pd.DataFrame, grouping: str) -> dict[str, str]:
    """Compare one model's labels with those of the rules, as cells of the table."""
    unlabelled = both["topic"] == ""
    ruled = both["topic_ruled"]
    given = both["topic"].mask(unlabelled, UNLABELLED)
    same = None
    kappa = None
    if grouping == FIXED:
        same = float((ruled == given).mean())
        if len({*ruled, *given}) > 1:  # one label alone is always agreed on by chance
            kappa = cohen_kappa_score(ruled, given)
    scores = {
        "Cohen's kappa": kappa,
        "adjusted Rand index": adjusted_rand_score(ruled, given),
        "adjusted mutual information": adjusted_mutual_info_score(ruled, given),
        "adjusted Rand index, fine categories": None,
        "adjusted mutual information, fine categories": None,
    }
    has_both_categories = (both["category"] != "") & (both["category_ruled"] != NEAREST)
    fine = both[has_both_categories]
    if len(fine) > 1:
        pair = (fine["category_ruled"], fine["category"])
        scores["adjusted Rand index, fine categories"] = adjusted_rand_score(*pair)
        scores["adjusted mutual information, fine categories"] = adjusted_mutual_info_score(*pair)
    categories = both.loc[both["category"] != "", "category"]
    topics_used = both.loc[~unlabelled, "topic"]
    cells = {
        "topics": grouping,
        "tasks": str(len(both)),
        "fine categories": str(categories.nunique()),
        "topics used": str(topics_used.nunique()),
        "without a topic": str(unlabelled.sum()),
        "same topic, %": percent(same),
    }
    for name, score in scores.items():
        cells[name] = number(score, 2)
    return cells
