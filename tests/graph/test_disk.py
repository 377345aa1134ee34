"""Saving and loading a graph: round trips, reproducible bytes, damaged files and interrupted saves."""

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
    """The files of a folder by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_saves_and_loads_a_graph_and_always_writes_the_same_bytes(tmp_path, textbook):
    documents, graph = textbook
    disk.save(graph, tmp_path / "g")
    loaded = disk.load(tmp_path / "g")
    assert same_graph(loaded, graph)
    assert loaded.edges.equals(graph.edges)
    assert loaded.payloads([5, 1, 5]) == graph.payloads([5, 1, 5])
    disk.save(build_code_graph(documents), tmp_path / "twice")
    assert contents(tmp_path / "g") == contents(tmp_path / "twice")


def test_saves_skipped_documents_and_names_that_are_not_utf8(tmp_path):
    documents = [BAD, Document("caf\udce9.py", A.text), Document("empty", "")]
    graph = build_code_graph(documents, {"corpus": "x"})
    for saved in (build_code_graph([]), graph):
        disk.save(saved, tmp_path)
        assert same_graph(disk.load(tmp_path), saved)
    assert graph.skipped[0][0] == "bad"
    assert graph.meta == {"corpus": "x"}


def flip(data: bytes) -> bytes:
    """The same bytes with one bit in the middle changed."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [lambda data: data[:-40], flip, lambda data: b""])
def test_reports_a_damaged_file_which_the_next_save_replaces(tmp_path, damage):
    disk.save(build_code_graph([A, B]), tmp_path)
    path = tmp_path / disk.GRAPH
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=r"graph-6\S+ is damaged.*pkg-lib graph"):
        disk.load(tmp_path)
    disk.save(build_code_graph([B]), tmp_path)
    assert same_graph(disk.load(tmp_path), build_code_graph([B]))


def test_reports_a_missing_graph_and_a_directory_that_cannot_be_written(tmp_path):
    with pytest.raises(UserError, match=r"nowhere does not exist; save a graph with"):
        disk.load(tmp_path / "nowhere")
    disk.save(build_code_graph([A]), tmp_path)
    with pytest.raises(UserError, match="cannot write the graph"):
        disk.save(build_code_graph([A]), tmp_path / disk.GRAPH / "g")


def test_saving_removes_the_index_of_other_payloads(tmp_path):
    for documents, keeps_index in (([A], False), ([A, BAD], True), ([A, B], False)):
        graph = build_code_graph(documents)
        disk.save(graph, tmp_path)
        assert bool(list(tmp_path.glob("index-*"))) == keeps_index
        digest = disk.payloads_digest(build_code_graph(documents).texts)
        (tmp_path / f"index-{digest}.words.impl.hnsw").touch()


@pytest.mark.parametrize(("owner", "call"), [(Path, "replace"), (disk.os, "fsync")])
def test_an_interrupted_save_keeps_the_last_complete_graph(tmp_path, monkeypatch, owner, call):
    old, new = build_code_graph([A]), build_code_graph([A, B])
    disk.save(old, tmp_path)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, call, interrupt)
        disk.save(new, tmp_path)
    assert same_graph(disk.load(tmp_path), old)
    for folder in (tmp_path, tmp_path / "fresh"):
        disk.save(new, folder)
    # The interrupted save left no file behind.
    assert contents(tmp_path) == contents(tmp_path / "fresh")


def test_a_loaded_graph_stays_readable_after_its_files_are_replaced(tmp_path):
    disk.save(build_code_graph([A]), tmp_path)
    graph = disk.load(tmp_path)
    disk.save(build_code_graph([BAD]), tmp_path)
    rows = range(len(graph))
    assert graph.payloads(rows) == build_code_graph([A]).payloads(rows)


def test_a_save_leaves_files_of_others(tmp_path):
    for name in ("tmp-notes.txt", "index-2020.html", "tmp-1", "index-0.m.impl.hnsw"):
        (tmp_path / name).write_text("x")
    disk.save(build_code_graph([A]), tmp_path)
    left = set(contents(tmp_path)) - {disk.GRAPH}
    assert left == {"tmp-notes.txt", "index-2020.html"}
