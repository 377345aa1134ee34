"""The graph on disk: round trip, the same bytes twice, damage, crashes, vectors that belong to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes import WordEmbedder

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph import disk
from pkg_lib.graph.schema import build

A = Document("a", "def f(x):\n    if x:\n        return 1\n")
B = Document("b", "def g(x):\n    for y in x:\n        print(y)\n\n" + A.text)
BAD = Document("bad", "def broken(:\n")


class Other(WordEmbedder):
    name = "other/words"


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_round_trip(tmp_path, textbook):
    graph = textbook[1]
    disk.save(graph, tmp_path / "g")
    again = disk.load(tmp_path / "g")
    assert again.equals(graph) and again.edges.equals(graph.edges)
    assert again.payloads([5, 1, 5]) == graph.payloads([5, 1, 5])
    disk.save(build(textbook[0]), tmp_path / "twice")
    assert contents(tmp_path / "g") == contents(tmp_path / "twice")


def test_round_trip_keeps_what_was_skipped_and_names_that_are_no_utf8(tmp_path):
    graph = build([BAD, Document("caf\udce9.py", A.text), Document("empty", "")], {"corpus": "x"})
    disk.save(graph, tmp_path)
    again = disk.load(tmp_path)
    assert again.equals(graph) and again.skipped[0][0] == "bad" and again.meta == {"corpus": "x"}


def test_an_empty_graph(tmp_path, embedder):
    disk.save(build([]), tmp_path)
    assert len(disk.load(tmp_path)) == 0
    with pytest.raises(UserError, match="nothing to encode"):
        disk.encode(tmp_path, embedder)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("stem", ["graph-6", "vectors-words"])
@pytest.mark.parametrize("damage", [truncate, flip, lambda path: path.write_text("")])
def test_a_damaged_file_is_named_and_replaced(tmp_path, embedder, stem, damage):
    disk.save(build([A, B]), tmp_path)
    disk.encode(tmp_path, embedder)
    damage(next(tmp_path.glob(f"{stem}*")))
    with pytest.raises(UserError, match=rf"{stem}\S+ is damaged .*; delete the directory and build it again"):
        disk.encode(tmp_path, embedder)
    disk.save(build([B]), tmp_path)
    assert disk.load(tmp_path).equals(build([B]))
    assert len(disk.encode(tmp_path, embedder)) == len(build([B]).texts)


def test_no_graph_and_a_directory_that_cannot_be_written(tmp_path, embedder):
    for act in (disk.load, lambda folder: disk.encode(folder, embedder)):
        with pytest.raises(UserError, match=r"no graph in .*/nowhere"):
            act(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    disk.save(build([A]), tmp_path)
    with pytest.raises(UserError, match="cannot write the graph"):
        disk.save(build([A]), tmp_path / disk.GRAPH / "g")


def test_vectors_are_those_of_the_payloads(tmp_path, embedder, monkeypatch):
    monkeypatch.setattr(disk, "CHUNK", 2)
    graph = build([A, B, BAD])
    disk.save(graph, tmp_path)
    matrix = disk.encode(tmp_path, embedder)
    assert isinstance(matrix, np.memmap) and matrix.dtype == np.float32
    expected = WordEmbedder().encode(graph.payloads(range(len(graph))))
    np.testing.assert_array_equal(matrix[graph.text], expected)
    assert sorted(embedder.seen) == sorted(graph.texts.to_pylist())  # each distinct payload once
    disk.encode(tmp_path, Other())
    disk.save(graph, tmp_path)
    np.testing.assert_array_equal(disk.encode(tmp_path, embedder), matrix)
    assert len(embedder.seen) == len(graph.texts) and len(list(tmp_path.glob("vectors-*"))) == 2
    disk.save(build([B]), tmp_path)  # of another graph they are no longer
    assert not list(tmp_path.glob("vectors-*"))
    assert len(disk.encode(tmp_path, embedder)) == len(disk.load(tmp_path).texts)


class Stop(Exception):
    """The process ends here."""


@pytest.mark.parametrize(("owner", "call"), [(Path, "replace"), (disk.os, "fsync")])
def test_a_crash_leaves_the_last_complete_version(tmp_path, monkeypatch, owner, call):
    first, whole = build([A]), build([A, B])
    disk.save(first, tmp_path)
    vectors = disk.encode(tmp_path, WordEmbedder())

    def stops(*arguments):
        raise Stop

    for write in (lambda: disk.save(whole, tmp_path), lambda: disk.encode(tmp_path, Other())):
        with monkeypatch.context() as patch, pytest.raises(Stop):
            patch.setattr(owner, call, stops)
            write()
    assert disk.load(tmp_path).equals(first)
    np.testing.assert_array_equal(disk.encode(tmp_path, WordEmbedder()), vectors)
    for folder in (tmp_path, tmp_path / "fresh"):
        disk.save(whole, folder)
        disk.encode(folder, WordEmbedder())
    assert contents(tmp_path) == contents(tmp_path / "fresh")  # nothing of the crash is left


def test_an_open_graph_outlives_its_files(tmp_path):
    disk.save(build([A]), tmp_path)
    graph, matrix = disk.load(tmp_path), disk.encode(tmp_path, WordEmbedder())
    disk.save(build([BAD]), tmp_path)
    assert graph.payloads(range(len(graph))) == build([A]).payloads(range(len(graph)))
    assert np.isfinite(matrix).all()
