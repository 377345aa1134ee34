"""Chunk statistics by language and chunker: how many, how large, how full, which cut a function."""

import itertools
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import pandas as pd

from pkg_lib.chunking.account import REASONS
from pkg_lib.chunking.chunker import Chunk, Chunker
from pkg_lib.chunking.languages import functions_of, language_of, parse
from pkg_lib.chunking.source import Source


def functions_cut(
    data: bytes, language: str, chunks: list[Chunk], limit: int
) -> tuple[int, int, int, set]:
    """(functions, those cut, those of them that would fit into a chunk, positions of the chunks that cut)."""
    count, spans = Source(data).characters_before, functions_of(parse(data, language), language)
    stops, starts = [c.stop for c in chunks], [c.start for c in chunks]
    cut, fitting, cutting = 0, 0, set()
    for first, last in spans:
        held = range(bisect_left(stops, first + 1), bisect_left(starts, last))
        if len(held) > 1:
            cut += 1
            fitting += count[last] - count[first] <= limit
            cutting.update(held)
    return len(spans), cut, fitting, cutting


def statistics(files: Iterable[tuple[str, bytes]], chunkers: Iterable[Chunker]) -> pd.DataFrame:
    """A row a language and chunker, of (name, bytes); sizes without white space; `fill`: mean over limit."""
    by_language: dict[str, list[tuple[str, bytes]]] = {}
    for name, data in files:
        if language := language_of(name):
            by_language.setdefault(language, []).append((name, data))
    pairs = itertools.product(sorted(by_language.items()), chunkers)
    return pd.DataFrame(
        [_row(language, members, chunker) for (language, members), chunker in pairs]
    )


def _row(language: str, files: list[tuple[str, bytes]], chunker: Chunker) -> dict[str, object]:
    chunked = [(data, chunker.chunk(data, name)) for name, data in files]
    cuts = [functions_cut(data, language, c.chunks, chunker.max_size) for data, c in chunked]
    functions, cut, fitting = (sum(c[i] for c in cuts) for i in range(3))
    accounts, chunks = (
        [c.account for _, c in chunked],
        [chunk for _, c in chunked for chunk in c.chunks],
    )
    sizes = np.array([c.size for c in chunks], float)
    by_lines = chunker.method == "fixed-size"
    broken = [a.parse_errors > 0 for a in accounts if a.parse_errors is not None]
    return {
        "language": language,
        "method": chunker.method,
        "mode": chunker.mode,
        "limit": chunker.lines if by_lines else chunker.max_size,
        "files": len(files),
        "chunks": len(chunks),
        "chunks_per_file": len(chunks) / len(files),
        **_spread("size", sizes),
        **_spread("lines", np.array([c.last - c.first + 1 for c in chunks], float)),
        "fill": np.nan
        if by_lines or not chunks
        else sizes.sum() / (len(chunks) * chunker.max_size),
        "functions": functions,
        "functions_cut": cut,
        "functions_cut_that_fit": fitting,
        "chunks_that_cut": sum(len(c[3]) for c in cuts) / len(chunks) if chunks else np.nan,
        "bytes": sum(a.bytes_in for a in accounts),
        "bytes_lost": sum(a.bytes_lost for a in accounts),
        **{f"lost: {reason}": sum(a.lost[reason] for a in accounts) for reason in REASONS},
        "leaves_over": sum(a.leaves_over for a in accounts),
        "files_with_parse_errors": sum(broken) if broken else np.nan,
    }


def _spread(what: str, values: np.ndarray) -> dict[str, float]:
    values = values if len(values) else np.array([np.nan])
    ranks = {f"p{p}": np.percentile(values, p) for p in (10, 50, 90)}
    measures = {"mean": values.mean(), **ranks, "max": values.max()}
    return {f"{what}_{name}": float(value) for name, value in measures.items()}
