"""What can be judged without a person: do the types that an answer needs reach the context?

A type is reached, in three readings from strict to lenient:
    source  some lines of its declaration stand in the context
    listed  the same, or [ONTOLOGY INFO] names its node            (the reading that the tables use first)
    named   its simple name stands in the context as a word, wherever

Recall: the share of a question's needed types that are reached. Precision: the share of the reached types that are needed,
where a nested type counts as the type around it. The graph that says where types are declared is the resolved one of the whole
repository, the same for all pipelines, whatever graph a pipeline itself uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from pkg_lib.data.questions import Question, gold
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb.pipelines import Gathered, Pipeline

READINGS = ("source", "listed", "named")
RESAMPLES = 10_000
EXACT = 16  # non-zero differences up to which all changes of sign are tried


@dataclass(frozen=True)
class Judge:
    """The repository's resolved graph, and what a context reaches of it."""

    graph: TypeGraph

    def outermost(self, name: str) -> str:
        """The top-level type around a type, which a package or nothing is around."""
        while (outer := name.rpartition(".")[0]) in self.graph.nodes:
            name = outer
        return name

    def reached(self, gathered: Gathered, reading: str) -> set[str]:
        """The types that a context reaches, by their full names; nested ones beside those around them."""
        if reading == "named":
            words = set(re.findall(r"[^\W\d][\w$]*", gathered.text))
            return {n.name for n in self.graph.nodes.values() if n.simple in words}
        found = set()
        for e in gathered.excerpts:
            here = self.graph.by_path.get(e.path, [])
            found |= {n.name for n in here if n.first <= e.last and e.first <= n.last}
        if reading == "listed":
            found |= {full for name in gathered.listed for full in self._meant(name, gathered)}
        return found

    def _meant(self, name: str, gathered: Gathered) -> list[str]:
        """A listed node's type: by its full name, or all of that simple name for graphs that are keyed so."""
        return (
            [name]
            if name in self.graph.nodes
            else [n.name for n in self.graph.nodes.values() if n.simple == name]
        )

    def scores(self, question: Question, gathered: Gathered, reading: str) -> tuple[float, float]:
        """(recall, precision); precision is NaN where nothing is reached."""
        reached, needed = self.reached(gathered, reading), gold(question, self.graph)
        whole, wanted = {self.outermost(n) for n in reached}, {self.outermost(n) for n in needed}
        recall = sum(n in reached for n in needed) / len(needed)
        return recall, len(whole & wanted) / len(whole) if whole else float("nan")


def table(judge: Judge, questions: Sequence[Question], pipelines: Sequence[Pipeline]) -> pd.DataFrame:
    """One row a pipeline, question and reading: recall, precision, and the context's characters and excerpts."""
    rows = []
    for pipeline in pipelines:
        for q in questions:
            gathered = pipeline.gather(q.id)
            for reading in READINGS:
                recall, precision = judge.scores(q, gathered, reading)
                rows.append(
                    [
                        pipeline.column,
                        q.id,
                        q.kind,
                        reading,
                        recall,
                        precision,
                        len(gathered.text),
                        len(gathered.excerpts),
                    ]
                )
    columns = ["pipeline", "question", "kind", "reading", "recall", "precision", "characters", "excerpts"]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True, slots=True)
class Paired:
    """A mean paired difference over `n` questions with its 95 % bootstrap interval and the sign-flip test's p (two-sided)."""

    n: int
    value: float
    low: float
    high: float
    p: float


def paired(a: Sequence[float], b: Sequence[float], seed: int = 0) -> Paired:
    """a - b, question by question; those where either is NaN are left out. All NaN where none is left.

    The p is exact: the share of all changes of sign of the differences with a mean as far from 0, for up to EXACT differences
    that are not 0; of 100,000 random changes beyond.
    """
    d = np.asarray(a, float) - np.asarray(b, float)
    d = d[~np.isnan(d)]
    if not len(d):
        return Paired(0, *[float("nan")] * 4)
    rng = np.random.default_rng(seed)
    means = d[rng.integers(0, len(d), (RESAMPLES, len(d)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Paired(len(d), float(d.mean()), float(low), float(high), _sign_flip(d, rng))


def _sign_flip(d: np.ndarray, rng: np.random.Generator) -> float:
    d = d[d != 0]
    if not len(d):
        return 1.0
    exact = len(d) <= EXACT
    signs = (
        np.array(list(product((-1, 1), repeat=len(d)))) if exact else rng.choice((-1, 1), (100_000, len(d)))
    )
    sums = np.abs(signs @ d)
    return float((sums >= abs(d.sum()) - 1e-12).mean())


def mean_of(
    frame: pd.DataFrame, value: str, keep: Callable[[pd.DataFrame], pd.Series] | None = None
) -> pd.Series:
    """Mean of a value by pipeline, in the order of the frame."""
    part = frame[keep(frame)] if keep else frame
    return part.groupby("pipeline", sort=False)[value].mean()
