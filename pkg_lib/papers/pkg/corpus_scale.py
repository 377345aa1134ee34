"""What a large corpus needs at each stage, from what one function cost in the benchmarks.

Stages that grow with the corpus are taken as linear; an HNSW index grows as n log n.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH
from pkg_lib.papers.pkg.cost import duration
from pkg_lib.papers.pkg.cost_tables import CostMeasurements

CODE_BYTES = 64 + 8  # of an IVF-PQ code and its number
LINK_BYTES = 8  # of an HNSW link: twice four bytes
NEW_TOKENS = 250  # of an answer
HOURS_PER_MONTH = 730
SEARCH_LIMIT_S = 0.1  # a search that takes longer is too slow
COLUMNS = (
    "bytes",
    "processor time",
    "machines",
    "$ once",
    "$ per month",
    "seconds per query",
)


@dataclass(frozen=True)
class Machine:
    """A rented machine. The default prices are samples.

    Attributes:
        processors: Number of processors.
        memory_gb: Memory.
        usd_hour: Price of an hour.
        usd_gb_month: Price of a month of one GB on a disk.
        hours: Hours within which a stage has to be done.
    """

    processors: int = 16
    memory_gb: int = 64
    usd_hour: float = 0.80
    usd_gb_month: float = 0.10
    hours: int = 24


@dataclass(frozen=True)
class Stage:
    """What one stage needs; None for what was not measured.

    Attributes:
        size: Bytes that are stored.
        seconds: Processor seconds, once.
        query_s: Seconds per query.
        in_memory: Whether machines have to hold it in memory.
    """

    size: float | None = None
    seconds: float | None = None
    query_s: float | None = None
    in_memory: bool = False


def corpus_stages(
    functions: int,
    graph: Mapping[str, Any],
    bm25: Mapping[str, Any],
) -> dict[str, Stage]:
    """Estimate the stages that grow with the corpus.

    Args:
        functions: Number of functions of the corpus.
        graph: What bench_graph.py measured.
        bm25: What bench_bm25.py measured.

    Returns:
        Name -> stage.
    """
    scale = functions / graph["functions"]
    texts = scale * graph["payloads"]
    graph_bytes = scale * 1e6 * graph["disk_mb_without_vectors"]
    vector_bytes = scale * 1e6 * graph["disk_mb"] - graph_bytes
    build = graph["build"]["one"]
    graph_s = scale * (build["wall_s"] + build["save_s"])
    encoding_s = texts / graph["encoding"]["texts_per_cpu_s"]
    search = graph["search"]
    exact_search_s = texts / search["exact_rows"] * search["exact_ms"] / 1000
    depth = math.log(texts) / math.log(search["hnsw_rows"])
    hnsw_build_s = search["hnsw_build_s"] * texts / search["hnsw_rows"] * depth
    hnsw_search_s = depth * search["hnsw"]["128"]["ms"] / 1000
    hnsw_bytes = vector_bytes + texts * LINK_BYTES * search["hnsw_links"]
    bm25_scale = functions / bm25["functions"]
    bm25_build_s = bm25_scale * bm25["build_s"]
    bm25_search_s = bm25_scale * bm25["ours_ms_per_query"] / 1000
    return {
        "graph": Stage(graph_bytes, graph_s),
        "encoding": Stage(vector_bytes, encoding_s),
        "index, exact": Stage(vector_bytes, 0.0, exact_search_s, in_memory=True),
        "index, HNSW": Stage(hnsw_bytes, hnsw_build_s, hnsw_search_s, in_memory=True),
        "index, IVF-PQ": Stage(texts * CODE_BYTES, in_memory=True),
        "index, BM25": Stage(None, bm25_build_s, bm25_search_s),
    }


def query_stages(
    graph: Mapping[str, Any],
    generation: Mapping[str, Any],
    sandbox: Mapping[str, Any],
) -> dict[str, Stage]:
    """Estimate the stages of 1,000 queries, which do not depend on the size of the corpus.

    Args:
        graph: What bench_graph.py measured.
        generation: What bench_generation.py measured.
        sandbox: What bench_sandbox.py measured.

    Returns:
        Name -> stage.
    """
    pruning_ms = graph["pruning"]["median_ms"]
    test_ms = sandbox["without a timeout"]["processor ms a sample"]["apart"]
    batch_s = 1000 * NEW_TOKENS / generation["batch_tokens_per_s"]
    processor_s = batch_s * sandbox["processors"]
    answer_s = NEW_TOKENS / generation["single_tokens_per_s"]
    # Milliseconds of one query are the seconds of 1,000 queries.
    return {
        "1,000 queries: pruning": Stage(None, pruning_ms, pruning_ms / 1000),
        "1,000 queries: generation": Stage(None, processor_s, answer_s),
        "1,000 queries: execution": Stage(None, test_ms, test_ms / 1000),
    }


def stage_cells(
    stage: Stage,
    machine: Machine,
) -> list[str]:
    """Print what a stage needs and costs.

    An index is searched in memory, so machines have to hold it for as long as queries come.
    Everything else is computed once and kept on a disk.

    Args:
        stage: The stage.
        machine: The machine that is rented.

    Returns:
        The cells of COLUMNS.
    """
    machine_hours = (stage.seconds or 0.0) / 3600 / machine.processors
    if stage.in_memory and stage.size:
        machines = math.ceil(stage.size / 1e9 / machine.memory_gb)
        month = machines * HOURS_PER_MONTH * machine.usd_hour
    else:
        machines = math.ceil(machine_hours / machine.hours)
        month = (stage.size or 0.0) / 1e9 * machine.usd_gb_month
    once = machine_hours * machine.usd_hour
    return [
        DASH if stage.size is None else f"{stage.size / 1e9:,.0f} GB",
        duration(stage.seconds),
        f"{machines:,}" if machines else DASH,
        DASH if stage.seconds is None else f"{once:,.2f}",
        f"{month:,.2f}" if stage.size else DASH,
        DASH if stage.query_s is None else f"{stage.query_s:,.4f}",
    ]


def is_measured(measured: CostMeasurements) -> bool:
    """Tell whether every measurement is there that the estimate needs.

    Args:
        measured: The measurements.

    Returns:
        Whether `scale_table` can be made.
    """
    needed = (measured.built, measured.bm25, measured.generation, measured.sandbox)
    return all(needed)


def scale_table(
    functions: int,
    measured: CostMeasurements,
    machine: Machine,
) -> ResultTable:
    """Tabulate what a corpus needs at each stage.

    Args:
        functions: Number of functions of the corpus.
        measured: The measurements, all of which are needed.
        machine: The machine that is rented.

    Returns:
        One row per stage.
    """
    stages = corpus_stages(functions, measured.graph, measured.bm25)
    stages |= query_stages(measured.graph, measured.generation, measured.sandbox)
    rows = {name: stage_cells(stage, machine) for name, stage in stages.items()}
    notes = (
        f"An estimate from the cost of one function. A machine has {machine.processors} "
        f"processors and {machine.memory_gb} GB and costs ${machine.usd_hour:.2f} per hour; a disk "
        f"costs ${machine.usd_gb_month:.2f} per GB and month. Both are SAMPLE prices. Machines: to "
        f"be done in {machine.hours} hours, or to hold an index in memory.",
        f"IVF-PQ takes {CODE_BYTES} bytes per vector; neither its speed nor its recall is measured "
        f"here. Generation: {NEW_TOKENS} generated tokens per answer of {measured.generation['model']}. "
        f"{DASH} not measured.",
    )
    title = f"What a corpus of {functions:,} functions needs"
    return ResultTable.of(title, rows, COLUMNS, "stage", *notes)


def scale_findings(
    functions: int,
    measured: CostMeasurements,
    machine: Machine,
) -> list[str]:
    """Say which stage takes longest, and how large a corpus each index carries.

    Args:
        functions: Number of functions of the corpus.
        measured: The measurements, all of which are needed.
        machine: The machine that is rented.

    Returns:
        Two sentences.
    """
    stages = corpus_stages(functions, measured.graph, measured.bm25)
    seconds = {name: stage.seconds or 0.0 for name, stage in stages.items()}
    longest = max(seconds, key=seconds.__getitem__)
    share = seconds[longest] / sum(seconds.values())
    memory = 1e9 * machine.memory_gb
    exact_search_s = (stages["index, exact"].query_s or math.nan) / functions
    hnsw_bytes = (stages["index, HNSW"].size or math.nan) / functions
    code_bytes = (stages["index, IVF-PQ"].size or math.nan) / functions
    return [
        f"The bottleneck is the {longest}: {100 * share:.1f} % of the processor time.",
        f"Exact search answers within {SEARCH_LIMIT_S} s up to "
        f"{SEARCH_LIMIT_S / exact_search_s:,.0f} functions. One machine's memory holds the "
        f"HNSW index up to {memory / hnsw_bytes:,.0f} functions, and IVF-PQ codes up to "
        f"{memory / code_bytes:,.0f}.",
    ]
