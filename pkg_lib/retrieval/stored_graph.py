"""The knowledge base that `graph --store` wrote into a graph database (Section 3.1), read back."""

from dataclasses import dataclass

import numpy as np

from pkg_lib.core.types import UserError
from pkg_lib.graph import bolt
from pkg_lib.graph.schema import PKG
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.retrievers import Knowledge


@dataclass
class StoredKnowledge(Knowledge):
    """Documents, graph and vectors of code or text from the database at `place`.

    Every method retrieves what it retrieves from the corpus that the graph was built from.
    """

    place: str = ""

    def build(self) -> PKG:
        """Read the graph; UserError where it has changed since it was written."""
        with bolt.opened(self.place) as database:
            return database.load()

    def nearest(
        self, kind: int, queries: np.ndarray, k: int, nodes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find as `Knowledge.nearest` does, by the server's vector index or, without one, exactly here.

        The nodes that are searched have a vector in the database: by default the first of each text.

        Raises:
            UserError: The vectors in the database were made by another embedder, or do not fit the graph.
        """
        searched = self.graph.first_of_each_text(kind) if nodes is None else nodes
        with bolt.opened(self.place) as database:
            found = database.nearest(kind, queries, k, self.embedder.name)
            if found is None:
                vectors = database.vectors(kind, self.embedder.name)
                fits = vectors.shape == (len(searched), queries.shape[1])
            else:
                fits = bool(np.isin(found[0], searched).all())
        if not fits:
            raise UserError(f"the vectors in {self.place} do not fit the graph; write it again")
        if found is not None:
            return found
        positions, cosines = FlatIndex(vectors).search(queries, k)
        return searched[positions], cosines
