"""Compare the speed of pkg_lib's BM25 (bm25s) with rank_bm25 on installed functions.

    python tests/benchmarks/bench_bm25.py [functions, default 50000] [queries, default 200]

Queries are first lines of docstrings. Both libraries index the same tokens.
"""

from __future__ import annotations

import ast
import json
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.clock import timed
from pkg_lib.graph.code import functions_of
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.words import unicode_tokens

SHORTEST_QUERY = 5  # tokens
RATIO_GOAL = 100
SAME_TOP1_GOAL = 0.70


def installed_files() -> Iterator[Path]:
    """Yield the source files of the standard library, then those of installed packages, sorted."""
    for root in ("stdlib", "purelib"):
        folder = Path(sysconfig.get_paths()[root])
        yield from sorted(folder.rglob("*.py"))


def installed_functions(count: int) -> list[str]:
    """Return the source of `count` distinct functions of installed files."""
    sources: dict[str, None] = {}
    for path in installed_files():
        try:
            source = path.read_text("utf8")
            functions = functions_of(source)
        except (SyntaxError, ValueError, RecursionError, OSError):
            continue
        lines = source.split("\n")
        for function in functions:
            text = "\n".join(lines[function.first - 1 : function.last])
            sources[text] = None
        if len(sources) >= count:
            break
    return list(sources)[:count]


def docstring_line(function: str) -> str:
    """Return the first line of a function's docstring; "" if it has none."""
    try:
        body = ast.parse(textwrap.dedent(function)).body[0]
        docstring = ast.get_docstring(body) or ""
    except (SyntaxError, ValueError, TypeError, IndexError):
        return ""
    return docstring.split("\n")[0]


def queries_from(functions: list[str], count: int) -> list[str]:
    """Choose distinct docstring lines at random as queries.

    Args:
        functions: Sources of functions.
        count: Number of queries.

    Returns:
        At most `count` lines of at least five tokens.
    """
    lines: dict[str, None] = {}
    for position in np.random.default_rng(0).permutation(len(functions)):
        if len(lines) >= count:
            break
        line = docstring_line(functions[position])
        if len(unicode_tokens(line)) >= SHORTEST_QUERY:
            lines[line] = None
    return list(lines)


def measure(
    functions: int = 50_000,
    queries: int = 200,
) -> dict[str, float | int]:
    """Measure both libraries by the processor time of one thread.

    The time of a query includes splitting its text into tokens.

    Args:
        functions: Number of functions to index.
        queries: Number of queries.

    Returns:
        `ratio` is the time of rank_bm25 per query divided by the time of pkg_lib. `same_top1` is the share of
        queries for which pkg_lib's first result has the best score of rank_bm25. Equal best scores count as
        the same result, because functions with equal tokens have no order.
    """
    texts = installed_functions(functions)
    asked = queries_from(texts, queries)

    _, build_s, ours = timed(lambda: BM25(texts))
    ours.search(asked[:2])  # warm-up
    _, ours_s, first = timed(lambda: [ours.search([query])[0] for query in asked])

    peer = BM25Okapi([unicode_tokens(text) or ["\0"] for text in texts])
    _, peer_s, peer_scores = timed(
        lambda: [peer.get_scores(unicode_tokens(query)) for query in asked]
    )

    positions = np.concatenate(first)[:, 0]
    same = 0
    for scores, position in zip(peer_scores, positions, strict=True):
        same += scores[position] >= scores.max() - 1e-9
    return {
        "functions": len(texts),
        "queries": len(asked),
        "build_s": round(build_s, 2),
        "ours_ms_per_query": round(1e3 * ours_s / len(asked), 3),
        "rank_bm25_ms_per_query": round(1e3 * peer_s / len(asked), 3),
        "ratio": round(peer_s / ours_s, 1),
        "same_top1": round(float(same / len(asked)), 3),
    }


def main() -> int:
    """Run the benchmark from the command line.

    Returns:
        The exit status: 0 if speed and agreement meet the goals, else 1.
    """
    numbers = [int(word) for word in sys.argv[1:]]
    report = measure(*numbers)
    print(json.dumps(report, indent=1))
    fast = report["ratio"] >= RATIO_GOAL
    same = report["same_top1"] >= SAME_TOP1_GOAL
    return 0 if fast and same else 1


if __name__ == "__main__":
    sys.exit(main())
