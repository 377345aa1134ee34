"""Retrieval quality: nDCG, precision and recall at 5 and 10, with scores of one chunking mapped onto another's chunks.

Chunkings have corpora of different sizes, so their rankings cannot be compared as they are. Appendix A.2 of cAST: every line
inherits the score of its chunk, and a baseline chunk's score is aggregated anew from its lines. The paper does not say how;
the mean is the default here, and `max` and `sum` are the other readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import ir_measures
import numpy as np
import pandas as pd

from pkg_lib.core.types import UserError

CUTOFFS = (5, 10)
AGGREGATES: dict[str, Callable[[np.ndarray], float]] = {"mean": np.mean, "max": np.max, "sum": np.sum}
Span = tuple[str, int, int]  # document, first line, last line (from 1)


class Lines(Protocol):
    """What a chunk is here: lines of a document."""

    document: str
    first: int
    last: int


def line_scores(chunks: Sequence[Lines], scores: np.ndarray) -> dict[str, np.ndarray]:
    """Document -> a score [last line] for each line; NaN for a line that is in no chunk.

    A line that two chunks share, because one ends on it where the other begins, has the higher of their scores.
    """
    if len(chunks) != len(scores):
        raise UserError(f"{len(scores)} scores for {len(chunks)} chunks; give one score a chunk")
    ends: dict[str, int] = {}
    for chunk in chunks:
        ends[chunk.document] = max(ends.get(chunk.document, 0), chunk.last)
    found = {document: np.full(end, np.nan) for document, end in ends.items()}
    for chunk, score in zip(chunks, scores, strict=True):
        lines = found[chunk.document][chunk.first - 1 : chunk.last]
        np.fmax(lines, score, out=lines)
    return found


def map_scores(
    chunks: Sequence[Lines], scores: np.ndarray, baseline: Sequence[Lines], aggregate: str = "mean"
) -> np.ndarray:
    """Scores [q, n] of chunks -> scores [q, m] of baseline chunks; NaN where no line of one has a score (Appendix A.2)."""
    if aggregate not in AGGREGATES:
        raise UserError(f"unknown aggregate '{aggregate}'; choose from: {', '.join(AGGREGATES)}")
    found = np.full((len(scores), len(baseline)), np.nan)
    for row, query in zip(found, scores, strict=True):
        by_line = line_scores(chunks, query)
        for i, chunk in enumerate(baseline):
            lines = by_line.get(chunk.document, np.empty(0))[chunk.first - 1 : chunk.last]
            lines = lines[~np.isnan(lines)]
            if len(lines):
                row[i] = AGGREGATES[aggregate](lines)
    return found


def relevant(chunks: Sequence[Lines], gold: Iterable[Span]) -> set[int]:
    """Positions of the chunks that share a line with a gold span, as CodeRAG-Bench marks RepoEval's windows."""
    spans = list(gold)
    return {
        i
        for i, c in enumerate(chunks)
        if any(
            c.document == document and c.first <= last and first <= c.last for document, first, last in spans
        )
    }


def evaluate(
    scores: np.ndarray,
    golds: Sequence[set[int]],
    names: Sequence[str] | None = None,
    cutoffs: Sequence[int] = CUTOFFS,
) -> pd.DataFrame:
    """Scores [q, m] and the relevant positions of each query -> a row a query: nDCG@k, P@k, R@k.

    Equal scores are ranked in the order of the corpus; a chunk without a score (NaN) is not retrieved. A query without
    anything relevant is not measured: its row is NaN.
    """
    if len(scores) != len(golds):
        raise UserError(f"{len(golds)} gold sets for {len(scores)} queries; give one a query")
    measures = [m @ k for m in (ir_measures.nDCG, ir_measures.P, ir_measures.R) for k in cutoffs]
    qrels = {str(i): {str(p): 1 for p in gold} for i, gold in enumerate(golds) if gold}
    run = {str(i): _ranked(row, max(cutoffs)) for i, row in enumerate(scores)}
    found = pd.DataFrame(np.nan, range(len(scores)), [str(m) for m in measures])
    if qrels:
        for metric in ir_measures.iter_calc(measures, qrels, {q: run[q] for q in qrels}):
            found.loc[int(metric.query_id), str(metric.measure)] = metric.value
    return found.set_axis(list(names), axis=0) if names is not None else found


def _ranked(row: np.ndarray, k: int) -> dict[str, float]:
    """The k best positions with scores that no two share, since trec_eval breaks ties by name."""
    there = np.flatnonzero(~np.isnan(row))
    best = there[np.argsort(-row[there], kind="stable")][:k]
    return {str(p): float(k - rank) for rank, p in enumerate(best)}


def summary(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Name -> `evaluate`'s rows, as one row a name: means in percent over the measured queries, and how many those are."""
    rows = {name: 100 * rows.mean() for name, rows in runs.items()}
    found = pd.DataFrame(rows).T
    found["queries"] = [int(r.notna().all(axis=1).sum()) for r in runs.values()]
    return found
