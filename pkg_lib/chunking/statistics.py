"""Chunk statistics by language and chunker: how many, how large, how full, and which split a function."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from pkg_lib.chunking.chunk_coverage import REASONS
from pkg_lib.chunking.chunker import Chunk, Chunker
from pkg_lib.chunking.languages import (
    functions_of,
    language_of,
    parse,
)
from pkg_lib.chunking.source import Source


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
            cuts.cut_that_fit += source.size(start, stop) <= limit
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
        One row per language and chunker. Sizes are characters without white space; `fill` is the mean
        size divided by the limit.
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


def _row(language: str, files: list[tuple[str, bytes]], chunker: Chunker) -> dict[str, object]:
    chunks: list[Chunk] = []
    coverage = []
    cuts = []
    for name, data in files:
        chunked = chunker.chunk(data, name)
        chunks += chunked.chunks
        coverage.append(chunked.coverage)
        cuts.append(functions_cut(data, language, chunked.chunks, chunker.max_size))
    count = len(chunks)
    sizes = np.array([chunk.size for chunk in chunks], float)
    lines = np.array([chunk.last - chunk.first + 1 for chunk in chunks], float)
    by_lines = chunker.method == "fixed-size"
    has_fill = count and not by_lines
    cutting = sum(len(cut.cutting_chunks) for cut in cuts)
    lost = {f"lost: {reason}": sum(c.lost[reason] for c in coverage) for reason in REASONS}
    broken = [c.parse_errors > 0 for c in coverage if c.parse_errors is not None]
    return {
        "language": language,
        "method": chunker.method,
        "mode": chunker.mode,
        "limit": chunker.lines if by_lines else chunker.max_size,
        "files": len(files),
        "chunks": count,
        "chunks_per_file": count / len(files),
        **_distribution("size", sizes),
        **_distribution("lines", lines),
        "fill": sizes.sum() / (count * chunker.max_size) if has_fill else np.nan,
        "functions": sum(cut.functions for cut in cuts),
        "functions_cut": sum(cut.cut for cut in cuts),
        "functions_cut_that_fit": sum(cut.cut_that_fit for cut in cuts),
        "chunks_that_cut": cutting / count if count else np.nan,
        "bytes": sum(c.bytes_in for c in coverage),
        "bytes_lost": sum(c.bytes_lost for c in coverage),
        **lost,
        "leaves_over": sum(c.leaves_over for c in coverage),
        "files_with_parse_errors": sum(broken) if broken else np.nan,
    }


def _distribution(name: str, values: np.typing.NDArray[np.float64]) -> dict[str, float]:
    values = values if len(values) else np.array([np.nan])
    p10, p50, p90 = np.percentile(values, [10, 50, 90])
    measures = {
        "mean": values.mean(),
        "p10": p10,
        "p50": p50,
        "p90": p90,
        "max": values.max(),
    }
    return {f"{name}_{measure}": float(value) for measure, value in measures.items()}
