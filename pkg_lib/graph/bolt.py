"""A graph in a graph database (the paper's Neo4j), over Bolt by the driver `neo4j` (the extra graphdb).

    (:PKG {name, digest, about, embedder, kind, tokenizer, documents})   the graph itself
    (:PKGNode:TYPE {id, graph, number, type, document, parent, first, last, text, where, vector})   a node
    (:PKGDocument {graph, number, kind, unit, text})   a document, for methods that search whole documents

Edges are those of Equation 2. The first node of each type and text has a `vector` (Equation 4). Queries hold
only the schema's names; everything else is a parameter. The digest of a graph is written last: without it the
graph is incomplete. What a server sends is limited in size (core/limits.py) and checked against the digest.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import numpy as np
import pyarrow as pa

from pkg_lib.core import limits
from pkg_lib.core.types import Document, UserError, corpus_digest, digest
from pkg_lib.graph.schema import BLOCK, EDGE_TYPES, IMPL, NODE_TYPES, NODES, PATHVALUE, PKG

log = logging.getLogger(__name__)
PLACE = re.compile(r"((?:bolt|neo4j)(?:\+s|\+ssc)?://[\w.-]+(?::\d{1,5})?)(?:/(.*))?", re.S)
LIMITS = {
    "connection_timeout": 5,
    "connection_acquisition_timeout": 10,
    "max_transaction_retry_time": 5,
}
READ = pa.schema([("number", pa.int32()), *list(NODES)[:-1], ("text", pa.large_string())])
OWN = "MATCH (n:PKGNode) WHERE n.graph = $graph"
OWN_DOCUMENTS = "MATCH (d:PKGDocument) WHERE d.graph = $graph"
EMBEDDED = (IMPL, BLOCK, PATHVALUE)  # types of nodes that have vectors
BATCH_CHARS = 2_000_000  # characters in one request to the server, about

# A server's index is approximate, may hold its vectors rounded, and covers all graphs of the database. So it
# is asked for more than k nodes, and their exact cosines decide. Beyond MOST_CANDIDATES reading all vectors
# costs less.
CANDIDATES_PER_HIT, LEAST_CANDIDATES, MOST_CANDIDATES = 10, 200, 4000
QUERIES_AT_ONCE = 50
ASK_INDEX = """
UNWIND $queries AS query
CALL db.index.vector.queryNodes($index, $count, query.vector) YIELD node
WITH query, node WHERE node.graph = $graph
RETURN query.number AS query, node.number AS node
"""


@contextmanager
def opened(place: str) -> Iterator[Database]:
    """Connect to a graph database.

    Args:
        place: bolt://HOST[:PORT][/NAME]. PKG_BOLT_USER and PKG_BOLT_PASSWORD are the credentials.

    Yields:
        The database.

    Raises:
        UserError: The address is wrong, the driver is not installed, or the server cannot be reached or
            refuses a query. The message never holds a password.
    """
    address = PLACE.fullmatch(place)
    if not address:  # it is not shown: there may be a password in it
        raise UserError(
            "write bolt://HOST[:PORT][/NAME]; PKG_BOLT_USER and PKG_BOLT_PASSWORD hold the rest"
        )
    try:
        from neo4j import GraphDatabase, exceptions
    except ImportError as e:
        raise UserError(f"{place} needs the driver neo4j: pip install '.[graphdb]'") from e
    logging.getLogger("neo4j").setLevel(logging.ERROR)  # it reports every retry
    credentials = os.environ.get("PKG_BOLT_USER", ""), os.environ.get("PKG_BOLT_PASSWORD", "")
    auth = credentials if any(credentials) else None
    refused = exceptions.ClientError, exceptions.DatabaseError
    try:
        with GraphDatabase.driver(address[1], auth=auth, **LIMITS) as driver:
            driver.verify_connectivity()
            yield Database(place, address[2] or "", driver, refused)
    except (exceptions.DriverError, exceptions.Neo4jError) as e:
        raise UserError(
            f"{place}: {e.message if isinstance(e, exceptions.Neo4jError) else e}"
        ) from e


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """What a database says of one graph.

    `kind` is code or text, `tokenizer` the one that BM25 splits the corpus with, `documents` the digest of
    the documents. The three are empty where only the graph was written.
    """

    name: str
    digest: str
    about: str
    embedder: str
    kind: str = ""
    tokenizer: str = ""
    documents: str = ""


class Database:
    """The graph of a name in a database, or the only graph in it.

    A query that the server cannot answer raises one of `refused`.
    """

    def __init__(
        self, place: str, name: str, driver: Any, refused: tuple[type[Exception], ...]
    ) -> None:
        self.place, self.name, self.refused = place, name, refused
        self._driver = driver

    def _run(self, query: str, **parameters: Any) -> list[Any]:
        """Run a query, with the graph's name as the parameter `graph`; return its records."""
        given = {"graph": self.name} | parameters
        return self._driver.execute_query(query, given, result_transformer_=self._limited)

    def _limited(self, result: Any) -> list[Any]:
        """The records of a result; UserError for more than is read of a server."""
        records = []
        size = 0
        for record in result:
            records.append(record)
            size += sum(map(_size, record.values()))
            if size > limits.MAX_DATABASE_BYTES or len(records) > limits.MAX_DATABASE_ROWS:
                raise UserError(
                    f"{self.place} sends more than a graph may hold; choose a smaller graph"
                )
        return records

    def described(self) -> StoredGraph:
        """Return what the database says of the graph.

        Raises:
            UserError: There is no such graph, there are several and none is named, or it is incomplete.
        """
        held = dict(self._run("MATCH (g:PKG) RETURN g.name, properties(g)"))
        self.name = self.name or (next(iter(held)) if len(held) == 1 else "")
        if not held.get(self.name, {}).get("digest"):
            why = (
                "is incomplete; write it again"
                if self.name in held
                else f"is none of {sorted(held)}"
            )
            raise UserError(f"the graph /{self.name} in {self.place} {why}")
        known = {name: str(held[self.name].get(name) or "") for name in StoredGraph.__slots__}
        return StoredGraph(**known)

    def _changed(self) -> UserError:
        return UserError(f"the graph {self.name} in {self.place} has changed; write it again")

    def load(self) -> PKG:
        """Read the graph.

        Raises:
            UserError: There is no such graph (`described`), or it is not as it was written.
        """
        stored = self.described()
        fields = ", ".join(f"n.{name} AS {name}" for name in READ.names)
        rows = [record.data() for record in self._run(f"{OWN} RETURN {fields}")]
        try:
            table = pa.Table.from_pylist(rows, READ).sort_by("number").combine_chunks()
            texts = pa.array(table["text"].to_pylist(), pa.large_string()).dictionary_encode()
            nodes = pa.table([*table.columns[1:-1], texts.indices], NODES)
            documents, skipped, meta = json.loads(stored.about)
            reasons = [(document, why) for document, why in skipped]
            graph = PKG(nodes, texts.dictionary, documents, reasons, meta)
            unchanged = _digest(_about(graph), graph) == stored.digest
            expected = graph.edges.num_rows if unchanged else -1
        except (
            ValueError,
            TypeError,
            LookupError,
            RecursionError,
        ) as e:  # ValueError: pyarrow's and json's
            raise self._changed() from e
        edges = sum(
            self._run(f"{OWN} MATCH (n)-[:{t}]->() RETURN count(*)")[0][0] for t in EDGE_TYPES
        )
        if edges != expected:
            raise self._changed()
        return graph

    def documents(self) -> list[Document]:
        """Read the documents that the graph was built from.

        Raises:
            UserError: There is no such graph (`described`), it was written without its documents, or they are
                not as they were written.
        """
        stored = self.described()
        if not stored.documents:
            again = f"write it again with: pkg-lib graph CORPUS --store {self.place}"
            raise UserError(f"the graph {self.name} in {self.place} has no documents; {again}")
        fields = "d.number AS number, d.kind AS kind, d.unit AS unit, d.text AS text"
        rows = [record.data() for record in self._run(f"{OWN_DOCUMENTS} RETURN {fields}")]
        try:
            rows.sort(key=lambda row: row["number"])
            names, _, _ = json.loads(stored.about)
            pairs = zip(names, rows, strict=True)
            documents = [
                Document(name, row["text"], row["kind"], row["unit"]) for name, row in pairs
            ]
            unchanged = corpus_digest(documents) == stored.documents
        except (ValueError, TypeError, AttributeError, RecursionError) as e:
            raise self._changed() from e
        if not unchanged:
            raise self._changed()
        return documents

    def save(
        self,
        graph: PKG,
        name: str,
        encoder: Any,
        documents: Sequence[Document] = (),
        kind: str = "",
        tokenizer: str = "",
    ) -> str:
        """Write the graph with its vectors, unless the very same graph is there already.

        Args:
            graph: The graph.
            name: Its name in the database, where the address has none.
            encoder: What makes the vectors: `name`, and `encode` from texts to unit rows.
            documents: The documents of the corpus; without them the graph can be searched, but is no corpus.
            kind: The kind of corpus, code or text.
            tokenizer: Name of the tokenizer that BM25 splits the corpus with.

        Returns:
            One line that says what was done.

        Raises:
            UserError: What was read back is not what was written.
        """
        self.name = self.name or name
        about = _about(graph)
        sources = corpus_digest(documents) if documents else ""
        stored = (_digest(about, graph), about, encoder.name, kind, tokenizer, sources)
        stored = StoredGraph(self.name, *stored)
        with suppress(UserError):
            if self.described() == stored and self.load() and (not documents or self.documents()):
                return f"the graph {self.name} is in {self.place} already"
        self._delete()
        nodes = np.concatenate([graph.first_of_each_text(kind) for kind in EMBEDDED])
        vectors = encoder.encode(graph.payloads(nodes))
        self._create_indexes(vectors.shape[1])
        self._write(graph, dict(zip(nodes.tolist(), vectors, strict=True)))
        self._write_documents(documents)
        properties = {field: getattr(stored, field) for field in StoredGraph.__slots__}
        self._run("MATCH (g:PKG {name: $graph}) SET g += $properties", properties=properties)
        with suppress(*self.refused):  # only Neo4j fills its indexes in the background
            self._run("CALL db.awaitIndexes(300)")
        count = len(self.load())
        if documents:
            self.documents()
        kinds = {int(of) for of in graph.type[nodes]}
        ranked = all(self._vector_index(kind) for kind in kinds)
        how = "" if ranked else "; it has no vector index, so queries are ranked on this machine"
        return f"saved: the graph {self.name} in {self.place}, {count:,} nodes read back{how}"

    def _delete(self) -> None:
        """Remove what is stored under the graph's name; from here on the graph is incomplete."""
        self._run("CREATE CONSTRAINT pkg_id IF NOT EXISTS FOR (n:PKGNode) REQUIRE n.id IS UNIQUE")
        self._run("MERGE (g:PKG {name: $graph}) SET g.digest = ''")
        for match, variable in ((OWN, "n"), (OWN_DOCUMENTS, "d")):
            few = f"{match} WITH {variable} LIMIT 2000 DETACH DELETE {variable} RETURN count(*)"
            while self._run(few)[0][0]:
                pass

    def _create_indexes(self, dimensions: int) -> None:
        """Create Neo4j's vector indexes, one for each type of node that has vectors.

        A server that has no such statement keeps what indexes it has. ArcadeDB is one: its vector indexes are
        created in SQL, over HTTP (docs/graph_databases.md).
        """
        config = f"`vector.dimensions`: {dimensions}, `vector.similarity_function`: 'cosine'"
        with suppress(*self.refused):
            for kind in EMBEDDED:
                what = (
                    f"pkg_{NODE_TYPES[kind]} IF NOT EXISTS FOR (n:{NODE_TYPES[kind]}) ON n.vector"
                )
                self._run(f"CREATE VECTOR INDEX {what} OPTIONS {{indexConfig: {{{config}}}}}")

    def _checked_embedder(self, embedder: str) -> None:
        held = self.described().embedder
        if held != embedder:
            why = f"the vectors of {self.name} in {self.place} are {held}'s, not {embedder}'s"
            raise UserError(f"{why}; write the graph again with --embedder {embedder}")

    def vectors(self, kind: int, embedder: str) -> np.ndarray:
        """Read the vectors of one type of nodes.

        Args:
            kind: The type, as a position in NODE_TYPES.
            embedder: Name of the embedder that the queries are encoded with.

        Returns:
            Unit vectors [n, d], one for each distinct text, in the order of `PKG.first_of_each_text`.

        Raises:
            UserError: The vectors were made by another embedder, or are damaged.
        """
        self._checked_embedder(embedder)
        match = f"{OWN} AND n:{NODE_TYPES[kind]} AND n.vector IS NOT NULL"
        rows = self._run(f"{match} RETURN n.number, n.vector")
        try:
            return np.array([vector for _, vector in sorted(map(tuple, rows))], np.float32)
        except (ValueError, TypeError) as e:
            raise self._changed() from e

    def nearest(
        self, kind: int, queries: np.ndarray, k: int, embedder: str
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Find the nodes nearest to each query (Equation 5) by the server's own vector index.

        The index proposes candidates. They are ranked by their exact cosines, which are computed here.

        Args:
            kind: The type of the nodes, as a position in NODE_TYPES.
            queries: Unit vectors [q, d].
            k: How many nodes to find for each query.
            embedder: Name of the embedder that the queries are encoded with.

        Returns:
            Nodes [q, k] and their cosines [q, k], best first, with fewer columns where there are fewer nodes;
            None where the server has no index that can answer.

        Raises:
            UserError: The vectors were made by another embedder.
        """
        self._checked_embedder(embedder)
        index = self._vector_index(kind)
        if not index:
            return None
        counted = (
            f"MATCH (n:{NODE_TYPES[kind]}) WHERE n.vector IS NOT NULL RETURN n.graph, count(n)"
        )
        in_graph = dict(map(tuple, self._run(counted)))
        available = in_graph.get(self.name, 0)
        try:
            # The index covers all graphs of the database, so a graph's share of what it finds is expected.
            count = (
                max(k * CANDIDATES_PER_HIT, LEAST_CANDIDATES)
                * sum(in_graph.values())
                // max(available, 1)
            )
            candidates = self._candidates(
                index, queries, min(k * CANDIDATES_PER_HIT, available), count
            )
            return self._best(candidates, queries, min(k, available)) if candidates else None
        except self.refused as e:
            about = "%s: the vector index %s cannot be used (%s); ranking on this machine"
            log.warning(about, self.place, index, getattr(e, "message", "") or "no reason given")
        except (ValueError, TypeError, LookupError):  # numbers or vectors that are none
            raise self._changed() from None
        return None

    def _vector_index(self, kind: int) -> str:
        """The name of a vector index over one type of nodes that is ready; "" where there is none."""
        with suppress(*self.refused):
            for record in self._run("SHOW INDEXES"):
                row = record.data()
                of = (
                    row.get("type"),
                    row.get("labelsOrTypes"),
                    row.get("properties"),
                    row.get("state"),
                )
                if of == ("VECTOR", [NODE_TYPES[kind]], ["vector"], "ONLINE"):
                    return str(row.get("name"))
        return ""

    def _candidates(
        self, index: str, queries: np.ndarray, least: int, count: int
    ) -> list[list[int]]:
        """At least `least` nodes of this graph for each query; nothing where the index finds fewer.

        The index is asked for `count` nodes, and for more where too few of them are of this graph.
        """
        rows = [{"number": i, "vector": query.tolist()} for i, query in enumerate(queries)]
        found: list[list[int]] = [[] for _ in rows]
        while rows and count <= MOST_CANDIDATES:
            for start in range(0, len(rows), QUERIES_AT_ONCE):
                batch = rows[start : start + QUERIES_AT_ONCE]
                for number in (row["number"] for row in batch):
                    found[number] = []
                for query, node in self._run(ASK_INDEX, queries=batch, index=index, count=count):
                    found[query].append(node)
            rows = [row for row in rows if len(found[row["number"]]) < least]
            count *= 4
        return [] if rows else found

    def _best(
        self, candidates: list[list[int]], queries: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k candidates of each query with the highest cosines; of equal ones the first in the graph."""
        numbers = sorted({node for of_query in candidates for node in of_query})
        ids = [f"{self.name}/{number:d}" for number in numbers]
        query = "UNWIND $ids AS id MATCH (n:PKGNode {id: id}) RETURN n.number, n.vector"
        vector_of = dict(map(tuple, self._run(query, ids=ids)))
        nodes = np.zeros((len(queries), k), np.int64)
        cosines = np.zeros((len(queries), k), np.float32)
        for i, of_query in enumerate(candidates):
            of_query = np.array(sorted(set(of_query)), np.int64)
            scores = np.array([vector_of[int(node)] for node in of_query], np.float32) @ queries[i]
            best = np.argsort(-scores, kind="stable")[:k]
            nodes[i], cosines[i] = of_query[best], scores[best]
        return nodes, cosines

    def _write(self, graph: PKG, vectors: dict[int, np.ndarray]) -> None:
        """Write all nodes, then all edges."""
        nodes, edges, texts = (
            graph.nodes.to_pylist(),
            graph.edges.to_pylist(),
            graph.texts.to_pylist(),
        )
        for n, row in enumerate(nodes):
            row |= {
                "id": f"{self.name}/{n}",
                "graph": self.name,
                "number": n,
                "vector": vectors.get(n),
            }
            row |= {
                "text": texts[row["text"]],
                "where": graph.where(n).encode(errors="replace").decode(),
            }
        for kind, label in enumerate(NODE_TYPES):
            of_kind = [row for row in nodes if row["type"] == kind]
            self._send(f"CREATE (n:PKGNode:{label}) SET n += row", of_kind)
        for row in edges:
            row |= {end: f"{self.name}/{row[end]}" for end in ("source", "target")}
        ends = "MATCH (a:PKGNode {id: row.source}), (b:PKGNode {id: row.target})"
        for kind, label in enumerate(EDGE_TYPES):
            of_kind = [row for row in edges if row["type"] == kind]
            self._send(f"{ends} MERGE (a)-[:{label}]->(b)", of_kind)

    def _write_documents(self, documents: Sequence[Document]) -> None:
        """Write the documents; their names are in the graph's `about`."""
        rows = []
        for number, document in enumerate(documents):
            row = {
                "graph": self.name,
                "number": number,
                "kind": document.kind,
                "unit": document.unit,
            }
            rows.append(row | {"text": document.text})
        self._send("CREATE (d:PKGDocument) SET d += row", rows)

    def _send(self, action: str, rows: list[dict[str, Any]]) -> None:
        """Run an action for each row, in requests of about BATCH_CHARS characters."""
        sizes = (999 + len(row.get("text", "")) + 9 * np.size(row.get("vector")) for row in rows)
        for _, pairs in groupby(
            zip(accumulate(sizes), rows, strict=True), lambda p: p[0] // BATCH_CHARS
        ):
            batch = []
            for _, row in pairs:
                vector = row.get("vector")
                # As a list: the driver would print an array for its log, even one that is not kept.
                batch.append(row if vector is None else row | {"vector": vector.tolist()})
            self._run(f"UNWIND $rows AS row {action}", rows=batch)


def _size(value: Any) -> int:
    """About how many bytes a value has that a server sent."""
    if isinstance(value, str):
        return len(value)
    return 8 * len(value) if isinstance(value, list) else 8


def _about(graph: PKG) -> str:
    return json.dumps([graph.documents, graph.skipped, graph.meta])


def _digest(about: str, graph: PKG) -> str:
    return digest(about, str(graph.nodes.to_pydict()), *graph.texts.to_pylist())
