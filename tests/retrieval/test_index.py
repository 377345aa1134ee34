"""Flat and HNSW indexes: exactness, recall, reproducibility and files."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from pkg_lib.core.types import UserError
from pkg_lib.retrieval.index import INDEXES, FlatIndex, HNSWIndex


def clustered(count: int, seed: int = 0, dimension: int = 32) -> np.ndarray:
    """Make unit vectors around 40 centres, like texts around topics."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(40, dimension))
    rows = centres[random.integers(0, 40, count)] + 0.7 * random.normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


VECTORS, QUERIES = clustered(3000), clustered(100, seed=1)


@pytest.fixture(scope="module")
def hnsw():
    return HNSWIndex(VECTORS)


def test_flat_index_is_exact():
    positions, cosines = FlatIndex(VECTORS).search(QUERIES, 5)
    truth = QUERIES @ VECTORS.T
    np.testing.assert_array_equal(positions, np.argsort(-truth, axis=1)[:, :5])
    np.testing.assert_allclose(cosines, np.take_along_axis(truth, positions, 1), rtol=1e-5)


@pytest.mark.skipif(not faiss.get_num_gpus(), reason="FAISS sees no GPU here")
def test_gives_equal_results_on_a_gpu_and_on_the_cpu():
    on_gpu, on_cpu = FlatIndex(VECTORS), FlatIndex(VECTORS, gpu=False)
    assert not isinstance(on_gpu.index, faiss.IndexFlatIP) and isinstance(
        on_cpu.index, faiss.IndexFlatIP
    )
    (found, cosines), (positions, truth) = on_gpu.search(QUERIES, 5), on_cpu.search(QUERIES, 5)
    np.testing.assert_array_equal(found, positions)
    np.testing.assert_allclose(cosines, truth, rtol=1e-5)


def test_hnsw_finds_nearly_all_neighbours(hnsw):
    flat = FlatIndex(VECTORS)
    positions, cosines = hnsw.search(QUERIES, 3)
    assert positions.shape == cosines.shape == (100, 3) and (np.diff(cosines, axis=1) <= 0).all()
    assert (positions[:, 0] == flat.search(QUERIES)[0][:, 0]).mean() >= 0.98


@pytest.mark.parametrize("kind", INDEXES)
def test_accepts_more_neighbours_than_vectors(kind):
    positions, cosines = INDEXES[kind](VECTORS[:2]).search(QUERIES[:1], 9)
    assert sorted(positions[0]) == [0, 1] and cosines.shape == (1, 2)


def test_saves_and_loads_an_index(tmp_path, hnsw):
    path = tmp_path / "hnsw.index"
    hnsw.save(path)
    again = HNSWIndex.load(path, VECTORS)
    for a, b in zip(hnsw.search(QUERIES, 4), again.search(QUERIES, 4), strict=True):
        np.testing.assert_array_equal(a, b)
    assert path.stat().st_size < VECTORS.nbytes + 300 * len(VECTORS)


def test_reports_a_damaged_file_and_one_of_other_vectors(tmp_path, hnsw):
    path = tmp_path / "i"
    with pytest.raises(UserError, match="cannot read the index"):
        HNSWIndex.load(path, VECTORS)
    hnsw.save(path)
    for vectors in (VECTORS[:-1], VECTORS[:, :16]):
        with pytest.raises(UserError, match="made of 3000 x 32 vectors, not"):
            HNSWIndex.load(path, vectors)
    data = path.read_bytes()
    for broken in (data[:-1], data[:20], b"", data[:99] + b"x" + data[100:]):
        path.write_bytes(broken)
        with pytest.raises(UserError, match=r"the index .*/i is damaged"):
            HNSWIndex.load(path, VECTORS)
    with pytest.raises(UserError, match="cannot write the index"):
        hnsw.save(tmp_path)


def test_rejects_an_unknown_name():
    with pytest.raises(UserError, match="unknown index 'tree'; choose from: flat, hnsw"):
        INDEXES.get_or_fail("tree")
