"""Each column of Tables 1 to 4 on corpora of code and of text whose best answers are plain."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.data.corpora import CONTEXT_CHARS
from pkg_lib.graph.text.documents import Structured
from pkg_lib.retrieval.knowledge import Knowledge, TextKnowledge
from pkg_lib.retrieval.methods import METHODS, methods_of
from pkg_lib.retrieval.retrievers import JsonPKG

RETRIEVERS = methods_of("textbook")

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


def tasks(*prompts: str) -> list[Task]:
    return [Task(f"T/{i}", "made-up", prompt, "f") for i, prompt in enumerate(prompts)]


TASKS = tasks("is this number prime: divisor", "merge sort items", "read lines of a file at a path")
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
    assert [(c.task_id, c.method) for c in contexts] == [(t.id, column) for t in TASKS]
    assert contexts == RETRIEVERS[column](knowledge).retrieve(TASKS)


FUNCTIONS = ["d/primes:1-4", "d/sorting:4-9", "d/answer:4-6"]
BEST = {
    "BM25": (PATHS, ["", "", ""]),
    "VoyageEmb": (PATHS, ["", "", ""]),
    "Func-BM25": (FUNCTIONS, ["", "", ""]),
    "Func-PKG": (FUNCTIONS, ["", "5-6", ""]),
    "Func-PKG, paper-literal": (FUNCTIONS, ["2-4", "5-6", "5-6"]),
    "Func-PKG, unpruned": (FUNCTIONS, ["", "", ""]),
    "Block-PKG": (["d/primes:2-4", "d/sorting:7-8", "d/answer:5-6"], ["", "", ""]),
    "Block-PKG, paper-literal": (
        ["d/primes:2-4", "d/sorting:7-8", "d/answer:5-6"],
        ["3-4", "", ""],
    ),
}
TEXTS = {
    "BM25": PRIMES,
    "VoyageEmb": PRIMES,
    "Func-BM25": PRIMES.rstrip("\n"),
    "Func-PKG": PRIMES.rstrip("\n"),
    "Func-PKG, paper-literal": "def is_prime(number):\n    pass",
    "Func-PKG, unpruned": PRIMES.rstrip("\n"),
    "Block-PKG": textwrap.dedent(PRIMES.partition("\n")[2].rstrip("\n")),
    "Block-PKG, paper-literal": "for divisor in range(2, number):\n    pass",  # the only branch gone
}


@pytest.mark.parametrize("column", BEST)
def test_the_best_unit_is_found_and_pruned(knowledge, column):
    contexts = METHODS[column].make_retriever(knowledge).retrieve(TASKS)
    assert ([c.source for c in contexts], [c.pruned for c in contexts]) == BEST[column]
    assert contexts[0].text == TEXTS[column]
    assert all(c.score > 0 and not c.truncated for c in contexts)


@pytest.mark.parametrize("column", ["BM25", "VoyageEmb"])
@pytest.mark.parametrize("top", [1, 2])
def test_a_question_answer_pair_is_searched_by_both_parts_and_shows_its_answer(
    embedder, column, top
):
    asked = "How does one fly a quaternion kite?"
    documents = [
        Document(
            "alpaca/0", "```python\ndef kites(): pass\n```", kind="answer", question="Bake bread."
        ),
        Document("alpaca/1", ANSWER, kind="answer", question=asked),
    ]
    by_question, by_answer = tasks("quaternion kite", "read lines of a file at a path")
    knowledge = Knowledge(documents, embedder, top)
    for context in RETRIEVERS[column](knowledge).retrieve([by_question, by_answer]):
        assert context.source.split("; ")[0] == "alpaca/1" and ANSWER in context.text
        assert "quaternion" not in context.text and "Bake" not in context.text
    (alone,) = RETRIEVERS[column](
        Knowledge([replace(documents[1], question="")], embedder)
    ).retrieve([by_question])
    assert (
        alone.score == 0 if column == "BM25" else alone.score < 0.1
    )  # the answer says nothing of it


@pytest.mark.parametrize("column", ["BM25", "Func-BM25"])
def test_no_word_in_common_is_no_context(embedder, column):
    documents = [Document("a", PRIMES), Document("empty", "")]
    (found,) = RETRIEVERS[column](Knowledge(documents, embedder)).retrieve(tasks("quaternion"))
    assert (found.text, found.source, found.score) == ("", "", 0.0)


@pytest.mark.parametrize(
    ("document", "columns"),
    [
        (Document("x", "X = 1\n"), ["Func-BM25", "Func-PKG", "Block-PKG"]),
        (Document("f", "def f(): pass\n"), ["Block-PKG"]),
        (Document("f", PRIMES, unit="function"), ["BM25", "VoyageEmb"]),
    ],
)
def test_a_corpus_without_such_units_is_a_users_error(embedder, document, columns):
    for column in columns:
        with pytest.raises(UserError, match=f"that {column} could find"):
            RETRIEVERS[column](Knowledge([document], embedder)).retrieve(TASKS)


def test_long_contexts_are_cut_and_say_so(embedder):
    body = "".join(f"    prime_{i} = {i}\n" for i in range(400))
    knowledge = Knowledge(
        [Document("long", f"def primes():\n    if number: pass\n{body}")], embedder
    )
    for column in ("BM25", "VoyageEmb", "Func-BM25", "Func-PKG"):
        (found,) = RETRIEVERS[column](knowledge).retrieve(TASKS[:1])
        assert found.truncated == (
            column not in ("BM25", "VoyageEmb")
        )  # whose rows are cut between statements
        assert len(found.text) <= CONTEXT_CHARS
        assert found.text.split("\n")[-1].strip().startswith("prime_")


TEXT_PRIMES = (
    "Primes\n======\n\nA prime number has no divisor.\n\n"
    "Trial division::\n\n    for divisor in range(2, number): pass\n\nSieves are faster.\n"
)
TEXT_LISTS = (
    "Lists\n=====\n\nItems keep their order.\n\nMore\n----\n\n- append puts an item at the end\n"
)
DOCSTRING = "read_lines(path)\n\nRead a file.\n\nParameters\n----------\npath : str\n    Where the file is.\n"
PAGES = [
    Document("t/primes", TEXT_PRIMES, "rst"),
    Document("t/lists", TEXT_LISTS, "rst"),
    Document("t/m.read_lines", DOCSTRING, "docstring"),
    Document("t/nothing", "", "text"),
]
QUESTIONS = tasks(
    "for divisor in range of number", "append an item at the end", "where the file is: path"
)
LEAVES = ["t/primes#Primes/examples[0]/code", "t/lists#Lists/More/explanation"]
LEAVES += ["t/m.read_lines#m.read_lines/parameters[0]/description"]


@pytest.fixture
def pages(embedder):
    return TextKnowledge(PAGES, embedder)


def test_json_pkg_returns_the_payload_of_the_nearest_leaf(pages, embedder):
    contexts = JsonPKG(pages).retrieve(QUESTIONS)
    assert [c.source for c in contexts] == LEAVES
    assert (
        contexts[1].text == "path = Lists/More/explanation ; value = append puts an item at the end"
    )
    assert not any(c.pruned or c.truncated for c in contexts)
    for context, task in zip(contexts, QUESTIONS, strict=True):
        leaf, query = embedder.encode([context.text, task.prompt])
        assert context.score == pytest.approx(float(leaf @ query), abs=1e-6)


@pytest.mark.parametrize("column", methods_of("python-docs"))
def test_every_column_of_a_text_corpus(pages, column):
    found = methods_of("python-docs")[column](pages).retrieve(QUESTIONS)
    assert [(c.task_id, c.method) for c in found] == [(t.id, column) for t in QUESTIONS]
    assert found == methods_of("python-docs")[column](pages).retrieve(QUESTIONS)
    if column != "NoRAG":  # all columns see the same documents
        assert [c.source.partition("#")[0] for c in found] == [
            "t/primes",
            "t/lists",
            "t/m.read_lines",
        ]


def test_a_given_structure_is_used_as_it_is(embedder):
    leaf = Structured("t/lists", {"a": {"b": "append"}})
    knowledge = TextKnowledge(PAGES[:2], embedder, structure=lambda documents: [leaf])
    found = JsonPKG(knowledge).retrieve(QUESTIONS)
    assert {(c.source, c.text) for c in found} == {("t/lists#a/b", "path = a/b ; value = append")}
    assert knowledge.graph.skipped == [("t/primes", "not structured")]


def test_no_leaves_is_a_users_error(embedder):
    with pytest.raises(UserError, match="no leaves that JSON-PKG could find"):
        JsonPKG(TextKnowledge([PAGES[3]], embedder)).retrieve(QUESTIONS)


def test_long_leaves_are_cut_and_say_so(embedder):
    document = Document("long", "T\n=\n\n::\n\n" + "    divisor = number\n" * 300, "rst")
    (found,) = JsonPKG(TextKnowledge([document], embedder)).retrieve(QUESTIONS[:1])
    assert (
        found.truncated
        and len(found.text) <= CONTEXT_CHARS
        and found.text.endswith("divisor = number")
    )
