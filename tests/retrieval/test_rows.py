"""Rows of source files: windows of whole definitions that cover the file within the budget."""

from __future__ import annotations

import pytest
from graph.source_trees import Expected, bodies, render
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.core.types import Document
from pkg_lib.retrieval.rows import Unit, rows

TWO = "import os\n\n\n@deco\ndef f():\n    return 1\n\n\n# why\ndef g():\n    return 2"
METHODS = (
    "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\nx = 1"
)
DEEP = "def f(x):\n    if x == 0:\n        y\n"
DEEP += "".join(f"    elif x == {i}:\n        y\n" for i in range(900))


def spans(source: str, limit: int) -> list[tuple[int, int]]:
    """Return the first and last lines of the windows of a source that is above the limit."""
    lines = [row.source.rpartition(":")[2].split("-") for row in rows(Document("d", source), limit)]
    return [(int(first), int(last)) for first, last in lines]


@given(bodies, st.integers(1, 400))
def test_windows_cover_any_source_within_the_limit(body, limit):
    out = Expected()
    render(body, out)
    source = "\n".join(out.lines)
    found = [] if len(source) <= limit else rows(Document("d", source), limit)
    assert all(len(row.text) <= limit or "\n" not in row.text for row in found)
    held = [line for row in found for line in row.text.split("\n") if line]
    assert held == [line for line in out.lines if line and found]


@pytest.mark.parametrize(
    ("source", "limit", "expected"),
    [
        (TWO, 60, [(1, 6), (7, 11)]),  # whole definitions, with what stands above them
        (TWO, 35, [(1, 1), (2, 6), (7, 11)]),
        (METHODS, 55, [(1, 3), (4, 6), (7, 7)]),  # a class that does not fit is alone
        ("x = [\n 1,\n 2,\n]\ny = 1; z = 2", 12, [(1, 2), (3, 4), (5, 5)]),
        ("def broken(:\n    x\n    y", 20, [(1, 2), (3, 3)]),
    ],
)
def test_windows_end_with_definitions(source, limit, expected):
    assert spans(source, limit) == expected


def test_splits_a_file_that_is_nested_too_deeply_to_parse():
    assert all(len(row.text) <= 200 for row in rows(Document("d", DEEP), 200))


def test_splits_only_long_python_files(textbook):
    assert rows(Document("a", TWO, kind="answer"), 5) == [Unit("a", TWO)]
    assert rows(Document("a", TWO), 500) == [Unit("a", TWO)]
    for document in textbook[0][:60]:
        found = rows(document, 2000)
        assert all(len(row.text) <= 2000 for row in found)
        assert (len(found) > 1) == (len(document.text) > 2000)
