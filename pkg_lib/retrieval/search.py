"""The nodes of a saved graph that are nearest to a query (Equation 5): encoded once, searched often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pkg_lib.core.types import UserError
from pkg_lib.graph.disk import directory as store
from pkg_lib.graph.disk.vectors import Encoder, payloads_digest
from pkg_lib.graph.schema import BLOCK, IMPL, PATHVALUE
from pkg_lib.retrieval.explain import first_line
from pkg_lib.retrieval.index import HNSWIndex, make_index

UNITS = {"function": IMPL, "block": BLOCK, "leaf": PATHVALUE}  # a leaf of a text's JSON


def search(
    folder: Path, query: str, encoder: Encoder, unit: str = "function", index: str = "flat", top: int = 10
) -> Iterator[str]:
    """The `top` nearest nodes, best first: cosine, place, first line. Vectors and HNSW index are kept in the directory.

    UserError for an unknown unit or index, a directory without a graph, or a graph without such nodes.
    """
    if unit not in UNITS:
        raise UserError(f"unknown unit '{unit}'; choose from: {', '.join(UNITS)}")
    graph = store.load(folder)
    nodes = graph.of_type(UNITS[unit])
    nodes = nodes[
        np.sort(np.unique(graph.text[nodes], return_index=True)[1])
    ]  # one a text, as in the columns
    if not len(nodes):
        raise UserError(
            f"the graph in {folder} has no {unit} nodes; choose another --unit: {', '.join(UNITS)}"
        )
    vectors = store.encode(folder, encoder)[graph.text[nodes]]
    path = folder / f"index-{payloads_digest(graph.texts)}.{encoder.name}.{unit}.hnsw"
    kept = index == "hnsw" and path.exists()
    searcher = HNSWIndex.load(path, vectors) if kept else make_index(index, vectors)
    if isinstance(searcher, HNSWIndex) and not kept:
        searcher.save(path)
    positions, cosines = searcher.search(encoder.encode([query]), top)
    for position, cosine in zip(positions[0].tolist(), cosines[0].tolist(), strict=True):
        if position >= 0:  # an approximate search may find fewer than it is asked for
            yield f"{cosine:.3f}  {graph.where(nodes[position])}  {first_line(graph, nodes[position])}"
