"""Tables 8 and 9 (Section 6.4): what the graph takes, the tokens of a context, and prices of tokens."""

import io
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.stats import BASELINE
from pkg_lib.analysis.tables import DASH, HERE
from pkg_lib.core.reading import NUMBER, Kinds, read_text
from pkg_lib.core.store import read_json, slug
from pkg_lib.core.types import Generation, UserError

Completions = Mapping[str, Mapping[str, Generation]]  # column -> task id -> completion
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
    ("functions/s", (), "{one[functions_per_s]:,.0f} (2 processes: {two[functions_per_s]:,.0f})"),
    ("time over ast.parse", (), "{ratio:.2f} (collector paused in both: {ratio_paused:.2f})"),
    ("enhancement", (ENHANCEMENT,), "{enhancement}"),
    ("encoding", ("Encoding",), "{encoding[texts_per_cpu_s]:.0f} texts/s"),
    ("storage", ("Storage Usage",), "{disk_mb:,.0f} MB"),
    ("storage without vectors", (), "{disk_mb_without_vectors:,.0f} MB"),
    ("load", (), "{load_s:.2f} s, {resident_mb:.0f} MB resident"),
    ("query", ("Query",), "exact {search[exact_ms]:.1f} ms, HNSW {hnsw[ms]:.2f} ms"),
    ("HNSW recall@1", (), "{hnsw[recall_at_1]:.3f} (efSearch 128)"),
    (
        "pruning a function",
        (),
        "{pruning[median_ms]:.1f} ms (99th percentile {pruning[p99_ms]:.1f})",
    ),
)


def stored(results: Path, name: str) -> dict[str, Any]:
    """What tests/benchmarks/bench_NAME.py measured; {} where it did not run. UserError for a damaged file."""
    path = results / "benchmarks" / f"{name}.json"
    return read_json(path) if path.is_file() else {}


def published() -> pd.Series:
    """The figures of the paper's Table 8 with their units, counts without one; index (step, method)."""
    rows = pd.read_csv(HERE / "reference" / "pkg_table8_cost.csv").set_index(["step", "method"])
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
    logs = [log for log in (read_json(path, ENHANCEMENT_LOG) for path in paths) if log["asked"] > 0]
    return max(logs, key=lambda log: log["asked"], default={})


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
    return functions * enhancement["seconds"] / enhancement["asked"]


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
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


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
    paper, values = published(), dict(measured)
    if measured:
        values |= measured["build"] | {"hnsw": measured["search"]["hnsw"]["128"]}
    if enhancement:
        each = enhancement["seconds"] / enhancement["asked"]
        values["enhancement"] = f"{each:.1f} s a function"
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
        rows.append((step, " + ".join(paper[s, method] for s in steps), here(form)))
    return rows


def enhancement_note(enhancement: Mapping[str, Any]) -> str:
    """Say what the figure for the enhancement was measured on.

    Args:
        enhancement: What `stored_enhancement` returns.

    Returns:
        A note for a table.
    """
    about = (
        "Enhancement: the paper's first version, where StarCoder2-7B writes docstrings for all "
        "functions. "
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
    one, per_second = graph["build"]["one"], graph["encoding"]["texts_per_cpu_s"]
    encoding, rows = graph["payloads"] / per_second, graph["documents"] / per_second
    return {
        "PKG: encoding": encoding,
        "PKG": one["wall_s"] + one["save_s"] + encoding,
        "VoyageEmb": rows,
    }


def token_counts(completions: Completions, count: Callable[[Generation], int]) -> pd.DataFrame:
    """`count` of each completion [task, column]; NaN where there is none."""
    columns = {c: {i: count(g) for i, g in tasks.items()} for c, tasks in completions.items()}
    return pd.DataFrame({c: pd.Series(counts, dtype=float) for c, counts in columns.items()})


def added_tokens(completions: Completions) -> pd.DataFrame:
    """Tokens of the prompt minus those of NoRAG's [task, column], the words around the context included."""
    tokens = token_counts(completions, lambda g: g.prompt_tokens)
    return tokens.drop(columns=BASELINE).sub(tokens[BASELINE], axis=0)


def read_prices(path: Path) -> pd.DataFrame:
    """Dollars for a million tokens, index model; NaN for an empty cell. UserError for a damaged file."""
    columns = ["input_usd_per_million", "output_usd_per_million"]
    try:
        text = io.StringIO(read_text(path, ""))
        prices = pd.read_csv(text, dtype=str, index_col="model")[columns].apply(pd.to_numeric)
        if ((prices < 0) | (prices == math.inf)).any(axis=None) or prices.index.has_duplicates:
            raise ValueError("a price is no number of 0 or more, or a model stands there twice")
    except (UserError, ValueError, KeyError, TypeError) as e:
        needs = f"it needs the columns model, {', '.join(columns)}"
        why = " ".join(str(e)[:200].split())
        raise UserError(f"cannot read prices from {path} ({why}); {needs}") from e
    return prices
