"""What build_graphs shows as text: the graphs that were built, their ledger, Table 8, the runs of models, code search.

What another run left in results/ is read from its JSON files; where a file is missing, its numbers are "not measured".
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import DASH, HERE, percent, probability
from pkg_lib.core.store import read_json, versions
from pkg_lib.papers.pkg.graph_building import Built, edge_counts, node_counts

GRAPH, SEARCH = Path("benchmarks", "graph.json"), Path("benchmarks", "code_search.json")
MISSING = f"{DASH} not measured"
METRICS = {"mrr_at_10": "MRR@10", "recall_at_1": "recall@1", "recall_at_5": "recall@5"}


def stored(results: Path, name: Path) -> dict[str, Any] | None:
    """A result file's JSON, None where it is not there; UserError where it is damaged."""
    return read_json(results / name) if (results / name).is_file() else None


def _grid(title: str, rows: Mapping[str, Iterable[str]], columns: list[str], index: str, *notes: str) -> Grid:
    frame = pd.DataFrame.from_dict({k: list(v) for k, v in rows.items()}, orient="index", columns=columns)
    return Grid(title, frame.rename_axis(index), notes)


def sizes(built: list[Built]) -> Grid:
    """Documents, nodes and edges by type, and distinct payloads of each graph."""
    columns = {}
    for b in built:
        nodes, edges = node_counts(b.graph), edge_counts(b.graph)
        counts = {"documents": len(b.documents)} | {f"{t} nodes": n for t, n in nodes.items()}
        counts |= {"nodes": sum(nodes.values())} | {f"{t} edges": n for t, n in edges.items()}
        columns[b.corpus] = counts | {"edges": sum(edges.values()), "distinct payloads": len(b.graph.texts)}
    order = (
        "documents",
        *_of("nodes", columns),
        "nodes",
        *_of("edges", columns),
        "edges",
        "distinct payloads",
    )
    rows = {name: [_count(c.get(name)) for c in columns.values()] for name in order}
    note = f"{DASH} the other kind of graph has these. Nodes with the same text share one payload and one embedding."
    return _grid("What was built", rows, list(columns), "count", note)


def _of(word: str, columns: Mapping[str, Mapping[str, int]]) -> list[str]:
    return list(dict.fromkeys(n for counts in columns.values() for n in counts if n.endswith(f" {word}")))


def _count(n: int | None) -> str:
    return DASH if n is None else f"{n:,}"


def ledger_grid(built: list[Built]) -> Grid:
    """What went in equals what came out plus what was skipped: functions of code, documents of text."""
    rows = {b.corpus: _account(b) for b in built}
    columns = ["unit", "in the corpus", "in the graph", "skipped", "lost", "texts that differ"]
    notes = (
        "Functions are counted a second time by another walk over the syntax trees; of source without a tree, lines that start "
        "with def. Texts: every IMPL and BLOCK against its lines of the source. Nothing may be lost, and no text may differ.",
        f"{DASH} a JSON tree has no lines to be compared with.",
    )
    return _grid("Conservation ledger", rows, columns, "corpus", *notes)


def _account(b: Built) -> list[str]:
    if b.ledger:
        counts = b.ledger.functions, b.ledger.implementations, b.ledger.lost.total()
        unit, differ = "functions", f"{len(b.ledger.wrong):,}"
    else:
        trees = len(set(b.graph.document.tolist()))
        unit, counts, differ = "documents", (len(b.documents), trees, len(b.graph.skipped)), DASH
    return [unit, *map(_count, counts), _count(counts[0] - counts[1] - counts[2]), differ]


def skipped_grid(built: list[Built]) -> Grid:
    """How many documents (or sources in them) gave no nodes, by reason."""
    rows = {f"{b.corpus}: {why}": [f"{n:,}"] for b in built for why, n in b.skipped.items()}
    return _grid("Skipped by reason", rows or {"nothing": ["0"]}, ["documents"], "reason")


def _published() -> dict[tuple[str, str], str]:
    """(step, method) -> the paper's figure with its unit, counts without one."""
    with (HERE / "reference" / "pkg_table8_cost.csv").open() as f:
        rows = [(r["step"], r["method"], f"{float(r['value']):,.0f} {r['unit']}") for r in csv.DictReader(f)]
    return {(step, method): value.removesuffix(" count") for step, method, value in rows}


def table8_rows(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(step, the paper's figure, the one measured here) from the figures of tests/benchmarks/bench_graph.py.

    An empty mapping gives dashes: not measured.
    """
    paper = _published()
    steps = [
        paper[s, "PKG"] for s in ("Python Code Extraction", "Block Extraction", "Neo4j Graph Generation")
    ]
    here = _measured(found) if found else {}
    rows = [
        ("functions", paper["Functions", "PKG"]),
        ("nodes", paper["Nodes (code PKG)", "PKG"]),
        ("edges", paper["Relations (code PKG)", "PKG"]),
        ("extraction, blocks, graph", " + ".join(steps)),
        ("functions/s", ""),
        ("time over ast.parse", ""),
        ("encoding", paper["Encoding", "PKG"]),
        ("storage", paper["Storage Usage", "PKG"]),
        ("storage without vectors", ""),
        ("load", ""),
        ("query", paper["Query", "PKG"]),
        ("HNSW recall@1", ""),
        ("pruning a function", ""),
    ]
    return [(step, theirs, here.get(step, DASH)) for step, theirs in rows]


def _measured(found: Mapping[str, Any]) -> dict[str, str]:
    built, search, pruned = found["build"], found["search"], found["pruning"]
    one, two, hnsw = built["one"], built["two"], search["hnsw"]["128"]
    return {
        "functions": f"{found['functions']:,}",
        "nodes": f"{found['nodes']:,}",
        "edges": f"{found['edges']:,}",
        "extraction, blocks, graph": f"{one['wall_s']:.1f} s (2 processes: {two['wall_s']:.1f} s)",
        "functions/s": f"{one['functions_per_s']:,.0f} (2 processes: {two['functions_per_s']:,.0f})",
        "time over ast.parse": f"{built['ratio']:.2f} (collector paused in both: {built['ratio_paused']:.2f})",
        "encoding": f"{found['encoding']['texts_per_cpu_s']:.0f} texts/s"
        if "encoding" in found
        else "not measured",
        "storage": f"{found['disk_mb']:,.0f} MB",
        "storage without vectors": f"{found['disk_mb_without_vectors']:,.0f} MB",
        "load": f"{found['load_s']:.2f} s, {found['resident_mb']:.0f} MB resident",
        "query": f"exact {search['exact_ms']:.1f} ms, HNSW {hnsw['ms']:.2f} ms",
        "HNSW recall@1": f"{hnsw['recall_at_1']:.3f} (efSearch 128)",
        "pruning a function": f"{pruned['median_ms']:.1f} ms (99th percentile {pruned['p99_ms']:.1f})",
    }


def table8(results: Path, text: Built) -> Grid:
    """Table 8's rows: the paper's PKG, and here, on installed source of the same size; the text graph is the one built above."""
    found = stored(results, GRAPH) or {}
    rows = {step: [theirs or DASH, here] for step, theirs, here in table8_rows(found)}
    leaves, edges = node_counts(text.graph).get("PATHVALUE"), edge_counts(text.graph).get("JSON_CHILD")
    rows |= {
        f"path-value nodes, {text.corpus}": [
            _published()["Path-value nodes (text PKG)", "PKG"],
            _count(leaves),
        ]
    }
    rows |= {f"JSON_CHILD edges, {text.corpus}": [_published()["Relations (text PKG)", "PKG"], _count(edges)]}
    notes = [MISSING + ", or no such row in the paper."]
    if found:
        vectors = f"vectors: {found['vectors']}"
        cores = f"{found['processors']} processors, load {found['load_before']:.1f} before it started"
        notes.append(f"Here: {found['documents']:,} files of installed source; {vectors}; {cores}.")
    return _grid("Table 8: what the graph costs", rows, ["published (PKG)", "here"], "step", *notes)


def index_grid(results: Path) -> Grid:
    """The exact index and HNSW by its search beam: time of one query and share of the exact answers."""
    found = (stored(results, GRAPH) or {}).get("search")
    rows = {"exact (flat)": [DASH] * 3}
    if found:
        rows = {"exact (flat)": [_count(found["exact_rows"]), f"{found['exact_ms']:.2f}", "1.000"]}
        for beam in sorted(found["hnsw"], key=int):
            f = found["hnsw"][beam]
            rows[f"HNSW, efSearch {beam}"] = [
                _count(found["hnsw_rows"]),
                f"{f['ms']:.2f}",
                f"{f['recall_at_1']:.3f}",
            ]
    note = "HNSW holds distinct payloads only, since it links equal vectors badly."
    return _grid("The index", rows, ["vectors", "ms a query", "recall@1"], "index", note, f"{MISSING}.")


def enhanced_runs(results: Path) -> Grid:
    """The docstring runs: one row a log of results/enhanced."""
    logs = [read_json(p) for p in sorted(results.glob("enhanced/*/*.log.json"))]
    rows = {f"{log['model']}, {log['corpus']}": _enhanced(log) for log in logs}
    columns = [
        "functions",
        "without docstring",
        "asked",
        "accepted",
        "rejected",
        "rejected by reason",
        "tokens",
    ]
    return _runs("Docstrings by fill-in-the-middle", rows, columns, logs)


def _enhanced(log: Mapping[str, Any]) -> list[str]:
    counts = [
        log["functions"],
        log["without_docstring"],
        log["asked"],
        log["accepted"],
        sum(log["rejected"].values()),
    ]
    return [*map(_count, counts), _by_reason(log["rejected"]), _count(log["tokens"])]


def changes(results: Path) -> Grid:
    """What the docstrings change in Func-PKG's retrieval: one row a file of results/enhanced."""
    logs = [read_json(p) for p in sorted(results.glob("enhanced/*/*.change.json"))]
    names = ("tasks", "docstrings", "top1_changed", "top1_enhanced", "defines_before", "defines_after")
    rows = {f"{log['model']}, {log['corpus']}, {log['benchmark']}": _change(log, names) for log in logs}
    columns = [
        "tasks",
        "docstrings",
        "other function first",
        "first has a new docstring",
        "defines the task's function, before",
        "after",
        "rise of the best cosine",
    ]
    return _runs("What the docstrings change in Func-PKG's retrieval", rows, columns, [])


def _change(log: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [*(_count(log[n]) for n in names), f"{log['mean_cosine_rise']:.4f}"]


def structured_runs(results: Path) -> Grid:
    """The structuring runs: one row a log of results/structured."""
    logs = [read_json(p) for p in sorted(results.glob("structured/*/*.log.json"))]
    rows = {
        ", ".join(filter(None, (log["structurer"], log.get("model"), log["corpus"]))): _structured(log)
        for log in logs
    }
    columns = [
        "documents",
        "valid at once, %",
        "retries",
        "structured",
        "rejected",
        "rejected by reason",
        "words kept, %",
        "words added, %",
        "code kept, %",
    ]
    note = "Kept and added: against the headings structurer on the documents that have JSON."
    return _runs("Documents as JSON", rows, columns, logs, note)


def _structured(log: Mapping[str, Any]) -> list[str]:
    kept, rejected = log.get("kept_of_headings", {}), log["rejected_by_reason"]
    shares = [percent(kept.get(name)) for name in ("words", "words_added", "code_examples")]
    counts = [_count(log["structured"]), _count(sum(rejected.values())), _by_reason(rejected)]
    return [
        _count(log["documents"]),
        percent(log.get("validity_rate")),
        _count(log.get("retries")),
        *counts,
        *shares,
    ]


def _by_reason(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{why} {n}" for why, n in sorted(rejected.items(), key=lambda r: (-r[1], r[0]))) or DASH


def _runs(
    title: str, rows: Mapping[str, list[str]], columns: list[str], logs: list[dict[str, Any]], *notes: str
) -> Grid:
    known = dict.fromkeys(f"{log['model']} is {log['revision']}" for log in logs if log.get("model"))
    about = [f"Revisions: {'; '.join(known)}."] if known else []
    return _grid(
        title, rows or {"no run yet": [DASH] * len(columns)}, columns, "run", *notes, *about, f"{MISSING}."
    )


def search_grid(results: Path) -> Grid:
    """MBPP code search here and elsewhere."""
    found, elsewhere = (
        stored(results, SEARCH),
        pd.read_csv(HERE / "reference" / "code_search_elsewhere.csv", index_col="method"),
    )
    methods = found["methods"] if found else {m: {} for m in elsewhere.index}
    methods = {
        m: methods[m] for m in sorted(methods, key=lambda m: (m not in elsewhere.index, m == "BM25", m))
    }
    columns = [
        *METRICS.values(),
        *(f"elsewhere: {m}" for m in METRICS.values()),
        "better",
        "worse",
        "p of first places",
    ]
    rows = {
        m: [*_figures(f), *_figures(elsewhere.loc[m] if m in elsewhere.index else {}), *_paired(found, m)]
        for m, f in methods.items()
    }
    notes = [
        f"{MISSING}. Better and worse: tasks ranked so against MiniLM; p: McNemar's exact test. Elsewhere: the best BM25."
    ]
    if found:
        c = found["configuration"]
        notes.append(
            f"{c['tasks']} tasks, the task text alone as query, {c['distractors']:,} distractor functions; "
            f"{c['embedder']}; BM25's weight in the score fusion {c['bm25_weight']}, constant of the ranks {c['rrf_constant']}."
        )
    return _grid("Code search: MBPP text to reference solution", rows, columns, "method", *notes)


def variation_grid(results: Path) -> Grid:
    """The same queries among other candidates: how far a figure depends on the set."""
    found = stored(results, SEARCH) or {"variations": {}, "methods": {}}
    sets = {"as above": found["methods"]} | found["variations"]
    names = [(method, metric) for method in ("MiniLM", "BM25") for metric in METRICS]
    rows = {s: [f"{m[a][b]:.3f}" if a in m else DASH for a, b in names] for s, m in sets.items()}
    columns = [f"{method} {METRICS[metric]}" for method, metric in names]
    return _grid("Code search among other candidates", rows, columns, "candidates", f"{MISSING}.")


def _figures(found: Mapping[str, float]) -> list[str]:
    return [DASH if pd.isna(found.get(m)) else f"{found[m]:.3f}" for m in METRICS]


def _paired(found: Mapping[str, Any] | None, method: str) -> list[str]:
    pair = found["paired"].get(method) if found else None
    return [str(pair["better"]), str(pair["worse"]), probability(pair["p_first"])] if pair else [DASH] * 3


def findings(built: list[Built], results: Path) -> list[str]:
    """What was built and what the stored runs say, one sentence each."""
    said = []
    for b in built:
        nodes, edges = sum(node_counts(b.graph).values()), sum(edge_counts(b.graph).values())
        account = _account(b)
        kept = f"{account[2]} of {account[1]} {account[0]} are in the graph, {account[3]} are skipped by name, {account[4]} lost"
        said.append(f"{b.corpus}: {nodes:,} nodes and {edges:,} edges; {kept}.")
    graph, search = stored(results, GRAPH), stored(results, SEARCH)
    if graph:
        size = f"{graph['functions']:,} functions give {graph['nodes']:,} nodes"
        said.append(
            f"At the paper's scale {size}, built and saved in {graph['build']['one']['wall_s']:.0f} s by one process."
        )
    if search:
        said.append(_search_finding(search))
    return said


def _search_finding(found: Mapping[str, Any]) -> str:
    by = {m: f["mrr_at_10"] for m, f in found["methods"].items()}
    fused = [m for m in by if "fusion" in m]
    worse = [m for m in fused if by[m] < by["MiniLM"]]
    verdict = (
        "every fusion is worse than MiniLM alone"
        if worse == fused
        else "a fusion is as good as MiniLM alone or better"
    )
    moved = [f"{m} {f[m]['mrr_at_10']:.3f} {name}" for name, f in found["variations"].items() for m in f]
    said = f"Code search, MRR@10: {', '.join(f'{m} {v:.3f}' for m, v in by.items())}; {verdict}."
    return f"{said} Among other candidates: {'; '.join(moved)}."


def provenance(built: list[Built], results: Path) -> dict[str, Any]:
    """What the graphs were built from, and the configurations of the stored runs; without this checkout's commit."""
    files = {name.stem: stored(results, name) for name in (GRAPH, SEARCH)}
    here = {name: version for name, version in versions().items() if name != "commit"}
    kept = {n: {k: f[k] for k in ("configuration", "versions")} for n, f in files.items() if f}
    return {
        "corpora": {b.corpus: b.graph.meta["corpus_digest"] for b in built},
        "versions": here,
        "stored": kept,
    }
