"""A graph in a graph database (the paper's Neo4j), over Bolt by the driver `neo4j` (the extra graphdb).

A node is a (:PKGNode:TYPE); the first of a type and text has a `vector` (Equation 4). Queries hold only the
schema's names, all else is a parameter. (:PKG {name}) gets its digest last: without it a graph is incomplete.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate, groupby
from typing import Any

import numpy as np
import pyarrow as pa

from pkg_lib.core.types import UserError, digest
from pkg_lib.graph.schema import BLOCK, EDGE_TYPES, IMPL, NODE_TYPES, NODES, PATHVALUE, PKG

PLACE = re.compile(r"((?:bolt|neo4j)(?:\+s|\+ssc)?://[\w.-]+(?::\d{1,5})?)(?:/(.*))?", re.S)
LIMITS = {"connection_timeout": 5, "connection_acquisition_timeout": 10, "max_transaction_retry_time": 5}
READ = pa.schema([("number", pa.int32()), *list(NODES)[:-1], ("text", pa.large_string())])
OWN = "MATCH (n:PKGNode) WHERE n.graph = $graph"


@contextmanager
def opened(place: str) -> Iterator[Database]:
    """The database at bolt://HOST[:PORT][/NAME]; UserError for all that goes wrong with it."""
    if not (address := PLACE.fullmatch(place)):  # it is not shown: there may be a password in it
        raise UserError("write bolt://HOST[:PORT][/NAME]; PKG_BOLT_USER and PKG_BOLT_PASSWORD hold the rest")
    try:
        from neo4j import GraphDatabase, exceptions
    except ImportError as e:
        raise UserError(f"{place} needs the driver neo4j: pip install '.[graphdb]'") from e
    logging.getLogger("neo4j").setLevel(logging.ERROR)  # it tells of every second try
    auth = os.environ.get("PKG_BOLT_USER", ""), os.environ.get("PKG_BOLT_PASSWORD", "")
    try:
        with GraphDatabase.driver(address[1], auth=auth if any(auth) else None, **LIMITS) as driver:
            driver.verify_connectivity()
            yield Database(place, address[2] or "", driver, exceptions.ClientError)
    except (exceptions.DriverError, exceptions.Neo4jError) as e:
        raise UserError(f"{place}: {e.message if isinstance(e, exceptions.Neo4jError) else e}") from e


class Database:
    """The graph of that name in a database, or the only one; what the server cannot do raises `refused`."""

    def __init__(self, place: str, name: str, driver: Any, refused: type[Exception]) -> None:
        self.place, self.name, self.refused = place, name, refused
        self._run = lambda query, **more: driver.execute_query(query, {"graph": self.name} | more).records

    def load(self) -> PKG:
        """The graph; UserError for none, several without a name, or one that is not as it was written."""
        about, fields = self._about(), ", ".join(f"n.{name} AS {name}" for name in READ.names)
        rows = [row.data() for row in self._run(f"{OWN} RETURN {fields}")]
        table = pa.Table.from_pylist(rows, READ).sort_by("number").combine_chunks()
        texts = pa.array(table["text"].to_pylist(), pa.large_string()).dictionary_encode()
        nodes = pa.table([*table.columns[1:-1], texts.indices], NODES)
        documents, skipped, meta = json.loads(about["about"])
        graph = PKG(nodes, texts.dictionary, documents, [(document, why) for document, why in skipped], meta)
        edges = sum(self._run(f"{OWN} MATCH (n)-[:{t}]->() RETURN count(*)")[0][0] for t in EDGE_TYPES)
        if _described(graph)["digest"] != about["digest"] or edges != graph.edges.num_rows:
            raise UserError(f"the graph {self.name} in {self.place} has changed; write it again")
        return graph

    def save(self, graph: PKG, name: str, encoder: Any) -> str:
        """Writes the graph, unless it is there, as `name` where the address has none; says what it did."""
        self.name, about = self.name or name, _described(graph) | {"embedder": encoder.name}
        with suppress(UserError):
            if self._about() == about | {"name": self.name} and self.load():
                return f"the graph {self.name} is in {self.place} already"
        self._run("CREATE CONSTRAINT pkg_id IF NOT EXISTS FOR (n:PKGNode) REQUIRE n.id IS UNIQUE")
        self._run("MERGE (g:PKG {name: $graph}) SET g.digest = ''")
        while self._run(f"{OWN} WITH n LIMIT 2000 DETACH DELETE n RETURN count(*)")[0][0]:
            pass
        firsts = np.concatenate([*map(graph.first_of_each_text, (IMPL, BLOCK, PATHVALUE))])
        matrix, how = encoder.encode(graph.payloads(firsts)), "; it has no vector index"
        config = f"`vector.dimensions`: {matrix.shape[1]}, `vector.similarity_function`: 'cosine'"
        with suppress(self.refused):
            for label in ("IMPL", "BLOCK", "PATHVALUE"):
                what = f"pkg_{label} IF NOT EXISTS FOR (n:{label}) ON n.vector"
                self._run(f"CREATE VECTOR INDEX {what} OPTIONS {{indexConfig: {{{config}}}}}")
            how = ""
        self._write(graph, dict(zip(firsts.tolist(), matrix, strict=True)))
        self._run("MATCH (g:PKG {name: $graph}) SET g += $about", about=about)
        return f"saved: the graph {self.name} in {self.place}, {len(self.load()):,} nodes read back{how}"

    def vectors(self, kind: int, embedder: str) -> np.ndarray:
        """Unit vectors [n, d] of a type's nodes, one a text; UserError where they are another embedder's."""
        if (held := self._about()["embedder"]) != embedder:
            raise UserError(f"the vectors of {self.name} in {self.place} are {held}'s, not {embedder}'s")
        rows = self._run(f"{OWN} AND n:{NODE_TYPES[kind]} AND n.vector IS NOT NULL RETURN n.number, n.vector")
        return np.array([vector for _, vector in sorted(rows)], np.float32)

    def _about(self) -> dict[str, str]:
        held = dict(self._run("MATCH (g:PKG) RETURN g.name, properties(g)"))
        self.name = self.name or (next(iter(held)) if len(held) == 1 else "")
        if not held.get(self.name, {}).get("digest"):
            why = "is incomplete; write it again" if self.name in held else f"is none of {sorted(held)}"
            raise UserError(f"the graph /{self.name} in {self.place} {why}")
        return held[self.name]

    def _write(self, graph: PKG, vectors: dict[int, np.ndarray]) -> None:
        nodes, edges, texts = graph.nodes.to_pylist(), graph.edges.to_pylist(), graph.texts.to_pylist()
        for n, row in enumerate(nodes):
            row |= {"id": f"{self.name}/{n}", "graph": self.name, "number": n, "vector": vectors.get(n)}
            row |= {"text": texts[row["text"]], "where": graph.where(n).encode(errors="replace").decode()}
        for kind, label in enumerate(NODE_TYPES):
            self._send(f"CREATE (n:PKGNode:{label}) SET n += row", [n for n in nodes if n["type"] == kind])
        for row in edges:
            row |= {end: f"{self.name}/{row[end]}" for end in ("source", "target")}
        ends = "MATCH (a:PKGNode {id: row.source}), (b:PKGNode {id: row.target})"
        for kind, label in enumerate(EDGE_TYPES):
            self._send(f"{ends} MERGE (a)-[:{label}]->(b)", [e for e in edges if e["type"] == kind])

    def _send(self, act: str, rows: list[dict[str, Any]]) -> None:
        ends = accumulate(999 + len(row.get("text", "")) + 9 * np.size(row.get("vector")) for row in rows)
        for _, batch in groupby(zip(ends, rows, strict=True), lambda pair: pair[0] // 2_000_000):  # bytes
            # Vectors as lists: the driver prints an array for its log, whether or not it is kept.
            made = [
                row | {"vector": v.tolist()} if (v := row.get("vector")) is not None else row
                for _, row in batch
            ]
            self._run(f"UNWIND $rows AS row {act}", rows=made)


def _described(graph: PKG) -> dict[str, str]:
    about = json.dumps([graph.documents, graph.skipped, graph.meta])
    return {"about": about, "digest": digest(about, str(graph.nodes.to_pydict()), *graph.texts.to_pylist())}
