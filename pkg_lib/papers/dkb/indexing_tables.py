"""The type graphs and what they cost: time (Tables 1 and 2), tokens (3 and 4), and coverage (5 to 7)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, number, reference_table
from pkg_lib.core.types import Generation
from pkg_lib.papers.dkb.entity_scores import recorded_scores
from pkg_lib.papers.dkb.llm_kb import TRUNCATED_AT, Extraction
from pkg_lib.papers.dkb.measurement import outermost
from pkg_lib.papers.dkb.number_tables import (
    NAN,
    PAPER_REPOSITORIES,
    UNKNOWN,
    Index,
    Rows,
    graph_size,
    number_table,
    published_rows,
    recorded,
    shown_name,
)
from pkg_lib.papers.dkb.repository_study import RepositoryStudy
from pkg_lib.papers.dkb.settings import BASE, LLM_KB, OURS

RESOLVED = "resolved"
AS_PUBLISHED = "as-published"
KINDS = ["class", "interface", "enum", "record", "annotation"]
LABELS = ["injects", "extends", "implements"]
NAMES = ["external", "ambiguous"]  # written names that mean no type, or several
# What is paid for, in the order of the columns, and the item of the price list.
PAID = {
    "tokens embedded": "embedding",
    "extraction: tokens in": "input",
    "extraction: tokens out": "output",
    "questions: tokens in": "input",
    "questions: tokens out": "output",
}


# The graphs


def graphs_table(indexes: Sequence[Index]) -> ResultTable:
    """Tabulate the type graphs by mode: nodes and edges by type, and seconds.

    Args:
        indexes: The measured graphs.

    Returns:
        The table, one row per repository and mode.
    """
    rows: Rows = {}
    for index in indexes:
        for mode in (RESOLVED, AS_PUBLISHED):
            graph = index["graphs"][mode]
            # Simple names are not resolved, so nothing is known of them.
            unknown = NAN if mode == AS_PUBLISHED else 0
            rows[f"{shown_name(index['repository'])}, {mode}"] = [
                *_counts(graph["nodes"], KINDS),
                *_counts(graph["edges"], LABELS),
                *_counts(graph["references"], NAMES, unknown),
                graph["cycles"],
                graph["seconds"]["total"],
            ]
    counts = [*KINDS, *LABELS, "external names", "ambiguous names", "cycles"]
    columns = dict.fromkeys(counts, 0)
    columns["seconds"] = 2
    notes = (
        "Injects: a field, a record component or a parameter of a constructor has the type. Resolved: a "
        "name is the type that the package and the imports of its file give. As published: types are "
        "identified by their simple names. If types share a name, they are one node, which has the edges of "
        "the file that is read last.",
        "External names are names in the source that match no type of the repository, such as String. "
        "Ambiguous names match types of two imported packages and get no edge. Simple names are not "
        f"resolved, so a graph as published has neither. {UNKNOWN}",
    )
    return number_table("The type graphs", "repository, mode", columns, rows, *notes)


def _counts(
    counts: Mapping[str, int],
    names: Sequence[str],
    unknown: float = 0,
) -> list[float]:
    """Return the counts of names, and a number for those without one."""
    return [counts.get(name, unknown) for name in names]


def published_graphs_table(indexes: Sequence[Index]) -> ResultTable:
    """Tabulate the graphs of the paper's own repositories, as published and built again.

    Args:
        indexes: The measured graphs.

    Returns:
        The table, two rows per repository.
    """
    coverage = reference_table("dkb_table5_6_7_coverage", index_col=["repository", "approach"])
    by_name = {index["repository"]: index for index in indexes}
    rows: Rows = {}
    for key, title in PAPER_REPOSITORIES.items():
        dkb: Any = coverage.loc[(title, OURS)]
        chunks = coverage.loc[(title, BASE), "chunks"]
        rows[f"published: {title}"] = [
            dkb["java_files"],
            dkb["nodes"],
            dkb["edges"],
            chunks,
            dkb["chunks"],
        ]
        rebuilt = [NAN] * 5
        if key in by_name:
            index = by_name[key]
            size = graph_size(index, AS_PUBLISHED)
            rebuilt = [index["files"], size.nodes, size.edges, index["chunks"], size.chunks]
        rows[f"here: {title}"] = rebuilt
    names = ["files", "nodes", "edges", "chunks", "chunks of files with a node"]
    columns = dict.fromkeys(names, 0)
    title = "The published graphs, built again"
    return number_table(title, "repository", columns, rows, UNKNOWN)


# Tables 1 and 2: time


def indexing_time_table(study: RepositoryStudy, indexes: Sequence[Index]) -> ResultTable:
    """Tabulate the time of indexing (Table 1).

    Args:
        study: The repository with its questions.
        indexes: The measured graphs, among them that of the study.

    Returns:
        The table, one row per repository and method.
    """
    rows: Rows = {}
    notes = [
        "Embedding of this study: processor time of one or two cores. The paper does not say which time its "
        "rows have, nor on which hardware, so compare only rows of the same source.",
        UNKNOWN,
    ]
    for index in indexes:
        title = shown_name(index["repository"])
        embedding = index.get("embedding", {}).get("processor_seconds", NAN)
        model = _extraction_seconds(study) if index is study.index else NAN
        chunks = index["seconds"]["read"] + index["seconds"]["split"] + embedding
        graph = index["graphs"][RESOLVED]["seconds"]["total"]
        rows[f"{title}, {BASE}"] = [chunks, 0, chunks]
        rows[f"{title}, {OURS}"] = [chunks, graph, chunks + graph]
        rows[f"{title}, {LLM_KB}"] = [NAN, model, NAN]
        notes.append(_machine_note(index))
    for row in published_rows("table1_indexing"):
        total = row.db_time_s + row.graph_time_s
        rows[f"published: {row.repository}, {row.approach}"] = [
            row.db_time_s,
            row.graph_time_s,
            total,
        ]
    if study.extracted:
        batches = f"{len(study.extracted.answers)} batches answered together on two cores"
        notes.append(f"LLM-KB's graph: {study.model}, {batches}.")
    columns = {
        "chunks and embeddings (s)": 2,
        "graph (s)": 2,
        "total (s)": 2,
    }
    title = "Table 1: indexing time"
    return number_table(title, "repository, method", columns, rows, *notes)


def _extraction_seconds(study: RepositoryStudy) -> float:
    """Return the model's seconds for LLM-KB's graph."""
    if not study.extracted:
        return NAN
    seconds: list[float] = [answer.meta["seconds"] for answer in study.extracted.answers]
    return sum(seconds)


def _machine_note(index: Index) -> str:
    """Say how large a repository is, and on what machine its graph was built."""
    millions = index["characters"] / 1e6
    size = f"{index['files']:,} files, {millions:,.2f} million characters"
    processes = "1 process" if index["processes"] == 1 else f"{index['processes']} processes"
    machine = f"{processes} on {index['processors']} processors"
    note = (
        f"{shown_name(index['repository'])}: {size}, {machine}. "
        f"The system load before the measurement was {index['load_before']}."
    )
    embedding = index.get("embedding", {})
    if "seconds" in embedding:
        # Other programs ran beside it, so the clock says more about them.
        clock = number(embedding["seconds"])
        processor = number(embedding["processor_seconds"])
        note += (
            f" Embedding: {processor} s of processor time, {clock} s of elapsed time; other programs "
            "ran at the same time."
        )
    return note


def latency_table(study: RepositoryStudy) -> ResultTable:
    """Tabulate the time of a query (Table 2).

    Args:
        study: The repository with its questions.

    Returns:
        The table, one row per repository and method.
    """
    rows: Rows = {}
    measured = study.ranked.get("query_seconds", {})
    for pipeline, by_question in measured.items():
        answers = study.answers.get(pipeline, {})
        model_seconds = [answer.meta["seconds"] for answer in answers.values()]
        model_mean = pd.Series(model_seconds, dtype=float).mean()
        name = f"{shown_name(study.name)}, {pipeline}"
        rows[name] = [*_latency_cells(by_question), model_mean]
    for key in PAPER_REPOSITORIES:
        if key != study.name:  # its own rows are above
            rows |= _recorded_latency(key)
    for row in published_rows("table2_latency"):
        printed = [row.mean_s, row.std_s, row.median_s, row.min_s, row.max_s]
        name = f"published: {row.repository}, {row.approach}, with the model"
        rows[name] = [*_spread_cells(printed, 2), DASH]
    columns = {
        "mean ± sd (s)": 0,
        "median (s)": 0,
        "min–max (s)": 0,
        "answering model, mean (s)": 1,
    }
    note = (
        "The first three columns of this study time retrieval alone (each query: median of 5 runs); the "
        "last is the time of the model. The model wrote its answers together, so that time is a mean without "
        "spread. The published latencies include the model."
    )
    notes = [note, *_load_notes(), UNKNOWN]
    title = "Table 2: latency of a query"
    return number_table(title, "repository, method", columns, rows, *notes)


def _load_notes() -> list[str]:
    """Return the system load before the queries of the paper's repositories, where it was recorded."""
    loads = []
    for name, title in PAPER_REPOSITORIES.items():
        evidence = recorded(name, "evidence") or {}
        if "load_before" in evidence:
            loads.append(f"{title} {evidence['load_before']}")
    return [f"System load before the queries: {', '.join(loads)}."] if loads else []


def _recorded_latency(name: str) -> Rows:
    """Return the rows of one of the paper's repositories, whose model was not run."""
    evidence = recorded(name, "evidence") or {}
    measured = evidence.get("query_seconds", {})
    rows: Rows = {}
    for method in (BASE, OURS, LLM_KB):
        cells = _latency_cells(measured.get(method, {}))
        rows[f"{shown_name(name)}, {method}"] = [*cells, NAN]
    return rows


def _latency_cells(by_question: Mapping[str, float]) -> list[str]:
    """Print how the seconds of a query spread over questions; dashes without questions."""
    if not by_question:
        return [DASH] * 3
    seconds = pd.Series(by_question)
    return _spread_cells(seconds.agg(["mean", "std", "median", "min", "max"]), 4)


def _spread_cells(values: Iterable[float], digits: int) -> list[str]:
    """Print mean, standard deviation, median, minimum and maximum as three cells."""
    mean, deviation, median, low, high = [number(value, digits) for value in values]
    return [f"{mean} ± {deviation}", median, f"{low}–{high}"]


# Tables 3 and 4: tokens and dollars


def embedded_shares(study: RepositoryStudy) -> dict[str, float]:
    """Return the share of the chunks that each method embeds.

    Args:
        study: The repository with its questions.

    Returns:
        Method -> share. LLM-KB embeds analysed files only; NaN if it was not run.
    """
    analysed = NAN
    if study.extracted:
        records = study.extracted.records
        held = [chunk for chunk in study.chunks.values() if chunk.path in records]
        analysed = len(held) / len(study.chunks)
    return {BASE: 1.0, OURS: 1.0, LLM_KB: analysed}


def token_cost_table(study: RepositoryStudy, indexes: Sequence[Index]) -> ResultTable:
    """Tabulate tokens, and dollars by example prices (Tables 3 and 4).

    Args:
        study: The repository with its questions.
        indexes: The measured graphs. Of the paper's repositories, the tokens of recorded answers are used.

    Returns:
        The table, one row per workload and method.
    """
    prices = reference_table("dkb_prices", index_col="item")["dollars_per_million"]
    rates = prices[list(PAID.values())].to_numpy() / 1e6
    rows: Rows = {}
    baseline = NAN
    for method in (BASE, OURS, LLM_KB):
        tokens = _tokens(study, method)
        dollars = float(np.sum(tokens * rates))
        if method == BASE:
            baseline = dollars
        rows[f"{shown_name(study.name)}, {method}"] = [*tokens, dollars, dollars / baseline]
    for index in indexes:
        name = index["repository"]
        if name in PAPER_REPOSITORIES and name != study.name:
            tokens = index.get("embedding", {}).get("tokens", NAN)
            rows |= _recorded_cost(name, study.model, tokens, rates)
    for row in published_rows("table3_4_cost"):
        cells = [*[NAN] * len(PAID), number(row.usd, 3), row.normalized]
        rows[f"published: {row.workload}, {row.approach}"] = cells
    columns = dict.fromkeys(PAID, 0)
    columns["dollars"] = 4
    columns["against No-Graph"] = 2
    shown = ", ".join(f"{item} {price:g}" for item, price in prices.items())
    note = (
        f"Tokens, and dollars by example prices for a million ({shown}): reference/dkb_prices.csv. "
        "No tokens were bought, so the dollars are hypothetical. Tokens of this study are sums: indexing "
        "once, and all questions about the repository."
    )
    title = "Tables 3 and 4: cost"
    return number_table(title, "workload, method", columns, rows, note, UNKNOWN)


def _recorded_cost(
    name: str,
    model: str,
    embedded: float,
    rates: np.ndarray[Any, Any],
) -> Rows:
    """Return the rows of one of the paper's repositories, whose LLM-KB was not run.

    Args:
        name: Name of the repository.
        model: The model that answered.
        embedded: Tokens of all chunks.
        rates: Dollars a token, in the order of PAID.

    Returns:
        Name of a row -> its cells. Dollars need the answers of a model.
    """
    scores = recorded_scores(name, model)
    rows: Rows = {}
    baseline = NAN
    for method in (BASE, OURS):
        answers = scores[scores["pipeline"] == method]
        questions = [NAN, NAN]
        if len(answers):
            questions = answers[["prompt_tokens", "answer_tokens"]].sum().tolist()
        tokens = [embedded, 0, 0, *questions]
        dollars = float(np.sum(tokens * rates))
        if method == BASE:
            baseline = dollars
        rows[f"{shown_name(name)}, {method}"] = [*tokens, dollars, dollars / baseline]
    rows[f"{shown_name(name)}, {LLM_KB}"] = [NAN] * (len(PAID) + 2)
    return rows


def _tokens(study: RepositoryStudy, method: str) -> list[float]:
    """Return the tokens of a method in the order of PAID."""
    share = embedded_shares(study)[method]
    index = study.index or {}
    embedded = share * index.get("embedding", {}).get("tokens", NAN)
    extracted: list[float] = [0, 0]
    if method == LLM_KB:
        extraction = study.extracted
        extracted = _read_and_written(extraction.answers if extraction else [])
    answers = study.answers.get(method, {})
    return [embedded, *extracted, *_read_and_written(answers.values())]


def _read_and_written(answers: Collection[Generation]) -> list[float]:
    """Count the tokens of prompts and answers; NaN without answers."""
    read = [answer.prompt_tokens for answer in answers]
    written = [len(answer.tokens) for answer in answers]
    if not read:
        return [NAN, NAN]
    return [sum(read), sum(written)]


# Tables 5 to 7: coverage


def coverage_table(study: RepositoryStudy, indexes: Sequence[Index]) -> ResultTable:
    """Tabulate what is indexed (Tables 5 to 7).

    Args:
        study: The repository with its questions.
        indexes: The measured graphs, among them that of the study.

    Returns:
        The table, one row per repository and method.
    """
    rows: Rows = {}
    for index in indexes:
        rows |= _coverage_rows(index)
    if study.extracted and study.index:
        rows[f"{shown_name(study.name)}, {LLM_KB}"] = _extraction_coverage(study, study.extracted)
    published = list(published_rows("table5_6_7_coverage"))
    published_nodes = {row.repository: row.nodes for row in published if row.approach == "DKB"}
    for row in published:
        rows[f"published: {row.repository}, {row.approach}"] = [
            row.java_files,
            row.files_skipped,
            row.file_success_rate,
            row.chunks,
            row.chunk_coverage,
            row.nodes,
            row.edges,
            row.nodes / published_nodes[row.repository],
        ]
    nested = [name for name in study.graph.nodes if outermost(study.graph, name) != name]
    notes = (
        "Coupled: only chunks of files that give a node its path are embedded, as in the paper's scripts "
        "(its Observation 4). A type that several files declare has one node, with the path of one of them, "
        "so the chunks of the others are left out. Skipped: files that the method could not read; for DKB, "
        "those that its parser rejects or that declare no type. File success: the share of the files of "
        "which LLM-KB's model returned a record.",
        "Node coverage: the number of nodes divided by that of DKB. The published numbers are divided by "
        "the published number of DKB.",
        f"{len(nested)} of {len(study.graph.nodes)} nodes of {shown_name(study.name)} are nested "
        "types, which LLM-KB's prompt (one class a file) does not ask for.",
        UNKNOWN,
    )
    columns = {
        "files": 0,
        "skipped": 0,
        "file success": 3,
        "chunks": 0,
        "chunk coverage": 3,
        "nodes": 0,
        "edges": 0,
        "node coverage": 3,
    }
    title = "Tables 5 to 7: coverage"
    return number_table(title, "repository, method", columns, rows, *notes)


def _coverage_rows(index: Index) -> Rows:
    """Return the rows of a recorded repository; LLM-KB's has the number of files alone."""
    title = shown_name(index["repository"])
    files = index["files"]
    chunks = index["chunks"]
    all_nodes = graph_size(index, RESOLVED).nodes
    rows: Rows = {f"{title}, {BASE}": [files, NAN, NAN, chunks, 1, NAN, NAN, NAN]}
    for mode, label in {RESOLVED: "DKB", AS_PUBLISHED: "DKB as published"}.items():
        size = graph_size(index, mode)
        sources = [files, size.skipped, NAN]
        nodes = [size.nodes, size.edges, size.nodes / all_nodes]
        if mode == RESOLVED:
            rows[f"{title}, {label}"] = [*sources, chunks, 1, *nodes]
        coupled = [size.chunks, size.chunks / chunks]
        rows[f"{title}, {label}, coupled"] = [*sources, *coupled, *nodes]
    rows[f"{title}, {LLM_KB}"] = [files, *[NAN] * 7]
    return rows


def _extraction_coverage(study: RepositoryStudy, extraction: Extraction) -> list[float]:
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
        return ResultTable.of(title, {"not run": [DASH]}, ["value"], "quantity", UNKNOWN)
    truncated = [text for text in study.texts.values() if len(text) > TRUNCATED_AT]
    told_apart = len(extraction.identified) / len(extraction.files)
    figures = {
        "files": number(len(extraction.files)),
        "batches": number(len(extraction.answers)),
        "files with a record": number(len(extraction.records)),
        "skipped or missed": number(len(extraction.skipped)),
        "file success rate": number(extraction.success_rate, 3),
        "file success rate, only files that an answer identifies": number(told_apart, 3),
        "records that name their file without its path": number(extraction.by_name),
        "files cut at 15,000 characters for the prompt": number(len(truncated)),
        "dependencies named": number(len(extraction.dependencies)),
        "dependencies that are a class with a record": number(len(extraction.graph().edges)),
    }
    for reason, count in sorted(extraction.faults.items()):
        figures[f"fault of an answer or record: {reason}"] = number(count)
    rows = {figure: [value] for figure, value in figures.items()}
    note = (
        f"{study.model}, greedy, four files a prompt. File success rate: the share of the files that are not "
        "skipped, where skipped files of the same name count once, as in the paper. The next row counts only "
        "files that an answer identifies by its path, or by its name if no other file of the prompt has it."
    )
    return ResultTable.of(title, rows, ["value"], "quantity", note)
