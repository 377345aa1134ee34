"""LLM-KB's graph from the records of an extraction (Section C.2): classes by the name that the model gave, depends_on edges."""

from __future__ import annotations

from pkg_lib.graph.types.typegraph import TypeGraph, TypeNode, ordered
from pkg_lib.papers.dkb.llm_kb import Extraction


def graph_of(found: Extraction) -> TypeGraph:
    """Nodes are extracted class names; of two with one name the first counts. A dependency that no record has is left out
    (the paper's "graph cleaning", which it does not describe), so that every node has a file."""
    nodes: dict[str, TypeNode] = {}
    for path in found.files:
        if path in found.records:
            name = found.records[path].class_name
            nodes.setdefault(name, TypeNode(name, "class", path))
    edges = {
        (r.class_name, d): {"depends_on"}
        for r in found.records.values()
        for d in r.dependencies
        if d in nodes and d != r.class_name
    }
    return ordered("llm-kb", nodes, edges)


def named_dependencies(found: Extraction) -> int:
    """Edges before cleaning: every dependency that the model named, each once a class."""
    return len({(r.class_name, d) for r in found.records.values() for d in r.dependencies})
