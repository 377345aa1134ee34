"""Retrieval quality: nDCG, precision and recall, also across two chunkings.

Appendix A.2 of cAST compares chunkings on the chunks of one of them, the baseline. Every line
inherits the score of its chunk, and a baseline chunk's score is aggregated from its lines. The
paper does not state the aggregate, so that both the mean and the maximum are offered.
"""

from collections.abc import Callable, Iterable, Sequence

import ir_measures
import numpy as np
import pandas as pd

from pkg_lib.chunking.chunker import Chunk
from pkg_lib.retrieval.ranking import Scores, top

DEPTH = 10  # of the deepest measure
MEASURES = [
    ir_measures.nDCG @ 5,
    ir_measures.nDCG @ DEPTH,
    ir_measures.P @ 5,
    ir_measures.P @ DEPTH,
    ir_measures.R @ 5,
    ir_measures.R @ DEPTH,
]
AGGREGATES: dict[str, Callable[[Scores], float]] = {
    "mean": np.mean,
    "max": np.max,
}
Span = tuple[str, int, int]  # document, first line, last line (from 1, inclusive)


def line_scores(
    chunks: Sequence[Chunk],
    scores: Scores,
) -> dict[str, Scores]:
    """Give every line of a document the score of its chunk.

    Args:
        chunks: Chunks of one or more documents.
        scores: A score [n] for each chunk.

    Returns:
        Scores by document, one entry for each line up to the last one of any chunk. A line of
        several chunks has the highest of their scores, a line without a chunk has NaN.
    """
    by_document: dict[str, Scores] = {}
    for chunk in sorted(chunks, key=lambda chunk: chunk.last):
        by_document[chunk.document] = np.full(chunk.last, np.nan)
    for chunk, score in zip(chunks, scores, strict=True):
        lines = by_document[chunk.document][_lines(chunk)]
        np.fmax(lines, score, out=lines)
    return by_document


def _lines(chunk: Chunk) -> slice:
    return slice(chunk.first - 1, chunk.last)


def map_scores(
    chunks: Sequence[Chunk],
    scores: Scores,
    baseline: Sequence[Chunk],
    aggregate: str = "mean",
) -> Scores:
    """Map the scores of chunks to the chunks of another chunking (Appendix A.2 of cAST).

    Args:
        chunks: Chunks that were scored.
        scores: Scores [q, n] of these chunks for each query.
        baseline: The other chunking's m chunks.
        aggregate: A name in ``AGGREGATES``: how the lines of a baseline chunk are summarised.

    Returns:
        Scores [q, m]; NaN where no line of a baseline chunk has a score.
    """
    shape = (len(scores), len(baseline))
    mapped = np.full(shape, np.nan)
    for row, query_scores in zip(mapped, scores, strict=True):
        by_document = line_scores(chunks, query_scores)
        for position, chunk in enumerate(baseline):
            if chunk.document not in by_document:
                continue
            lines = by_document[chunk.document][_lines(chunk)]
            scored = lines[~np.isnan(lines)]
            if len(scored):
                row[position] = AGGREGATES[aggregate](scored)
    return mapped


def relevant_chunks(chunks: Sequence[Chunk], gold: Iterable[Span]) -> set[int]:
    """Find the chunks that share a line with a gold span, as CodeRAG-Bench does.

    Args:
        chunks: Chunks of one or more documents.
        gold: The lines that answer a query.

    Returns:
        Positions of the relevant chunks.
    """
    found = set()
    for document, first, last in gold:
        for position, chunk in enumerate(chunks):
            overlaps = chunk.first <= last and first <= chunk.last
            if overlaps and chunk.document == document:
                found.add(position)
    return found


def ranking_quality(scores: Scores, golds: Sequence[set[int]]) -> pd.DataFrame:
    """Compute every measure for every query.

    Args:
        scores: Scores [q, m]; NaN means that a chunk was not retrieved.
        golds: For each query the positions of the relevant chunks.

    Returns:
        One row per query and one column per measure; NaN where nothing is relevant.
    """
    judgements = {}
    rankings = {}
    for query, gold in enumerate(golds):
        if gold:
            judgements[str(query)] = dict.fromkeys(map(str, gold), 1)
            rankings[str(query)] = _distinct_scores(scores[query])
    names = [str(measure) for measure in MEASURES]
    table = pd.DataFrame(np.nan, range(len(scores)), names)
    if judgements:
        for metric in ir_measures.iter_calc(MEASURES, judgements, rankings):
            query = int(metric.query_id)
            name = str(metric.measure)
            table.loc[query, name] = metric.value
    return table


def _distinct_scores(scores: Scores) -> dict[str, float]:
    """Score the best positions by rank: trec_eval would break ties by name."""
    retrieved = np.flatnonzero(~np.isnan(scores))
    best = top(scores[retrieved], DEPTH)
    ranked = enumerate(retrieved[best])
    return {str(position): -float(rank) for rank, position in ranked}
