"""The graph on disk: round trip, the same bytes twice, damage, crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph import disk
from pkg_lib.graph.schema import build_code_graph

from .source_trees import same_graph

A = Document("a", "def f(x):\n    if x:\n        return 1\n")
B = Document("b", "def g(x):\n    for y in x:\n        print(y)\n\n" + A.text)
BAD = Document("bad", "def broken(:\n")


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_round_trip(tmp_path, textbook):
    graph = textbook[1]
    disk.save(graph, tmp_path / "g")
    again = disk.load(tmp_path / "g")
    assert same_graph(again, graph) and again.edges.equals(graph.edges)
    assert again.payloads([5, 1, 5]) == graph.payloads([5, 1, 5])
    disk.save(build_code_graph(textbook[0]), tmp_path / "twice")
    assert contents(tmp_path / "g") == contents(tmp_path / "twice")


def test_round_trip_keeps_what_was_skipped_and_names_that_are_no_utf8(tmp_path):
    graph = build_code_graph(
        [BAD, Document("caf\udce9.py", A.text), Document("empty", "")], {"corpus": "x"}
    )
    for kept in (build_code_graph([]), graph):
        disk.save(kept, tmp_path)
        assert same_graph(disk.load(tmp_path), kept)
    assert graph.skipped[0][0] == "bad" and graph.meta == {"corpus": "x"}


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [lambda data: data[:-40], flip, lambda data: b""])
def test_a_damaged_file_is_named_and_replaced(tmp_path, damage):
    disk.save(build_code_graph([A, B]), tmp_path)
    path = tmp_path / disk.GRAPH
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=r"graph-6\S+ is damaged.*pkg-lib graph"):
        disk.load(tmp_path)
    disk.save(build_code_graph([B]), tmp_path)
    assert same_graph(disk.load(tmp_path), build_code_graph([B]))


def test_no_graph_and_a_directory_that_cannot_be_written(tmp_path):
    with pytest.raises(UserError, match=r"nowhere does not exist; save a graph with"):
        disk.load(tmp_path / "nowhere")
    disk.save(build_code_graph([A]), tmp_path)
    with pytest.raises(UserError, match="cannot write the graph"):
        disk.save(build_code_graph([A]), tmp_path / disk.GRAPH / "g")


def test_an_index_is_that_of_the_payloads(tmp_path):
    for documents, stays in (([A], False), ([A, BAD], True), ([A, B], False)):
        disk.save(build_code_graph(documents), tmp_path)
        assert bool(list(tmp_path.glob("index-*"))) == stays
        (
            tmp_path / f"index-{disk.payloads_digest(build_code_graph(documents).texts)}.words"
        ).touch()


@pytest.mark.parametrize(("owner", "call"), [(Path, "replace"), (disk.os, "fsync")])
def test_a_crash_leaves_the_last_complete_version(tmp_path, monkeypatch, owner, call):
    first, whole = build_code_graph([A]), build_code_graph([A, B])
    disk.save(first, tmp_path)

    def stops(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, call, stops)
        disk.save(whole, tmp_path)
    assert same_graph(disk.load(tmp_path), first)
    for folder in (tmp_path, tmp_path / "fresh"):
        disk.save(whole, folder)
    assert contents(tmp_path) == contents(tmp_path / "fresh")  # nothing of the crash is left


def test_an_open_graph_outlives_its_files(tmp_path):
    disk.save(build_code_graph([A]), tmp_path)
    graph = disk.load(tmp_path)
    disk.save(build_code_graph([BAD]), tmp_path)
    assert graph.payloads(range(len(graph))) == build_code_graph([A]).payloads(range(len(graph)))
