"""Tables 1 to 9 of the DKB paper in shape, each with the published rows; a row says whose numbers it holds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import DASH, MINUS
from pkg_lib.graph.types.typegraph import MODES
from pkg_lib.papers.dkb import dkb
from pkg_lib.papers.dkb.dkb import BASE, LLM_KB, OURS, Study
from pkg_lib.papers.dkb.dkb_study import SAME_SIZE

PUBLISHED = "published"
NOT = f"{DASH} not measured, or no such number."


def grid(
    title: str, rows: Mapping[Any, Iterable[str]], columns: Sequence[str], index: str, *notes: str
) -> Grid:
    frame = pd.DataFrame.from_dict(
        {k: list(v) for k, v in rows.items()}, orient="index", columns=list(columns)
    )
    return Grid(title, frame.rename_axis(index), notes)


def number(value: float | None, digits: int = 2) -> str:
    """A number with so many digits, a dash for none."""
    missing = value is None or math.isnan(value)
    return DASH if missing else f"{value:,.{digits}f}".replace("-", MINUS)


def count(value: float | None) -> str:
    return number(value, 0)


def table1(found: Study, indexes: Sequence[dict[str, Any] | None]) -> Grid:
    """Indexing time in seconds: reading, splitting and embedding (DB), the graph, both."""
    rows = {}
    for index in filter(None, indexes):
        name, here = index["repository"], index["repository"] == found.name
        embedding = found.opened.ranked.get("embedding_seconds") if here else None
        db = None if embedding is None else index["seconds"]["read"] + index["seconds"]["split"] + embedding
        graph = index["graphs"]["resolved"]["seconds"]["total"]
        asked = found.extracted.seconds if here and found.extracted else None
        rows[f"{name}, {BASE}"] = _times(db, 0.0)
        rows[f"{name}, {OURS}"] = _times(db, graph)
        rows[f"{name}, {LLM_KB}"] = _times(None, asked)
    for r in dkb.reference("table1_indexing").itertuples():
        rows[f"{PUBLISHED}: {r.repository}, {r.approach}"] = _times(r.db_time_s, r.graph_time_s)
    notes = [NOT, *(_about(i) for i in filter(None, indexes))]
    if found.extracted:
        notes.append(
            f"LLM-KB's graph: {found.model}, {len(found.extracted.answers)} batches answered together on two cores."
        )
    return grid(
        "Table 1: indexing time",
        rows,
        ["DB time (s)", "graph time (s)", "total (s)"],
        "repository, approach",
        *notes,
    )


def _times(db: float | None, graph: float | None) -> list[str]:
    total = None if db is None or graph is None else db + graph
    return [number(db), number(graph), number(total)]


def _about(index: Mapping[str, Any]) -> str:
    return (
        f"{index['repository']}: {index['files']:,} files, {index['characters'] / 1e6:,.2f} million characters, "
        f"{index['processes']} processes on {index['processors']} processors, load {index['load_before']} before."
    )


def table2(found: Study) -> Grid:
    """Seconds of a query: embedding the question, search and assembly, without the model that answers."""
    rows = {}
    for pipeline, seconds in found.opened.ranked.get("query_seconds", {}).items():
        made = found.answers.get(pipeline)
        per = sum(g.meta["seconds"] for g in made.values()) / len(made) if made else None
        rows[f"{found.name}, {pipeline}, retrieval only"] = [
            *_spread(list(seconds.values()), 4),
            number(per, 1),
        ]
    for r in dkb.reference("table2_latency").itertuples():
        spread = [f"{r.mean_s:.2f} ± {r.std_s:.2f}", number(r.median_s), f"{r.min_s:.2f}–{r.max_s:.2f}"]
        rows[f"{PUBLISHED}: {r.repository}, {r.approach}, with the model"] = [*spread, DASH]
    columns = ["mean ± sd (s)", "median (s)", "min–max (s)", "model, mean (s)"]
    note = "The model's answers were written together, so it has a mean and no spread. Each query: median of 5 runs."
    return grid("Table 2: latency of a query", rows, columns, "repository, approach", note, NOT)


def _spread(values: list[float], digits: int) -> list[str]:
    sd = statistics.stdev(values) if len(values) > 1 else math.nan
    mean = f"{number(statistics.mean(values), digits)} ± {number(sd, digits)}"
    return [
        mean,
        number(statistics.median(values), digits),
        f"{number(min(values), digits)}–{number(max(values), digits)}",
    ]


def table34(found: Study) -> Grid:
    """Cost of indexing and answering all questions, in dollars and against No-Graph (Tables 3 and 4)."""
    price, counts = dkb.prices(), dkb.tokens(found)
    base = dkb.dollars(counts[BASE], price)
    rows = {}
    for pipeline, row in counts.items():
        cost = dkb.dollars(row, price)
        cells = [count(n) for n in row.values()]
        rows[f"{found.name}, {pipeline}"] = [
            *cells,
            number(cost, 4),
            number(cost / base if cost and base else None),
        ]
    for r in dkb.reference("table3_4_cost").itertuples():
        rows[f"{PUBLISHED}: {r.workload}, {r.approach}"] = [
            *[DASH] * 5,
            number(r.usd, 3),
            number(r.normalized),
        ]
    columns = ["embedded", "extraction in", "out", "questions in", "out ", "dollars", "against No-Graph"]
    shown = ", ".join(f"{item} {value * 1e6:g}" for item, value in price.items())
    note = f"Tokens, and dollars by example prices for a million ({shown}): reference/dkb_prices.csv. Here no token was paid for."
    return grid("Tables 3 and 4: cost", rows, columns, "workload, approach", note, NOT)


def table567(found: Study, indexes: Sequence[dict[str, Any] | None]) -> Grid:
    """Coverage of files, chunks and nodes (Tables 5 to 7). DKB embeds all chunks here, its coupled variant files with nodes."""
    rows = {}
    for index in filter(None, indexes):
        rows |= _coverage(index)
        if index["repository"] == found.name:
            rows[f"{found.name}, {LLM_KB}"] = _llm_coverage(found)
        else:
            rows[f"{index['repository']}, {LLM_KB}"] = [count(index["files"]), *[DASH] * 7]
    for r in dkb.reference("table5_6_7_coverage").itertuples():
        cells = [count(r.java_files), count(r.files_skipped), number(r.file_success_rate, 3), count(r.chunks)]
        rows[f"{PUBLISHED}: {r.repository}, {r.approach}"] = [
            *cells,
            number(r.chunk_coverage, 3),
            count(r.nodes),
            count(r.edges),
            DASH,
        ]
    columns = [
        "files",
        "skipped",
        "file success",
        "chunks",
        "chunk coverage",
        "nodes",
        "edges",
        "node coverage",
    ]
    note = "Coupled: only chunks of files that give a node its path are embedded, as in the paper's scripts (Observation 4)."
    return grid(
        "Tables 5 to 7: coverage", rows, columns, "repository, approach", note, _node_note(found), NOT
    )


def _coverage(index: Mapping[str, Any]) -> dict[str, list[str]]:
    name, chunks = index["repository"], index["chunks"]
    rows = {f"{name}, {BASE}": [count(index["files"]), DASH, DASH, count(chunks), "1.000", DASH, DASH, DASH]}
    for mode, label in zip(MODES, ("DKB", "DKB as published"), strict=True):
        g = index["graphs"][mode]
        nodes, edges = sum(g["nodes"].values()), sum(g["edges"].values())
        of_nodes = (
            "1.000"
            if mode == MODES[0]
            else number(nodes / sum(index["graphs"][MODES[0]]["nodes"].values()), 3)
        )
        held, skipped = g["chunks_of_files_with_a_node"], count(sum(g["skipped"].values()))
        shown = [count(nodes), count(edges), of_nodes]
        if mode == MODES[0]:
            rows[f"{name}, {label}"] = [count(index["files"]), skipped, DASH, count(chunks), "1.000", *shown]
        rows[f"{name}, {label}, coupled"] = [
            count(index["files"]),
            skipped,
            DASH,
            count(held),
            number(held / chunks if chunks else None, 3),
            *shown,
        ]
    return rows


def _llm_coverage(found: Study) -> list[str]:
    if not found.extracted or not found.llm_graph:
        return [count(len(found.opened.texts)), *[DASH] * 7]
    share = dkb.coverage(found)[LLM_KB]
    nodes, whole = len(found.llm_graph.nodes), len(found.graph.nodes)
    e = found.extracted
    cells = [
        count(len(e.files)),
        count(len(e.skipped)),
        number(e.success_rate, 3),
        count((share or 0) * len(found.opened.chunks)),
    ]
    return [
        *cells,
        number(share, 3),
        count(nodes),
        count(len(found.llm_graph.edges)),
        number(nodes / whole, 3),
    ]


def _node_note(found: Study) -> str:
    nested = sum(found.judge.outermost(n) != n for n in found.graph.nodes)
    return (
        f"Node coverage: against DKB's nodes. {nested} of {len(found.graph.nodes)} nodes of {found.name} are nested types, which "
        "LLM-KB's prompt (one class a file) does not ask for."
    )


def graph_table(indexes: Sequence[dict[str, Any] | None]) -> Grid:
    """What the two modes of the graph hold, and what the listing's simple names cost."""
    rows = {}
    for index in filter(None, indexes):
        for mode in MODES:
            g = index["graphs"][mode]
            kinds = [
                count(g["nodes"].get(k, 0)) for k in ("class", "interface", "enum", "record", "annotation")
            ]
            edges = [count(g["edges"].get(k, 0)) for k in ("injects", "extends", "implements")]
            # A counter without an entry counted none; names are resolved in the first mode only.
            names = [
                count(g["references"].get(k, 0)) if mode == MODES[0] else DASH
                for k in ("external", "ambiguous")
            ]
            rows[f"{index['repository']}, {mode}"] = [
                *kinds,
                *edges,
                *names,
                count(g["cycles"]),
                number(g["seconds"]["total"]),
            ]
    columns = [
        "class",
        "interface",
        "enum",
        "record",
        "annotation",
        "injects",
        "extends",
        "implements",
        "external names",
        "ambiguous",
        "cycles",
        "seconds",
    ]
    notes = (
        "As published: simple names, so types of one name are one node, with the edges of the last file. A cycle of inheritance "
        "is impossible in Java; those of the published mode come from types that extend another package's type of the same name.",
        "External: written type names that mean no type of the repository. Simple names, as published, are not resolved. "
        + NOT,
    )
    return grid("The type graphs", rows, columns, "repository, mode", *notes)


def table89(found: Study) -> Grid:
    """Answers by rule, beside the published labels of a person (Tables 8 and 9)."""
    rows, said = {}, dkb.named(found)
    for pipeline in (BASE, *{SAME_SIZE} & set(found.answers), OURS, LLM_KB):
        part = said[said["pipeline"] == pipeline]
        if part.empty:
            rows[f"{found.name}, {pipeline}, by rule"] = [DASH] * 5
            continue
        invented = sum(map(len, part["invented"]))
        rows[f"{found.name}, {pipeline}, by rule"] = [
            *map(str, dkb.labels(part["share"])),
            number(part["share"].mean(), 3),
            str(invented),
        ]
    for r in dkb.reference("table8_9_correctness").itertuples():
        rows[f"{PUBLISHED}: {r.repository}, {r.approach}, by a person"] = [
            str(r.correct),
            str(r.partial),
            str(r.incorrect),
            DASH,
            DASH,
        ]
    columns = [
        "correct / all named",
        "partial / some",
        "incorrect / none",
        "mean share named",
        "invented names",
    ]
    note = (
        "Ours is a rule: an answer names all, some or none of the types that the question needs. It is no judgement of "
        f"correctness; nobody has judged these answers. {found.model}, greedy, at most 256 tokens. Invented: names like a type's "
        "that stand nowhere in the repository."
    )
    return grid("Tables 8 and 9: answers", rows, columns, "repository, approach", note, NOT)
