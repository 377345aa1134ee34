"""Table 8 (Section 6.4): what building and searching the graph takes, in the paper and as measured here.

Figures measured by a benchmark of tests/benchmarks are read from its JSON; without it they are a dash.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pkg_lib.analysis.tables import DASH, HERE
from pkg_lib.core.store import read_json

GRAPH, BM25 = Path("benchmarks", "graph.json"), Path("benchmarks", "bm25.json")
# step, the paper's steps, how bench_graph.py's figures are written
STEPS = (
    ("functions", ("Functions",), "{functions:,}"),
    ("nodes", ("Nodes (code PKG)",), "{nodes:,}"),
    ("edges", ("Relations (code PKG)",), "{edges:,}"),
    (
        "extraction, blocks, graph",
        ("Python Code Extraction", "Block Extraction", "Neo4j Graph Generation"),
        "{one[wall_s]:.1f} s (2 processes: {two[wall_s]:.1f} s)",
    ),
    ("functions/s", (), "{one[functions_per_s]:,.0f} (2 processes: {two[functions_per_s]:,.0f})"),
    ("time over ast.parse", (), "{ratio:.2f} (collector paused in both: {ratio_paused:.2f})"),
    ("encoding", ("Encoding",), "{encoding[texts_per_cpu_s]:.0f} texts/s"),
    ("storage", ("Storage Usage",), "{disk_mb:,.0f} MB"),
    ("storage without vectors", (), "{disk_mb_without_vectors:,.0f} MB"),
    ("load", (), "{load_s:.2f} s, {resident_mb:.0f} MB resident"),
    ("query", ("Query",), "exact {search[exact_ms]:.1f} ms, HNSW {hnsw[ms]:.2f} ms"),
    ("HNSW recall@1", (), "{hnsw[recall_at_1]:.3f} (efSearch 128)"),
    ("pruning a function", (), "{pruning[median_ms]:.1f} ms (99th percentile {pruning[p99_ms]:.1f})"),
)


def stored(results: Path, name: Path) -> dict[str, Any] | None:
    """A result file's JSON, None where it is not there; UserError where it is damaged."""
    return read_json(results / name) if (results / name).is_file() else None


def published() -> dict[tuple[str, str], str]:
    """(step, method) -> the paper's figure with its unit, counts without one."""
    with (HERE / "reference" / "pkg_table8_cost.csv").open() as f:
        rows = [(r["step"], r["method"], f"{float(r['value']):,.0f} {r['unit']}") for r in csv.DictReader(f)]
    return {(step, method): value.removesuffix(" count") for step, method, value in rows}


def table8_rows(measured: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(step, the paper's figure or "", the one measured here); what is not in `measured` is a dash."""
    paper, values = published(), dict(measured)
    if measured:
        values |= measured["build"] | {"hnsw": measured["search"]["hnsw"]["128"]}

    def here(template: str) -> str:
        try:
            return template.format_map(values)
        except KeyError:
            return DASH

    return [(step, " + ".join(paper[s, "PKG"] for s in steps), here(form)) for step, steps, form in STEPS]


def build_seconds(results: Path) -> dict[str, float]:
    """Seconds to build what PKG and Dense search, by step; absent where a part was not measured.

    Encoding is an estimate: texts over the measured texts per processor second. Dense encodes the documents,
    cut at the same number of word pieces. Search is exact, so no HNSW index is built.
    """
    measured = stored(results, GRAPH)
    if not measured:
        return {}
    graph = measured["build"]["one"]["wall_s"] + measured["build"]["one"]["save_s"]
    if "encoding" not in measured:
        return {"PKG: extraction, blocks, graph": graph}
    per_second = measured["encoding"]["texts_per_cpu_s"]
    encoding, rows = measured["payloads"] / per_second, measured["documents"] / per_second
    steps = {"PKG: extraction, blocks, graph": graph, "PKG: encoding": encoding, "PKG": graph + encoding}
    return steps | {"Dense": rows, "Dense: encoding": rows}


def function_index_seconds(results: Path) -> float | None:
    """Seconds to index the graph's functions by BM25, scaled by their number; None where not measured."""
    index, graph = stored(results, BM25), stored(results, GRAPH)
    return index["build_s"] / index["functions"] * graph["functions"] if index and graph else None
