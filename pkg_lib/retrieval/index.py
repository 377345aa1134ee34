"""Nearest neighbours by cosine (Equation 5): FAISS, exact or approximate (HNSW)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from pkg_lib.core.reading import describe_obstacle, open_regular
from pkg_lib.core.registry import Registry
from pkg_lib.core.types import UserError
from pkg_lib.retrieval.ranking import Ranked, Vectors

LINKS = 32  # of a node of HNSW
EF_CONSTRUCTION = 100  # candidates that are considered when a node is linked
EF_SEARCH = 128  # candidates that are considered in a search


class FlatIndex:
    """An exact index, held by the GPUs that FAISS sees.

    Args:
        vectors: Unit vectors [n, d].
        gpu: Whether to use GPUs.
    """

    index: faiss.Index

    def __init__(self, vectors: Vectors, gpu: bool = True) -> None:
        self.index = faiss.IndexFlatIP(vectors.shape[1])
        self.index.add(np.ascontiguousarray(vectors, np.float32))
        if gpu and faiss.get_num_gpus():
            self.index = faiss.index_cpu_to_all_gpus(self.index)

    def search(self, queries: Vectors, k: int = 1) -> Ranked:
        """Find the nearest vectors of each query.

        Args:
            queries: Unit vectors [q, d].
            k: How many neighbours to find.

        Returns:
            Positions int64 [q, min(k, n)] and cosines float32 of the same shape, best first. An
            approximate index may find fewer; their positions are -1.
        """
        queries = np.ascontiguousarray(queries, np.float32)
        cosines, positions = self.index.search(queries, min(k, self.index.ntotal))
        return positions, cosines


class HNSWIndex(FlatIndex):
    """An approximate index for very many nodes (Malkov and Yashunin, 2016).

    Args:
        vectors: Unit vectors [n, d].
        ef_construction: How many candidates are considered when a node is linked.
    """

    storage: faiss.Index  # FAISS does not own the vectors of an index that was loaded

    def __init__(self, vectors: Vectors, ef_construction: int = EF_CONSTRUCTION) -> None:
        index = faiss.IndexHNSWFlat(
            vectors.shape[1],
            LINKS,
            faiss.METRIC_INNER_PRODUCT,
        )
        index.hnsw.efConstruction = ef_construction
        index.hnsw.efSearch = EF_SEARCH
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # several threads give other links in every run
        try:
            index.add(np.ascontiguousarray(vectors, np.float32))
        finally:
            faiss.omp_set_num_threads(threads)
        self.index = index

    def save(self, path: Path) -> None:
        """Write the links without the vectors, which the graph's directory already holds.

        Args:
            path: The file to write.

        Raises:
            UserError: The file cannot be written.
        """
        data = faiss.serialize_index(self.index, faiss.IO_FLAG_SKIP_STORAGE).tobytes()
        try:
            if obstacle := describe_obstacle(path):
                raise UserError(f"cannot write the index: {obstacle}")
            path.write_bytes(hashlib.sha256(data).digest() + data)
        except OSError as e:
            raise UserError(f"cannot write the index {path}: {e.strerror}; free space") from e

    @classmethod
    def load(cls, path: Path, vectors: Vectors) -> HNSWIndex:
        """Read saved links.

        Args:
            path: The file that ``save`` wrote.
            vectors: The unit vectors [n, d] that the links were made for.

        Returns:
            The index.

        Raises:
            UserError: The file cannot be read, is damaged, or belongs to vectors of another shape.
        """
        try:
            with open_regular(path) as file:
                data = file.readall()
        except OSError as e:
            raise UserError(f"cannot read the index {path}: {e.strerror}; build it again") from e
        checksum, links = data[:32], data[32:]
        if checksum != hashlib.sha256(links).digest():
            raise UserError(f"the index {path} is damaged; search with --index flat")
        try:
            stored = np.frombuffer(links, np.uint8)
            index = _checked(faiss.deserialize_index(stored))
        except (RuntimeError, ValueError, MemoryError) as e:
            raise UserError(
                f"the index {path} is damaged (it holds no links of FAISS); build it again"
            ) from e
        if (index.ntotal, index.d) != vectors.shape:
            shapes = f"{index.ntotal} x {index.d} vectors, not {len(vectors)} x {vectors.shape[1]}"
            raise UserError(f"the index {path} was made of {shapes}; build it again")
        loaded = cls.__new__(cls)
        loaded.index = index
        loaded.storage = FlatIndex(vectors, gpu=False).index
        index.storage = loaded.storage
        index.hnsw.efSearch = EF_SEARCH
        return loaded


def _checked(index: faiss.Index) -> faiss.IndexHNSWFlat:
    """Raise ValueError for links out of memory, which FAISS would follow: it checks nothing."""
    if not isinstance(index, faiss.IndexHNSWFlat):
        raise ValueError("no HNSW index")
    hnsw: Any = index.hnsw  # the stubs of FAISS lack its arrays
    count = index.ntotal
    levels = faiss.vector_to_array(hnsw.levels)
    offsets = faiss.vector_to_array(hnsw.offsets)
    neighbors = faiss.vector_to_array(hnsw.neighbors)
    links = faiss.vector_to_array(hnsw.cum_nneighbor_per_level)
    links_of_nodes = np.diff(offsets.astype(np.int64))
    sound = (
        count > 0
        and len(levels) == count
        and len(offsets) == count + 1
        and offsets[0] == 0
        and offsets[-1] == len(neighbors)
        and levels.min() >= 1
        and hnsw.max_level < levels.max() < len(links)
        and (links_of_nodes == links[levels]).all()
        and (links_of_nodes >= 0).all()
        and ((neighbors >= -1) & (neighbors < count)).all()
        and -1 <= hnsw.entry_point < count
    )
    if not sound:
        raise ValueError("links lead out of the index")
    return index


INDEXES: Registry[type[FlatIndex]] = Registry(
    "index",
    {
        "flat": FlatIndex,
        "hnsw": HNSWIndex,
    },
)
