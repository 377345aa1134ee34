"""Nearest neighbours by cosine (Equation 5): FAISS over unit vectors, exact or by a graph (HNSW)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import faiss
import numpy as np

from pkg_lib.core.reading import in_the_way, open_regular
from pkg_lib.core.registry import Registry
from pkg_lib.core.types import UserError

LINKS, EF_CONSTRUCTION, EF_SEARCH = 32, 100, 128


class FlatIndex:
    """Exact; on the GPUs that FAISS sees, if `gpu`. `vectors` are unit rows [n, d]."""

    def __init__(self, vectors: np.ndarray, gpu: bool = True) -> None:
        self.index = faiss.IndexFlatIP(vectors.shape[1])
        self.index.add(np.ascontiguousarray(vectors, np.float32))
        if gpu and faiss.get_num_gpus():
            self.index = faiss.index_cpu_to_all_gpus(self.index)

    def search(self, queries: np.ndarray, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """(positions int64 [q, k], cosines float32 [q, k]), best first, for queries [q, d]."""
        queries = np.ascontiguousarray(queries, np.float32)
        scores, positions = self.index.search(queries, min(k, self.index.ntotal))
        return positions, scores


class HNSWIndex(FlatIndex):
    """Approximate (Malkov and Yashunin 2016), for very many nodes; position -1: fewer than k found."""

    def __init__(self, vectors: np.ndarray, ef_construction: int = EF_CONSTRUCTION) -> None:
        self.index = faiss.IndexHNSWFlat(vectors.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = ef_construction
        self.index.hnsw.efSearch = EF_SEARCH
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(
            1
        )  # several would link them in an order that differs from run to run
        try:
            self.index.add(np.ascontiguousarray(vectors, np.float32))
        finally:
            faiss.omp_set_num_threads(threads)

    def save(self, path: Path) -> None:
        """The links without the vectors, which the graph's directory holds. UserError when that fails."""
        data = faiss.serialize_index(self.index, faiss.IO_FLAG_SKIP_STORAGE).tobytes()
        try:
            if obstacle := in_the_way(path):
                raise UserError(f"cannot write the index: {obstacle}")
            path.write_bytes(hashlib.sha256(data).digest() + data)
        except OSError as e:
            raise UserError(f"cannot write the index {path}: {e.strerror}; free space") from e

    @classmethod
    def load(cls, path: Path, vectors: np.ndarray) -> HNSWIndex:
        """The saved links over the vectors they were made of; UserError when damaged or of another shape."""
        try:
            with open_regular(path) as file:
                data = file.readall()
        except OSError as e:
            raise UserError(f"cannot read the index {path}: {e.strerror}; build it again") from e
        if data[:32] != hashlib.sha256(data[32:]).digest():
            raise UserError(f"the index {path} is damaged; search with --index flat")
        self = cls.__new__(cls)
        try:
            self.index = faiss.deserialize_index(np.frombuffer(data[32:], np.uint8))
            _check_links(self.index)
        except (RuntimeError, ValueError, AttributeError, TypeError, MemoryError) as e:
            raise UserError(
                f"the index {path} is damaged (it holds no links of FAISS); build it again"
            ) from e
        if (self.index.ntotal, self.index.d) != vectors.shape:
            shapes = f"{self.index.ntotal} x {self.index.d} vectors, not {len(vectors)} x {vectors.shape[1]}"
            raise UserError(f"the index {path} was made of {shapes}; build it again")
        self.storage = FlatIndex(
            vectors, gpu=False
        ).index  # FAISS does not own it, so it must live as long as the index
        self.index.storage = self.storage
        self.index.hnsw.efSearch = EF_SEARCH
        return self


def _check_links(index: faiss.Index) -> None:
    """ValueError for links that FAISS would follow out of its memory: it does not look at them itself."""
    hnsw, count = index.hnsw, index.ntotal
    offsets = faiss.vector_to_array(hnsw.offsets).astype(np.int64)
    neighbors = faiss.vector_to_array(hnsw.neighbors)
    levels = faiss.vector_to_array(hnsw.levels)
    sound = len(levels) == count and len(offsets) == count + 1 and not offsets[0]
    sound = sound and (np.diff(offsets) >= 0).all() and offsets[-1] == len(neighbors)
    sound = (
        sound and ((neighbors >= -1) & (neighbors < count)).all() and -1 <= hnsw.entry_point < count
    )
    sizes = faiss.vector_to_array(hnsw.cum_nneighbor_per_level)
    sound = sound and count and levels.min() >= 1 and levels.max() < len(sizes)
    sound = sound and (np.diff(offsets) == sizes[levels]).all() and hnsw.max_level < levels.max()
    if not sound:
        raise ValueError("links lead out of the index")


INDEXES: Registry[type[FlatIndex]] = Registry("index", {"flat": FlatIndex, "hnsw": HNSWIndex})


def make_index(kind: str, vectors: np.ndarray) -> FlatIndex:
    """The index of that name over unit vectors [n, d]; UserError for an unknown name or no vectors."""
    make = INDEXES.get_or_fail(kind)
    if not len(vectors):
        raise UserError("there are no vectors to search in; choose another corpus")
    return make(vectors)
