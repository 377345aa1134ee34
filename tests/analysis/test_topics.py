"""Topics: which rule speaks, what the embedding decides, and what agreement with the labels means."""

import random

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from pkg_lib.core.types import Task
from pkg_lib.papers.pkg import topics

NAMES = list(topics.topics().index)
UNIT = np.eye(len(NAMES), dtype=np.float32)


def task(number, text, solution="", benchmark="mbpp"):
    return Task(
        f"MBPP/{number}", benchmark, f"{text}\nTest: assert sort_string('a') == 'b'", "f", "", solution
    )


def assigned(*tasks, near=0):
    return topics.assign(tasks, UNIT[[near] * len(tasks)], UNIT)


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("Write a function to find the area of a hexagon.", "Geometry and Trigonometry"),
        ("Write a function to sort a list of tuples by length.", "Sorting and Searching"),
        (
            "Write a function to convert a tuple of digits to an integer.",
            "Data Conversion and Representation",
        ),
        ("Write a function to find the longest increasing subsequence.", "Optimization Techniques"),
        ("Write a function to merge two tuples.", "Data Structures"),
        ("Write a function to clear the lowest bit of a number.", "Bit Manipulation"),
        ("Write a function to count vowels in a string.", "String Manipulation and Text Processing"),
        ("Write a function to print even numbers of a list.", "Conditional and Loop Structures"),
        ("Write a function to find the nth prime number.", "Mathematics and Number Theory"),
        ("Write a function to count the number of ways to climb stairs.", "Algorithms"),
    ],
)
def test_rules_find_each_topic(text, topic):
    assert topics.by_rules(text).topic == topic


def test_the_hint_that_a_prompt_adds_decides_nothing():
    found = assigned(task(1, "Write a function to find the volume of a cone."))
    assert topics.statement(task(1, "Add.")) == "Add."
    assert found.at["MBPP/1", "topic"] == "Geometry and Trigonometry" and found.at["MBPP/1", "by"] == "rule"


def test_where_the_text_is_silent_the_solution_speaks_and_then_the_nearest_description():
    vague = "Solve the riddle."
    found = assigned(
        task(1, vague, "return re.sub('a', '', x)"), task(2, vague), near=NAMES.index("Algorithms")
    )
    assert list(found["topic"]) == ["String Manipulation and Text Processing", "Algorithms"]
    assert list(found["by"]) == ["rule", "embedding"] and found.at["MBPP/2", "category"] == topics.NEAREST


def test_statement_of_humaneval_is_the_docstring_without_examples():
    helper = 'def helper():\n    """No."""\n\n'
    prompt = helper + 'def f(x):\n    """ Count them.\n    >>> f("string")\n    1\n    """\n'
    assert topics.statement(Task("HumanEval/0", "humaneval", prompt, "f", "", "")) == "Count them."


def test_every_rule_leads_to_one_of_the_ten_topics():
    assert len(NAMES) == 10 and {r.topic for r in topics.rules()} == set(NAMES)
    assert {r.where for r in topics.rules()} == {"text", "solution"}
    published = set(pd.read_csv(topics.REFERENCE / "pkg_topics.csv")["topic"].dropna())
    assert set(topics.topics().query("source == 'paper'").index) == published


def test_labels_are_the_sample_that_they_say():
    drawn = sorted(random.Random(0).sample(range(11, 511), 100))
    assert list(topics.reader_labels().index) == [f"MBPP/{i}" for i in drawn]
    assert set(topics.reader_labels()) <= set(NAMES)


def test_kappa_is_sklearns_within_its_interval_and_undefined_for_one_label():
    hand = topics.reader_labels()
    answer = hand.where(np.arange(100) % 4 > 0, "Algorithms")
    value, low, high = topics.kappa(hand, answer)
    assert value == pytest.approx(cohen_kappa_score(hand, answer)) and low < value < high
    assert topics.kappa(hand, answer) == (value, low, high)
    centre = (low + high) / 2
    assert abs(centre - value) < 0.03 and 0.1 < high - low < 0.3
    one = pd.Series(["Algorithms"] * 3)
    assert np.isnan(topics.kappa(one, one)).all()
