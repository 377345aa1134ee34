"""Solution reranking (Section 3.3): parses, runs, then the highest cosine to the query (Equation 11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pkg_lib.graph.code import is_python


@dataclass(frozen=True, slots=True)
class Candidate:
    """One column's solution of a task. `runs` is R(c): it executes without an exception, no test involved.

    `similarity` is the cosine between query and candidate under the retrieval embedder.
    """

    column: str
    solution: str
    program: str
    runs: bool
    similarity: float

    @property
    def parses(self) -> bool:
        """A(c): the program as executed (prompt and solution, without tests) is Python."""
        return is_python(self.program)


def rerank(candidates: Sequence[Candidate]) -> Candidate | None:
    """Equation 11; no candidate gives None.

    The paper leaves open what happens when no candidate survives a filter: here the last set that was not empty is
    taken. Ties go to the earlier column.
    """
    parsing = [c for c in candidates if c.parses] or list(candidates)
    running = [c for c in parsing if c.runs] or parsing
    return max(running, key=lambda c: c.similarity, default=None)
