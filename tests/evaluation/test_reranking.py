"""Equation 11 by both rules: what is embedded, what is left out, and how ties are broken."""

from __future__ import annotations

import numpy as np
import pytest

from pkg_lib.evaluation.reranking import (
    WRONG_CODE,
    CandidateScore,
    choose,
    choose_as_printed,
    cosines,
    embedded_text,
    first_function,
)

REDUCED = [
    ("docstring", 'def f(x):\n    """Add one."""\n    return x + 1', "def f(x):\n    return x + 1"),
    (
        "comment",
        "def f(x):\n    # add one\n    return x + 1  # done",
        "def f(x):\n    return x + 1",
    ),
    ("only a docstring", 'def f(x):\n    """Nothing."""', "def f(x):\n    pass"),
    (
        "imports and calls go",
        "import math\ndef f(x):\n    return x\nprint(f(1))",
        "def f(x):\n    return x",
    ),
    (
        "the first of two",
        "def g(x):\n    return 0\ndef f(x):\n    return g(x)",
        "def g(x):\n    return 0",
    ),
    (
        "an inner function goes",
        "def f(x):\n    def g(y):\n        return y\n    return g(x)",
        "def f(x):\n    return g(x)",
    ),
    (
        "a text inside a branch stays",
        "def f(x):\n    if x:\n        'why'\n        return 1\n    return 0",
        "def f(x):\n    if x:\n        'why'\n        return 1\n    return 0",
    ),
    (
        "an inner function in a branch of its own",
        "def f(x):\n    if x:\n        def g(y):\n            return y\n    return 0",
        "def f(x):\n    if x:\n        pass\n    return 0",
    ),
    ("a class", "class A:\n    def f(self):\n        return 1", ""),
    ("no Python", "def f(x:\n", WRONG_CODE),
    ("nothing", "", ""),
]


@pytest.mark.parametrize(
    ("code", "expected"), [row[1:] for row in REDUCED], ids=[row[0] for row in REDUCED]
)
def test_reduced_to_its_first_function(code, expected):
    assert first_function(code) == expected


def test_of_two_definitions_of_the_entry_point_the_last_counts():
    head = 'def f(x):\n    """Add one."""\n'
    assert (
        first_function(f"{head}\ndef f(x):\n    return x + 1\n", "f")
        == "def f(x):\n    return x + 1"
    )


def test_a_bare_body_is_embedded_as_the_function_that_it_completes():
    head, body = 'def f(x):\n    """Add one."""\n', "    return x + 1\n"
    assert embedded_text(body, head + body, "f", runs=True) == "def f(x):\n    return x + 1"


def test_what_does_not_run_is_embedded_as_wrong_code():
    assert embedded_text("def f(x): return y", "def f(x): return y", "f", runs=False) == WRONG_CODE


def score(cosine: float, printed: float, parses: bool = True, runs: bool = True) -> CandidateScore:
    return CandidateScore(parses, runs, cosine, printed)


CHOICES = [
    ("the nearest by each text", {"A": score(0.2, 0.9), "B": score(0.4, 0.1)}, "B", "A"),
    ("the first of equals", {"A": score(0.5, 0.5), "B": score(0.5, 0.5)}, "A", "A"),
    ("one that does not run", {"A": score(0.1, 0.9, runs=False), "B": score(0.2, 0.3)}, "B", "B"),
    (
        "wrong code that is nearer",
        {"A": score(0.5, 0.9, runs=False), "B": score(0.2, 0.3)},
        "A",
        "B",
    ),
    ("none runs", {"A": score(0.1, 0.2, runs=False), "B": score(0.1, 0.3, runs=False)}, "A", "B"),
    (
        "one parses",
        {"A": score(0.1, 0.9, False, False), "B": score(0.1, 0.3, True, False)},
        "A",
        "B",
    ),
    ("no candidate", {}, "", ""),
]


@pytest.mark.parametrize(
    ("scores", "authors", "printed"), [row[1:] for row in CHOICES], ids=[row[0] for row in CHOICES]
)
def test_choice(scores, authors, printed):
    assert choose(scores) == authors
    assert choose_as_printed(scores) == printed


def test_cosines_are_of_the_query_with_both_texts():
    vectors = {"query": (1, 0), "reduced": (0.6, 0.8), "whole": (0, 1)}
    encode = lambda texts: np.array([vectors[text] for text in texts], dtype="float32")  # noqa: E731
    assert cosines(encode, [("query", "whole", "reduced")]) == [(0.6, 0.0)]
    assert cosines(encode, []) == []
