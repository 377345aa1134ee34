"""The graph on disk: round trip, the same bytes twice, damage, crashes, vectors that belong to it."""

from __future__ import annotations

from contextlib import suppress
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


@pytest.mark.parametrize("stem", ["nodes", "payloads", "vectors-words"])
@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
def test_a_damaged_file_is_named(tmp_path, embedder, stem, damage):
    disk.save(build([A, B]), tmp_path)
    disk.encode(tmp_path, embedder)
    damage(next(tmp_path.glob(f"{stem}-*")))
    with pytest.raises(UserError, match=rf"{stem}-[0-9a-f]+.* is damaged .*; delete the directory and"):
        disk.encode(tmp_path, embedder)


@pytest.mark.parametrize("damage", [truncate, flip, lambda path: path.write_text("{}")])
def test_a_damaged_marker_is_named_and_replaced(tmp_path, damage):
    disk.save(build([A]), tmp_path)
    damage(tmp_path / disk.MARKER)
    with pytest.raises(UserError, match=r"graph.json is damaged .*; delete the directory and build it again"):
        disk.load(tmp_path)
    disk.save(build([B]), tmp_path)
    assert disk.load(tmp_path).equals(build([B]))


def test_no_graph_a_graph_of_another_form_and_a_directory_that_cannot_be_written(tmp_path, embedder):
    for act in (disk.load, lambda folder: disk.encode(folder, embedder)):
        with pytest.raises(UserError, match=r"no graph in .*/nowhere"):
            act(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    disk.save(build([A]), tmp_path)
    marker = tmp_path / disk.MARKER
    marker.write_text(marker.read_text().replace(f'"form": {disk.FORM}', '"form": 1'))
    with pytest.raises(UserError, match="is of form 1, this version reads"):
        disk.load(tmp_path)
    with pytest.raises(UserError, match="cannot write the graph"):
        disk.save(build([A]), marker / "g")


def test_vectors_are_those_of_the_payloads(tmp_path, embedder, monkeypatch):
    monkeypatch.setattr(disk, "CHUNK", 2)
    graph = build([A, B, BAD])
    disk.save(graph, tmp_path)
    matrix = disk.encode(tmp_path, embedder)
    assert isinstance(matrix, np.memmap) and matrix.dtype == np.float32
    expected = WordEmbedder().encode(graph.payloads(range(len(graph))))
    np.testing.assert_array_equal(matrix[graph.text], expected)
    assert sorted(embedder.seen) == sorted(graph.texts["text"].to_pylist())  # each distinct payload once
    disk.encode(tmp_path, Other())
    disk.save(graph, tmp_path)
    np.testing.assert_array_equal(disk.encode(tmp_path, embedder), matrix)
    assert len(embedder.seen) == len(graph.texts) and len(list(tmp_path.glob("vectors-*"))) == 2
    disk.save(build([B]), tmp_path)  # of another graph they are no longer
    assert not list(tmp_path.glob("vectors-*"))
    assert len(disk.encode(tmp_path, embedder)) == len(disk.load(tmp_path).texts)


class Stop(Exception):
    """The process ends here."""


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_crash_at_any_step_leaves_the_last_complete_version(tmp_path, monkeypatch, step, call):
    first, whole = build([A]), build([A, B])
    disk.save(first, tmp_path)
    disk.encode(tmp_path, WordEmbedder())
    owner, calls = (Path if call == "replace" else disk.os), []
    real = getattr(owner, call)

    def stops(*arguments):
        calls.append(arguments)
        if len(calls) > step:
            raise Stop
        return real(*arguments)

    with monkeypatch.context() as patch, suppress(Stop):
        patch.setattr(owner, call, stops)
        disk.save(whole, tmp_path)
    graph = disk.load(tmp_path)
    assert graph.equals(whole if step == 3 else first)  # two files, the marker
    assert len(disk.encode(tmp_path, WordEmbedder())) == len(graph.texts)
    for folder in (tmp_path, tmp_path / "fresh"):
        disk.save(whole, folder)
        disk.encode(folder, WordEmbedder())
    assert contents(tmp_path) == contents(tmp_path / "fresh")  # nothing of the crash is left


def test_a_reader_that_meets_a_writer_reads_the_new_version(tmp_path, monkeypatch):
    disk.save(build([A]), tmp_path)
    stale, seen = disk._marker(tmp_path), []
    disk.save(build([B]), tmp_path)
    real = disk._marker
    monkeypatch.setattr(disk, "_marker", lambda *a: real(*a) if seen else seen.append(1) or stale)
    assert disk.load(tmp_path).equals(build([B]))


def test_an_open_graph_outlives_its_files(tmp_path):
    disk.save(build([A]), tmp_path)
    graph, matrix = disk.load(tmp_path), disk.encode(tmp_path, WordEmbedder())
    disk.save(build([BAD]), tmp_path)
    assert graph.payloads(range(len(graph))) == build([A]).payloads(range(len(graph)))
    assert np.isfinite(matrix).all()
