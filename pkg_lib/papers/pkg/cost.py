"""Tables 8 and 9 (Section 6.4): what the graph takes, the tokens of a context, and prices of tokens."""

import io
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.stats import BASELINE
from pkg_lib.analysis.tables import DASH, HERE, reference_table
from pkg_lib.core.reading import NUMBER, Kinds, read_text
from pkg_lib.core.store import read_json, slug
from pkg_lib.core.types import Generation, UserError

Completions = Mapping[str, Mapping[str, Generation]]  # method -> task id -> completion
PRICES = HERE / "reference" / "prices.csv"
# The paper's first version alone has a graph with the enhancer's docstrings.
ENHANCER = "PKG+Enhancer"
ENHANCEMENT = "Enhancement (PKG+Enhancer, first version)"
# What an enhancer's log needs to have.
ENHANCEMENT_LOG: Kinds = {"asked": int, "seconds": NUMBER, "model": str}
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
    (
        "functions per second",
        (),
        "{one[functions_per_s]:,.0f} (2 processes: {two[functions_per_s]:,.0f})",
    ),
    (
        "time, as a multiple of ast.parse's",
        (),
        "{ratio_paused:.2f} ({ratio:.2f} if ast.parse collects garbage, as by default)",
    ),
    ("docstrings by a model", (ENHANCEMENT,), "{enhancement}"),
    ("encoding", ("Encoding",), "{encoding[texts_per_cpu_s]:.0f} texts/s"),
    ("storage", ("Storage Usage",), "{disk_mb:,.0f} MB"),
    ("storage without vectors", (), "{disk_mb_without_vectors:,.0f} MB"),
    ("loading the graph", (), "{load_s:.2f} s, {resident_mb:.0f} MB of memory"),
    ("query", ("Query",), "exact {search[exact_ms]:.1f} ms, HNSW {hnsw[ms]:.2f} ms"),
    ("HNSW recall@1", (), "{hnsw[recall_at_1]:.3f} (efSearch 128)"),
    (
        "pruning one retrieved function",
        (),
        "{pruning[median_ms]:.1f} ms (99th percentile {pruning[p99_ms]:.1f})",
    ),
)


def stored(results: Path, name: str) -> dict[str, Any]:
    """Read what a benchmark of the implementation measured.

    Args:
        results: The results directory.
        name: The NAME of tests/benchmarks/bench_NAME.py.

    Returns:
        The measurements; {} if the benchmark was not run.

    Raises:
        UserError: The file is damaged.
    """
    path = results / "benchmarks" / f"{name}.json"
    return read_json(path) if path.is_file() else {}


def published() -> pd.Series:
    """Read the paper's Table 8.

    Returns:
        The figures with their units, counts without one; index (step, method).
    """
    rows = reference_table("pkg_table8_cost")
    rows = rows.set_index(["step", "method"])
    figures = rows["value"].map("{:,.0f}".format) + " " + rows["unit"]
    return figures.str.removesuffix(" count")


def stored_enhancement(results: Path, model: str = "") -> dict[str, Any]:
    """Read the log of the enhancer's largest run.

    Args:
        results: The results directory.
        model: Only runs of this model; "" for all models.

    Returns:
        The log of the run that asked for the most docstrings; {} where no run asked for any.

    Raises:
        UserError: A log is damaged.
    """
    folder = slug(model) if model else "*"
    paths = sorted(results.glob(f"enhanced/{folder}/*.log.json"))
    largest: dict[str, Any] = {}
    for path in paths:
        log = read_json(path, ENHANCEMENT_LOG)
        if log["asked"] > largest.get("asked", 0):
            largest = log
    return largest


def enhancement_seconds(enhancement: Mapping[str, Any], functions: int) -> float:
    """Estimate how long the enhancer takes for a number of functions.

    Args:
        enhancement: What `stored_enhancement` returns.
        functions: How many functions get a docstring. The paper enhances all functions of its corpus.

    Returns:
        Seconds at the measured time per function; NaN where nothing was measured.
    """
    if not enhancement:
        return math.nan
    seconds = float(enhancement["seconds"])
    return functions * seconds / int(enhancement["asked"])


def duration(seconds: float | None) -> str:
    """Write a time as "12 s", "60 min" or "2.9 h".

    Args:
        seconds: The time.

    Returns:
        The text; a dash for None and NaN, which stand for a time that is not known.
    """
    if seconds is None or math.isnan(seconds):
        return DASH
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h"


def table8_rows(
    measured: Mapping[str, Any], enhancement: Mapping[str, Any] | None = None
) -> list[tuple[str, str, str]]:
    """Set the steps of the paper's Table 8 beside what was measured here.

    Args:
        measured: What `tests/benchmarks/bench_graph.py` measured; {} without it.
        enhancement: What `stored_enhancement` returns.

    Returns:
        A row for each step: its name, the paper's figure or "", and the one measured here or a dash. The
        enhancement is measured on a sample and estimated for all functions of the graph.
    """
    paper = published()
    values = dict(measured)
    if measured:
        values |= measured["build"] | {"hnsw": measured["search"]["hnsw"]["128"]}
    if enhancement:
        each = enhancement["seconds"] / enhancement["asked"]
        values["enhancement"] = f"{each:.1f} s per function"
        if measured:
            whole = duration(enhancement_seconds(enhancement, measured["functions"]))
            values["enhancement"] += f": {whole} (estimate)"

    def here(template: str) -> str:
        try:
            return template.format_map(values)
        except KeyError:
            return DASH

    rows = []
    for step, steps, form in STEPS:
        method = ENHANCER if ENHANCEMENT in steps else "PKG"
        printed = " + ".join(paper[name, method] for name in steps)
        rows.append((step, printed, here(form)))
    return rows


def enhancement_note(enhancement: Mapping[str, Any]) -> str:
    """Say what the figure for the enhancement was measured on.

    Args:
        enhancement: What `stored_enhancement` returns.

    Returns:
        A note for a table.
    """
    about = (
        "Docstrings by a model: the enhancer of the paper's first version, where StarCoder2-7B writes "
        "docstrings for all functions. "
    )
    if not enhancement:
        return f"{about}It was not measured here."
    asked = f"{enhancement['model']} was asked for docstrings of {enhancement['asked']:,} functions"
    return f"{about}Here {asked}; the estimate is for all functions of the graph."


def build_seconds(graph: Mapping[str, Any]) -> dict[str, float]:
    """Estimate how long it takes to build what PKG and VoyageEmb search.

    Encoding is an estimate: distinct texts over the measured texts per processor second. VoyageEmb encodes
    the documents as rows, cut at the same number of word pieces. Search is exact, so no HNSW index is
    built.

    Args:
        graph: What `tests/benchmarks/bench_graph.py` measured; {} without it.

    Returns:
        Seconds for "PKG: encoding", "PKG" (all steps) and "VoyageEmb"; {} where a part was not measured.
    """
    if "encoding" not in graph:
        return {}
    build = graph["build"]["one"]
    texts_per_second = graph["encoding"]["texts_per_cpu_s"]
    encoding = graph["payloads"] / texts_per_second
    return {
        "PKG: encoding": encoding,
        "PKG": build["wall_s"] + build["save_s"] + encoding,
        "VoyageEmb": graph["documents"] / texts_per_second,
    }


def token_counts(completions: Completions, count: Callable[[Generation], int]) -> pd.DataFrame:
    """Count tokens of each completion.

    Args:
        completions: Completions by method and task id.
        count: Counts the tokens of one.

    Returns:
        The counts [task, method]; NaN where there is no completion.
    """
    counts = {}
    for method, generations in completions.items():
        by_task = {task_id: count(generation) for task_id, generation in generations.items()}
        counts[method] = pd.Series(by_task, dtype=float)
    return pd.DataFrame(counts)


def added_tokens(completions: Completions) -> pd.DataFrame:
    """Count the tokens that a context adds to a prompt, with the words around the context.

    Args:
        completions: Completions by method and task id, with those of NoRAG.

    Returns:
        Tokens of the prompt minus those of NoRAG's [task, method].
    """
    tokens = token_counts(completions, lambda generation: generation.prompt_tokens)
    return tokens.drop(columns=BASELINE).sub(tokens[BASELINE], axis=0)


def read_prices(path: Path) -> pd.DataFrame:
    """Read the prices of tokens.

    Args:
        path: A CSV file with the columns model, input_usd_per_million and output_usd_per_million.

    Returns:
        Dollars for a million tokens, index model; NaN for an empty cell.

    Raises:
        UserError: The file is damaged.
    """
    columns = ["input_usd_per_million", "output_usd_per_million"]
    try:
        text = io.StringIO(read_text(path, ""))
        table = pd.read_csv(text, dtype=str, index_col="model")
        prices: pd.DataFrame = table[columns].apply(pd.to_numeric)
        is_wrong = (prices < 0) | (prices == math.inf)
        if is_wrong.any(axis=None) or prices.index.has_duplicates:
            raise ValueError("a price is no number of 0 or more, or a model occurs twice")
    except (UserError, ValueError, KeyError, TypeError) as error:
        why = " ".join(str(error)[:200].split())
        needs = f"it needs the columns model, {', '.join(columns)}"
        raise UserError(f"cannot read prices from {path} ({why}); {needs}") from error
    return prices
