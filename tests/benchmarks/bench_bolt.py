"""The graph in a graph database: 50,000 nodes with vectors written over Bolt, beside the bare driver.

    python tests/benchmarks/bench_bolt.py [--nodes 50000] [--output FILE]

The server is ArcadeDB in a process of its own. `ratio` is the time of `save`, which checks what it wrote by
reading it back, over that of a bare loop of UNWIND batches:
the same nodes (id, text, vector) and edges, unchecked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from bolt_server import PASSWORD, USER, server
from graph.source_trees import same_graph

from benchmarks.bench_graph import WordVectors, installed_documents
from benchmarks.clock import rounded, timed
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.graph import bolt
from pkg_lib.graph.schema import BLOCK, EDGE_TYPES, IMPL, NODE_TYPES, Graph, build_code_graph

GOAL = 60  # seconds for the defaults
ROWS = 300  # of a batch of the bare driver


def of_nodes(count: int) -> Graph:
    """The graph of installed sources, of so many nodes or a few more."""
    documents = installed_documents(count // 4)
    graph = build_code_graph(documents, {"corpus": "installed source"})
    keep = int(graph.document[min(count, len(graph) - 1)]) + 1
    return build_code_graph(documents[:keep], {"corpus": "installed source"})


def bare(place: str, graph: Graph, vectors: dict[int, Any]) -> None:
    """The same nodes and edges by the driver alone, in one session."""
    from neo4j import GraphDatabase

    rows = [
        {
            "id": f"bare/{n}",
            "graph": "bare",
            "text": text,
            "vector": vectors[n].tolist() if n in vectors else None,
        }
        for n, text in enumerate(graph.payloads(range(len(graph))))
    ]
    with GraphDatabase.driver(place, auth=(USER, PASSWORD)) as driver, driver.session() as session:
        for kind, label in enumerate(NODE_TYPES):
            some = [rows[n] for n in graph.of_type(kind).tolist()]
            for i in range(0, len(some), ROWS):
                query = f"UNWIND $rows AS row CREATE (n:PKGNode:{label}) SET n += row"
                session.run(query, rows=some[i : i + ROWS]).consume()
        for kind, name in enumerate(EDGE_TYPES):
            edges = [e for e in graph.edges.to_pylist() if e["type"] == kind]
            pairs = [[f"bare/{e['source']}", f"bare/{e['target']}"] for e in edges]
            match = "MATCH (a:PKGNode {id: row[0]}), (b:PKGNode {id: row[1]})"
            for i in range(0, len(pairs), ROWS):
                query = f"UNWIND $rows AS row {match} MERGE (a)-[:{name}]->(b)"
                session.run(query, rows=pairs[i : i + ROWS]).consume()


class Kept:
    """Vectors that were computed before the clock runs."""

    name = "hashed words"

    def __init__(self, encoder: WordVectors, texts: list[str]) -> None:
        self.vectors = dict(zip(texts, encoder.encode(texts), strict=True))

    def encode(self, texts: list[str]) -> Any:
        return np.stack([self.vectors[text] for text in texts])


def measure(nodes: int) -> dict[str, Any]:
    graph = of_nodes(nodes)
    texts = graph.texts.to_pylist()
    encoder = Kept(WordVectors(texts[::5]), texts)
    firsts = [n for kind in (IMPL, BLOCK) for n in graph.first_of_each_text(kind).tolist()]
    vectors = dict(zip(firsts, encoder.encode(graph.payloads(firsts)), strict=True))
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), "2g") as place:
        with bolt.opened(f"{place}/ours") as database:
            wall, processor, _ = timed(lambda: database.save(graph, "", encoder))
            read, _, again = timed(database.load)
            asked, _, matrix = timed(lambda: database.vectors(IMPL, encoder.name))
            figures = {"save_s": wall, "save_cpu_s": processor, "load_s": read, "vectors_s": asked}
        figures["bare_s"] = timed(lambda: bare(place, graph, vectors))[0]
    figures["ratio"] = figures["save_s"] / figures["bare_s"]
    about = {"nodes": len(graph), "edges": graph.edges.num_rows, "vectors": len(vectors)}
    about |= {
        "functions": len(matrix),
        "dimensions": matrix.shape[1],
        "same_graph": same_graph(graph, again),
    }
    load = round(os.getloadavg()[0], 2)
    return (
        about
        | rounded(figures, 2)
        | {"processors": os.cpu_count(), "load": load, "versions": versions()}
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a graph written over Bolt beside the bare driver")
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(words)
    figures = measure(options.nodes)
    print(json.dumps(figures, indent=1))
    write_json(options.output or results_dir() / "benchmarks" / "bolt.json", figures)
    return 0 if figures["same_graph"] and figures["save_s"] < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
