"""Tables on the graphs: what was built and skipped, Table 8 (cost), and the runs of models over them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, number, percent, probability, reference_table
from pkg_lib.core.store import read_json
from pkg_lib.graph import schema
from pkg_lib.papers.pkg.cost import (
    enhancement_note,
    published,
    stored_enhancement,
    table8_rows,
)
from pkg_lib.papers.pkg.encoder_limit import ENCODERS, count_rows
from pkg_lib.papers.pkg.graph_building import CorpusGraph, unread

UNKNOWN = f"{DASH} not measured."
METRICS = {"mrr_at_10": "MRR@10", "recall_at_1": "recall@1", "recall_at_5": "recall@5"}
Rows = dict[str, list[str]]
Log = dict[str, Any]


# What was built


def sizes_table(built: Sequence[CorpusGraph]) -> ResultTable:
    """Tabulate the nodes and edges of the graphs by type (Equation 2).

    Args:
        built: The graphs.

    Returns:
        The table, one column per graph.
    """
    rows = {"documents": [number(len(graph.documents)) for graph in built]}
    counts = {
        "nodes": (schema.NODE_TYPES, [graph.nodes for graph in built]),
        "edges": (schema.EDGE_TYPES, [graph.edges for graph in built]),
    }
    for word, (kinds, by_graph) in counts.items():
        for kind in kinds:
            numbers = [graph_counts.get(kind) for graph_counts in by_graph]
            if numbers.count(None) < len(numbers):
                rows[f"{kind} {word}"] = list(map(number, numbers))
        rows[word] = [number(sum(graph_counts.values())) for graph_counts in by_graph]
    rows["distinct payloads"] = [number(len(graph.graph.texts)) for graph in built]
    note = (
        f"{DASH} the other kind of graph has these. "
        "Nodes with the same text share one payload and one embedding."
    )
    names = [graph.corpus for graph in built]
    return ResultTable.of("What was built", rows, names, "count", note)


def unread_table(built: Sequence[CorpusGraph]) -> ResultTable:
    """Tabulate the texts of the graphs that are too long for the encoder.

    Args:
        built: The graphs.

    Returns:
        The table, one row per graph and unit.
    """
    rows = {}
    for graph in built:
        for count in unread(graph.graph):
            rows[f"{graph.corpus}, {count.unit}"] = count.row
    columns = ["in the graph", *(f"cut by {name}" for name in ENCODERS)]
    note = (
        "Cut: the text has more tokens than the encoder reads, "
        "so that its end does not count in retrieval."
    )
    title = "Texts that are too long for the encoder"
    return ResultTable.of(title, rows, columns, "corpus, unit", note)


def study_unread_table(results: Path) -> ResultTable:
    """Tabulate the texts of the whole study that are too long for the encoder.

    Args:
        results: The results directory, which has the counts.

    Returns:
        The table, one row per corpus, set of queries or set of candidates.
    """
    columns = ["texts", *(f"cut by {name}" for name in ENCODERS)]
    note = (
        "Candidates of the reranker: whole, as the paper prints the rule; "
        "reduced, as in the authors' code."
    )
    title = "Texts of the study that are too long for the encoder"
    return ResultTable.of(title, count_rows(results), columns, "where, unit", note)


def conservation_row(graph: CorpusGraph) -> list[str]:
    """Return what went into a graph, what came out, and what was skipped.

    Args:
        graph: The graph.

    Returns:
        The unit (functions of code, documents of text), their number in the corpus and in the graph, how
        many were skipped and how many are lost, and how many texts differ from their source.
    """
    unit = "documents"
    wrong = DASH
    if graph.ledger:
        unit = "functions"
        wrong = number(len(graph.ledger.wrong))
        entered = graph.ledger.functions
        kept = graph.ledger.implementations
        skipped = graph.ledger.lost.total()
    else:
        entered = len(graph.documents)
        kept = len(set(graph.graph.document.tolist()))
        skipped = len(graph.graph.skipped)
    counts = [entered, kept, skipped, entered - kept - skipped]
    return [unit, *map(number, counts), wrong]


def conservation_table(built: Sequence[CorpusGraph]) -> ResultTable:
    """Tabulate what went into each graph, what came out, and what was skipped.

    Args:
        built: The graphs.

    Returns:
        The table, one row per graph.
    """
    columns = [
        "unit",
        "in the corpus",
        "in the graph",
        "skipped",
        "lost",
        "texts that differ",
    ]
    notes = (
        "Functions are counted a second time by another walk over the syntax trees; "
        "of source without a tree, lines that start with def. "
        "Texts: every IMPL and BLOCK against its lines of the source. "
        "Both numbers, lost functions and texts that differ, must be 0.",
        f"{DASH} a JSON tree has no lines to be compared with.",
    )
    rows = {graph.corpus: conservation_row(graph) for graph in built}
    return ResultTable.of("Conservation ledger", rows, columns, "corpus", *notes)


def skipped_table(built: Sequence[CorpusGraph]) -> ResultTable:
    """Tabulate the skipped documents by reason.

    Args:
        built: The graphs.

    Returns:
        The table, one row per graph and reason.
    """
    rows = {}
    for graph in built:
        for reason, count in graph.skipped.items():
            rows[f"{graph.corpus}: {reason}"] = [f"{count:,}"]
    rows = rows or {"nothing": ["0"]}
    return ResultTable.of("Skipped by reason", rows, ["documents"], "reason")


# Cost


def cost_table(results: Path, measured: Log, text: CorpusGraph) -> ResultTable:
    """Tabulate what the graph costs beside the paper (Table 8).

    Args:
        results: The results directory.
        measured: What `tests/benchmarks/bench_graph.py` measured; {} without it.
        text: A graph of text, whose nodes and edges are counted.

    Returns:
        The table, one row per step.
    """
    enhancement = stored_enhancement(results)
    rows = {}
    for step, paper, here in table8_rows(measured, enhancement):
        rows[step] = [paper or DASH, here]
    paper_figures = published()
    nodes = number(text.nodes.get("PATHVALUE"))
    edges = number(text.edges.get("JSON_CHILD"))
    paper_nodes = paper_figures["Path-value nodes (text PKG)", "PKG"]
    paper_edges = paper_figures["Relations (text PKG)", "PKG"]
    rows[f"path-value nodes, {text.corpus}"] = [paper_nodes, nodes]
    rows[f"JSON_CHILD edges, {text.corpus}"] = [paper_edges, edges]
    notes = [f"{DASH} not measured, or no such row in the paper.", enhancement_note(enhancement)]
    if measured:
        load = f"load {measured['load_before']:.1f} before it started"
        machine = f"{measured['processors']} processors, {load}"
        corpus = f"{measured['documents']:,} files of installed source"
        notes.append(f"Here: {corpus}; vectors: {measured['vectors']}; {machine}.")
    title = "Table 8: what the graph costs"
    return ResultTable.of(title, rows, ["in the paper (PKG)", "measured here"], "step", *notes)


def search_table(measured: Log) -> ResultTable:
    """Tabulate the exact index and HNSW by its search beam: time of a query and recall.

    Args:
        measured: What `tests/benchmarks/bench_graph.py` measured; {} without it.

    Returns:
        The table, one row per index.
    """
    rows = {"exact (flat)": [DASH] * 3}
    search = measured.get("search")
    if search:
        exact_rows = number(search["exact_rows"])
        rows["exact (flat)"] = [exact_rows, f"{search['exact_ms']:.2f}", "1.000"]
        vectors = number(search["hnsw_rows"])
        for beam in sorted(search["hnsw"], key=int):
            beam_results = search["hnsw"][beam]
            milliseconds = f"{beam_results['ms']:.2f}"
            rows[f"HNSW, efSearch {beam}"] = [
                vectors,
                milliseconds,
                f"{beam_results['recall_at_1']:.3f}",
            ]
    note = "HNSW holds distinct payloads only, since it links equal vectors badly."
    columns = ["vectors", "ms per query", "recall@1"]
    return ResultTable.of("The index", rows, columns, "index", note, UNKNOWN)


# Runs of models


def docstrings_table(results: Path) -> ResultTable:
    """Tabulate the runs of the enhancer, which fills docstrings into functions that have none.

    Args:
        results: The results directory.

    Returns:
        The table, one row per run.
    """
    columns = [
        "functions",
        "without docstring",
        "prompted",
        "accepted",
        "rejected",
        "rejected by reason",
        "tokens",
    ]
    title = "Docstrings by fill-in-the-middle"
    return _runs_table(results, title, "enhanced/*/*.log.json", _docstring_cells, columns)


def docstring_effects_table(results: Path) -> ResultTable:
    """Tabulate how the enhancer's docstrings change the retrieval of Func-PKG.

    Args:
        results: The results directory.

    Returns:
        The table, one row per run.
    """
    columns = [
        "tasks",
        "docstrings",
        "another function is nearest",
        "the nearest has a new docstring",
        "defines the task's function, before",
        "after",
        "rise of the best cosine",
    ]
    title = "What the docstrings change in Func-PKG's retrieval"
    return _runs_table(results, title, "enhanced/*/*.change.json", _effect_cells, columns)


def structured_table(results: Path) -> ResultTable:
    """Tabulate the runs of the structurer, which writes documents as JSON (Section 3.1.2).

    Args:
        results: The results directory.

    Returns:
        The table, one row per run.
    """
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
    files = "structured/*/*.log.json"
    return _runs_table(results, "Documents as JSON", files, _structured_cells, columns, note)


def _runs_table(
    results: Path,
    title: str,
    files: str,
    cells: Callable[[Log], list[str]],
    columns: list[str],
    *notes: str,
) -> ResultTable:
    """Tabulate logs below the results directory, each named by what its run was given."""
    rows: Rows = {}
    revisions: dict[str, None] = {}
    for path in sorted(results.glob(files)):
        log: Log = read_json(path)
        given = [log.get(name) for name in ("structurer", "model", "corpus", "benchmark")]
        rows[", ".join(filter(None, given))] = cells(log)
        if log.get("revision"):
            revisions[f"{log['model']} is {log['revision']}"] = None
    about = [f"Revisions: {'; '.join(revisions)}."] if revisions else []
    rows = rows or {"no run yet": [DASH] * len(columns)}
    return ResultTable.of(title, rows, columns, "run", *notes, *about, UNKNOWN)


def _docstring_cells(log: Log) -> list[str]:
    names = ("functions", "without_docstring", "asked", "accepted")
    counts = [number(log[name]) for name in names]
    return [*counts, *_rejected_cells(log["rejected"]), number(log["tokens"])]


def _effect_cells(log: Log) -> list[str]:
    names = (
        "tasks",
        "docstrings",
        "top1_changed",
        "top1_enhanced",
        "defines_before",
        "defines_after",
    )
    counts = [number(log[name]) for name in names]
    return [*counts, f"{log['mean_cosine_rise']:.4f}"]


def _structured_cells(log: Log) -> list[str]:
    kept = log.get("kept_of_headings", {})
    shares = [percent(kept.get(name)) for name in ("words", "words_added", "code_examples")]
    return [
        number(log["documents"]),
        percent(log.get("validity_rate")),
        number(log.get("retries")),
        number(log["structured"]),
        *_rejected_cells(log["rejected_by_reason"]),
        *shares,
    ]


def _rejected_cells(rejected: Mapping[str, int]) -> list[str]:
    """Return how many were rejected, and why, the most frequent reason first."""
    ordered = sorted(rejected.items(), key=lambda reason: (-reason[1], reason[0]))
    reasons = ", ".join(f"{reason} {count}" for reason, count in ordered)
    return [number(sum(rejected.values())), reasons or DASH]


# Code search


def code_search_table(code_search: Log) -> ResultTable:
    """Tabulate how well MBPP's task texts find their reference solutions, here and elsewhere.

    Args:
        code_search: What `tests/benchmarks/bench_code_search.py` measured; {} without it.

    Returns:
        The table, one row per method.
    """
    elsewhere = reference_table("code_search_elsewhere", index_col="method")
    methods = code_search.get("methods") or {method: {} for method in elsewhere.index}
    paired = code_search.get("paired", {})
    rows = {}
    for method in sorted(methods, key=lambda m: (m not in elsewhere.index, m == "BM25", m)):
        there: Any = elsewhere.loc[method] if method in elsewhere.index else {}
        cells = [number(methods[method].get(metric), 3) for metric in METRICS]
        cells += [number(there.get(metric), 3) for metric in METRICS]
        pair = paired.get(method)
        first_places = [DASH] * 3
        if pair:
            first_places = [pair["better"], pair["worse"], probability(pair["p_first"])]
        rows[method] = cells + first_places
    columns = [*METRICS.values(), *(f"elsewhere: {name}" for name in METRICS.values())]
    columns += ["better than MiniLM", "worse than MiniLM", "p (first place)"]
    note = "Better and worse: number of tasks whose solution ranks higher or lower; p: McNemar's exact test."
    notes = [f"{UNKNOWN} {note} Elsewhere: the best BM25 reported there."]
    if code_search:
        notes.append(_configuration_note(code_search["configuration"]))
    title = "Code search: MBPP text to reference solution"
    return ResultTable.of(title, rows, columns, "method", *notes)


def _configuration_note(configuration: Log) -> str:
    weight = f"weight in the score fusion {configuration['bm25_weight']}"
    constant = f"constant of the ranks {configuration['rrf_constant']}"
    distractors = f"{configuration['distractors']:,} distractor functions"
    candidates = f"the task text alone as query, {distractors}"
    tasks = f"{configuration['tasks']} tasks, {candidates}"
    return f"{tasks}; {configuration['embedder']}; BM25's {weight}, {constant}."


def code_search_sets_table(code_search: Log) -> ResultTable:
    """Tabulate how the code search depends on the set of candidates.

    Args:
        code_search: What `tests/benchmarks/bench_code_search.py` measured; {} without it.

    Returns:
        The table, one row per set.
    """
    sets = {"as above": code_search.get("methods", {})}
    sets |= code_search.get("variations", {})
    columns = {}
    for method in ("MiniLM", "BM25"):
        for metric, name in METRICS.items():
            columns[f"{method} {name}"] = (method, metric)
    rows = {}
    for candidates, figures in sets.items():
        cells = [figures.get(method, {}).get(metric) for method, metric in columns.values()]
        rows[candidates] = [number(cell, 3) for cell in cells]
    title = "Code search among other candidates"
    return ResultTable.of(title, rows, list(columns), "candidates", UNKNOWN)


# Findings


def graph_findings(built: Sequence[CorpusGraph], measured: Log, code_search: Log) -> list[str]:
    """Return sentences on the graphs, their cost, and the code search.

    Args:
        built: The graphs.
        measured: What `tests/benchmarks/bench_graph.py` measured; {} without it.
        code_search: What `tests/benchmarks/bench_code_search.py` measured; {} without it.

    Returns:
        One sentence per graph, and one each on what was measured.
    """
    sentences = []
    for graph in built:
        unit, entire, kept, skipped, lost, _ = conservation_row(graph)
        nodes = sum(graph.nodes.values())
        edges = sum(graph.edges.values())
        ledger = f"{kept} of {entire} {unit} are in the graph"
        ledger += f", {skipped} are skipped by name, {lost} lost"
        sentences.append(f"{graph.corpus}: {nodes:,} nodes and {edges:,} edges; {ledger}.")
    if measured:
        size = f"{measured['functions']:,} functions give {measured['nodes']:,} nodes"
        seconds = f"{measured['build']['one']['wall_s']:.0f} s"
        sentences.append(
            f"At the paper's scale {size}, built and saved in {seconds} by one process."
        )
    if code_search:
        mrr = {name: of["mrr_at_10"] for name, of in code_search.get("methods", {}).items()}
        fusions = [name for name in mrr if "fusion" in name]
        better = [name for name in fusions if mrr[name] >= mrr["MiniLM"]]
        ranks = ", ".join(f"{name} {value:.3f}" for name, value in mrr.items())
        as_good = ", ".join(better) or "no fusion"
        sentences.append(f"Code search, MRR@10: {ranks}; as good as MiniLM: {as_good}.")
    return sentences
