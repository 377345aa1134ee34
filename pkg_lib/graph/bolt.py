"""A graph in a graph database (the paper's Neo4j), over Bolt by the driver `neo4j`.

    (:PKG {name, digest, about, embedder, kind, tokenizer, documents})
        the graph itself
    (:PKGNode:TYPE {id, graph, number, type, document, parent, first, last, text, where, vector})
        a node
    (:PKGDocument {graph, number, kind, unit, text, question})
        a document, for methods that search whole documents

Edges are those of Equation 2. The first node of each type and text has a `vector` (Equation 4).
Queries contain only the schema's names; everything else is a parameter. The digest of a graph is
written last: without it the graph is incomplete. What a server sends is limited in size
(core/limits.py) and compared with the digest.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pkg_lib.core import limits
from pkg_lib.core.types import (
    Document,
    UserError,
    corpus_digest,
    digest,
)
from pkg_lib.graph.nodes import (
    BLOCK,
    IMPL,
    NODE_TYPES,
    PATHVALUE,
)
from pkg_lib.graph.schema import EDGE_TYPES, NODES, Graph

log = logging.getLogger(__name__)
PLACE = re.compile(
    r"((?:bolt|neo4j)(?:\+s|\+ssc)?://[\w.-]+(?::\d{1,5})?)(?:/(.*))?",
    re.S,
)
LIMITS = {
    "connection_timeout": 5,
    "connection_acquisition_timeout": 10,
    "max_transaction_retry_time": 5,
}
READ = pa.schema(
    [
        ("number", pa.int32()),
        *list(NODES)[:-1],
        ("text", pa.large_string()),
    ],
)
NODES_OF_GRAPH = "MATCH (n:PKGNode) WHERE n.graph = $graph"
DOCUMENTS_OF_GRAPH = "MATCH (d:PKGDocument) WHERE d.graph = $graph"
# Types of nodes that have vectors.
EMBEDDED = (IMPL, BLOCK, PATHVALUE)
# Errors that a damaged graph can raise; those of pyarrow and json are ValueErrors.
_DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
)
BATCH_CHARS = 2_000_000  # characters in one request to the server, about

# A server's index is approximate, may hold its vectors rounded, and covers all graphs of the
# database. So it is asked for more than k nodes, and their exact cosines decide. For more than
# MOST_CANDIDATES nodes it is cheaper to read all vectors.
CANDIDATES_PER_HIT = 10
LEAST_CANDIDATES = 200
MOST_CANDIDATES = 4000
QUERIES_AT_ONCE = 50
ASK_INDEX = """
UNWIND $queries AS query
CALL db.index.vector.queryNodes($index, $count, query.vector) YIELD node
WITH query, node WHERE node.graph = $graph
RETURN query.number AS query, node.number AS node
"""

Vectors = NDArray[np.float32]


class TextEncoder(Protocol):
    """An encoder of texts as vectors.

    Attributes:
        name: Its name, which is stored with the vectors. Queries must be encoded by an encoder of
            the same name.
    """

    name: str

    def encode(self, texts: list[str]) -> Vectors:
        """Encode texts.

        Args:
            texts: Payloads of nodes, or queries.

        Returns:
            Unit vectors, float32 [n, d], in the order of the texts.
        """


@contextmanager
def opened(place: str) -> Iterator[Database]:
    """Connect to a graph database.

    Args:
        place: bolt://HOST[:PORT][/NAME]. PKG_BOLT_USER and PKG_BOLT_PASSWORD are the credentials.

    Yields:
        The database.

    Raises:
        UserError: The address is wrong, the driver is not installed, or the server cannot be
            reached or refuses a query. The message never contains a password.
    """
    address = PLACE.fullmatch(place)
    if not address:  # it is not shown, because it may contain a password
        advice = "PKG_BOLT_USER and PKG_BOLT_PASSWORD hold the rest"
        raise UserError(f"write bolt://HOST[:PORT][/NAME]; {advice}")
    try:
        from neo4j import GraphDatabase, exceptions
    except ImportError as e:
        raise UserError(f"{place} needs the driver neo4j: pip install '.[graphdb]'") from e
    logging.getLogger("neo4j").setLevel(logging.ERROR)  # it reports every retry
    user = os.environ.get("PKG_BOLT_USER", "")
    password = os.environ.get("PKG_BOLT_PASSWORD", "")
    auth = (user, password) if user or password else None
    refused = exceptions.ClientError, exceptions.DatabaseError
    try:
        with GraphDatabase.driver(address[1], auth=auth, **LIMITS) as driver:
            driver.verify_connectivity()
            yield Database(place, address[2] or "", driver, refused)
    except exceptions.Neo4jError as e:
        raise UserError(f"{place}: {e.message}") from e
    except exceptions.DriverError as e:
        raise UserError(f"{place}: {e}") from e


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """The description of one graph in a database.

    Attributes:
        name: Its name.
        digest: Digest of the graph.
        about: Documents, skipped documents and meta of the graph, as JSON.
        embedder: Name of the embedder that made the vectors.
        kind: Kind of the corpus, code or text; "" if only the graph was written.
        tokenizer: Name of the tokenizer that BM25 splits the corpus with; "" if only the graph was
            written.
        documents: Digest of the documents; "" if only the graph was written.
    """

    name: str
    digest: str
    about: str
    embedder: str
    kind: str = ""
    tokenizer: str = ""
    documents: str = ""


_PROPERTIES = StoredGraph.__slots__


class Database:
    """The graph of a name in a database, or the only graph in it.

    A query that the server cannot answer raises one of the exceptions in `refused`.

    Args:
        place: The address for messages, without a password.
        name: Name of the graph. With "", the first call of `described` takes the name of the only
            graph, and `save` takes the name that it is given.
        driver: A connected driver of the package `neo4j`.
        refused: The exceptions with which that package reports a query that the server refuses.
    """

    def __init__(
        self,
        place: str,
        name: str,
        driver: Any,
        refused: tuple[type[Exception], ...],
    ) -> None:
        self.place = place
        self.name = name
        self.refused = refused
        self._driver = driver

    def _run(self, query: str, **parameters: Any) -> list[Any]:
        """Run a query with the graph's name as the parameter `graph`; return its records."""
        parameters = {"graph": self.name} | parameters
        records: list[Any] = self._driver.execute_query(
            query,
            parameters,
            result_transformer_=self._limited,
        )
        return records

    def _limited(self, result: Iterable[Any]) -> list[Any]:
        """Return the records of a result; raise UserError for more than a graph may have."""
        records = []
        size = 0
        for record in result:
            records.append(record)
            size += sum(map(_size, record.values()))
            if size > limits.MAX_DATABASE_BYTES or len(records) > limits.MAX_DATABASE_ROWS:
                problem = "sends more than a graph may hold"
                raise UserError(f"{self.place} {problem}; choose a smaller graph")
        return records

    def _error(self, problem: str) -> UserError:
        return UserError(f"the graph {self.name} in {self.place} {problem}")

    def _changed(self) -> UserError:
        return self._error("has changed; write it again")

    def described(self) -> StoredGraph:
        """Return what the database says of the graph.

        Raises:
            UserError: There is no such graph, there are several and none is named, or it is
                incomplete.
        """
        held = dict(self._run("MATCH (g:PKG) RETURN g.name, properties(g)"))
        if not self.name and len(held) == 1:
            self.name = next(iter(held))
        properties = held.get(self.name, {})
        if not properties.get("digest"):
            incomplete = "is incomplete; write it again"
            why = incomplete if self.name in held else f"is none of {sorted(held)}"
            raise UserError(f"the graph /{self.name} in {self.place} {why}")
        known = {name: str(properties.get(name) or "") for name in _PROPERTIES}
        return StoredGraph(**known)

    def load(self) -> Graph:
        """Read the graph.

        Raises:
            UserError: There is no such graph (`described`), or it is not as it was written.
        """
        stored = self.described()
        fields = ", ".join(f"n.{name} AS {name}" for name in READ.names)
        rows = [record.data() for record in self._run(f"{NODES_OF_GRAPH} RETURN {fields}")]
        try:
            table = pa.Table.from_pylist(rows, READ).sort_by("number").combine_chunks()
            texts = pa.array(table["text"].to_pylist(), pa.large_string()).dictionary_encode()
            nodes = pa.table([*table.columns[1:-1], texts.indices], NODES)
            documents, skipped, meta = json.loads(stored.about)
            reasons = [(document, reason) for document, reason in skipped]
            graph = Graph(
                nodes,
                texts.dictionary,
                documents,
                reasons,
                meta,
            )
            is_unchanged = _digest(_about(graph), graph) == stored.digest
        except _DAMAGE as e:
            raise self._changed() from e
        if not is_unchanged:
            raise self._changed()
        edges = 0
        for label in EDGE_TYPES:
            counted = self._run(f"{NODES_OF_GRAPH} MATCH (n)-[:{label}]->() RETURN count(*)")
            edges += counted[0][0]
        if edges != graph.edges.num_rows:
            raise self._changed()
        return graph

    def documents(self) -> list[Document]:
        """Read the documents that the graph was built from.

        Raises:
            UserError: There is no such graph (`described`), it was written without its documents,
                or they are not as they were written.
        """
        stored = self.described()
        if not stored.documents:
            again = f"write it again with: pkg-lib graph CORPUS --store {self.place}"
            raise self._error(f"has no documents; {again}")
        names = ("number", "kind", "unit", "text", "question")
        fields = ", ".join(f"d.{name} AS {name}" for name in names)
        rows = [record.data() for record in self._run(f"{DOCUMENTS_OF_GRAPH} RETURN {fields}")]
        documents = []
        try:
            rows.sort(key=lambda row: row["number"])
            ids, _, _ = json.loads(stored.about)
            for document_id, row in zip(ids, rows, strict=True):
                document = Document(
                    document_id,
                    row["text"],
                    row["kind"],
                    row["unit"],
                    row["question"] or "",
                )
                documents.append(document)
            is_unchanged = corpus_digest(documents) == stored.documents
        except _DAMAGE as e:
            raise self._changed() from e
        if not is_unchanged:
            raise self._changed()
        return documents

    def save(
        self,
        graph: Graph,
        name: str,
        encoder: TextEncoder,
        documents: Sequence[Document] = (),
        kind: str = "",
        tokenizer: str = "",
    ) -> str:
        """Write the graph with its vectors, unless the same graph is there already.

        Args:
            graph: The graph.
            name: Its name in the database, if the address has none.
            encoder: What makes the vectors.
            documents: The documents of the corpus; without them the graph can be searched, but is
                no corpus.
            kind: The kind of corpus, code or text.
            tokenizer: Name of the tokenizer that BM25 splits the corpus with.

        Returns:
            One line that says what was done.

        Raises:
            UserError: What was read back is not what was written.
        """
        self.name = self.name or name
        about = _about(graph)
        stored = StoredGraph(
            name=self.name,
            digest=_digest(about, graph),
            about=about,
            embedder=encoder.name,
            kind=kind,
            tokenizer=tokenizer,
            documents=corpus_digest(documents) if documents else "",
        )
        with suppress(UserError):
            is_same = self.described() == stored and self.load()
            if is_same and (not documents or self.documents()):
                return f"the graph {self.name} is in {self.place} already"
        self._delete()
        nodes = np.concatenate([graph.first_of_each_text(kind) for kind in EMBEDDED])
        vectors = encoder.encode(graph.payloads(nodes))
        self._create_indexes(vectors.shape[1])
        vector_of = dict(zip(nodes.tolist(), vectors, strict=True))
        self._write_nodes(graph, vector_of)
        self._write_edges(graph)
        self._write_documents(documents)
        self._run(
            "MATCH (g:PKG {name: $graph}) SET g += $properties",
            properties=asdict(stored),
        )
        with suppress(*self.refused):  # only Neo4j fills its indexes in the background
            self._run("CALL db.awaitIndexes(300)")
        count = len(self.load())
        if documents:
            self.documents()
        result = f"saved: the graph {self.name} in {self.place}, {count:,} nodes read back"
        kinds = set(graph.type[nodes].tolist())
        if all(map(self._vector_index, kinds)):
            return result
        return f"{result}; it has no vector index, so queries are ranked on this machine"

    def _delete(self) -> None:
        """Remove what is stored under the graph's name; from here on the graph is incomplete."""
        self._run("CREATE CONSTRAINT pkg_id IF NOT EXISTS FOR (n:PKGNode) REQUIRE n.id IS UNIQUE")
        self._run("MERGE (g:PKG {name: $graph}) SET g.digest = ''")
        for match, variable in (
            (NODES_OF_GRAPH, "n"),
            (DOCUMENTS_OF_GRAPH, "d"),
        ):
            delete = f"WITH {variable} LIMIT 2000 DETACH DELETE {variable} RETURN count(*)"
            while self._run(f"{match} {delete}")[0][0]:
                pass

    def _create_indexes(self, dimensions: int) -> None:
        """Create Neo4j's vector indexes, one for each type of node that has vectors.

        A server that has no such statement keeps the indexes that it has. ArcadeDB is one: its
        vector indexes are created in SQL, over HTTP (docs/graph_databases.md).
        """
        config = f"`vector.dimensions`: {dimensions}, `vector.similarity_function`: 'cosine'"
        with suppress(*self.refused):
            for kind in EMBEDDED:
                label = NODE_TYPES[kind]
                index = f"pkg_{label} IF NOT EXISTS FOR (n:{label}) ON n.vector"
                self._run(f"CREATE VECTOR INDEX {index} OPTIONS {{indexConfig: {{{config}}}}}")

    def _write_nodes(self, graph: Graph, vectors: dict[int, Vectors]) -> None:
        rows: list[list[dict[str, Any]]] = [[] for _ in NODE_TYPES]
        texts = graph.texts.to_pylist()
        for number, row in enumerate(graph.nodes.to_pylist()):
            row["id"] = f"{self.name}/{number}"
            row["graph"] = self.name
            row["number"] = number
            row["text"] = texts[row["text"]]
            row["where"] = graph.where(number).encode(errors="replace").decode()
            row["vector"] = vectors.get(number)
            rows[row["type"]].append(row)
        for label, rows_of_type in zip(NODE_TYPES, rows, strict=True):
            self._send(
                f"CREATE (n:PKGNode:{label}) SET n += row",
                rows_of_type,
            )

    def _write_edges(self, graph: Graph) -> None:
        rows: list[list[dict[str, Any]]] = [[] for _ in EDGE_TYPES]
        for row in graph.edges.to_pylist():
            source = f"{self.name}/{row['source']}"
            target = f"{self.name}/{row['target']}"
            rows[row["type"]].append({"source": source, "target": target})
        ends = "MATCH (a:PKGNode {id: row.source}), (b:PKGNode {id: row.target})"
        for label, rows_of_type in zip(EDGE_TYPES, rows, strict=True):
            self._send(
                f"{ends} MERGE (a)-[:{label}]->(b)",
                rows_of_type,
            )

    def _write_documents(self, documents: Sequence[Document]) -> None:
        """Write the documents; their names are in the graph's `about`."""
        rows = []
        for number, document in enumerate(documents):
            rows.append(
                {
                    "graph": self.name,
                    "number": number,
                    "kind": document.kind,
                    "unit": document.unit,
                    "text": document.text,
                    "question": document.question,
                }
            )
        self._send("CREATE (d:PKGDocument) SET d += row", rows)

    def _send(self, action: str, rows: list[dict[str, Any]]) -> None:
        """Run an action for each row, in requests of about BATCH_CHARS characters."""
        batch: list[dict[str, Any]] = []
        size = 0
        for row in rows:
            vector = row.get("vector")
            if vector is not None:  # as a list: the driver would print an array for its log
                row = row | {"vector": vector.tolist()}
                size += 9 * len(vector)
            batch.append(row)
            size += 1000 + len(row.get("text", "")) + len(row.get("question", ""))
            if size >= BATCH_CHARS:
                self._run(
                    f"UNWIND $rows AS row {action}",
                    rows=batch,
                )
                batch = []
                size = 0
        if batch:
            self._run(f"UNWIND $rows AS row {action}", rows=batch)

    def _require_embedder(self, embedder: str) -> None:
        held = self.described().embedder
        if held != embedder:
            why = f"the vectors of {self.name} in {self.place} are {held}'s, not {embedder}'s"
            raise UserError(f"{why}; write the graph again with --embedder {embedder}")

    def vectors(self, kind: int, embedder: str) -> Vectors:
        """Read the vectors of one type of nodes.

        Args:
            kind: The type, as a position in NODE_TYPES.
            embedder: Name of the embedder that the queries are encoded with.

        Returns:
            Unit vectors [n, d], one for each distinct text, in the order of
            `Graph.first_of_each_text`.

        Raises:
            UserError: The vectors were made by another embedder, or are damaged.
        """
        self._require_embedder(embedder)
        match = f"{NODES_OF_GRAPH} AND n:{NODE_TYPES[kind]} AND n.vector IS NOT NULL"
        rows = self._run(f"{match} RETURN n.number, n.vector")
        try:
            vectors = [vector for _, vector in sorted(map(tuple, rows))]
            return np.array(vectors, np.float32)
        except _DAMAGE as e:
            raise self._changed() from e

    def nearest(
        self,
        kind: int,
        queries: Vectors,
        k: int,
        embedder: str,
    ) -> tuple[NDArray[np.int64], Vectors] | None:
        """Find the nodes nearest to each query (Equation 5) by the server's own vector index.

        The index proposes candidates. They are ranked by their exact cosines, which are computed
        here.

        Args:
            kind: The type of the nodes, as a position in NODE_TYPES.
            queries: Unit vectors [q, d].
            k: How many nodes to find for each query.
            embedder: Name of the embedder that the queries are encoded with.

        Returns:
            Nodes [q, k] and their cosines [q, k], best first, with fewer columns if there are fewer
            nodes. None if the server has no index that can answer.

        Raises:
            UserError: The vectors were made by another embedder.
        """
        self._require_embedder(embedder)
        index = self._vector_index(kind)
        if not index:
            return None
        match = f"MATCH (n:{NODE_TYPES[kind]}) WHERE n.vector IS NOT NULL"
        counts = self._run(f"{match} RETURN n.graph, count(n)")
        in_graph = dict(map(tuple, counts))
        available = in_graph.get(self.name, 0)
        try:
            # The index covers all graphs of the database, so a graph's share of its results is
            # expected.
            least = k * CANDIDATES_PER_HIT
            per_graph = max(least, LEAST_CANDIDATES)
            count = per_graph * sum(in_graph.values()) // max(available, 1)
            candidates = self._candidates(index, queries, min(least, available), count)
            return self._best(candidates, queries, min(k, available)) if candidates else None
        except self.refused as e:
            about = "%s: the vector index %s cannot be used (%s); ranking on this machine"
            why = getattr(e, "message", "") or "no reason given"
            log.warning(about, self.place, index, why)
        except _DAMAGE:  # numbers or vectors
            raise self._changed() from None
        return None

    def _vector_index(self, kind: int) -> str:
        """Return the name of a usable vector index over one type of nodes, "" for none."""
        wanted = {
            "type": "VECTOR",
            "labelsOrTypes": [NODE_TYPES[kind]],
            "properties": ["vector"],
            "state": "ONLINE",
        }
        with suppress(*self.refused):
            for record in self._run("SHOW INDEXES"):
                row = record.data()
                if {name: row.get(name) for name in wanted} == wanted:
                    return str(row.get("name"))
        return ""

    def _candidates(
        self,
        index: str,
        queries: Vectors,
        least: int,
        count: int,
    ) -> list[list[int]]:
        """Return at least `least` nodes for each query; nothing if the index finds fewer.

        The index is asked for `count` nodes, and for more if too few of them are of this graph.
        """
        found: list[list[int]] = [[] for _ in queries]
        waiting = list(range(len(queries)))
        while waiting and count <= MOST_CANDIDATES:
            for start in range(0, len(waiting), QUERIES_AT_ONCE):
                batch = []
                for number in waiting[start : start + QUERIES_AT_ONCE]:
                    found[number] = []
                    vector = queries[number].tolist()
                    batch.append({"number": number, "vector": vector})
                records = self._run(
                    ASK_INDEX,
                    queries=batch,
                    index=index,
                    count=count,
                )
                for query, node in records:
                    found[query].append(node)
            waiting = [number for number in waiting if len(found[number]) < least]
            count *= 4
        return [] if waiting else found

    def _best(
        self,
        candidates: list[list[int]],
        queries: Vectors,
        k: int,
    ) -> tuple[NDArray[np.int64], Vectors]:
        """Return the k candidates of each query with the highest cosines, and these.

        Of equal ones the first in the graph comes first.
        """
        ids = [f"{self.name}/{number:d}" for number in sorted(set().union(*candidates))]
        query = "UNWIND $ids AS id MATCH (n:PKGNode {id: id}) RETURN n.number, n.vector"
        vector_of = dict(map(tuple, self._run(query, ids=ids)))
        nodes = np.zeros((len(queries), k), np.int64)
        cosines = np.zeros((len(queries), k), np.float32)
        for i, query_candidates in enumerate(candidates):
            numbers = sorted(set(query_candidates))
            vectors = [vector_of[number] for number in numbers]
            scores = np.array(vectors, np.float32) @ queries[i]
            best = np.argsort(-scores, kind="stable")[:k]
            nodes[i] = np.array(numbers, np.int64)[best]
            cosines[i] = scores[best]
        return nodes, cosines


def _size(value: Any) -> int:
    """Estimate the bytes of a value that a server sent."""
    if isinstance(value, str):
        return len(value)
    return 8 * len(value) if isinstance(value, list) else 8


def _about(graph: Graph) -> str:
    return json.dumps([graph.documents, graph.skipped, graph.meta])


def _digest(about: str, graph: Graph) -> str:
    nodes = str(graph.nodes.to_pydict())
    return digest(about, nodes, *graph.texts.to_pylist())
