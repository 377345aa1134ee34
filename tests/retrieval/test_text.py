"""JSON-PKG and the row columns over one text corpus."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.graph.text.documents import Structured
from pkg_lib.retrieval.columns import columns_of
from pkg_lib.retrieval.retrievers import CONTEXT_CHARS, JsonPKG, TextKnowledge

PRIMES = (
    "Primes\n======\n\nA prime number has no divisor.\n\n"
    "Trial division::\n\n    for divisor in range(2, number): pass\n\nSieves are faster.\n"
)
LISTS = "Lists\n=====\n\nItems keep their order.\n\nMore\n----\n\n- append puts an item at the end\n"
DOCSTRING = "read_lines(path)\n\nRead a file.\n\nParameters\n----------\npath : str\n    Where the file is.\n"
DOCUMENTS = [
    Document("t/primes", PRIMES, "rst"),
    Document("t/lists", LISTS, "rst"),
    Document("t/m.read_lines", DOCSTRING, "docstring"),
    Document("t/nothing", "", "text"),
]


PROMPTS = ["for divisor in range of number", "append an item at the end", "where the file is: path"]
TASKS = [Task(f"T/{i}", "made-up", prompt, "f", "", "") for i, prompt in enumerate(PROMPTS)]
SOURCES = ["t/primes#Primes/examples[0]/code", "t/lists#Lists/More/explanation"]
SOURCES += ["t/m.read_lines#m.read_lines/parameters[0]/description"]


@pytest.fixture
def knowledge(embedder):
    return TextKnowledge(DOCUMENTS, embedder)


def test_json_pkg_returns_the_payload_of_the_nearest_leaf(knowledge, embedder):
    contexts = JsonPKG(knowledge).retrieve(TASKS)
    assert [c.source for c in contexts] == SOURCES
    assert contexts[1].text == "path = Lists/More/explanation ; value = append puts an item at the end"
    assert not any(c.pruned or c.truncated for c in contexts)
    for context, task in zip(contexts, TASKS, strict=True):
        leaf, query = embedder.encode([context.text, task.prompt])
        assert context.score == pytest.approx(float(leaf @ query), abs=1e-6)


@pytest.mark.parametrize("column", columns_of("python-docs"))
def test_every_column_of_a_text_corpus(knowledge, column):
    found = columns_of("python-docs")[column](knowledge).retrieve(TASKS)
    assert [(c.task_id, c.column) for c in found] == [(t.id, column) for t in TASKS]
    assert found == columns_of("python-docs")[column](knowledge).retrieve(TASKS)
    if column != "None":  # all columns see the same documents
        assert [c.source.partition("#")[0] for c in found] == ["t/primes", "t/lists", "t/m.read_lines"]


def test_a_given_structure_is_used_as_it_is(embedder):
    knowledge = TextKnowledge(
        DOCUMENTS[:2], embedder, lambda documents: [Structured("t/lists", {"a": {"b": "append"}})]
    )
    found = JsonPKG(knowledge).retrieve(TASKS)
    assert {(c.source, c.text) for c in found} == {("t/lists#a/b", "path = a/b ; value = append")}
    assert knowledge.graph.skipped == [("t/primes", "not structured")]


def test_no_leaves_is_a_users_error(embedder):
    with pytest.raises(UserError, match="column JSON-PKG has nothing to retrieve"):
        JsonPKG(TextKnowledge([DOCUMENTS[3]], embedder)).retrieve(TASKS)


def test_long_leaves_are_cut_and_say_so(embedder):
    document = Document("long", "T\n=\n\n::\n\n" + "    divisor = number\n" * 300, "rst")
    (found,) = JsonPKG(TextKnowledge([document], embedder)).retrieve(TASKS[:1])
    assert found.truncated and len(found.text) <= CONTEXT_CHARS and found.text.endswith("divisor = number")
