"""Chunk statistics of files small enough to be counted by hand."""

from __future__ import annotations

import numpy as np

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.chunking.statistics import functions_cut, statistics

SHORT = b"def f():\n    return 1\n\n\ndef g():\n    return 2\n"  # 14 characters each
LONG = b"def h():\n    aaaaaaaaaa = 1\n    bbbbbbbbbb = 2\n    return 3\n"


def cut(data: bytes, limit: int, method: str = "cast", lines: int = 60):
    chunker = Chunker(method, max_size=limit, lines=lines)
    return functions_cut(data, "python", chunker.chunk(data, "a.py").chunks, limit)


def test_whole_functions_are_not_cut():
    assert cut(SHORT, 14) == (2, 0, 0, set())
    assert cut(SHORT, 100) == (2, 0, 0, set())


def test_a_function_over_the_limit_is_cut_and_one_that_fits_is_told_apart():
    assert cut(LONG, 31) == (1, 1, 0, {0, 1})
    assert cut(SHORT, 100, "fixed-size", lines=4) == (2, 0, 0, set())
    assert cut(SHORT, 100, "fixed-size", lines=5) == (2, 1, 1, {0, 1})


def test_one_row_a_language_and_chunker():
    java = b"class B { int f() { return 1; } }"
    files = [("a.py", SHORT), ("b.py", LONG), ("B.java", java), ("notes.txt", b"no")]
    chunkers = [
        Chunker(max_size=25),
        Chunker(mode="as-published", max_size=25),
        Chunker("fixed-size", lines=5),
    ]
    table = statistics(files, chunkers)
    assert list(table["language"]) == ["java"] * 3 + ["python"] * 3
    python = table[table["language"] == "python"].set_index(["method", "mode"])
    lossless = python.loc[("cast", "lossless")]
    assert [lossless[n] for n in ("files", "functions", "functions_cut", "bytes_lost")] == [2, 3, 1, 0]
    assert lossless["size_max"] <= 25 and 0 < lossless["fill"] <= 1
    assert lossless["bytes"] == len(SHORT) + len(LONG)
    assert python.loc[("cast", "as-published"), "bytes_lost"] > 0
    fixed = python.loc[("fixed-size", "lossless")]
    assert np.isnan(fixed["fill"]) and np.isnan(fixed["files_with_parse_errors"]) and fixed["limit"] == 5
