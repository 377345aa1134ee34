"""Topics by a model: its prompts, the parsing of its answers, stored labels, and agreement with rules."""

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


def make_model(
    categories=("Lists", "prime numbers"), names=(NAMES[5], NAMES[1]), **options
) -> FakeBackend:
    """Make a model that gives each task a category in turn, and each category a topic."""
    answers = {}
    for number, task in enumerate(load_benchmark("humaneval")):
        answers[task.id] = categories[number % len(categories)]
    for category, name in zip(categories, names, strict=False):
        answers[read_category(category)] = name
    return FakeBackend(lambda request: answers[request.task_id], **options)


def make_grouping_model(topic_names, names, categories=("Lists", "prime numbers")):
    """Make a model that also names topics, and then takes one of them for each category."""
    model = make_model(categories, names)
    answer_single = model.answer

    def answer(request):
        if request.task_id == "all categories":
            return topic_names
        return answer_single(request)

    model.answer = answer
    return model


def refusing_model():
    """Make a model that must not be prompted."""
    return FakeBackend(lambda request: pytest.fail("the model was prompted again"))


def label(tmp_path, backend, limit=4, **options):
    return label_tasks("humaneval", MODEL, tmp_path, limit, backend, **options)


def topics_by_rules(names, categories) -> pd.DataFrame:
    """Return the topics that rules assign to the first tasks of HumanEval."""
    ids = [task.id for task in load_benchmark("humaneval", len(names))]
    return pd.DataFrame({"topic": names, "category": categories}, ids)


def test_prompts_for_a_category_of_each_task_and_a_topic_of_each_category(tmp_path):
    backend = make_model()
    log = label(tmp_path, backend)
    assert len(backend.asked) == 6
    for_tasks = backend.asked[:4]
    for_categories = backend.asked[4:]
    for task, request in zip(load_benchmark("humaneval", 4), for_tasks, strict=True):
        assert statement(task).strip()[:40] in request.text
        assert task.solution not in request.text
    for request in for_categories:
        assert all(name in request.text for name in NAMES)

    frame = stored_labels(tmp_path, "humaneval")[MODEL]
    assert list(frame["category"]) == ["lists", "prime numbers"] * 2
    assert list(frame["topic"]) == ["Data Structures", "Mathematics and Number Theory"] * 2
    assert log["answers"] == 6
    assert log["asked_in_this_run"] == 6
    assert log["tasks"] == 4
    assert log["categories"] == 2
    assert log["tasks_without_category"] == 0
    assert log["tasks_without_topic"] == 0


@pytest.mark.parametrize("stop", [0, 3, 5])
def test_interrupted_run_continues_and_finished_run_prompts_nothing(tmp_path, stop):
    with pytest.raises(KeyboardInterrupt):
        label(tmp_path, make_model(stop=stop))
    assert not stored_labels(tmp_path, "humaneval")
    rest = make_model()
    assert label(tmp_path, rest)["asked_in_this_run"] == 6 - stop
    assert len(rest.asked) == 6 - stop
    assert label(tmp_path, refusing_model())["asked_in_this_run"] == 0
    # One more task has a known category.
    assert label(tmp_path, make_model(), 5)["asked_in_this_run"] == 1


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
def test_reads_a_category_from_an_answer(raw, category):
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
def test_reads_a_topic_from_an_answer(raw, topic):
    assert read_topic(raw, NAMES) == topic


def test_unusable_answers_leave_the_task_without_a_topic(tmp_path):
    categories = ("Lists", "I think that this is about a lot of things.", "prime numbers")
    log = label(tmp_path, make_model(categories, (NAMES[5], "", "99")), 3)
    assert log["tasks_without_category"] == 1
    assert log["tasks_without_topic"] == 2
    assert log["categories"] == 2
    labels = stored_labels(tmp_path, "humaneval")[MODEL]
    assert list(labels["topic"]) == ["Data Structures", "", ""]


def test_agreement_equals_that_of_scikit_learn(tmp_path):
    categories = ("Lists", "prime numbers", "trees")
    label(tmp_path, make_model(categories, (NAMES[5], NAMES[1], "?")), 6)
    names = [
        "Data Structures",
        "Data Structures",
        "Algorithms",
        "Data Structures",
        NAMES[1],
        "Algorithms",
    ]
    fine = ["lists", "lists", "trees", "lists", "primes", "nearest description"]
    table = agreement_table(tmp_path, "humaneval", topics_by_rules(names, fine))
    (row,) = table.frame.to_dict("records")
    assert row["tasks"] == "6"
    assert row["fine categories"] == "3"
    assert row["without a topic"] == "2"
    assert row["same topic, %"] == "50.0"

    by_model = ["Data Structures", NAMES[1], "no topic"] * 2
    assert row["Cohen's kappa"] == f"{cohen_kappa_score(names, by_model):.2f}"
    assert row["adjusted Rand index"] == f"{adjusted_rand_score(names, by_model):.2f}"
    information = adjusted_mutual_info_score(names, by_model)
    assert row["adjusted mutual information"] == f"{information:.2f}"

    # The last task has no category by rule.
    fine_by_rules = fine[:5]
    fine_by_model = ["a", "b", "c", "a", "b"]
    rand = adjusted_rand_score(fine_by_rules, fine_by_model)
    assert row["adjusted Rand index, fine categories"] == f"{rand:.2f}"
    information = adjusted_mutual_info_score(fine_by_rules, fine_by_model)
    assert row["adjusted mutual information, fine categories"] == f"{information:.2f}"


def test_model_groups_its_own_categories(tmp_path):
    backend = make_grouping_model(
        "1. Collections\n2. Number theory", ("Collections", "number theory.")
    )
    log = label(tmp_path, backend, grouping=OWN)
    assert log["topics"] == ["Collections", "Number theory"]
    (grouping,) = [r for r in backend.asked if r.task_id == "all categories"]
    assert "- lists\n- prime numbers" in grouping.text
    for request in backend.asked[5:]:
        assert "Collections" in request.text
        assert NAMES[1] not in request.text
    frame = stored_labels(tmp_path, "humaneval", OWN)[MODEL]
    assert list(frame["topic"]) == ["Collections", "Number theory"] * 2
    assert not stored_labels(tmp_path, "humaneval")


def test_both_groupings_share_the_categories_and_have_their_own_row(tmp_path):
    label(tmp_path, make_model())
    own = make_grouping_model("Collections\nNumbers", ("Collections", "Numbers"))
    # One prompt for the names of topics, and one for each of two categories.
    assert label(tmp_path, own, grouping=OWN)["asked_in_this_run"] == 3
    assert label(tmp_path, refusing_model(), grouping=OWN)["asked_in_this_run"] == 0
    names = ["Data Structures", "Data Structures", "Algorithms", "Algorithms"]
    table = agreement_table(tmp_path, "humaneval", topics_by_rules(names, ["x"] * 4))
    fixed, grouped = table.frame.to_dict("records")
    assert (fixed["topics"], grouped["topics"]) == ("fixed", "own")
    # The names differ, so only the grouping of the tasks can be compared.
    assert grouped["Cohen's kappa"] == "–"
    assert grouped["same topic, %"] == "–"
    assert grouped["adjusted Rand index"] == fixed["adjusted Rand index"]
    mutual = adjusted_mutual_info_score(names, ["a", "b"] * 2)
    assert grouped["adjusted mutual information"] == f"{mutual:.2f}".replace("-", MINUS)


def test_prompt_for_grouping_shows_the_most_frequent_categories(tmp_path, monkeypatch):
    monkeypatch.setattr(model_topics, "MAX_SHOWN", 2)
    categories = ("trees", "lists", "graphs", "lists")
    backend = make_grouping_model("Numbers", ("Numbers",) * 3, categories)
    label(tmp_path, backend, grouping=OWN)
    (grouping,) = [r for r in backend.asked if r.task_id == "all categories"]
    assert "- lists\n- graphs\n" in grouping.text
    assert "trees" not in grouping.text


def test_without_named_topics_every_task_has_no_topic(tmp_path):
    backend = make_grouping_model("...\n\n1.", ("Collections", "Numbers"))
    log = label(tmp_path, backend, grouping=OWN)
    assert log["topics"] == []
    assert log["tasks_without_topic"] == 4
    assert log["categories"] == 2
    labels = stored_labels(tmp_path, "humaneval", OWN)[MODEL]
    assert list(labels["topic"]) == [""] * 4


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
def test_reads_names_of_topics_from_an_answer(raw, names):
    assert read_topics(raw) == names


def test_name_inside_a_longer_name_does_not_count_as_a_second_topic():
    names = ["Strings", "Strings and Text", "Graphs"]
    assert read_topic("strings and text.", names) == "Strings and Text"
    assert read_topic("Strings", names) == "Strings"
    assert read_topic("Strings or Graphs", names) == ""


def test_rejects_an_unknown_grouping(tmp_path):
    with pytest.raises(UserError, match="own"):
        label(tmp_path, make_model(), grouping="owm")


def test_single_topic_has_no_kappa_and_tasks_without_labels_have_no_table(tmp_path):
    by_rules = topics_by_rules(["Algorithms"] * 2, ["trees"] * 2)
    assert agreement_table(tmp_path, "humaneval", by_rules) is None
    label(tmp_path, make_model(("trees",), ("Algorithms",)), 2)
    (row,) = agreement_table(tmp_path, "humaneval", by_rules).frame.to_dict("records")
    assert row["Cohen's kappa"] == "–"
    assert row["same topic, %"] == "100.0"
    assert agreement_table(tmp_path, "mbpp", by_rules) is None
    of_other_tasks = by_rules.set_axis(["other/1", "other/2"])
    assert agreement_table(tmp_path, "humaneval", of_other_tasks) is None


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
def test_reports_damaged_labels(tmp_path, suffix, text):
    label(tmp_path, make_model())
    (path,) = (tmp_path / "tasks" / "topics").glob(f"*/humaneval.{suffix}")
    path.write_text(text)
    with pytest.raises(UserError, match=path.name):
        stored_labels(tmp_path, "humaneval")


def test_stored_topic_outside_the_ten_counts_as_no_topic(tmp_path):
    label(tmp_path, make_model())
    (path,) = (tmp_path / "tasks" / "topics").glob("*/humaneval.csv")
    path.write_text(path.read_text().replace("Data Structures", "Poetry"))
    labels = stored_labels(tmp_path, "humaneval")[MODEL]
    assert list(labels["topic"]) == ["", NAMES[1]] * 2


def test_command_prints_agreement_and_reports_mistakes_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    real_label_tasks = model_topics.label_tasks
    backend = make_grouping_model("Collections\nNumbers", (NAMES[5], NAMES[1]))

    def label_with_fake_model(*arguments, **options):
        return real_label_tasks(*arguments, backend=backend, **options)

    monkeypatch.setattr(model_topics, "label_tasks", label_with_fake_model)
    by_rules = topics_by_rules(NAMES[:3], ["x"] * 3)
    monkeypatch.setattr("pkg_lib.papers.pkg.topics.topics_of", lambda *arguments: by_rules)
    for words, code, expected in (
        (("--benchmark", "humaneval", "--limit", "3"), 0, "Cohen's kappa"),
        (("--benchmark", "humaneval", "--limit", "3", "--grouping", "own"), 0, "grouping: own"),
        (("--grouping", "onw"), 2, "own"),
        (("--benchmark", "humanval"), 2, "humanval"),
        (("--model", "no-such-model"), 2, "no-such-model"),
    ):
        monkeypatch.setattr(sys, "argv", ["pkg_lib", "pkg", "topics", *words])
        assert cli.main() == code
        printed = capsys.readouterr()
        if code == 0:
            assert expected in printed.out
        else:
            assert expected in printed.err
            assert printed.err.count("\n") == 1
