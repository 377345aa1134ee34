"""Who is chosen of a task's candidates: by the reranker of Section 3.3, or by the Ideal with verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pkg_lib.core.types import Task, digest
from pkg_lib.data.benchmark import Benchmark

SELECTED = ("Reranked", "Ideal")  # columns that choose among the others


@dataclass(frozen=True, slots=True)
class Candidate:
    """One column's solution of a task as the reranker sees it, no test involved.

    `parses` is A(c): the program as executed is Python. `runs` is R(c): it executes without an exception.
    `cosine` is that of query and candidate under the retrieval embedder.
    """

    column: str
    parses: bool
    runs: bool
    cosine: float


def rerank(candidates: Sequence[Candidate]) -> Candidate | None:
    """Equation 11: of those that parse and run, the one nearest to the query; no candidate gives None.

    The paper leaves open what happens when no candidate survives a filter: here the last set that was not
    empty is taken. Ties go to the earlier column.
    """
    parsing = [c for c in candidates if c.parses] or list(candidates)
    running = [c for c in parsing if c.runs] or parsing
    return max(running, key=lambda c: c.cosine, default=None)


def selection_mark(
    task: Task, rules: Benchmark, solutions: Mapping[str, str], candidates: Sequence[str]
) -> str:
    """Identifies what the reranker chose from: query, solutions, what was run, who is scored alone."""
    programs = ((rules.program(task, s), rules.untested(task, s)) for s in solutions.values())
    without_tests = [untested for program, untested in programs if untested != program]
    scored_only = (c for c in solutions if c not in candidates)
    named = (part for item in solutions.items() for part in item)
    return digest(task.prompt, *named, *without_tests, *scored_only)


def ideal(verdicts: pd.DataFrame) -> pd.Series:
    """Boolean per task over the candidate columns: True when one passed; <NA> while one has no verdict.

    Such a task could only be known as solved, never as unsolved: counting it would favour the oracle.
    """
    return verdicts.fillna(False).any(axis=1).astype("boolean").mask(verdicts.isna().any(axis=1))
