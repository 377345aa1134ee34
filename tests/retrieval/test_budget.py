"""Truncating texts and filling contexts within a budget."""

from __future__ import annotations

import pytest

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.retrieval.budget import cut_at_line_end, fill_context, fitting_texts, largest

TEXT = (
    "def reverse_words(s):\n    return s[::-1]\n\n\n"
    "def sum_numbers(numbers):\n    return sum(numbers)\n"
)
A, B = Chunker(max_size=45).chunk(TEXT.encode(), "a.py").chunks


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("ab\ncd", 5, ("ab\ncd", False)),
        ("ab\ncd", 4, ("ab", True)),
        ("ab\ncd\n", 5, ("ab\ncd", True)),
        ("abcdef", 3, ("abc", True)),
        ("\nabcdef", 3, ("\nab", True)),
    ],
)
def test_truncates_a_text_at_a_line_end(text, limit, expected):
    assert cut_at_line_end(text, limit) == expected


def test_fills_a_context_to_the_limit_and_truncates_it_at_a_line_end():
    assert fill_context([A, B], 1000, len) == (f"{A.text}\n{B.text}", [A, B])
    limit = len(A.text) + 1 + len("def sum_numbers(numbers):\n") + 3
    text, used = fill_context([A, B], limit, len)
    assert (text, used) == (f"{A.text}\ndef sum_numbers(numbers):\n", [A, B])
    assert fill_context([A, B], len(A.text) + 3, len) == (A.text, [A])
    assert fill_context([A], 3, len) == ("", [])
    assert len(fill_context([A, B], 6, lambda t: len(t.split()))[0].split()) <= 6


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (100, ["a\nbc", "d\ne\n"]),
        (10, ["a\nbc", "d\ne\n"]),
        (9, ["a\nbc", "d\ne"]),
        (8, ["a\nbc", "d"]),
        (6, ["a\nbc"]),
        (1, ["a"]),
        (0, []),
    ],
)
def test_truncates_the_last_fitting_text_before_a_line_end(limit, expected):
    fitting = fitting_texts(["a\nbc", "d\ne\n"], limit, len)
    assert fitting == expected
    assert len("\n\n".join(fitting)) <= limit


def test_fills_nothing_without_texts():
    assert fitting_texts([], 5, len) == []


def test_finds_the_largest_number_that_fits():
    assert [largest(2, 9, lambda n, most=most: n <= most) for most in (0, 5, 20)] == [2, 5, 9]
