"""Each column of Table 1 on a corpus whose best answer is plain."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.graph.schema import NAME, build
from pkg_lib.retrieval.columns import columns_of
from pkg_lib.retrieval.retrievers import CONTEXT_CHARS, Knowledge, cut

RETRIEVERS = columns_of("textbook")

PRIMES = """\
def is_prime(number):
    for divisor in range(2, number):
        if number % divisor == 0:
            return False
"""
SORTING = """\
import heapq

class Sorter:
    def merge_sort(self, items):
        if len(items) < 2:
            return items
        while items:
            smallest = heapq.merge(items)
        return smallest
"""
ANSWER = """\
Reading a file:

```python
def read_lines(path):
    with open(path) as file:
        return file.readlines()
```
"""


def task(number: int, prompt: str) -> Task:
    return Task(f"T/{number}", "made-up", prompt, "f", "", "")


TASKS = [
    task(0, "is this number prime: divisor"),
    task(1, "merge sort items"),
    task(2, "read lines of a file at a path"),
]
PATHS = ["d/primes", "d/sorting", "d/answer"]


@pytest.fixture
def knowledge(embedder):
    documents = [
        Document("d/primes", PRIMES),
        Document("d/sorting", SORTING),
        Document("d/answer", ANSWER, kind="answer"),
        Document("d/function", "def unrelated():\n    with nothing: pass\n", unit="function"),
    ]
    return Knowledge(documents, embedder)


@pytest.mark.parametrize("column", RETRIEVERS)
def test_protocol(knowledge, column):
    found = RETRIEVERS[column](knowledge).retrieve(TASKS)
    assert [(c.task_id, c.column) for c in found] == [(t.id, column) for t in TASKS]
    assert found == RETRIEVERS[column](knowledge).retrieve(TASKS)


@pytest.mark.parametrize("column", ["BM25", "Dense"])
def test_row_columns_return_whole_rows(knowledge, column):
    found = RETRIEVERS[column](knowledge).retrieve(TASKS)
    assert [(c.source, c.text) for c in found] == list(zip(PATHS, [PRIMES, SORTING, ANSWER], strict=True))
    assert all(c.score > 0 and not c.truncated and not c.pruned for c in found)


def test_func_bm25_returns_whole_functions(knowledge):
    found = RETRIEVERS["Func-BM25"](knowledge).retrieve(TASKS)
    assert [c.source for c in found] == ["d/primes:1-4", "d/sorting:4-9", "d/answer:4-6"]
    assert found[0].text == PRIMES.rstrip("\n")


def test_func_pkg_returns_pruned_functions(knowledge):
    found = RETRIEVERS["Func-PKG"](knowledge).retrieve(TASKS)
    assert [c.source for c in found] == ["d/primes:1-4", "d/sorting:4-9", "d/answer:4-6"]
    assert [c.pruned for c in found] == ["2-4", "5-6", "5-6"]
    assert found[1].text.startswith(
        "def merge_sort(self, items):\n    while items:"
    )  # dedented, the first branch gone


def test_block_pkg_returns_pruned_blocks(knowledge):
    found = RETRIEVERS["Block-PKG"](knowledge).retrieve(TASKS)
    assert [c.source for c in found] == ["d/primes:2-4", "d/sorting:7-8", "d/answer:5-6"]
    assert found[0].text == "for divisor in range(2, number):\n    pass"
    assert found[2].pruned == ""


@pytest.mark.parametrize("column", ["BM25", "Func-BM25"])
def test_no_word_in_common_is_no_context(embedder, column):
    documents = [Document("a", PRIMES), Document("empty", "")]
    (found,) = RETRIEVERS[column](Knowledge(documents, embedder)).retrieve([task(0, "quaternion")])
    assert (found.text, found.source, found.score) == ("", "", 0.0)


@pytest.mark.parametrize(
    ("document", "columns"),
    [
        (Document("x", "X = 1\n"), ["Func-BM25", "Func-PKG", "Block-PKG"]),
        (Document("f", "def f(): pass\n"), ["Block-PKG"]),
        (Document("f", PRIMES, unit="function"), ["BM25", "Dense"]),
    ],
)
def test_a_corpus_without_such_units_is_a_users_error(embedder, document, columns):
    for column in columns:
        with pytest.raises(UserError, match=f"column {column} has nothing to retrieve"):
            RETRIEVERS[column](Knowledge([document], embedder)).retrieve(TASKS)


def test_long_contexts_are_cut_and_say_so(embedder):
    body = "".join(f"    prime_{i} = {i}\n" for i in range(400))
    knowledge = Knowledge([Document("long", f"def primes():\n    if number: pass\n{body}")], embedder)
    for column in ("BM25", "Dense", "Func-BM25", "Func-PKG"):
        (found,) = RETRIEVERS[column](knowledge).retrieve(TASKS[:1])
        assert found.truncated and len(found.text) <= CONTEXT_CHARS
        assert found.text.split("\n")[-1].strip().startswith("prime_")


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("ab\ncd", 5, ("ab\ncd", False)),
        ("ab\ncd", 4, ("ab", True)),
        ("ab\ncd\n", 5, ("ab\ncd", True)),
        ("abcdef", 3, ("abc", True)),
        ("\nabcdef", 3, ("\nab", True)),
        ("ab\ncd", 2, ("ab", True)),
        ("", 5, ("", False)),
    ],
)
def test_cut(text, limit, expected):
    assert cut(text, limit) == expected


def test_one_node_a_text_the_first_of_the_corpus():
    twin = "def total(items):\n    return sum(items)\n"
    graph = build([Document("a", twin), Document("b", twin), Document("c", "def other(): pass\n")])
    assert [graph.where(v) for v in graph.first_of_each_text(NAME)] == ["a:1-2", "c:1-1"]
