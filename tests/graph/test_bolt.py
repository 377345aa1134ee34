"""The graph in a graph database: against a real server, over Bolt."""

from __future__ import annotations

import re
import sys

import nbformat
import pytest
from bolt_server import PASSWORD, cut_after, free_port, server, skip_without
from fakes import WordEmbedder

from pkg_lib import cli
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import Document, UserError
from pkg_lib.graph import bolt, disk
from pkg_lib.graph.schema import EDGE_TYPES, build_code_graph
from pkg_lib.graph.text.documents import build_text_graph
from pkg_lib.retrieval.explain import search

from .source_trees import same_graph

A = Document("a", "def f(x):\n    if x:\n        return 1\n")
B = Document("b", "def g(x):\n    for y in x:\n        print(y)\n\n" + A.text)
ALL = "MATCH (n) DETACH DELETE n"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    skip_without()
    with server(tmp_path_factory.mktemp("server")) as place:
        yield place


@pytest.fixture
def place(running):
    """The address of a database with nothing in it."""
    asked(running, ALL)
    return running


def asked(place, query, **parameters) -> list:
    from neo4j import GraphDatabase

    with GraphDatabase.driver(place, auth=("root", PASSWORD)) as driver:
        return [tuple(record) for record in driver.execute_query(query, parameters).records]


def save(place, graph, name="x") -> str:
    with bolt.opened(place) as database:
        return database.save(graph, name, WordEmbedder())


def load(place):
    with bolt.opened(place) as database:
        return database.load()


def contents(place) -> tuple[list, list]:
    """All nodes but for the vectors, and all edges."""
    nodes = asked(
        place, "MATCH (n:PKGNode) RETURN n.id, n.type, n.document, n.parent, n.text ORDER BY n.id"
    )
    return nodes, sorted(
        asked(place, "MATCH (a:PKGNode)-[e]->(b:PKGNode) RETURN a.number, b.number, type(e)")
    )


def test_round_trip_edges_and_constraint(place):
    graph = build_code_graph(
        [A, Document("caf\udce9.py", B.text), Document("bad", "def (:")], {"corpus": "x"}
    )
    assert f"{len(graph)} nodes read back; it has no vector index" in save(place, graph)
    assert same_graph(load(place), graph) and load(f"{place}/x").edges.equals(graph.edges)
    edges = zip(*(graph.edges[n].to_pylist() for n in ("source", "target", "type")), strict=True)
    assert contents(place)[1] == sorted((a, b, EDGE_TYPES[kind]) for a, b, kind in edges)
    labels = asked(place, "MATCH (n:PKGNode) RETURN n.type, labels(n)")
    assert {(kind, *sorted(of)) for kind, of in labels} == {
        (0, "NAME", "PKGNode"),
        (1, "IMPL", "PKGNode"),
        (2, "BLOCK", "PKGNode"),
    }
    from neo4j.exceptions import ClientError

    with pytest.raises(ClientError):
        asked(place, "CREATE (n:PKGNode:NAME {id: 'x/0'})")


def test_a_graph_without_nodes_and_one_of_text(place):
    text = build_text_graph([A, B], [])
    for graph in (build_code_graph([]), text):
        save(place, graph)
        assert same_graph(load(place), graph)


def test_writing_twice_changes_nothing_and_another_graph_replaces_the_first(place):
    first = build_code_graph([A, B])
    save(place, first)
    before = contents(place)
    assert "already" in save(place, first) and contents(place) == before
    save(place, build_code_graph([B]))
    assert same_graph(load(place), build_code_graph([B])) and len(contents(place)[0]) == len(
        build_code_graph([B])
    )


def test_two_graphs_do_not_mix(place, tmp_path):
    save(place, build_code_graph([A]), "one")
    save(place, build_code_graph([B]), "two")
    for name, document in (("one", A), ("two", B)):
        disk.save(build_code_graph([document]), tmp_path / name)
        assert same_graph(load(f"{place}/{name}"), build_code_graph([document]))
        ours = list(search(f"{place}/{name}", ["print y"], WordEmbedder()))
        assert ours == list(search(str(tmp_path / name), ["print y"], WordEmbedder()))
    with pytest.raises(UserError, match=r"is none of \['one', 'two'\]"):
        load(place)
    save(place, build_code_graph([]), "one")
    assert same_graph(load(f"{place}/two"), build_code_graph([B]))


HOSTILE = [
    "'}) DETACH DELETE n //",
    '"}) MATCH (m) DETACH DELETE m //',
    "`x`",
    "$graph",
    "\\'; DROP",
    "\0😀\u2028",
]


@pytest.mark.parametrize("evil", HOSTILE)
def test_names_and_code_are_never_part_of_a_query(place, evil):
    save(place, build_code_graph([B]), "other")
    code = f"def f(x):\n    '''{evil if evil.isprintable() else evil[1:]}'''\n    return {evil[1:]!r}\n"
    graph = build_code_graph([Document(evil, code)], {"corpus": evil})
    assert graph.of_type(1).size == 1
    save(place, graph, evil)
    assert same_graph(load(f"{place}/{evil}"), graph) and same_graph(
        load(f"{place}/other"), build_code_graph([B])
    )
    assert len(contents(place)[0]) == len(graph) + len(build_code_graph([B]))


@pytest.mark.parametrize("share", [0.2, 0.6, 0.97])
def test_a_broken_connection_leaves_half_a_graph_that_the_next_run_completes(
    place, share, monkeypatch
):
    monkeypatch.setitem(bolt.LIMITS, "max_transaction_retry_time", 0.1)
    graph = build_code_graph([Document(str(n), f"{A.text}    return {n}\n") for n in range(150)])
    with cut_after(place, 10**9) as (whole, left):
        save(whole, graph, "whole")
        sent = 10**9 - left[0]
    asked(place, ALL)
    with cut_after(place, int(share * sent)) as (broken, _), pytest.raises(UserError):
        save(broken, graph)
    with pytest.raises(UserError, match=r"the graph /x in .* is incomplete; write it again"):
        load(place)
    with pytest.raises(UserError, match="incomplete"):
        list(search(place, ["x"], WordEmbedder()))
    assert "saved" in save(place, graph) and same_graph(load(place), graph)


@pytest.mark.parametrize(
    "change",
    [
        "MATCH (:PKGNode)-[e:PARENT]->() DELETE e",
        "MATCH (n:BLOCK) SET n.text = 'other'",
        "MATCH (n:NAME) DETACH DELETE n",
    ],
)
def test_a_graph_that_was_changed_is_refused_and_repaired(place, change):
    graph = build_code_graph(
        [Document("c", "def f(x):\n    if x:\n        while x:\n            x()\n")]
    )
    save(place, graph)
    asked(place, change)
    with pytest.raises(UserError, match="has changed; write it again"):
        load(place)
    assert "saved" in save(place, graph) and same_graph(load(place), graph)


def test_200_queries_find_the_same_as_in_the_folder(place, textbook, tmp_path):
    graph = textbook[1]
    save(place, graph)
    disk.save(graph, tmp_path)
    payloads = graph.payloads(graph.first_of_each_text(1))
    queries = [" ".join(text.split()[2:9]) for text in payloads[:200]]
    assert len(queries) == 200
    for unit, index in (("function", "flat"), ("block", "flat"), ("function", "hnsw")):
        here = list(search(str(tmp_path), queries, WordEmbedder(), unit, index))
        assert len(here) > 1900 and here == list(
            search(place, queries, WordEmbedder(), unit, index)
        )


def test_the_queries_of_the_notebook_run(place, textbook):
    save(place, textbook[1], "textbook")
    cells = nbformat.read(ROOT / "notebooks" / "build_graphs.ipynb", 4).cells
    queries = [
        q
        for c in cells
        if c.cell_type == "markdown"
        for q in re.findall(r"```cypher\n(.*?)```", c.source, re.S)
    ]
    assert len(queries) >= 4
    assert all(asked(place, query) for query in queries)


def test_vectors_of_another_embedder_are_refused(place):
    save(place, build_code_graph([A]))
    other = WordEmbedder()
    other.name = "others"
    with pytest.raises(UserError, match="are words's, not others's"):
        list(search(place, ["x"], other))


@pytest.fixture
def call(monkeypatch, capsys):
    def command(*words):
        monkeypatch.setattr(sys, "argv", ["pkg_lib", *map(str, words)])
        monkeypatch.setattr("pkg_lib.retrieval.embed.Embedder", WordEmbedder)
        return cli.main(), *capsys.readouterr()

    return command


def test_the_command_line(place, call, tmp_path, monkeypatch):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(B.text)
    code, out, _ = call(
        "graph", f"source:{tmp_path}/src", "--store", place, "--output", tmp_path / "g"
    )
    assert (
        code == 0
        and f"saved: the graph source:{tmp_path}/src in {place}" in out
        and PASSWORD not in out
    )
    ours, embedded = (call("search", where, "print y") for where in (place, tmp_path / "g"))
    assert ours == embedded and ours[0] == 0 and "def g(x):" in ours[1]
    assert call("search", place, "x", "--unit", "leaf")[0] == 2
    monkeypatch.setenv("PKG_BOLT_PASSWORD", "wrong-password")
    for command in (("search", place, "x"), ("graph", "textbook", "--store", place)):
        code, out, error = call(*command)
        assert (code, out, error.count("\n")) == (2, "", 1) and "Authentication failed" in error
        assert "wrong-password" not in error


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("bolt://127.0.0.1:{port}", "refused"),
        ("bolt://no-such-host.invalid", "resolve"),
        ("bolt://user:secret@127.0.0.1", "PKG_BOLT_USER"),
        ("bolt://", "write bolt://HOST"),
        ("bolt://h:port", "write bolt://HOST"),
        ("http://127.0.0.1", "write bolt://HOST"),
    ],
)
def test_a_server_that_is_not_there_gets_one_line(call, where, why):
    skip_without()
    code, out, error = call("search", where.format(port=free_port()), "x")
    assert (code, out, error.count("\n")) == (2, "", 1) and why in error and "secret" not in error


def test_no_graph_and_no_driver_get_one_line(place, call, monkeypatch):
    code, _, error = call("search", place, "x")
    assert (code, error.count("\n")) == (2, 1) and "is none of []" in error
    monkeypatch.setitem(sys.modules, "neo4j", None)
    code, _, error = call("search", place, "x")
    assert (code, error.count("\n")) == (2, 1) and "pip install '.[graphdb]'" in error
