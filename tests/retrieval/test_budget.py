"""Cutting texts and filling contexts to a budget."""

from __future__ import annotations

import pytest

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.retrieval.budget import cut_at_line_end, fill_context, largest

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
def test_a_text_is_cut_at_a_line_end(text, limit, expected):
    assert cut_at_line_end(text, limit) == expected


def test_a_context_is_filled_to_the_limit_and_cut_at_a_line_end():
    assert fill_context([A, B], 1000, len) == (f"{A.text}\n{B.text}", [A, B])
    limit = len(A.text) + 1 + len("def sum_numbers(numbers):\n") + 3
    text, used = fill_context([A, B], limit, len)
    assert (text, used) == (f"{A.text}\ndef sum_numbers(numbers):\n", [A, B])
    assert fill_context([A, B], len(A.text) + 3, len) == (A.text, [A])
    assert fill_context([A], 3, len) == ("", [])
    assert len(fill_context([A, B], 6, lambda t: len(t.split()))[0].split()) <= 6


def test_the_largest_number_that_fits():
    assert [largest(2, 9, lambda n, most=most: n <= most) for most in (0, 5, 20)] == [2, 5, 9]
