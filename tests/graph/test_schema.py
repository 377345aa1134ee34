"""The graph's tables: payloads, Equation 2, what is skipped, one process or two, what is nested deep."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.code import split_lines
from pkg_lib.graph.schema import (
    BLOCK,
    EDGE_TYPES,
    HAS_BLOCK,
    HAS_IMPL,
    IMPL,
    NAME,
    PARENT,
    Graph,
    build_code_graph,
)

from .source_trees import Expected, bodies, render, same_graph

NESTED = """import os

class A:
    @staticmethod
    def walk(tree):
        for node in tree:
            if node:
                while node.next:
                    node = node.next
            else:
                def visit(n):
                    with n: pass
        return tree
"""


def edges_of(graph: Graph) -> set[tuple[int, int, int]]:
    return set(zip(*graph.edges.to_pydict().values(), strict=True))


def check(graph: Graph, documents: list[Document]) -> None:
    """Every property of Section 3.1.1 that can be read off the tables."""
    edges = edges_of(graph)
    lines = [split_lines(d.text) for d in documents]
    assert len(edges) == graph.edges.num_rows
    expected, impl = set(), -1
    for v, payload in enumerate(graph.payloads(range(len(graph)))):
        kind, first, last, parent = (
            graph.type[v],
            graph.first[v],
            graph.last[v],
            int(graph.parent[v]),
        )
        if kind == NAME:
            assert parent == -1 and (graph.type[v + 1], graph.parent[v + 1]) == (IMPL, v)
            assert (graph.first[v + 1], graph.last[v + 1]) == (first, last)
            continue
        assert payload == "\n".join(lines[graph.document[v]][first - 1 : last])
        if kind == IMPL:
            impl = v
            expected.add((v - 1, v, HAS_IMPL))
        else:
            assert kind == BLOCK and impl <= parent < v and (parent == impl) == (v == impl + 1)
            assert graph.first[parent] + (parent != impl + 1) <= first <= last <= graph.last[parent]
            expected |= {(impl, v, HAS_BLOCK)} | (
                {(parent, v, PARENT)} if parent != impl else set()
            )
    assert edges == expected
    below = nx.DiGraph(zip(graph.parent.tolist(), range(len(graph)), strict=True))
    for v in range(len(graph)):
        assert list(graph.children(v)) == sorted(below.successors(v))
        assert set(graph.descendants(v)) == nx.descendants(below, v)


@given(bodies)
def test_generated_graph(body):
    out = Expected()
    render(body, out)
    documents = [Document("d", "\n".join(out.lines) + "\n")]
    graph = build_code_graph(documents)
    assert len(graph) == sum(2 + len(blocks) for blocks in out.functions.values())
    check(graph, documents)


def test_textbook_graph(textbook):
    documents, graph = textbook
    check(graph, documents)
    assert graph.skipped == []
    assert len(graph.of_type(NAME)) == len(graph.of_type(IMPL)) > 300


def test_nodes_of_a_known_function():
    graph = build_code_graph([Document("d", NESTED)])
    assert graph.payloads(graph.of_type(NAME)) == ["walk", "visit"]
    walk = graph.of_type(IMPL)[0]
    assert graph.where(walk) == "d:4-13"
    (body,) = graph.children(walk)
    (loop,) = graph.children(body)
    (branch,) = graph.children(loop)
    assert [graph.where(v) for v in graph.children(branch)] == ["d:8-9", "d:11-12"]
    inside = ["d:6-13", "d:6-12", "d:7-12", "d:8-9", "d:11-12"]
    assert [graph.where(v) for v in graph.descendants(walk)] == inside
    assert graph.branches(walk).tolist() == graph.branches(body).tolist() == [loop]


def test_subgraphs_are_typed_and_hold_their_own_edges(textbook):
    graph = textbook[1]
    edges = edges_of(graph)
    for v in graph.of_type(IMPL)[::29]:
        inside = {int(v), *graph.descendants(v)}
        expected = {(s, t): EDGE_TYPES[k] for s, t, k in edges if s in inside and t in inside}
        assert nx.get_edge_attributes(graph.subgraph(v), "type") == expected
    assert not graph.view([0, 2]).edges and list(graph.view([0, 1]).edges) == [(0, 1)]


def elif_chain(count: int) -> str:
    branches = "".join(f"    elif x == {i}:\n        y\n" for i in range(1, count))
    return f"def f(x):\n    if x == 0:\n        y\n{branches}"


LATIN = b"def f():\n    return '\xe9'\n".decode("utf8", "surrogateescape")
TOO_DEEP = "def f():\n" + "".join(" " * i + "if x:\n" for i in range(1, 1001)) + " " * 1001 + "y\n"


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("def f(:\n", "python", "SyntaxError"),
        ("x = 1\0", "python", "does not parse"),
        (LATIN, "python", "UnicodeEncodeError"),
        ("(" * 5000, "python", "does not parse"),
        (TOO_DEEP, "python", "does not parse"),
        (elif_chain(20_000), "python", "does not parse"),
        ("def f():\n\tif x:\n        y\n", "python", "TabError"),
        ("", "answer", "no Python code"),
        ("```python\ndef f(\n```\n", "answer", "SyntaxError"),
    ],
)
def test_what_does_not_parse_is_named(text, kind, why):
    graph = build_code_graph(
        [Document("bad", text, kind=kind), Document("good", "def g(): pass\n")]
    )
    ((name, reason),) = graph.skipped
    assert name == "bad" and why in reason
    assert graph.payloads(graph.of_type(NAME)) == ["g"]
    assert graph.where(0) == "good:1-1"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_pythons_do(end):
    assert build_code_graph([Document("d", NESTED.replace("\n", end))]).payload(1) == "\n".join(
        NESTED.split("\n")[3:13]
    )
    separators = "def f():\n    x = '\x0c\x1c\u2028'\n    if x:\n        pass\n"
    assert build_code_graph([Document("d", separators)]).payload(3) == "    if x:\n        pass"


@pytest.mark.parametrize("size", [1, 400, 10**9])
def test_the_same_graph_with_two_processes(monkeypatch, size):
    monkeypatch.setattr("pkg_lib.graph.nodes.CHUNK_CHARS", size)
    documents = [Document("bad", "def"), Document("a", NESTED), Document("none", "", kind="answer")]
    documents += [
        Document(f"d{i}", f"def f{i}():\n    if {i}:\n        return\n") for i in range(20)
    ]
    documents.append(Document("b", NESTED))
    assert same_graph(
        build_code_graph(documents, {"a": "b"}, processes=2),
        build_code_graph(documents, {"a": "b"}),
    )
    with pytest.raises(UserError, match="processes = 0: give 1 or more"):
        build_code_graph([], processes=0)


def test_a_payload_is_kept_once():
    graph = build_code_graph([Document("a", NESTED), Document("b", "import os\n\n" + NESTED)])
    half = len(graph) // 2
    assert np.array_equal(graph.text[:half], graph.text[half:])
    # Within a document too: a nested function is a block.
    assert len(graph.texts) == len(set(graph.payloads(range(half)))) < half


def test_900_nested_blocks():
    """Deeper than Python's recursion limit: an `elif` is nested in the `if` before it."""
    graph = build_code_graph([Document("deep", elif_chain(900))])
    assert len(graph) == 903 and graph.skipped == []
    assert list(graph.descendants(0)) == list(range(1, 903))
    assert len(graph.subgraph(0)) == 903
    assert graph.children(500).tolist() == [501]
