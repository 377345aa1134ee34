"""Compare `save` to a graph database with a bare loop of the database driver.

    python tests/benchmarks/bench_bolt.py [--nodes 50000] [--output FILE]

The graph has 50,000 nodes with vectors and is written over Bolt. The server is ArcadeDB in a separate process.
`ratio` is the time of `save` divided by the time of a loop of UNWIND batches. `save` checks what it wrote by
reading it back. The loop writes the same nodes (id, text, vector) and edges without a check.
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
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from bolt_server import PASSWORD, USER, server
from graph.source_trees import same_graph

from benchmarks.bench_graph import WordVectors, installed_documents
from benchmarks.clock import rounded, timed
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.graph import bolt
from pkg_lib.graph.schema import (
    BLOCK,
    EDGE_TYPES,
    IMPL,
    NODE_TYPES,
    Graph,
    build_code_graph,
)

GOAL = 60  # seconds, with the default arguments
ROWS = 300  # rows of one batch of the bare driver
MATCH = "MATCH (a:PKGNode {id: row[0]}), (b:PKGNode {id: row[1]})"


def graph_of_size(count: int) -> Graph:
    """Build a graph of installed sources that has `count` nodes or a few more."""
    documents = installed_documents(count // 4)
    graph = build_code_graph(documents, {"corpus": "installed source"})
    last_node = min(count, len(graph) - 1)
    keep = int(graph.document[last_node]) + 1
    return build_code_graph(documents[:keep], {"corpus": "installed source"})


def run_in_batches(session: Any, query: str, rows: list[Any]) -> None:
    """Run a query on rows, `ROWS` of them at a time."""
    for start in range(0, len(rows), ROWS):
        session.run(query, rows=rows[start : start + ROWS]).consume()


def save_with_bare_driver(
    place: str,
    graph: Graph,
    vectors: dict[int, Any],
) -> None:
    """Write the nodes and edges of a graph with the driver alone, in one session.

    Args:
        place: Bolt address of the server.
        graph: The graph.
        vectors: Vectors by node. A node that is not in it has none.
    """
    from neo4j import GraphDatabase

    rows = []
    for node, text in enumerate(graph.payloads(range(len(graph)))):
        row = {
            "id": f"bare/{node}",
            "graph": "bare",
            "text": text,
            "vector": None,
        }
        if node in vectors:
            row["vector"] = vectors[node].tolist()
        rows.append(row)
    with (
        GraphDatabase.driver(place, auth=(USER, PASSWORD)) as driver,
        driver.session() as session,
    ):
        for kind, label in enumerate(NODE_TYPES):
            query = f"UNWIND $rows AS row CREATE (n:PKGNode:{label}) SET n += row"
            nodes = graph.of_type(kind).tolist()
            run_in_batches(session, query, [rows[node] for node in nodes])
        for kind, name in enumerate(EDGE_TYPES):
            query = f"UNWIND $rows AS row {MATCH} MERGE (a)-[:{name}]->(b)"
            edges = [edge for edge in graph.edges.to_pylist() if edge["type"] == kind]
            pairs = [[f"bare/{edge['source']}", f"bare/{edge['target']}"] for edge in edges]
            run_in_batches(session, query, pairs)


class PrecomputedVectors:
    """An encoder that looks up vectors computed before the measurement.

    Args:
        encoder: Encoder that computes the vectors.
        texts: All texts that will be encoded.
    """

    name = "hashed words"

    def __init__(self, encoder: WordVectors, texts: list[str]) -> None:
        self.vectors = dict(zip(texts, encoder.encode(texts), strict=True))

    def encode(self, texts: list[str]) -> Any:
        """Return the vectors of texts, one row per text."""
        return np.stack([self.vectors[text] for text in texts])


def measure(nodes: int) -> dict[str, Any]:
    """Measure how long a graph takes to save and to load.

    Args:
        nodes: Number of nodes.

    Returns:
        The size of the graph, the seconds of each operation, and the state of the machine.
    """
    graph = graph_of_size(nodes)
    texts = graph.texts.to_pylist()
    encoder = PrecomputedVectors(WordVectors(texts[::5]), texts)
    nodes_with_vectors = [
        *graph.first_of_each_text(IMPL).tolist(),
        *graph.first_of_each_text(BLOCK).tolist(),
    ]
    encoded = encoder.encode(graph.payloads(nodes_with_vectors))
    vectors = dict(zip(nodes_with_vectors, encoded, strict=True))
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder), "2g") as place,
    ):
        with bolt.opened(f"{place}/ours") as database:
            save_s, save_cpu_s, _ = timed(lambda: database.save(graph, "", encoder))
            load_s, _, loaded = timed(database.load)
            vectors_s, _, matrix = timed(lambda: database.vectors(IMPL, encoder.name))
        bare_s, _, _ = timed(lambda: save_with_bare_driver(place, graph, vectors))
    figures = {
        "save_s": save_s,
        "save_cpu_s": save_cpu_s,
        "load_s": load_s,
        "vectors_s": vectors_s,
        "bare_s": bare_s,
        "ratio": save_s / bare_s,
    }
    return {
        "nodes": len(graph),
        "edges": graph.edges.num_rows,
        "vectors": len(vectors),
        "functions": len(matrix),
        "dimensions": matrix.shape[1],
        "same_graph": same_graph(graph, loaded),
        **rounded(figures, 2),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "versions": versions(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Args:
        arguments: Command-line arguments; by default those of the process.

    Returns:
        The exit status: 0 if the loaded graph is the saved one and saving meets the goal, else 1.
    """
    parser = argparse.ArgumentParser(description="a graph written over Bolt beside the bare driver")
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    figures = measure(options.nodes)
    print(json.dumps(figures, indent=1))
    output = options.output or results_dir() / "benchmarks" / "bolt.json"
    write_json(output, figures)
    fast = figures["save_s"] < GOAL
    return 0 if figures["same_graph"] and fast else 1


if __name__ == "__main__":
    sys.exit(main())
