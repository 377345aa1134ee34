"""Retrieval quality: nDCG, precision and recall, with scores of one chunking mapped onto another's chunks.

Appendix A.2 of cAST: every line inherits the score of its chunk, and a baseline chunk's score is aggregated
from its lines. The paper does not say how: mean or max.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product

import ir_measures
import numpy as np
import pandas as pd

from pkg_lib.chunking.chunker import Chunk
from pkg_lib.retrieval.chunks import order

MEASURES = [m @ k for m in (ir_measures.nDCG, ir_measures.P, ir_measures.R) for k in (5, 10)]
AGGREGATES: dict[str, Callable[[np.ndarray], float]] = {"mean": np.mean, "max": np.max}
Span = tuple[str, int, int]  # document, first line, last line (from 1)


def line_scores(chunks: Sequence[Chunk], scores: np.ndarray) -> dict[str, np.ndarray]:
    """Document -> a score [last line] for each line, the highest of its chunks'; NaN where it is in none."""
    ends = {chunk.document: chunk.last for chunk in sorted(chunks, key=lambda chunk: chunk.last)}
    by_line = {document: np.full(end, np.nan) for document, end in ends.items()}
    for chunk, score in zip(chunks, scores, strict=True):
        lines = by_line[chunk.document][chunk.first - 1 : chunk.last]
        np.fmax(lines, score, out=lines)
    return by_line


def map_scores(
    chunks: Sequence[Chunk], scores: np.ndarray, baseline: Sequence[Chunk], aggregate: str = "mean"
) -> np.ndarray:
    """Scores [q, n] of chunks -> scores [q, m] of baseline chunks; NaN where no line of one has a score."""
    mapped = np.full((len(scores), len(baseline)), np.nan)
    for row, query in zip(mapped, scores, strict=True):
        by_line = line_scores(chunks, query)
        for i, chunk in enumerate(baseline):
            lines = by_line.get(chunk.document, np.empty(0))[chunk.first - 1 : chunk.last]
            lines = lines[~np.isnan(lines)]
            if len(lines):
                row[i] = AGGREGATES[aggregate](lines)
    return mapped


def relevant(chunks: Sequence[Chunk], gold: Iterable[Span]) -> set[int]:
    """Positions of the chunks that share a line with a gold span, as CodeRAG-Bench marks them."""
    pairs = product(enumerate(chunks), gold)
    return {
        i for (i, c), (name, a, b) in pairs if c.document == name and c.first <= b and a <= c.last
    }


def evaluate(scores: np.ndarray, golds: Sequence[set[int]]) -> pd.DataFrame:
    """Scores [q, m] (NaN: not retrieved), relevant positions a query -> MEASURES; NaN without any."""
    golds = {str(i): {str(p): 1 for p in gold} for i, gold in enumerate(golds) if gold}
    run = {q: _ranked(scores[int(q)]) for q in golds}
    rows = pd.DataFrame(np.nan, range(len(scores)), [str(m) for m in MEASURES])
    for metric in ir_measures.iter_calc(MEASURES, golds, run) if golds else ():
        rows.loc[int(metric.query_id), str(metric.measure)] = metric.value
    return rows


def _ranked(row: np.ndarray, k: int = 10) -> dict[str, float]:
    """The k best positions with scores that no two share, since trec_eval breaks ties by name."""
    scored = np.flatnonzero(~np.isnan(row))
    return {str(p): float(k - rank) for rank, p in enumerate(scored[order(row[scored], k)])}
