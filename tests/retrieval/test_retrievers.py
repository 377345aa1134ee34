"""Every retriever of Tables 1 to 4, on small corpora of code and text with obvious best answers."""

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
    """Make one task of each prompt."""
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
def test_retrieves_one_context_per_task_and_repeats_itself(knowledge, column):
    contexts = RETRIEVERS[column](knowledge).retrieve(TASKS)
    assert [context.task_id for context in contexts] == [task.id for task in TASKS]
    assert {context.method for context in contexts} == {column}
    assert RETRIEVERS[column](knowledge).retrieve(TASKS) == contexts


FUNCTIONS = ["d/primes:1-4", "d/sorting:4-9", "d/answer:4-6"]
# Method -> the sources of its contexts, and the lines that pruning removed from them.
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
# Method -> the text of its first context.
TEXTS = {
    "BM25": PRIMES,
    "VoyageEmb": PRIMES,
    "Func-BM25": PRIMES.rstrip("\n"),
    "Func-PKG": PRIMES.rstrip("\n"),
    "Func-PKG, paper-literal": "def is_prime(number):\n    pass",
    "Func-PKG, unpruned": PRIMES.rstrip("\n"),
    "Block-PKG": textwrap.dedent(PRIMES.partition("\n")[2].rstrip("\n")),
    "Block-PKG, paper-literal": "for divisor in range(2, number):\n    pass",  # the only branch is removed
}


@pytest.mark.parametrize("column", BEST)
def test_retrieves_and_prunes_the_best_unit(knowledge, column):
    contexts = METHODS[column].make_retriever(knowledge).retrieve(TASKS)
    sources, pruned = BEST[column]
    assert [context.source for context in contexts] == sources
    assert [context.pruned for context in contexts] == pruned
    assert contexts[0].text == TEXTS[column]
    for context in contexts:
        assert context.score > 0
        assert not context.truncated


@pytest.mark.parametrize("column", ["BM25", "VoyageEmb"])
@pytest.mark.parametrize("top", [1, 2])
def test_searches_both_parts_of_a_question_answer_pair_and_shows_the_answer(embedder, column, top):
    question = "How does one fly a quaternion kite?"
    documents = [
        Document(
            "alpaca/0", "```python\ndef kites(): pass\n```", kind="answer", question="Bake bread."
        ),
        Document("alpaca/1", ANSWER, kind="answer", question=question),
    ]
    retriever = RETRIEVERS[column]
    by_question, by_answer = tasks("quaternion kite", "read lines of a file at a path")
    knowledge = Knowledge(documents, embedder, top)
    for context in retriever(knowledge).retrieve([by_question, by_answer]):
        assert context.source.split("; ")[0] == "alpaca/1"
        assert ANSWER in context.text
        assert "quaternion" not in context.text
        assert "Bake" not in context.text

    # Without its question, the answer does not match the first task.
    answer_only = Knowledge([replace(documents[1], question="")], embedder)
    (context,) = retriever(answer_only).retrieve([by_question])
    if column == "BM25":
        assert context.score == 0
    else:
        assert context.score < 0.1


@pytest.mark.parametrize("column", ["BM25", "Func-BM25"])
def test_context_is_empty_when_no_word_matches(embedder, column):
    documents = [Document("a", PRIMES), Document("empty", "")]
    knowledge = Knowledge(documents, embedder)
    (context,) = RETRIEVERS[column](knowledge).retrieve(tasks("quaternion"))
    assert (context.text, context.source, context.score) == ("", "", 0.0)


@pytest.mark.parametrize(
    ("document", "columns"),
    [
        (Document("x", "X = 1\n"), ["Func-BM25", "Func-PKG", "Block-PKG"]),
        (Document("f", "def f(): pass\n"), ["Block-PKG"]),
        (Document("f", PRIMES, unit="function"), ["BM25", "VoyageEmb"]),
    ],
)
def test_reports_a_corpus_without_units_to_retrieve(embedder, document, columns):
    knowledge = Knowledge([document], embedder)
    for column in columns:
        with pytest.raises(UserError, match=f"that {column} could find"):
            RETRIEVERS[column](knowledge).retrieve(TASKS)


def test_long_contexts_are_truncated_and_marked(embedder):
    body = "".join(f"    prime_{i} = {i}\n" for i in range(400))
    document = Document("long", f"def primes():\n    if number: pass\n{body}")
    knowledge = Knowledge([document], embedder)
    # Rows are split between statements, so they are never too long.
    is_truncated = {"BM25": False, "VoyageEmb": False, "Func-BM25": True, "Func-PKG": True}
    for method, expected in is_truncated.items():
        (context,) = RETRIEVERS[method](knowledge).retrieve(TASKS[:1])
        assert context.truncated == expected
        assert len(context.text) <= CONTEXT_CHARS
        last_line = context.text.split("\n")[-1]
        assert last_line.strip().startswith("prime_")


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
LEAVES = [
    "t/primes#Primes/examples[0]/code",
    "t/lists#Lists/More/explanation",
    "t/m.read_lines#m.read_lines/parameters[0]/description",
]


@pytest.fixture
def pages(embedder):
    return TextKnowledge(PAGES, embedder)


def test_json_pkg_returns_the_payload_of_the_nearest_leaf(pages, embedder):
    contexts = JsonPKG(pages).retrieve(QUESTIONS)
    assert [context.source for context in contexts] == LEAVES
    expected = "path = Lists/More/explanation ; value = append puts an item at the end"
    assert contexts[1].text == expected
    for context, task in zip(contexts, QUESTIONS, strict=True):
        assert not context.pruned
        assert not context.truncated
        leaf, query = embedder.encode([context.text, task.prompt])
        assert context.score == pytest.approx(float(leaf @ query), abs=1e-6)


@pytest.mark.parametrize("column", methods_of("python-docs"))
def test_every_method_of_a_text_corpus_retrieves_the_best_documents(pages, column):
    make_retriever = methods_of("python-docs")[column]
    contexts = make_retriever(pages).retrieve(QUESTIONS)
    assert [context.task_id for context in contexts] == [task.id for task in QUESTIONS]
    assert {context.method for context in contexts} == {column}
    assert make_retriever(pages).retrieve(QUESTIONS) == contexts
    if column != "NoRAG":
        documents = [context.source.partition("#")[0] for context in contexts]
        assert documents == ["t/primes", "t/lists", "t/m.read_lines"]


def test_uses_a_given_structure_without_changes(embedder):
    leaf = Structured("t/lists", {"a": {"b": "append"}})
    knowledge = TextKnowledge(PAGES[:2], embedder, structure=lambda documents: [leaf])
    contexts = JsonPKG(knowledge).retrieve(QUESTIONS)
    assert {context.source for context in contexts} == {"t/lists#a/b"}
    assert {context.text for context in contexts} == {"path = a/b ; value = append"}
    assert knowledge.graph.skipped == [("t/primes", "not structured")]


def test_json_pkg_reports_a_corpus_without_leaves(embedder):
    with pytest.raises(UserError, match="no leaves that JSON-PKG could find"):
        JsonPKG(TextKnowledge([PAGES[3]], embedder)).retrieve(QUESTIONS)


def test_long_leaves_are_truncated_and_marked(embedder):
    document = Document("long", "T\n=\n\n::\n\n" + "    divisor = number\n" * 300, "rst")
    (context,) = JsonPKG(TextKnowledge([document], embedder)).retrieve(QUESTIONS[:1])
    assert context.truncated
    assert len(context.text) <= CONTEXT_CHARS
    assert context.text.endswith("divisor = number")
