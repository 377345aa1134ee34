"""What can be judged without a person: do the types that an answer needs reach the context?

A type is reached, in three readings from strict to lenient:
    source  some lines of its declaration stand in the context
    listed  the same, or [ONTOLOGY INFO] names its node            (the reading that the tables use first)
    named   its simple name stands in the context as a word, wherever
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pkg_lib.data.questions import Question, gold
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb.pipelines import Gathered, Pipeline

READINGS = ("source", "listed", "named")
READING = "listed"
RESAMPLES = 10_000


def outermost(graph: TypeGraph, name: str) -> str:
    """The top-level type around a type, which a package or nothing is around."""
    while (outer := name.rpartition(".")[0]) in graph.nodes:
        name = outer
    return name


def reached_types(graph: TypeGraph, gathered: Gathered, reading: str) -> set[str]:
    """The types that a context reaches, by the resolved graph, whatever graph a pipeline itself uses."""
    nodes = graph.nodes.values()
    if reading == "named":
        words = set(re.findall(r"[^\W\d][\w$]*", gathered.text))
        return {n.name for n in nodes if n.simple in words}
    types = set()
    for e in gathered.excerpts:
        types |= {n.name for n in graph.by_path.get(e.path, []) if n.first <= e.last and e.first <= n.last}
    if reading == "listed":
        # In a graph that is keyed by simple names, a listed name means all types that have it.
        listed = set(gathered.listed)
        simple = listed - graph.nodes.keys()
        types |= {n.name for n in nodes if n.name in listed or n.simple in simple}
    return types


def scores(graph: TypeGraph, question: Question, gathered: Gathered, reading: str) -> tuple[float, float]:
    """Recall: the share of the needed types that are reached. Precision: the share of the reached types that
    are needed, a nested type as the type around it; NaN where nothing is reached."""
    reached, needed = reached_types(graph, gathered, reading), gold(question, graph)
    whole, wanted = ({outermost(graph, n) for n in names} for names in (reached, needed))
    recall = sum(n in reached for n in needed) / len(needed)
    return recall, len(whole & wanted) / len(whole) if whole else float("nan")


def table(graph: TypeGraph, questions: Sequence[Question], pipelines: Sequence[Pipeline]) -> pd.DataFrame:
    """A row a pipeline, question and reading: recall, precision, the context's characters, excerpts."""
    rows = []
    for pipeline, q in product(pipelines, questions):
        gathered = pipeline.gather(q.id)
        for reading in READINGS:
            values = *scores(graph, q, gathered, reading), len(gathered.text), len(gathered.excerpts)
            rows.append([pipeline.column, q.id, q.kind, reading, *values])
    columns = ["pipeline", "question", "kind", "reading", "recall", "precision", "characters", "excerpts"]
    return pd.DataFrame(rows, columns=columns)


class PairedMean(NamedTuple):
    """A mean paired difference over `n` questions, its 95 % interval, the sign-flip test's p."""

    n: int
    value: float
    low: float
    high: float
    p: float


def paired(a: Sequence[float], b: Sequence[float], seed: int = 0) -> PairedMean:
    """a - b, question by question; those where either is NaN are left out. All NaN where none is left.

    p: the share of all changes of sign of the differences (of 100,000 random ones from 17 differences on)
    with a mean as far from 0.
    """
    d = np.asarray(a, float) - np.asarray(b, float)
    d = d[~np.isnan(d)]
    if not len(d):
        return PairedMean(0, *[float("nan")] * 4)
    rng = np.random.default_rng(seed)
    means = d[rng.integers(0, len(d), (RESAMPLES, len(d)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    changed = d[d != 0]
    few = len(changed) <= 16
    signs = (
        list(product((-1, 1), repeat=len(changed))) if few else rng.choice((-1, 1), (100_000, len(changed)))
    )
    # scipy's permutation_test doubles the smaller tail, which is not 1 for a mean of almost 0.
    p = (np.abs(np.array(signs) @ changed) >= abs(changed.sum()) - 1e-12).mean()
    return PairedMean(len(d), float(d.mean()), float(low), float(high), float(p))


@dataclass
class ContextEvidence:
    """Evidence of pipelines (k chunks, depth d), measured or read; rows and variants as of `table`."""

    name: str
    k: int
    depth: int
    rows: pd.DataFrame
    variants: pd.DataFrame

    def recall(self, pipeline: str, kinds: Sequence[str] = ()) -> pd.Series:
        """Recall by question, of the questions of these kinds (all where none is given)."""
        rows = self.rows[(self.rows["pipeline"] == pipeline) & (self.rows["reading"] == READING)]
        return (rows[rows["kind"].isin(kinds)] if kinds else rows).set_index("question")["recall"]

    def against(self, a: str, b: str, kinds: Sequence[str] = ()) -> PairedMean:
        """The difference in recall, a - b, over the questions of these kinds."""
        return paired(self.recall(a, kinds), self.recall(b, kinds))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(self.rows["pipeline"]))

    @property
    def kinds(self) -> list[str]:
        return [k for k in dict.fromkeys(self.rows["kind"]) if k]


def read_evidence(name: str, stored: Mapping[str, Any] | None) -> ContextEvidence | None:
    """The evidence of evidence.json, for where the repository's source is not at hand."""
    if stored is None:
        return None
    frames = (pd.DataFrame(stored[p]["data"], columns=stored[p]["columns"]) for p in ("rows", "variants"))
    return ContextEvidence(name, stored["k"], stored["depth"], *frames)
