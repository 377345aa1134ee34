"""The conservation ledger: generated source, the textbook, the standard library, graphs that lost something."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.graph_ledger import ledger
from pkg_lib.graph.schema import Graph, build_code_graph

from .source_trees import Expected, bodies, render

SOURCE = "def f(x):\n    if x:\n        return 1\n\ndef g():\n    '''a\\x0cb'''\n"
PYTHON2 = "def old():\n    print 'x'\n\nclass A:\n    def older(self):\n        exec 'y'\n"


@given(st.lists(bodies, min_size=1, max_size=3), st.sampled_from(["\n", "\r\n", "\r"]))
def test_generated_source(trees, end):
    outputs = [Expected() for _ in trees]
    for body, out in zip(trees, outputs, strict=True):
        render(body, out)
    documents = [Document(f"d{i}", end.join([*out.lines, ""])) for i, out in enumerate(outputs)]
    blocks = [b for out in outputs for b in out.functions.values()]
    account = ledger(documents, build_code_graph(documents))
    assert account.balanced, account
    assert (account.functions, account.blocks) == (len(blocks), sum(map(len, blocks)))


def test_the_standard_library():
    """Every twelfth file, and lib2to3, whose tests hold Python 2 and other text that does not parse."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = [p for p in sorted(root.rglob("*.py")) if "site-packages" not in p.parts]
    old = [p for p in paths if "lib2to3" in p.parts]
    paths = [*old, *[p for p in paths if not {"lib2to3", "test"} & {*p.parts}][::12]]
    documents = [Document(p.as_posix(), p.read_text("utf-8-sig", "surrogateescape")) for p in paths]
    account = ledger(documents, build_code_graph(documents))
    assert account.balanced, account
    assert account.lost.total() > 0 and account.implementations > 1_500 and account.blocks > 2_500


BAD = [
    Document("does not parse", "def a(:\n    pass\nasync def b(): pass\n"),
    Document("latin-1", b"def c():\n    return '\xe9'\n".decode("utf8", "surrogateescape")),
    Document("nul", "def d(): pass\n\0"),
    Document("python 2", PYTHON2),
    Document("empty", ""),
    Document("prose", "No code.", kind="answer"),
    Document(
        "answer",
        "```python\ndef e(\n```\n\n```python\ndef good():\n    if x: pass\n```\n",
        "answer",
    ),
]


def test_what_is_skipped_stands_by_reason():
    documents = [*BAD, Document("module", SOURCE)]
    account = ledger(documents, build_code_graph(documents))
    assert account.balanced, account
    assert (account.functions, account.implementations, account.blocks) == (10, 3, 4)
    assert (account.documents, account.skipped.total(), account.lost.total()) == (8, 6, 7)
    assert (account.lost["does not parse: UnicodeEncodeError"], account.lost["no Python code"]) == (
        1,
        0,
    )
    assert "1 source does not parse (UnicodeEncodeError)" in str(account)


def lost(node: int) -> Callable[[pa.Table], pa.Table]:
    return lambda nodes: nodes.filter(pa.array(np.arange(len(nodes)) != node))


def a_line_too_many(nodes: pa.Table) -> pa.Table:
    last = nodes["last"].to_numpy() + (np.arange(len(nodes), dtype=np.int32) == 1)
    return nodes.set_column(nodes.column_names.index("last"), "last", pa.array(last))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lost(2), "m: 2 functions and 2 blocks, but 2 and 1 nodes"),
        (lost(1), "m: 2 functions and 2 blocks, but 1 and 2 nodes"),
        (a_line_too_many, "m:1-4: the text is not these lines"),
    ],
)
def test_a_loss_does_not_pass(damage, why):
    documents = [Document("m", SOURCE), Document("n", SOURCE)]
    graph = build_code_graph(documents)
    account = ledger(documents, Graph(damage(graph.nodes), graph.texts, graph.documents, []))
    assert ledger(documents, graph).balanced and not account.balanced and why in str(account)


def test_a_document_skipped_in_silence_or_without_need_does_not_pass():
    documents = [Document("m", SOURCE), Document("bad", "def (")]
    graph = build_code_graph(documents)
    graph.skipped[:] = [("m", "does not parse: SyntaxError: x")]
    account = ledger(documents, graph)
    assert "bad: not named as skipped" in str(account) and "m: skipped unnecessarily" in str(
        account
    )


def test_other_documents_are_refused():
    with pytest.raises(UserError, match="the documents that the graph was built from"):
        ledger([Document("x", SOURCE)], build_code_graph([Document("y", SOURCE)]))
