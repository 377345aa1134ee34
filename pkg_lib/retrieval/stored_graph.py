"""The knowledge base that ``graph --store`` wrote into a graph database (Section 3.1)."""

from dataclasses import dataclass

import numpy as np

from pkg_lib.core.types import UserError
from pkg_lib.graph import bolt
from pkg_lib.graph.schema import Graph
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.ranking import Positions, Ranked, Vectors


@dataclass
class StoredKnowledge(Knowledge):
    """Documents, graph and vectors of code or text in a graph database.

    Every method retrieves the same as from the corpus that the graph was built from.

    Attributes:
        place: Address of the database and name of the graph.
    """

    place: str = ""

    def build(self) -> Graph:
        """Read the graph.

        Returns:
            The graph as it was written.

        Raises:
            UserError: The graph has changed since it was written, or the database is unavailable.
        """
        with bolt.opened(self.place) as database:
            return database.load()

    def nearest(
        self,
        kind: int,
        queries: Vectors,
        k: int,
        nodes: Positions,
    ) -> Ranked:
        """Find the nearest nodes as ``Knowledge.nearest`` does.

        The vector index of the server ranks the nodes. Without such an index they are ranked here.

        Args:
            kind: The type of the nodes.
            queries: Unit vectors [q, d].
            k: How many nodes to find for each query.
            nodes: The nodes to search: the first of each text, which have vectors in the database.

        Returns:
            Nodes [q, k] and their cosines [q, k], best first.

        Raises:
            UserError: The vectors in the database were made by another embedder, or do not fit the
                graph.
        """
        misfit = UserError(f"the vectors in {self.place} do not fit the graph; write it again")
        with bolt.opened(self.place) as database:
            found = database.nearest(kind, queries, k, self.embedder.name)
            if found is None:
                vectors = database.vectors(kind, self.embedder.name)
        if found is not None:
            if not np.isin(found[0], nodes).all():
                raise misfit
            return found
        if vectors.shape != (len(nodes), queries.shape[1]):
            raise misfit
        positions, cosines = FlatIndex(vectors).search(queries, k)
        return nodes[positions], cosines
