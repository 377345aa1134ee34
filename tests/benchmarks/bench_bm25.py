"""bm25s (pkg_lib's BM25) against rank_bm25 on the same tokens of installed functions, by docstring lines.

python tests/benchmarks/bench_bm25.py [functions, by default 50000] [queries, 200]
"""

from __future__ import annotations

import ast
import json
import sys
import sysconfig
import textwrap
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from benchmarks.clock import timed
from pkg_lib.graph.code import functions_of
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.words import unicode_tokens


def installed_functions(count: int) -> list[str]:
    """Sources of `count` different functions, files in sorted order."""
    sources: dict[str, None] = {}
    paths = sysconfig.get_paths()
    for path in (
        p for root in ("stdlib", "purelib") for p in sorted(Path(paths[root]).rglob("*.py"))
    ):
        try:
            source = path.read_text("utf8")
            functions = functions_of(source)
        except (SyntaxError, ValueError, RecursionError, OSError):
            continue
        lines = source.split("\n")
        sources |= dict.fromkeys("\n".join(lines[f.first - 1 : f.last]) for f in functions)
        if len(sources) >= count:
            break
    return list(sources)[:count]


def docstring_line(function: str) -> str:
    """First line of a function's docstring, "" where there is none."""
    try:
        body = ast.parse(textwrap.dedent(function)).body[0]
        return (ast.get_docstring(body) or "").split("\n")[0]
    except (SyntaxError, ValueError, TypeError, IndexError):
        return ""


def queries_from(functions: list[str], count: int) -> list[str]:
    """`count` different docstring lines of at least five tokens, from all over the list."""
    lines: dict[str, None] = {}
    for i in np.random.default_rng(0).permutation(len(functions)):
        line = docstring_line(functions[i])
        lines |= {line: None} if len(unicode_tokens(line)) >= 5 and len(lines) < count else {}
    return list(lines)


def measure(functions: int = 50_000, queries: int = 200) -> dict[str, float | int]:
    """`ratio` is rank_bm25's CPU seconds per query over ours (from text, one thread), `same_top1` a share.

    Equal best scores count as the same: twins have no order.
    """
    texts = installed_functions(functions)
    asked = queries_from(texts, queries)
    _, built, ours = timed(lambda: BM25(texts))
    ours.search(asked[:2])
    _, fast, best = timed(lambda: [ours.search([q])[0] for q in asked])
    peer = BM25Okapi([unicode_tokens(t) or ["\0"] for t in texts])
    _, slow, scores = timed(lambda: [peer.get_scores(unicode_tokens(q)) for q in asked])
    positions = np.concatenate(best)[:, 0]
    same = np.mean([s[p] >= s.max() - 1e-9 for s, p in zip(scores, positions, strict=True)])
    return {
        "functions": len(texts),
        "queries": len(asked),
        "build_s": round(built, 2),
        "ours_ms_per_query": round(1e3 * fast / len(asked), 3),
        "rank_bm25_ms_per_query": round(1e3 * slow / len(asked), 3),
        "ratio": round(slow / fast, 1),
        "same_top1": round(float(same), 3),
    }


if __name__ == "__main__":
    report = measure(*map(int, sys.argv[1:]))
    print(json.dumps(report, indent=1))
    sys.exit(0 if report["ratio"] >= 100 and report["same_top1"] >= 0.70 else 1)
