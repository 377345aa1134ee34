"""Topics by a model: what is asked, what is taken of an answer, what is stored, and the agreement with the rules."""

from __future__ import annotations

import json
import sys

import pandas as pd
import pytest
from fakes import FakeBackend
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, cohen_kappa_score

from pkg_lib import cli
from pkg_lib.analysis.tables import MINUS
from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.papers.pkg import model_topics
from pkg_lib.papers.pkg.model_topics import (
    OWN,
    agreement_table,
    label_tasks,
    read_category,
    read_topic,
    read_topics,
    stored_labels,
)
from pkg_lib.papers.pkg.topics import statement, topics

MODEL = "qwen2.5-coder-0.5b-instruct"
NAMES = list(topics().index)


def model(
    categories=("Lists", "prime numbers"), names=(NAMES[5], NAMES[1]), **options
) -> FakeBackend:
    """A model that names the categories in turn, and for each of them a topic."""
    ids = [t.id for t in load_benchmark("humaneval")]
    of_task = {i: categories[n % len(categories)] for n, i in enumerate(ids)}
    of_category = {read_category(c): name for c, name in zip(categories, names, strict=False)}
    return FakeBackend(lambda r: of_task.get(r.task_id) or of_category[r.task_id], **options)


def label(tmp_path, backend, limit=4, **options):
    return label_tasks("humaneval", MODEL, tmp_path, limit, backend, **options)


def grouper(topics_named: str, names: tuple[str, ...], categories=("Lists", "prime numbers")):
    """A model that also names topics for its categories, and then one of them for each category."""
    plain = model(categories, names)
    by_task = plain.answer
    plain.answer = lambda r: topics_named if r.task_id == "all categories" else by_task(r)
    return plain


def ruled(tmp_path, names, categories) -> pd.DataFrame:
    ids = [t.id for t in load_benchmark("humaneval", len(names))]
    return pd.DataFrame({"topic": names, "category": categories}, ids)


def test_a_category_is_asked_for_each_task_and_a_topic_for_each_category(tmp_path):
    backend = model()
    log = label(tmp_path, backend)
    tasks = load_benchmark("humaneval", 4)
    assert len(backend.asked) == 6 and log["answers"] == log["asked_in_this_run"] == 6
    assert all(
        statement(t).strip()[:40] in r.text for t, r in zip(tasks, backend.asked, strict=False)
    )
    assert all(t.solution not in r.text for t, r in zip(tasks, backend.asked, strict=False))
    assert all(name in r.text for name in NAMES for r in backend.asked[4:])
    frame = stored_labels(tmp_path, "humaneval")[MODEL]
    assert list(frame["category"]) == ["lists", "prime numbers"] * 2
    assert list(frame["topic"]) == ["Data Structures", "Mathematics and Number Theory"] * 2
    assert (
        log["tasks"],
        log["categories"],
        log["tasks_without_category"],
        log["tasks_without_topic"],
    ) == (
        4,
        2,
        0,
        0,
    )


@pytest.mark.parametrize("stop", [0, 3, 5])
def test_an_interrupted_run_continues_and_a_finished_one_asks_nothing(tmp_path, stop):
    with pytest.raises(KeyboardInterrupt):
        label(tmp_path, model(stop=stop))
    assert not stored_labels(tmp_path, "humaneval")
    rest = model()
    assert label(tmp_path, rest)["asked_in_this_run"] == len(rest.asked) == 6 - stop
    again = FakeBackend(lambda r: pytest.fail("asked again"))
    assert label(tmp_path, again)["asked_in_this_run"] == 0
    assert (
        label(tmp_path, model(), 5)["asked_in_this_run"] == 1
    )  # one more task of a known category


@pytest.mark.parametrize(
    ("raw", "category"),
    [
        ("Prime numbers", "prime numbers"),
        ('\n\n  "Prime   Numbers."\nThe problem asks ...', "prime numbers"),
        ("**Topic:** prime numbers", "prime numbers"),
        ("- `prime numbers`", "prime numbers"),
        ("main topic: Prime numbers;", "prime numbers"),
        ("Zeichenketten und Größen", "zeichenketten und größen"),
        ("=HYPERLINK(x)", "hyperlink(x)"),
        ("sort\x1b[31ming\x00", "sort[31ming"),
        ("The main topic of this problem is that of the prime numbers.", ""),
        ("x" * 61, ""),
        ("a" * 10**6, ""),
        ("\n" * 10**6 + "late", ""),
        ("123", ""),
        ("", ""),
        ("```", ""),
        ("...", ""),
    ],
)
def test_what_is_taken_of_an_answer_as_a_category(raw, category):
    assert read_category(raw) == category
    assert read_category(category) == category


@pytest.mark.parametrize(
    ("raw", "topic"),
    [
        ("Algorithms", "Algorithms"),
        ("\n algorithms.", "Algorithms"),
        ("- **Data Structures**\nAlgorithms", "Data Structures"),
        ("Topic: Bit Manipulation (ours)", "Bit Manipulation"),
        ("Algorithms or Data Structures", ""),
        ("2", ""),
        ("I do not know", ""),
        (" " * 10**6 + "Algorithms", ""),
        ("Algorithm", ""),
        ("", ""),
    ],
)
def test_what_is_taken_of_an_answer_as_a_topic(raw, topic):
    assert read_topic(raw, NAMES) == topic


def test_answers_that_cannot_be_used_leave_the_task_without_a_topic(tmp_path):
    log = label(
        tmp_path,
        model(
            ("Lists", "I think that this is about a lot of things.", "prime numbers"),
            (NAMES[5], "", "99"),
        ),
        3,
    )
    assert (log["tasks_without_category"], log["tasks_without_topic"], log["categories"]) == (
        1,
        2,
        2,
    )
    assert list(stored_labels(tmp_path, "humaneval")[MODEL]["topic"]) == ["Data Structures", "", ""]


def test_agreement_is_that_of_scikit_learn(tmp_path):
    label(tmp_path, model(("Lists", "prime numbers", "trees"), (NAMES[5], NAMES[1], "?")), 6)
    names = [
        "Data Structures",
        "Data Structures",
        "Algorithms",
        "Data Structures",
        NAMES[1],
        "Algorithms",
    ]
    fine = ["lists", "lists", "trees", "lists", "primes", "nearest description"]
    (row,) = agreement_table(tmp_path, "humaneval", ruled(tmp_path, names, fine)).frame.to_dict(
        "records"
    )
    theirs = ["Data Structures", NAMES[1], "no topic"] * 2
    assert row["tasks"] == "6" and row["fine categories"] == "3" and row["without a topic"] == "2"
    assert row["same topic, %"] == "50.0"
    assert row["Cohen's kappa"] == f"{cohen_kappa_score(names, theirs):.2f}"
    assert row["adjusted Rand index"] == f"{adjusted_rand_score(names, theirs):.2f}"
    mutual = adjusted_mutual_info_score(names, theirs)
    assert row["adjusted mutual information"] == f"{mutual:.2f}"
    pair = fine[:5], ["a", "b", "c", "a", "b"]
    assert row["adjusted Rand index, fine categories"] == f"{adjusted_rand_score(*pair):.2f}"
    by_fine = adjusted_mutual_info_score(*pair)
    assert row["adjusted mutual information, fine categories"] == f"{by_fine:.2f}"


def test_the_model_groups_its_own_categories(tmp_path):
    backend = grouper("1. Collections\n2. Number theory", ("Collections", "number theory."))
    log = label(tmp_path, backend, grouping=OWN)
    assert log["topics"] == ["Collections", "Number theory"]
    grouped = [r.text for r in backend.asked if r.task_id == "all categories"]
    assert len(grouped) == 1 and "- lists\n- prime numbers" in grouped[0]
    assert all("Collections" in r.text and NAMES[1] not in r.text for r in backend.asked[5:])
    frame = stored_labels(tmp_path, "humaneval", OWN)[MODEL]
    assert list(frame["topic"]) == ["Collections", "Number theory"] * 2
    assert not stored_labels(tmp_path, "humaneval")


def test_both_groupings_share_the_categories_and_have_a_row_each(tmp_path):
    label(tmp_path, model())
    own = grouper("Collections\nNumbers", ("Collections", "Numbers"))
    assert label(tmp_path, own, grouping=OWN)["asked_in_this_run"] == 3  # names and two categories
    again = FakeBackend(lambda r: pytest.fail("asked again"))
    assert label(tmp_path, again, grouping=OWN)["asked_in_this_run"] == 0
    names = ["Data Structures", "Data Structures", "Algorithms", "Algorithms"]
    table = agreement_table(tmp_path, "humaneval", ruled(tmp_path, names, ["x"] * 4)).frame
    fixed, grouped = table.to_dict("records")
    assert (fixed["topics"], grouped["topics"]) == ("fixed", "own")
    # Other names: only which tasks are together can be compared.
    assert grouped["Cohen's kappa"] == grouped["same topic, %"] == "–"
    assert grouped["adjusted Rand index"] == fixed["adjusted Rand index"]
    mutual = adjusted_mutual_info_score(names, ["a", "b"] * 2)
    assert grouped["adjusted mutual information"] == f"{mutual:.2f}".replace("-", MINUS)


def test_the_most_frequent_categories_are_shown_to_be_grouped(tmp_path, monkeypatch):
    monkeypatch.setattr(model_topics, "MAX_SHOWN", 2)
    backend = grouper("Numbers", ("Numbers",) * 3, ("trees", "lists", "graphs", "lists"))
    label(tmp_path, backend, grouping=OWN)
    (shown,) = (r.text for r in backend.asked if r.task_id == "all categories")
    assert "- lists\n- graphs\n" in shown and "trees" not in shown


def test_a_model_that_names_no_topics_leaves_every_task_without_one(tmp_path):
    backend = grouper("...\n\n1.", ("Collections", "Numbers"))
    log = label(tmp_path, backend, grouping=OWN)
    assert (log["topics"], log["tasks_without_topic"], log["categories"]) == ([], 4, 2)
    assert list(stored_labels(tmp_path, "humaneval", OWN)[MODEL]["topic"]) == [""] * 4


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ("1. Strings\n2. Numbers", ["Strings", "Numbers"]),
        ("- **Strings**\n- `Numbers`", ["Strings", "Numbers"]),
        ("Here are ten topics:\n\n1) Strings: text and patterns\n2) strings", ["Strings"]),
        ("**Topics:**\nStrings", ["Strings"]),
        ("These are the topics that I would use for all of the problems.\nGraphs", ["Graphs"]),
        ("\n".join(f"Topic {c}" for c in "abcdefghijklmn"), [f"Topic {c}" for c in "abcdefghij"]),
        ("3\n=SUM(A1)", ["SUM(A1)"]),
        ("Tre\x1bes\x00", ["Trees"]),
        ("x" * 10**6, []),
        ("\n" * 10**6 + "late", []),
        ("", []),
    ],
)
def test_what_is_taken_of_an_answer_as_names_of_topics(raw, names):
    assert read_topics(raw) == names


def test_a_name_that_is_part_of_another_one_is_no_second_name():
    names = ["Strings", "Strings and Text", "Graphs"]
    assert read_topic("strings and text.", names) == "Strings and Text"
    assert read_topic("Strings", names) == "Strings"
    assert read_topic("Strings or Graphs", names) == ""


def test_an_unknown_grouping_is_an_error(tmp_path):
    with pytest.raises(UserError, match="own"):
        label(tmp_path, model(), grouping="owm")


def test_a_single_label_has_no_kappa_and_no_labels_no_table(tmp_path):
    frame = ruled(tmp_path, ["Algorithms"] * 2, ["trees"] * 2)
    assert agreement_table(tmp_path, "humaneval", frame) is None
    label(tmp_path, model(("trees",), ("Algorithms",)), 2)
    (row,) = agreement_table(tmp_path, "humaneval", frame).frame.to_dict("records")
    assert row["Cohen's kappa"] == "–" and row["same topic, %"] == "100.0"
    assert agreement_table(tmp_path, "mbpp", frame) is None
    assert agreement_table(tmp_path, "humaneval", frame.set_axis(["other/1", "other/2"])) is None


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("csv", "task_id,category\nHumanEval/0,lists\n"),
        ("csv", '"\n'),
        ("csv", ""),
        ("log.json", "{"),
        ("log.json", json.dumps({"model": 7})),
    ],
)
def test_damaged_labels_are_named(tmp_path, suffix, text):
    label(tmp_path, model())
    (path,) = (tmp_path / "tasks" / "topics").glob(f"*/humaneval.{suffix}")
    path.write_text(text)
    with pytest.raises(UserError, match=path.name):
        stored_labels(tmp_path, "humaneval")


def test_a_topic_that_is_none_of_the_ten_counts_as_none(tmp_path):
    label(tmp_path, model())
    (path,) = (tmp_path / "tasks" / "topics").glob("*/humaneval.csv")
    path.write_text(path.read_text().replace("Data Structures", "Poetry"))
    assert list(stored_labels(tmp_path, "humaneval")[MODEL]["topic"]) == ["", NAMES[1]] * 2


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    labelled = model_topics.label_tasks
    backend = grouper("Collections\nNumbers", (NAMES[5], NAMES[1]))
    monkeypatch.setattr(
        model_topics, "label_tasks", lambda *a, **k: labelled(*a, backend=backend, **k)
    )
    monkeypatch.setattr(
        "pkg_lib.papers.pkg.topics.topics_of", lambda *a: ruled(tmp_path, NAMES[:3], ["x"] * 3)
    )
    for words, code, said in (
        (("--benchmark", "humaneval", "--limit", "3"), 0, "Cohen's kappa"),
        (("--benchmark", "humaneval", "--limit", "3", "--grouping", "own"), 0, "grouping: own"),
        (("--grouping", "onw"), 2, "own"),
        (("--benchmark", "humanval"), 2, "humanval"),
        (("--model", "no-such-model"), 2, "no-such-model"),
    ):
        monkeypatch.setattr(sys, "argv", ["pkg_lib", "pkg", "topics", *words])
        assert cli.main() == code
        told = capsys.readouterr()
        assert said in (told.err if code else told.out) and (not code or told.err.count("\n") == 1)
