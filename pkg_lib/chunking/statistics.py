"""Chunk statistics by language and chunker: how many, how large, how full, how many cut a function, what is lost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import pandas as pd

from pkg_lib.chunking.account import REASONS
from pkg_lib.chunking.chunker import Chunk, Chunked, Chunker
from pkg_lib.chunking.languages import functions_of, language_of, parse
from pkg_lib.chunking.source import Source

QUANTILES = (0.1, 0.5, 0.9)


def functions_cut(
    data: bytes, language: str, chunks: list[Chunk], limit: int
) -> tuple[int, int, int, set[int]]:
    """(functions, those in more than one chunk, those of them that would fit into one, positions of the chunks that cut).

    A function is cut when no chunk holds all of it that any chunk holds; a chunk cuts it when it holds a part only.
    """
    count = Source(data).characters_before
    spans = functions_of(parse(data, language), language)
    stops, starts = [c.stop for c in chunks], [c.start for c in chunks]
    cut = fitting = 0
    cutting: set[int] = set()
    for first, last in spans:
        held = range(bisect_left(stops, first + 1), bisect_left(starts, last))
        if len(held) > 1:
            cut += 1
            fitting += count[last] - count[first] <= limit
            cutting.update(held)
    return len(spans), cut, fitting, cutting


def statistics(files: Iterable[tuple[str, bytes]], chunkers: Iterable[Chunker]) -> pd.DataFrame:
    """One row a language and chunker, from (name, bytes) of files with a known suffix.

    `size_*` are in characters but white space, `lines_*` in lines; `fill` is the mean size over the limit (missing for
    fixed-size, which has none); shares are of chunks, functions and bytes.
    """
    by_language: dict[str, list[tuple[str, bytes]]] = {}
    for name, data in files:
        language = language_of(name)
        if language is not None:
            by_language.setdefault(language, []).append((name, data))
    chunkers = list(chunkers)
    rows = [
        _row(language, members, chunker)
        for language, members in sorted(by_language.items())
        for chunker in chunkers
    ]
    return pd.DataFrame(rows)


def _row(language: str, files: list[tuple[str, bytes]], chunker: Chunker) -> dict[str, object]:
    made = [chunker.chunk(data, name) for name, data in files]
    cuts = [
        functions_cut(d, language, m.chunks, chunker.max_size) for (_, d), m in zip(files, made, strict=True)
    ]
    functions, cut, fitting = (sum(c[i] for c in cuts) for i in range(3))
    sizes = np.array([c.size for m in made for c in m.chunks], float)
    lines = np.array([c.last - c.first + 1 for m in made for c in m.chunks], float)
    limit = chunker.lines if chunker.method == "fixed-size" else chunker.max_size
    names = {"language": language, "method": chunker.method, "mode": chunker.mode, "limit": limit}
    found = names | {
        "files": len(files),
        "chunks": len(sizes),
        "chunks_per_file": _share(len(sizes), len(files)),
    }
    found |= _spread("size", sizes) | _spread("lines", lines)
    found["fill"] = (
        np.nan if chunker.method == "fixed-size" else _share(sizes.sum(), len(sizes) * chunker.max_size)
    )
    found |= {"functions": functions, "functions_cut": cut, "functions_cut_that_fit": fitting}
    found["chunks_that_cut"] = _share(sum(len(c[3]) for c in cuts), len(sizes))
    return found | _losses(made)


def _spread(what: str, values: np.ndarray) -> dict[str, float]:
    names = ("mean", *(f"p{round(100 * q)}" for q in QUANTILES), "max")
    if not len(values):
        return {f"{what}_{n}": np.nan for n in names}
    figures = (values.mean(), *np.quantile(values, QUANTILES), values.max())
    return {f"{what}_{n}": float(v) for n, v in zip(names, figures, strict=True)}


def _losses(made: list[Chunked]) -> dict[str, object]:
    accounts = [m.account for m in made]
    total = sum(a.bytes_in for a in accounts)
    found: dict[str, object] = {"bytes": total, "bytes_lost": sum(a.bytes_lost for a in accounts)}
    found |= {f"lost: {reason}": sum(a.lost[reason] for a in accounts) for reason in REASONS}
    found["leaves_over"] = sum(a.leaves_over for a in accounts)
    parsed = [a.parse_errors for a in accounts if a.parse_errors is not None]
    return found | {"files_with_parse_errors": sum(map(bool, parsed)) if parsed else np.nan}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else np.nan
