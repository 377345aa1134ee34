"""The type graphs and what they cost: time (Tables 1 and 2), tokens (3 and 4), and coverage (5 to 7)."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH
from pkg_lib.core.types import Generation
from pkg_lib.papers.dkb.llm_kb import TRUNCATED_AT, Extraction
from pkg_lib.papers.dkb.measurement import outermost
from pkg_lib.papers.dkb.number_tables import (
    NAN,
    PAPER_REPOSITORIES,
    UNKNOWN,
    Index,
    Rows,
    number_cell,
    number_table,
    published_rows,
)
from pkg_lib.papers.dkb.repository_study import RepositoryStudy
from pkg_lib.papers.dkb.settings import BASE, LLM_KB, OURS

RESOLVED = "resolved"
AS_PUBLISHED = "as-published"
KINDS = ["class", "interface", "enum", "record", "annotation"]
LABELS = ["injects", "extends", "implements"]


# The graphs


def graphs_table(indexes: Sequence[Index]) -> ResultTable:
    """Tabulate the type graphs by mode: nodes and edges by type, and seconds.

    Args:
        indexes: The measured graphs.

    Returns:
        The table, one row per repository and mode.
    """
    rows = {}
    for index in indexes:
        for mode in (RESOLVED, AS_PUBLISHED):
            rows[f"{index['repository']}, {mode}"] = _graph_cells(index["graphs"][mode], mode)
    columns = [*KINDS, *LABELS, "external names", "ambiguous", "cycles", "seconds"]
    notes = (
        "As published: simple names, so types of one name are one node, with the edges of "
        "the last file in the order of a walk. "
        "A cycle of inheritance is impossible in Java, and none arises here.",
        "External: written type names that mean no type of the repository. Simple names, "
        f"as published, are not resolved. {UNKNOWN}",
    )
    digits = "0" * 11 + "2"
    return number_table("The type graphs", "repository, mode", columns, digits, rows, *notes)


def _graph_cells(graph: Index, mode: str) -> list[Any]:
    nodes = [graph["nodes"].get(kind, 0) for kind in KINDS]
    edges = [graph["edges"].get(label, 0) for label in LABELS]
    # Simple names are not resolved, so nothing is known of them.
    names = [NAN, NAN]
    if mode == RESOLVED:
        names = [graph["references"].get(name, 0) for name in ("external", "ambiguous")]
    return [*nodes, *edges, *names, graph["cycles"], graph["seconds"]["total"]]


def published_graphs_table(indexes: Sequence[Index]) -> ResultTable:
    """Tabulate the graphs of the paper's own repositories, as published and built again.

    Args:
        indexes: The measured graphs.

    Returns:
        The table, two rows per repository.
    """
    coverage = list(published_rows("table5_6_7_coverage"))
    rows: Rows = {}
    for key, title in PAPER_REPOSITORIES.items():
        by_approach = {row.approach: row for row in coverage if row.repository == title}
        dkb = by_approach[OURS]
        all_chunks = by_approach[BASE].chunks
        published = [dkb.java_files, dkb.nodes, dkb.edges, all_chunks, dkb.chunks]
        rows[f"published: {title}"] = published
        rows[f"here: {title}"] = [NAN] * 5
        for index in indexes:
            if index["repository"] == key:
                rows[f"here: {title}"] = _rebuilt_cells(index)
    columns = ["files", "nodes", "edges", "chunks", "chunks of files with a node"]
    title = "The published graphs, built again"
    return number_table(title, "repository", columns, "00000", rows, UNKNOWN)


def _rebuilt_cells(index: Index) -> list[Any]:
    graph = index["graphs"][AS_PUBLISHED]
    nodes = sum(graph["nodes"].values())
    edges = sum(graph["edges"].values())
    held = graph["chunks_of_files_with_a_node"]
    return [index["files"], nodes, edges, index["chunks"], held]


# Tables 1 and 2: time


def indexing_time_table(study: RepositoryStudy, indexes: Sequence[Index]) -> ResultTable:
    """Tabulate the time of indexing (Table 1).

    Args:
        study: The repository with its questions.
        indexes: The measured graphs, among them that of the study.

    Returns:
        The table, one row per repository and approach.
    """
    embedding = study.ranked.get("embedding_seconds", NAN)
    extraction = study.extracted
    extracting = NAN
    if extraction:
        extracting = sum(answer.meta["seconds"] for answer in extraction.answers)
    rows: Rows = {}
    notes = [UNKNOWN]
    for index in indexes:
        title = index["repository"]
        chunks = model = NAN
        if index is study.index:
            seconds = index["seconds"]
            chunks = seconds["read"] + seconds["split"] + embedding
            model = extracting
        graph = index["graphs"][RESOLVED]["seconds"]["total"]
        rows[f"{title}, {BASE}"] = [chunks, 0, chunks]
        rows[f"{title}, {OURS}"] = [chunks, graph, chunks + graph]
        rows[f"{title}, {LLM_KB}"] = [NAN, model, NAN]
        size = f"{index['files']:,} files, {index['characters'] / 1e6:,.2f} million characters"
        machine = f"{index['processes']} processes on {index['processors']} processors"
        notes.append(f"{title}: {size}, {machine}, load {index['load_before']} before.")
    for row in published_rows("table1_indexing"):
        cells = [row.db_time_s, row.graph_time_s, row.db_time_s + row.graph_time_s]
        rows[f"published: {row.repository}, {row.approach}"] = cells
    if extraction:
        batches = f"{len(extraction.answers)} batches answered together on two cores"
        notes.append(f"LLM-KB's graph: {study.model}, {batches}.")
    columns = ["DB time (s)", "graph time (s)", "total (s)"]
    title = "Table 1: indexing time"
    return number_table(title, "repository, approach", columns, "222", rows, *notes)


def latency_table(study: RepositoryStudy) -> ResultTable:
    """Tabulate the time of a query (Table 2).

    Args:
        study: The repository with its questions.

    Returns:
        The table, one row per repository and approach.
    """
    rows: Rows = {}
    for pipeline, seconds in study.ranked.get("query_seconds", {}).items():
        values = pd.Series(seconds)
        cells = _spread_cells(
            [values.mean(), values.std(), values.median(), values.min(), values.max()], 4
        )
        answers = study.answers.get(pipeline, {}).values()
        model_seconds = pd.Series([answer.meta["seconds"] for answer in answers], dtype=float)
        rows[f"{study.name}, {pipeline}, retrieval only"] = [*cells, model_seconds.mean()]
    for row in published_rows("table2_latency"):
        printed = [row.mean_s, row.std_s, row.median_s, row.min_s, row.max_s]
        name = f"published: {row.repository}, {row.approach}, with the model"
        rows[name] = [*_spread_cells(printed, 2), DASH]
    columns = ["mean ± sd (s)", "median (s)", "min–max (s)", "model, mean (s)"]
    note = (
        "The model's answers were written together, so it has a mean and no spread. "
        "Each query: median of 5 runs."
    )
    title = "Table 2: latency of a query"
    return number_table(title, "repository, approach", columns, "0001", rows, note, UNKNOWN)


def _spread_cells(values: Iterable[float], digits: int) -> list[str]:
    """Print mean, standard deviation, median, minimum and maximum as three cells."""
    mean, deviation, median, low, high = (number_cell(value, digits) for value in values)
    return [f"{mean} ± {deviation}", median, f"{low}–{high}"]


# Tables 3 and 4: tokens and dollars


def embedded_shares(study: RepositoryStudy) -> dict[str, float]:
    """Return the share of the chunks that each approach embeds.

    Args:
        study: The repository with its questions.

    Returns:
        Approach -> share. LLM-KB embeds analysed files only; NaN if it was not run.
    """
    analysed = NAN
    if study.extracted:
        records = study.extracted.records
        held = [chunk for chunk in study.chunks.values() if chunk.path in records]
        analysed = len(held) / len(study.chunks)
    return {BASE: 1.0, OURS: 1.0, LLM_KB: analysed}


def token_cost_table(study: RepositoryStudy) -> ResultTable:
    """Tabulate tokens, and dollars by example prices (Tables 3 and 4).

    Args:
        study: The repository with its questions.

    Returns:
        The table, one row per workload and approach.
    """
    prices = {row.item: row.dollars_per_million for row in published_rows("prices")}
    items = ("embedding", "input", "output", "input", "output")
    rates = [prices[item] / 1e6 for item in items]
    tokens = {}
    dollars = {}
    for approach, share in embedded_shares(study).items():
        tokens[approach] = _tokens(study, approach, share)
        costs = [count * rate for count, rate in zip(tokens[approach], rates, strict=True)]
        dollars[approach] = sum(costs)
    rows: Rows = {}
    for approach, paid in dollars.items():
        relative = paid / dollars[BASE]
        rows[f"{study.name}, {approach}"] = [*tokens[approach], paid, relative]
    for row in published_rows("table3_4_cost"):
        cells = [*[NAN] * 5, number_cell(row.usd, 3), row.normalized]
        rows[f"published: {row.workload}, {row.approach}"] = cells
    columns = ["embedded", "extraction in", "out", "questions in", "out "]
    columns += ["dollars", "against No-Graph"]
    shown = ", ".join(f"{item} {price:g}" for item, price in prices.items())
    note = (
        f"Tokens, and dollars by example prices for a million ({shown}): reference/dkb_prices.csv. "
        "Here no token was paid for."
    )
    title = "Tables 3 and 4: cost"
    return number_table(title, "workload, approach", columns, "0000042", rows, note, UNKNOWN)


def _tokens(study: RepositoryStudy, approach: str, share: float) -> list[float]:
    """Return the tokens embedded, then those in and out of the extraction and of the questions."""
    embedded = share * study.ranked.get("embedded_tokens", NAN)
    extracted: list[float] = [0, 0]
    if approach == LLM_KB:
        extracted = _read_and_written(study.extracted.answers if study.extracted else None)
    answers = study.answers.get(approach)
    asked = _read_and_written(None if answers is None else answers.values())
    return [embedded, *extracted, *asked]


def _read_and_written(answers: Iterable[Generation] | None) -> list[float]:
    if answers is None:
        return [NAN, NAN]
    counts = [(answer.prompt_tokens, len(answer.tokens)) for answer in answers]
    return [sum(read for read, _ in counts), sum(written for _, written in counts)]


# Tables 5 to 7: coverage


def coverage_table(study: RepositoryStudy, indexes: Sequence[Index]) -> ResultTable:
    """Tabulate what is indexed (Tables 5 to 7).

    Args:
        study: The repository with its questions.
        indexes: The measured graphs, among them that of the study.

    Returns:
        The table, one row per repository and approach.
    """
    rows: Rows = {}
    for index in indexes:
        rows |= _coverage_rows(index)
        rows[f"{index['repository']}, {LLM_KB}"] = [index["files"], *[NAN] * 7]
    if study.extracted and study.index:
        rows[f"{study.name}, {LLM_KB}"] = _extraction_coverage(study, study.extracted)
    for row in published_rows("table5_6_7_coverage"):
        files = [row.java_files, row.files_skipped, row.file_success_rate]
        cells = [*files, row.chunks, row.chunk_coverage, row.nodes, row.edges, NAN]
        rows[f"published: {row.repository}, {row.approach}"] = cells
    nested = [name for name in study.graph.nodes if outermost(study.graph, name) != name]
    notes = (
        "Coupled: only chunks of files that give a node its path are embedded, as in the paper's scripts "
        "(Observation 4).",
        f"Node coverage: against DKB's nodes. {len(nested)} of {len(study.graph.nodes)} nodes "
        f"of {study.name} are nested types, which LLM-KB's prompt (one class a file) does not ask for.",
        UNKNOWN,
    )
    columns = ["files", "skipped", "file success", "chunks", "chunk coverage"]
    columns += ["nodes", "edges", "node coverage"]
    title = "Tables 5 to 7: coverage"
    return number_table(title, "repository, approach", columns, "00303003", rows, *notes)


def _coverage_rows(index: Index) -> Rows:
    title = index["repository"]
    files = index["files"]
    chunks = index["chunks"]
    all_nodes = sum(index["graphs"][RESOLVED]["nodes"].values())
    rows = {f"{title}, {BASE}": [files, NAN, NAN, chunks, 1, NAN, NAN, NAN]}
    for mode, label in {RESOLVED: "DKB", AS_PUBLISHED: "DKB as published"}.items():
        graph = index["graphs"][mode]
        nodes = sum(graph["nodes"].values())
        size = [nodes, sum(graph["edges"].values()), nodes / all_nodes]
        sources = [files, sum(graph["skipped"].values()), NAN]
        held = graph["chunks_of_files_with_a_node"]
        if mode == RESOLVED:
            rows[f"{title}, {label}"] = [*sources, chunks, 1, *size]
        rows[f"{title}, {label}, coupled"] = [*sources, held, held / chunks, *size]
    return rows


def _extraction_coverage(study: RepositoryStudy, extraction: Extraction) -> list[Any]:
    """Return LLM-KB's files, those that its answers name, and the classes of its records."""
    share = embedded_shares(study)[LLM_KB]
    graph = extraction.graph()
    return [
        len(extraction.files),
        len(extraction.skipped),
        extraction.success_rate,
        share * len(study.chunks),
        share,
        len(graph.nodes),
        len(graph.edges),
        len(graph.nodes) / len(study.graph.nodes),
    ]


def extraction_table(study: RepositoryStudy) -> ResultTable:
    """Tabulate what became of LLM-KB's extraction, and its faults by reason.

    Args:
        study: The repository with its questions.

    Returns:
        The table, one row per figure.
    """
    title = "LLM-KB's extraction"
    extraction = study.extracted
    if not extraction:
        return number_table(title, "figure", ["value"], "0", {"not run": [DASH]}, UNKNOWN)
    truncated = [text for text in study.texts.values() if len(text) > TRUNCATED_AT]
    figures: dict[str, float] = {
        "files": len(extraction.files),
        "batches": len(extraction.answers),
        "files with a record": len(extraction.records),
        "skipped or missed": len(extraction.skipped),
        "file success rate": extraction.success_rate,
        "file success rate, files of one name told apart": (
            len(extraction.identified) / len(extraction.files)
        ),
        "matched by file name only": extraction.by_name,
        "truncated at 15,000 characters": len(truncated),
        "dependencies named": len(extraction.dependencies),
        "of them classes of a record": len(extraction.graph().edges),
    }
    for reason, count in sorted(extraction.faults.items()):
        figures[f"fault: {reason}"] = count
    rows = {}
    for figure, value in figures.items():
        rows[figure] = [number_cell(value, 3 if "rate" in figure else 0)]
    note = f"{study.model}, greedy, four files a prompt."
    return number_table(title, "figure", ["value"], "0", rows, note)
