"""What can be judged without a person: do the types that an answer needs reach the context?

A type is reached, in three readings from strict to lenient:
    source  some lines of its declaration stand in the context
    listed  the same, or [ONTOLOGY INFO] names its node            (the reading that the tables use first)
    named   its simple name stands in the context as a word, wherever
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from pkg_lib.analysis.stats import RESAMPLES, Difference
from pkg_lib.data.questions import Question, gold
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb.pipelines import Gathered, Pipeline

READINGS = ("source", "listed", "named")
READING = "listed"


class ContextEvidence(NamedTuple):
    """`table` of a repository's pipelines, and of variants of DKB, with k chunks and depth d."""

    name: str
    k: int
    depth: int
    rows: pd.DataFrame
    variants: pd.DataFrame


def outermost(graph: TypeGraph, name: str) -> str:
    """The top-level type around a type, which a package or nothing is around."""
    while (outer := name.rpartition(".")[0]) in graph.nodes:
        name = outer
    return name


def reached_types(graph: TypeGraph, context: Gathered, reading: str) -> set[str]:
    """The types that a context reaches, by the resolved graph, whatever graph a pipeline itself uses."""
    if reading == "named":
        words = set(re.findall(r"[^\W\d][\w$]*", context.text))
        return {n for simple in words & graph.by_simple.keys() for n in graph.by_simple[simple]}
    types = {n.name for part in context for n in graph.within_lines(part.path, part.first, part.last)}
    if reading == "listed":
        # In a graph that is keyed by simple names, a listed name means all types that have it.
        listed = frozenset().union(*(part.names for part in context))
        types |= listed & graph.nodes.keys()
        types |= {n for name in listed - graph.nodes.keys() for n in graph.by_simple.get(name, ())}
    return types


def scores(graph: TypeGraph, question: Question, context: Gathered, reading: str) -> dict[str, float]:
    """Recall: the share of the needed types that are reached. Precision: the share of the reached types that
    are needed, a nested type as the type around it; NaN where nothing is reached."""
    reached, needed = reached_types(graph, context, reading), gold(question, graph)
    whole, wanted = ({outermost(graph, n) for n in names} for names in (reached, needed))
    precision = len(whole & wanted) / len(whole) if whole else float("nan")
    return {"recall": sum(n in reached for n in needed) / len(needed), "precision": precision}


def table(graph: TypeGraph, questions: Sequence[Question], pipelines: Sequence[Pipeline]) -> pd.DataFrame:
    """A row a pipeline, question and reading: recall, precision, the context's characters, excerpts."""
    rows = []
    for pipeline, q in product(pipelines, questions):
        context = pipeline.gather(q.id)
        sizes = {"characters": len(context.text), "excerpts": sum(bool(part.path) for part in context)}
        about = {"pipeline": pipeline.column, "question": q.id, "kind": q.kind}
        rows += [about | {"reading": r} | scores(graph, q, context, r) | sizes for r in READINGS]
    return pd.DataFrame(rows)


def paired(a: pd.Series, b: pd.Series) -> Difference:
    """a - b, question by question, with a bootstrap interval; those where either is NaN are left out.

    p: the share of all changes of sign of the differences (of 100,000 random ones from 17 differences on)
    with a mean as far from 0.
    """
    d = (a - b).dropna().to_numpy()
    if not len(d):
        return Difference(0, *[float("nan")] * 3)
    rng, changed = np.random.default_rng(0), d[d != 0]
    interval = np.quantile(d[rng.integers(0, len(d), (RESAMPLES, len(d)))].mean(1), [0.025, 0.975])
    few, size = len(changed) <= 16, len(changed)
    signs = list(product((-1, 1), repeat=size)) if few else rng.choice((-1, 1), (100_000, size))
    # scipy's permutation_test doubles the smaller tail, which is not 1 for a mean of almost 0.
    p = (np.abs(np.array(signs) @ changed) >= abs(changed.sum()) - 1e-12).mean()
    return Difference(len(d), float(d.mean()), *map(float, interval), p=float(p))
