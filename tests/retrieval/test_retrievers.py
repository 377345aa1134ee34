"""Each column of Table 1 on a corpus whose best answer is plain."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Document, Task, UserError
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
    contexts = RETRIEVERS[column](knowledge).retrieve(TASKS)
    assert [(c.task_id, c.column) for c in contexts] == [(t.id, column) for t in TASKS]
    assert contexts == RETRIEVERS[column](knowledge).retrieve(TASKS)


FUNCTIONS = ["d/primes:1-4", "d/sorting:4-9", "d/answer:4-6"]
BEST = {
    "BM25": (PATHS, ["", "", ""]),
    "Dense": (PATHS, ["", "", ""]),
    "Func-BM25": (FUNCTIONS, ["", "", ""]),
    "Func-PKG": (FUNCTIONS, ["2-4", "5-6", "5-6"]),
    "Block-PKG": (["d/primes:2-4", "d/sorting:7-8", "d/answer:5-6"], ["3-4", "", ""]),
}
TEXTS = {
    "BM25": PRIMES,
    "Dense": PRIMES,
    "Func-BM25": PRIMES.rstrip("\n"),
    "Func-PKG": "def is_prime(number):\n    pass",
    "Block-PKG": "for divisor in range(2, number):\n    pass",  # dedented, the only branch gone
}


@pytest.mark.parametrize("column", BEST)
def test_the_best_unit_is_found_and_pruned(knowledge, column):
    contexts = RETRIEVERS[column](knowledge).retrieve(TASKS)
    assert ([c.source for c in contexts], [c.pruned for c in contexts]) == BEST[column]
    assert contexts[0].text == TEXTS[column]
    assert all(c.score > 0 and not c.truncated for c in contexts)


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
    ],
)
def test_cut(text, limit, expected):
    assert cut(text, limit) == expected
