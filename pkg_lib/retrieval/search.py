"""The nodes of a saved graph that are nearest to a query (Equation 5): encoded once, searched often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import UserError
from pkg_lib.graph import disk
from pkg_lib.graph.schema import BLOCK, IMPL, PATHVALUE
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.explain import first_line
from pkg_lib.retrieval.index import HNSWIndex, make_index

UNITS = Registry("unit", {"function": IMPL, "block": BLOCK, "leaf": PATHVALUE})  # a leaf of a text's JSON


def search(
    folder: Path,
    query: str,
    encoder: Embedder,
    unit: str = "function",
    index: str = "flat",
    top: int = 10,
) -> Iterator[str]:
    """The `top` nearest nodes, best first: cosine, place, first line. The HNSW index is kept in `folder`."""
    kind = UNITS.get_or_fail(unit)
    graph = disk.load(folder)
    nodes = graph.first_of_each_text(kind)
    if not len(nodes):
        units = ", ".join(UNITS)
        raise UserError(f"the graph in {folder} has no {unit} nodes; choose another --unit: {units}")
    vectors = encoder.encode(graph.payloads(nodes))
    path = folder / f"index-{disk.payloads_digest(graph.texts)}.{encoder.name}.{unit}.hnsw"
    kept = index == "hnsw" and path.exists()
    searcher = HNSWIndex.load(path, vectors) if kept else make_index(index, vectors)
    if isinstance(searcher, HNSWIndex) and not kept:
        searcher.save(path)
    positions, cosines = searcher.search(encoder.encode([query]), top)
    for position, cosine in zip(positions[0].tolist(), cosines[0].tolist(), strict=True):
        if position >= 0:  # an approximate search may find fewer than it is asked for
            yield f"{cosine:.3f}  {graph.where(nodes[position])}  {first_line(graph, nodes[position])}"
