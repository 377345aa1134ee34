"""Chunk statistics: how many, how large, how full, and which split a function."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import pandas as pd

from pkg_lib.chunking.chunk_coverage import REASONS, ChunkCoverage
from pkg_lib.chunking.chunker import Chunk, Chunker
from pkg_lib.chunking.languages import (
    functions_of,
    language_of,
    parse,
)
from pkg_lib.chunking.source import Source, Span
from pkg_lib.chunking.windows import LINE_METHODS


@dataclass
class FunctionCuts:
    """How many functions of a file are spread over several chunks.

    Attributes:
        functions: Number of functions.
        cut: Functions that are in more than one chunk.
        cut_that_fit: Those of them that are small enough for one chunk.
        cutting_chunks: Indices of the chunks that contain part of a cut function.
    """

    functions: int
    cut: int = 0
    cut_that_fit: int = 0
    cutting_chunks: set[int] = field(default_factory=set)


def functions_cut(data: bytes, language: str, chunks: list[Chunk], limit: int) -> FunctionCuts:
    """Count the functions of a file that its chunks split.

    Args:
        data: The bytes of the file.
        language: Its language.
        chunks: Its chunks, in order.
        limit: Largest size of a chunk, in characters without white space.
    """
    source = Source(data)
    spans = functions_of(parse(data, language), language)
    starts = [chunk.start for chunk in chunks]
    stops = [chunk.stop for chunk in chunks]
    cuts = FunctionCuts(len(spans))
    for start, stop in spans:
        touched = range(bisect_left(stops, start + 1), bisect_left(starts, stop))
        if len(touched) > 1:
            cuts.cut += 1
            cuts.cut_that_fit += source.size(Span(start, stop)) <= limit
            cuts.cutting_chunks.update(touched)
    return cuts


def chunk_statistics(
    files: Iterable[tuple[str, bytes]], chunkers: Iterable[Chunker]
) -> pd.DataFrame:
    """Chunk files with several chunkers and measure the chunks.

    Args:
        files: Name and bytes of each file. Files of unknown languages are left out.
        chunkers: The chunkers to compare.

    Returns:
        One row per language and chunker. Sizes are characters without white space; `fill` is the
        mean size divided by the limit.
    """
    chunkers = list(chunkers)
    by_language: dict[str, list[tuple[str, bytes]]] = {}
    for name, data in files:
        language = language_of(name)
        if language:
            by_language.setdefault(language, []).append((name, data))
    rows = []
    for language, members in sorted(by_language.items()):
        rows += [_row(language, members, chunker) for chunker in chunkers]
    return pd.DataFrame(rows)


def _row(
    language: str,
    files: list[tuple[str, bytes]],
    chunker: Chunker,
) -> dict[str, object]:
    chunks: list[Chunk] = []
    coverage: list[ChunkCoverage] = []
    cuts: list[FunctionCuts] = []
    for name, data in files:
        chunked = chunker.chunk(data, name)
        chunks += chunked.chunks
        coverage.append(chunked.coverage)
        cuts.append(functions_cut(data, language, chunked.chunks, chunker.max_size))
    count = len(chunks)
    sizes = np.array([chunk.size for chunk in chunks], float)
    lines = np.array([chunk.last - chunk.first + 1 for chunk in chunks], float)
    by_lines = chunker.method in LINE_METHODS
    row: dict[str, object] = {
        "language": language,
        "method": chunker.method,
        "mode": chunker.mode,
        "limit": chunker.lines if by_lines else chunker.max_size,
        "files": len(files),
        "chunks": count,
        "chunks_per_file": count / len(files),
        **_distribution("size", sizes),
        **_distribution("lines", lines),
        "fill": np.nan,
        "functions": _total(cuts, "functions"),
        "functions_cut": _total(cuts, "cut"),
        "functions_cut_that_fit": _total(cuts, "cut_that_fit"),
        "chunks_that_cut": np.nan,
        "bytes": _total(coverage, "bytes_in"),
        "bytes_lost": _total(coverage, "bytes_lost"),
    }
    if count:
        cutting = sum(len(cut.cutting_chunks) for cut in cuts)
        row["chunks_that_cut"] = cutting / count
        if not by_lines:
            row["fill"] = sizes.sum() / (count * chunker.max_size)
    lost = sum((file.lost for file in coverage), Counter())
    for reason in REASONS:
        row[f"lost: {reason}"] = lost[reason]
    row["leaves_over"] = _total(coverage, "leaves_over")
    errors = [c.parse_errors for c in coverage if c.parse_errors is not None]
    row["files_with_parse_errors"] = np.count_nonzero(errors) if errors else np.nan
    return row


def _total(items: Sequence[object], attribute: str) -> int:
    return sum(map(attrgetter(attribute), items))


def _distribution(
    name: str,
    values: np.typing.NDArray[np.float64],
) -> dict[str, float]:
    if not len(values):
        values = np.array([np.nan])
    p10, p50, p90 = np.percentile(values, [10, 50, 90]).tolist()
    return {
        f"{name}_mean": float(values.mean()),
        f"{name}_p10": p10,
        f"{name}_p50": p50,
        f"{name}_p90": p90,
        f"{name}_max": float(values.max()),
    }
