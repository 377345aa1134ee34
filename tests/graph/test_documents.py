"""JSON trees: exact round trip, unique paths, the payload's form, what is refused and how."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pkg_lib.core.types import Document
from pkg_lib.graph import disk
from pkg_lib.graph.schema import JSON_CHILD, PATH, PATHVALUE
from pkg_lib.graph.text.documents import (
    MAX_DEPTH,
    RejectedDocumentError,
    Structured,
    build_text_graph,
    deserialize,
    extend,
    parse_json,
    reasons,
    serialize,
    steps,
    tree,
)

AWKWARD = [
    "",
    "a.b",
    "a/b",
    "[0]",
    "0",
    '"',
    "'",
    "~",
    "~1",
    "~4",
    " ; value = ",
    "true",
    "null",
    "[]",
    "{}",
]
AWKWARD += ["-1.5e3", "\n"]
texts = st.one_of(
    st.sampled_from(AWKWARD), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
primitives = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts
)
values = st.recursive(
    primitives,
    lambda v: st.one_of(st.lists(v, max_size=4), st.dictionaries(texts, v, max_size=4)),
    max_leaves=12,
)


def same(a, b) -> bool:
    """Equality that tells 1 from 1.0 and True, and knows the order of keys."""
    return json.dumps(a) == json.dumps(b)


def rebuild(payloads: list[str]):
    """The JSON value from the payloads of its leaves, in their order."""
    holder: list = []
    for path, value in map(deserialize, payloads):
        way, node = [0, *steps(path)], holder
        for step, following in zip(way, [*way[1:], None], strict=True):
            default = value if following is None else [] if isinstance(following, int) else {}
            if isinstance(node, list) and step == len(node):
                node.append(default)
            elif isinstance(node, dict):
                node.setdefault(step, default)
            node = node[step]
    return holder[0]


def leaves(value) -> list[str]:
    return [payload for kind, *_, payload in tree(value) if kind == PATHVALUE]


@given(values)
@example({"": {"": []}, "a": [{}, [[]], None]})
@example({"a[0]": 1, "a": [1], "a/b": 2})
@example("path = x ; value = y")
def test_the_leaves_rebuild_the_json(value):
    assert same(rebuild(leaves(value)), value)
    assert same(parse_json(json.dumps(value)), value)


@given(values)
def test_every_tree_is_a_tree_with_unique_paths(value):
    rows = tree(value)
    paths = [payload if kind == PATH else deserialize(payload)[0] for kind, *_, payload in rows]
    parents = [parent for _, parent, *_ in rows]
    assert len(set(paths)) == len(rows) and paths[0] == "" and parents[0] == -1
    for i, (path, parent) in enumerate(zip(paths[1:], parents[1:], strict=True), 1):
        assert 0 <= parent < i and rows[parent][0] == PATH
        assert extend(paths[parent], steps(path)[-1]) == path
    assert set(parents[1:]) == {i for i, row in enumerate(rows) if row[0] == PATH}


def test_the_payload_is_the_papers():
    lists = {"explanation": "Ordered.", "tags": ["a", 1], "examples": [{"code": "x = [1]"}]}
    value = {"Lists": lists, "a/b": None}
    assert leaves(value) == [
        "path = Lists/explanation ; value = Ordered.",
        "path = Lists/tags[0] ; value = a",
        "path = Lists/tags[1] ; value = 1",
        "path = Lists/examples[0]/code ; value = x = [1]",
        "path = a~1b ; value = null",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1", '"1"'),
        (1, "1"),
        (1.0, "1.0"),
        ("true", '"true"'),
        (True, "true"),
        ("", ""),
        ([], "[]"),
    ],
)
def test_values_of_other_types_look_different(value, text):
    assert serialize("p", value) == f"path = p ; value = {text}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "duplicate key: 'a'"),
        ('{"x": {"\\u00e9": 1, "é": 2}}', r"duplicate key: '\\xe9'"),
        ('{"a": NaN}', "not a number: NaN"),
        ("[-Infinity]", "not a number: -Infinity"),
        ("[1e999]", "not a number: Infinity"),
        ("[" + "9" * 5000 + "]", "number out of range"),
        ('{"a": 1,}', "no JSON: .* at line 1, column"),
        ('{"\\udfff": 1}', "half a surrogate pair"),
        ("[" * 201 + "]" * 201, "nested too deep: more than 200 levels"),
        ('{"a":' * 100_000, "nested too deep"),
    ],
)
def test_bad_json_is_refused_by_name(text, reason):
    with pytest.raises(RejectedDocumentError, match=f"^{reason}"):
        parse_json(text)


def test_the_deepest_json_goes_through():
    value = parse_json('{"a":[' * (MAX_DEPTH // 2) + "]}" * (MAX_DEPTH // 2))
    assert len(tree(value)) == MAX_DEPTH and same(rebuild(leaves(value)), value)


DOCUMENTS = [
    Document(name, "", "text") for name in ("one", "bad", "empty", "left out", "deep", "two")
]
STRUCTURED = [
    Structured("two", {"a": {"b": [1, {}]}}),
    Structured("one", {"a": "first", "c": True}),
    Structured("bad", None, "no JSON: Expecting value at line 1, column 1", 3),
    Structured("empty", {}),
    Structured("deep", json.loads('{"a":' * 250 + "1" + "}" * 250)),
]


def test_the_graph_of_several_documents(tmp_path):
    disk.save(build_text_graph(DOCUMENTS, STRUCTURED), tmp_path)
    graph = disk.load(tmp_path)
    of_leaves = graph.document[graph.of_type(PATHVALUE)]
    assert [graph.documents[d] for d in of_leaves] == ["one", "one", "two", "two"]
    assert graph.payloads(graph.of_type(PATH)) == ["", "", "a", "a/b"]
    edges = graph.edges.to_pydict()
    expected = [(p, v) for v, p in enumerate(graph.parent) if p >= 0]
    assert set(edges["type"]) == {JSON_CHILD}
    assert list(zip(edges["source"], edges["target"], strict=True)) == expected
    assert not graph.first.any() and not graph.last.any()
    inside = np.flatnonzero(graph.document == 5)
    assert list(graph.subgraph(int(inside[0]))) == inside.tolist()
    assert (
        rebuild(graph.payloads(v for v in inside if graph.type[v] == PATHVALUE))
        == STRUCTURED[0].value
    )
    names = ("no JSON", "nothing in it", "not structured", "nested too deep")
    assert [d for d, _ in graph.skipped] == ["bad", "empty", "left out", "deep"]
    assert reasons(graph.skipped) == dict.fromkeys(names, 1)
