"""A graph in a graph database as the corpus of a study, on a real server over Bolt.

Contexts equal those of the corpus itself, whether the server's vector index or this machine ranks.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from bolt_server import PASSWORD, USER, create_vector_index, free_port, server, skip_without
from fakes import FakeBackend, WordEmbedder

from pkg_lib import cli
from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.data.corpora import (
    check_name,
    corpus_digest,
    kind_of,
    load_corpus,
    tokenizer_of,
)
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.graph import bolt
from pkg_lib.graph.schema import BLOCK, IMPL, PATHVALUE, build_code_graph
from pkg_lib.graph.text.documents import build_text_graph
from pkg_lib.graph.text.structure import structured
from pkg_lib.retrieval.knowledge import Knowledge, TextKnowledge
from pkg_lib.retrieval.methods import knowledge_of, methods_of
from pkg_lib.retrieval.stored_graph import StoredKnowledge

CODE_METHODS = {"NoRAG", "BM25", "VoyageEmb", "Func-BM25", "Func-PKG", "Block-PKG"}
MODEL = "qwen2.5-coder-0.5b-instruct"
A = Document("a.py", "def f(x):\n    if x:\n        return 1\n")
B = Document("b.py", "def g(x):\n    for y in x:\n        print(y)\n\n" + A.text)
PAGES = [
    Document("p/a.md", "# Lists\n\nA list holds items in their order, and grows.\n", "markdown"),
    Document(
        "p/b.md",
        "# Prime numbers\n\nA prime number has two divisors.\n\n```\nis_prime(n)\n```\n",
        "markdown",
    ),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    skip_without()
    with server(tmp_path_factory.mktemp("server")) as place:
        yield place


@pytest.fixture(scope="module")
def stored(running, textbook) -> str:
    """The address of the textbook's graph."""
    documents, graph = textbook
    write(f"{running}/textbook", documents, graph, tokenizer="ascii")
    return f"{running}/textbook"


@pytest.fixture(scope="module")
def queries(textbook) -> list[Task]:
    """200 queries that consist of words from functions of the textbook."""
    graph = textbook[1]
    payloads = graph.payloads(graph.first_of_each_text(IMPL))
    texts = [" ".join(text.split()[2:9]) for text in payloads[:200]]
    return [Task(f"q/{i}", "humaneval", text, "f") for i, text in enumerate(texts)]


@pytest.fixture(autouse=True)
def words(monkeypatch):
    monkeypatch.setattr("pkg_lib.retrieval.embed.Embedder", WordEmbedder)


def write(place, documents, graph=None, kind="code", tokenizer="unicode") -> str:
    graph = graph or build_code_graph(documents)
    with bolt.opened(place) as database:
        return database.save(graph, "x", WordEmbedder(), documents, kind, tokenizer)


def asked(place, query, **parameters) -> list:
    from neo4j import GraphDatabase

    with GraphDatabase.driver(place.rpartition("/")[0], auth=(USER, PASSWORD)) as driver:
        return [tuple(record) for record in driver.execute_query(query, parameters).records]


def contexts(knowledge, method, tasks) -> list:
    return methods_of("textbook")[method](knowledge).retrieve(tasks)


def nearest(knowledge, kind, vectors, k):
    return knowledge.nearest(kind, vectors, k, knowledge.graph.first_of_each_text(kind))


def same_neighbours(knowledge, stored, kind, queries, k):
    """Compare neighbours by their cosines, because nodes of equal cosines have no order."""
    vectors = WordEmbedder().encode([t.prompt for t in queries])
    (ours, exact), (theirs, found) = (
        nearest(knowledge, kind, vectors, k),
        nearest(stored, kind, vectors, k),
    )
    assert found.shape == exact.shape == (len(queries), k)
    assert np.abs(exact - found).max() < 1e-6
    if k == 1:
        assert (ours == theirs).all()


def test_contexts_ranked_on_this_machine_equal_those_of_the_corpus(stored, textbook, queries):
    assert kind_of(stored) == "code" and tokenizer_of(stored) == "ascii"
    assert set(methods_of(stored)) == CODE_METHODS
    knowledge, read = (
        Knowledge(textbook[0], WordEmbedder(), tokenizer="ascii"),
        knowledge_of(stored),
    )
    assert isinstance(read, StoredKnowledge) and read.documents == textbook[0]
    for method in CODE_METHODS:
        assert contexts(read, method, queries) == contexts(knowledge, method, queries), method
    encoded = len(read.embedder.seen)
    for k in (1, 10):
        same_neighbours(knowledge, read, BLOCK, queries, k)
    assert len(read.embedder.seen) == encoded  # the vectors of the nodes come from the database


def test_contexts_ranked_by_the_server_equal_those_of_the_corpus(
    stored, textbook, queries, monkeypatch
):
    for label in ("IMPL", "BLOCK"):
        create_vector_index(stored.rpartition("/")[0], label, 256)
    monkeypatch.setattr(bolt.Database, "vectors", lambda *_: pytest.fail("ranked on this machine"))
    knowledge, read = (
        Knowledge(textbook[0], WordEmbedder(), tokenizer="ascii"),
        knowledge_of(stored),
    )
    for method in ("Func-PKG", "Block-PKG"):
        ours, theirs = contexts(knowledge, method, queries), contexts(read, method, queries)
        assert [(c.text, c.source) for c in ours] == [(c.text, c.source) for c in theirs]
        assert np.allclose([c.score for c in ours], [c.score for c in theirs], atol=1e-6)
    for kind in (IMPL, BLOCK):
        same_neighbours(knowledge, read, kind, queries, 10)
    # The index covers all graphs of the database; those of another one are never found.
    write(f"{stored.rpartition('/')[0]}/half", textbook[0][::2])
    read = knowledge_of(f"{stored.rpartition('/')[0]}/half")
    half = Knowledge(textbook[0][::2], WordEmbedder())
    for kind in (IMPL, BLOCK):
        same_neighbours(half, read, kind, queries[:40], 5)
    assert contexts(read, "Func-PKG", queries[:20]) != contexts(knowledge, "Func-PKG", queries[:20])


def test_documents_keep_their_questions(running):
    """The paper's own corpus has question-answer pairs."""
    pairs = [replace(A, question="What is f?"), B]
    assert "saved" in write(f"{running}/pairs", pairs)
    assert load_corpus(f"{running}/pairs").documents == pairs
    assert "already" in write(f"{running}/pairs", pairs)


def test_ranks_on_this_machine_for_few_nodes_and_after_a_failed_query(running, monkeypatch, caplog):
    """Three functions are too few to query an index. A failed query is reported and ranked here."""
    write(f"{running}/few", [A, B])
    create_vector_index(running, "IMPL", 256)
    knowledge, read = Knowledge([A, B], WordEmbedder()), knowledge_of(f"{running}/few")
    vectors = WordEmbedder().encode(["print y", "return"])
    monkeypatch.setattr(bolt, "MOST_CANDIDATES", 10**6)  # however many nodes the other graphs have
    assert (
        nearest(read, IMPL, vectors, 10)[0].tolist()
        == nearest(knowledge, IMPL, vectors, 10)[0].tolist()
    )
    monkeypatch.setattr(bolt, "ASK_INDEX", bolt.ASK_INDEX.replace("queryNodes", "queryNothing"))
    assert (
        nearest(read, IMPL, vectors, 1)[0].tolist()
        == nearest(knowledge, IMPL, vectors, 1)[0].tolist()
    )
    assert "ranking on this machine" in caplog.text


def test_corpus_of_text_keeps_its_kind_and_leaves(running):
    graph = build_text_graph(PAGES, structured(PAGES))
    write(f"{running}/pages", PAGES, graph, "text")
    place = f"{running}/pages"
    assert kind_of(place) == "text" and set(methods_of(place)) == {
        "NoRAG",
        "BM25",
        "VoyageEmb",
        "JSON-PKG",
    }
    tasks = [Task("q/0", "humaneval", "prime divisors", "f")]
    for method, retriever in methods_of("python-docs").items():
        ours, theirs = (
            retriever(TextKnowledge(PAGES, WordEmbedder())),
            retriever(knowledge_of(place)),
        )
        assert ours.retrieve(tasks) == theirs.retrieve(tasks), method


def test_evaluator_retrieves_contexts_and_generates_completions(stored, tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    run = Results(MODEL, corpus=stored, limit=2)
    preparer = Evaluator(run, backend=FakeBackend(lambda r: "```python\ndef f():\n    pass\n```"))
    preparer.generate(["Func-PKG"])
    direct = Knowledge(load_corpus("textbook").documents, WordEmbedder(), tokenizer="ascii")
    found = Results(MODEL, corpus=stored, limit=2).contexts("Func-PKG")
    assert [c.sha256 for c in found] == [c.sha256 for c in contexts(direct, "Func-PKG", run.tasks)]
    assert len(Results(MODEL, corpus=stored, limit=2).completions("Func-PKG")) == 2
    assert run.provenance()["corpus_digest"] == [corpus_digest(load_corpus("textbook").documents)]


def test_run_reads_the_graph_that_the_command_line_writes(running, tmp_path, monkeypatch, capsys):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(B.text)
    place = f"{running}/command"
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["pkg_lib", *map(str, words)])
        return cli.main(), *capsys.readouterr()

    assert call("graph", f"source:{tmp_path}/src", "--store", place)[0] == 0
    assert [d.text for d in load_corpus(place)] == [B.text] and tokenizer_of(place) == "unicode"
    code, out, _ = call("run", "--corpus", place, "--limit", 2, "--dry-run")
    assert code == 0 and place in out


@pytest.mark.parametrize(
    "change",
    [
        "MATCH (d:PKGDocument {graph: 'c'}) WHERE d.number = 0 SET d.text = 'other'",
        "MATCH (d:PKGDocument {graph: 'c'}) WHERE d.number = 1 DETACH DELETE d",
        "MATCH (d:PKGDocument {graph: 'c'}) WHERE d.number = 0 SET d.text = 7",
        "MATCH (d:PKGDocument {graph: 'c'}) WHERE d.number = 1 SET d.number = 'x'",
        "MATCH (g:PKG {name: 'c'}) SET g.about = '[1, 2'",
        "MATCH (g:PKG {name: 'c'}) SET g.about = '[[1, 2], 3, 4]'",
    ],
)
def test_rejects_changed_documents_until_they_are_written_again(running, change):
    place = f"{running}/c"
    write(place, [A, B])
    asked(place, change)
    with pytest.raises(UserError, match="has changed; write it again"):
        load_corpus(place)
    assert "saved" in write(place, [A, B]) and load_corpus(place).documents == [A, B]


@pytest.mark.parametrize("vector", [["x"], [1.0], 3, None])
def test_rejects_changed_vectors(running, vector):
    write(f"{running}/v", PAGES, build_text_graph(PAGES, structured(PAGES)), "text")
    asked(f"{running}/v", "MATCH (n:PATHVALUE {graph: 'v'}) SET n.vector = $vector", vector=vector)
    with pytest.raises(UserError, match="write it again"):
        nearest(knowledge_of(f"{running}/v"), PATHVALUE, WordEmbedder().encode(["x"]), 1)


def test_does_not_read_more_than_a_graph_may_contain(running, monkeypatch):
    write(f"{running}/large", [A, B])
    for limit in ("MAX_DATABASE_ROWS", "MAX_DATABASE_BYTES"):
        with (
            monkeypatch.context() as patched,
            pytest.raises(UserError, match="more than a graph may hold"),
        ):
            patched.setattr(f"pkg_lib.core.limits.{limit}", 1)
            load_corpus(f"{running}/large")


def test_reports_mistakes_of_the_user(running, monkeypatch):
    with bolt.opened(
        f"{running}/bare"
    ) as database:  # as `graph --store` wrote before it kept the documents
        database.save(build_code_graph([A]), "bare", WordEmbedder())
    write(f"{running}/others", [A])
    with pytest.raises(UserError, match="does not say what corpus it is; write it again with"):
        load_corpus(f"{running}/bare")
    for name in (f"textbook+{running}/others", f"docstrings:json+{running}/others"):
        with pytest.raises(UserError, match="is a whole corpus"):
            check_name(name)
    with pytest.raises(UserError, match="is none of"):
        load_corpus(f"{running}/others+textbook")
    with pytest.raises(UserError, match="refused"):
        load_corpus(f"bolt://127.0.0.1:{free_port()}/x")
    with pytest.raises(UserError) as told:
        load_corpus("bolt+s://user:secret@127.0.0.1/x")
    assert "secret" not in str(told.value)
    monkeypatch.setattr(WordEmbedder, "name", "another")
    with pytest.raises(
        UserError, match="are words's, not another's; write the graph again with --embedder"
    ):
        contexts(
            knowledge_of(f"{running}/others"),
            "Func-PKG",
            [Task("q", "humaneval", "x", "f")],
        )


def test_options_of_retrieval_follow_the_address(running):
    write(f"{running}/options", [A, B])
    read = knowledge_of(f"{running}/options, top 2, 50 characters")
    assert (read.top, read.chars, read.place) == (2, 50, f"{running}/options")
