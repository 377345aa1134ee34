"""The graph on disk: round trip, the same bytes twice, damage, crashes, vectors that belong to it or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import WordEmbedder

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.disk import directory as store
from pkg_lib.graph.disk import parts as files
from pkg_lib.graph.disk import vectors as matrices
from pkg_lib.graph.schema import PKG, build

ROOT = Path(__file__).resolve().parents[2]
A = Document("a", "def f(x):\n    if x:\n        return 1\n")
B = Document("b", "def g(x):\n    for y in x:\n        print(y)\n\n" + A.text)
BAD = Document("bad", "def broken(:\n")


class Narrow(WordEmbedder):
    """The same name, another dimension."""

    def encode(self, texts):
        return super().encode(texts)[:, :7]


class Other(WordEmbedder):
    name = "other/words"


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def file_of(folder: Path, stem: str) -> Path:
    (path,) = folder.glob(f"{stem}-*")
    return path


def test_round_trip(tmp_path, textbook):
    graph = textbook[1]
    store.save(graph, tmp_path / "g")
    again = store.load(tmp_path / "g")
    assert again.equals(graph) and again.texts["text"].equals(graph.texts["text"])
    assert np.array_equal(again.children(1), graph.children(1))
    assert again.payloads([5, 1, 5]) == graph.payloads([5, 1, 5])


def test_round_trip_keeps_what_was_skipped_and_names_that_are_no_utf8(tmp_path):
    graph = build([BAD, Document("caf\udce9.py", A.text), Document("empty", "")], {"corpus": "x"})
    store.save(graph, tmp_path)
    again = store.load(tmp_path)
    assert again.equals(graph) and again.skipped[0][0] == "bad" and again.meta == {"corpus": "x"}


def test_an_empty_graph(tmp_path, embedder):
    store.save(build([]), tmp_path)
    assert len(store.load(tmp_path)) == 0
    with pytest.raises(UserError, match="nothing to encode"):
        store.encode(tmp_path, embedder)
    assert store.add(tmp_path, [A]).equals(build([A]))


def test_building_twice_gives_the_same_bytes(tmp_path, textbook):
    for name in "xy":
        store.save(build(textbook[0]), tmp_path / name, WordEmbedder())
    assert contents(tmp_path / "x") == contents(tmp_path / "y")
    store.save(textbook[1], tmp_path / "x")
    assert contents(tmp_path / "x") == contents(tmp_path / "y")


# --- damage -------------------------------------------------------------------------------------------------------------


def truncate(path):
    path.write_bytes(path.read_bytes()[:-40])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def other_columns(path):
    pq.write_table(pa.table({"a": [1]}), path)


@pytest.mark.parametrize("stem", ["nodes", "edges", "documents", "payloads"])
@pytest.mark.parametrize("damage", [truncate, flip, other_columns, Path.unlink])
def test_a_damaged_file_is_named(tmp_path, stem, damage):
    store.save(build([A, B]), tmp_path)
    damage(file_of(tmp_path, stem))
    with pytest.raises(
        UserError, match=f"{stem}-[0-9a-f]+.* is damaged .*; delete the directory and build it again"
    ):
        store.load(tmp_path)


@pytest.mark.parametrize("stem", ["nodes", "edges", "documents", "payloads"])
def test_a_file_of_other_columns_under_its_own_digest_is_named(tmp_path, stem):
    store.save(build([A]), tmp_path)
    marker = files.marker_of(tmp_path, store.FORM)
    table = pa.table({"a": [1]})
    marker["files"][stem] = files.store(tmp_path, stem, ".parquet", lambda f: pq.write_table(table, f))
    files.publish(tmp_path, marker)
    with pytest.raises(UserError, match=f"{stem}-.* is damaged"):
        store.load(tmp_path)


@pytest.mark.parametrize(
    "text", ['{"form": 3', "[]", "{}", '{"form": 3, "files": [], "vectors": {}, "skipped": [], "meta": {}}']
)
def test_a_damaged_marker(tmp_path, text):
    store.save(build([A]), tmp_path)
    (tmp_path / "graph.json").write_text(text)
    with pytest.raises(UserError, match=r"graph.json is damaged .*; delete the directory and build it again"):
        store.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(skipped=3),
        lambda m: m.update(vectors=[1]),
        lambda m: m["vectors"].update(words={}),
        lambda m: m["files"]["nodes"].update(file=3),
        lambda m: m["files"].update(nodes=m["files"]["edges"]),
        lambda m: m.pop("check"),
    ],
)
def test_a_marker_that_something_else_has_changed(tmp_path, change):
    store.save(build([A]), tmp_path)
    marker = json.loads((tmp_path / "graph.json").read_text())
    change(marker)
    (tmp_path / "graph.json").write_text(json.dumps(marker))
    for act in (store.load, lambda f: store.add(f, [B]), lambda f: store.remove(f, ["a"])):
        with pytest.raises(UserError, match=r"graph.json is damaged \(its contents have changed\)"):
            act(tmp_path)
    store.save(build([B]), tmp_path)
    assert store.load(tmp_path).equals(build([B]))


def test_no_graph_and_a_graph_of_another_form(tmp_path):
    for act in (store.load, lambda f: store.add(f, [A]), lambda f: store.remove(f, ["a"])):
        with pytest.raises(UserError, match=r"no graph in .*/nowhere"):
            act(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    store.save(build([A]), tmp_path)
    text = (tmp_path / "graph.json").read_text()
    (tmp_path / "graph.json").write_text(text.replace('"form": 3', '"form": 1'))
    with pytest.raises(UserError, match="is of form 1, this version reads 3"):
        store.load(tmp_path)
    store.save(build([B]), tmp_path)
    assert store.load(tmp_path).equals(build([B]))


def test_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot write the graph"):
        store.save(build([A]), tmp_path / "file" / "g")


# --- vectors ------------------------------------------------------------------------------------------------------------


def test_vectors_are_those_of_the_payloads(tmp_path, embedder):
    graph = build([A, B, BAD])
    store.save(graph, tmp_path)
    matrix = store.encode(tmp_path, embedder)
    assert isinstance(matrix, np.memmap) and matrix.dtype == np.float32
    np.testing.assert_array_equal(
        matrix[graph.text], WordEmbedder().encode(graph.payloads(range(len(graph))))
    )
    assert sorted(embedder.seen) == sorted(graph.texts["text"].to_pylist())  # each distinct payload once
    np.testing.assert_array_equal(store.encode(tmp_path, embedder), matrix)
    assert len(embedder.seen) == len(graph.texts)


def test_encoding_in_many_pieces(tmp_path, embedder, monkeypatch):
    monkeypatch.setattr(matrices, "CHUNK", 2)
    graph = build([A, B])
    store.save(graph, tmp_path, embedder)
    store.add(tmp_path, [Document("c", "def h(): pass\n")], embedder)
    graph = store.load(tmp_path)
    np.testing.assert_array_equal(
        store.vectors(tmp_path, graph, "words"), WordEmbedder().encode(graph.texts["text"].to_pylist())
    )


def test_a_mismatch_of_graph_and_vectors_is_refused_with_the_reason(tmp_path, embedder):
    graph = build([A])
    store.save(graph, tmp_path, embedder)
    assert store.vectors(tmp_path, graph, "words", 256).shape == (len(graph.texts), 256)
    with pytest.raises(UserError, match=r"has no vectors of other/words \(it has: words\)"):
        store.vectors(tmp_path, graph, "other/words")
    with pytest.raises(UserError, match="have 256 dimensions, not 384"):
        store.vectors(tmp_path, graph, "words", 384)
    with pytest.raises(UserError, match="belong to another graph"):
        store.vectors(tmp_path, build([B]), "words")
    with pytest.raises(UserError, match="stored vectors of words have 256 dimensions, not 7: another model"):
        store.add(tmp_path, [B], Narrow())
    assert store.load(tmp_path).equals(graph)


@pytest.mark.parametrize(
    "damage", [truncate, flip, Path.unlink, lambda p: p.write_bytes(b"x" * p.stat().st_size)]
)
def test_damaged_vectors_are_named_and_not_carried_on(tmp_path, embedder, damage):
    store.save(build([A]), tmp_path, embedder)
    damage(file_of(tmp_path, "vectors-words"))
    for act in (
        lambda: store.vectors(tmp_path, store.load(tmp_path), "words"),
        lambda: store.add(tmp_path, [B], embedder),
    ):
        with pytest.raises(UserError, match=r"vectors-words-.*npy is damaged"):
            act()


def test_vectors_of_another_shape_are_named(tmp_path, embedder):
    store.save(build([A]), tmp_path, embedder)
    marker = files.marker_of(tmp_path, store.FORM)
    about = marker["vectors"]["words"]
    about |= files.store(
        tmp_path, "vectors-words", ".npy", lambda f: np.save(f, np.zeros((2, 256), np.float32))
    )
    files.publish(tmp_path, marker)
    with pytest.raises(UserError, match=r"is damaged \(it holds float32 \(2, 256\), not float32"):
        store.vectors(tmp_path, store.load(tmp_path), "words")


def test_two_embedders_and_one_that_waits(tmp_path, embedder):
    other = Other()
    store.save(build([A]), tmp_path, embedder)
    store.encode(tmp_path, other)
    graph = store.add(tmp_path, [B], embedder)
    assert len(store.vectors(tmp_path, graph, "words")) == len(graph.texts)
    new = len(graph.texts) - len(build([A]).texts)
    with pytest.raises(UserError, match=f"{new} payloads in .* have no vector of other/words yet"):
        store.vectors(tmp_path, graph, "other/words")
    before = len(other.seen)
    matrix = store.encode(tmp_path, other)
    assert len(other.seen) - before == new and not np.isnan(matrix).any()


# --- crashes ------------------------------------------------------------------------------------------------------------


class Stop(Exception):
    """The process ends here."""


@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_crash_at_any_step_leaves_the_last_complete_version(tmp_path, monkeypatch, step, call):
    first, whole = build([A]), build([A, B])
    store.save(first, tmp_path, WordEmbedder())
    owner, calls = (Path, []) if call == "replace" else (files.os, [])
    real = getattr(owner, call)

    def stops(*arguments):
        calls.append(arguments)
        if len(calls) > step:
            raise Stop
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, call, stops)
        with suppress(Stop):
            store.add(tmp_path, [B], WordEmbedder())
    graph = store.load(tmp_path)
    assert graph.equals(whole if step == 6 else first)  # four files, the vectors, the marker
    assert len(store.vectors(tmp_path, graph, "words")) == len(graph.texts)
    store.save(whole, tmp_path, WordEmbedder())
    store.save(whole, tmp_path / "fresh", WordEmbedder())
    assert contents(tmp_path) == contents(tmp_path / "fresh")  # nothing of the crash is left


def test_a_kill_while_encoding_leaves_the_last_complete_version(tmp_path):
    script = (
        "import os, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from pkg_lib.graph import store, vectors\n"
        "from pkg_lib.core.types import Document\n"
        "vectors.CHUNK = 1\n"
        "class Dies:\n"
        "    name, left = 'words', 2\n"
        "    def encode(self, texts):\n"
        "        self.left -= 1\n"
        "        if not self.left: os._exit(9)\n"
        "        return np.ones((len(texts), 256), np.float32)\n"
        "store.add(Path(sys.argv[1]), [Document('b', 'def g():\\n    if 1: pass\\n')], Dies())\n"
    )
    store.save(build([A]), tmp_path, WordEmbedder())
    before = contents(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert (
        subprocess.run([sys.executable, "-c", script, tmp_path], env=environment, check=False).returncode == 9
    )
    assert before.items() <= contents(tmp_path).items()
    assert store.load(tmp_path).equals(build([A]))
    store.add(tmp_path, [B])
    assert not list(tmp_path.glob("tmp-*"))  # the next writer clears away what the killed one left


def test_a_reader_that_meets_a_writer_reads_the_new_version(tmp_path, monkeypatch):
    store.save(build([A]), tmp_path)
    stale, seen = store.marker_of(tmp_path, store.FORM), []
    store.save(build([B]), tmp_path)
    real = store.marker_of
    monkeypatch.setattr(store, "marker_of", lambda *a: real(*a) if seen else seen.append(1) or stale)
    assert store.load(tmp_path).equals(build([B]))


def test_an_open_graph_outlives_its_files(tmp_path):
    store.save(build([A]), tmp_path, WordEmbedder())
    graph = store.load(tmp_path)
    matrix = store.vectors(tmp_path, graph, "words")
    store.save(build([BAD]), tmp_path)
    assert isinstance(graph, PKG) and graph.payloads(range(len(graph))) == build([A]).payloads(
        range(len(graph))
    )
    assert np.isfinite(matrix).all()
