"""Tables 8 and 9 (Section 6.4): what the graph takes, the tokens of a context, and prices of tokens."""

import io
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.stats import BASELINE
from pkg_lib.analysis.tables import DASH, HERE
from pkg_lib.core.reading import read_text
from pkg_lib.core.store import read_json
from pkg_lib.core.types import Generation, UserError

Completions = Mapping[str, Mapping[str, Generation]]  # column -> task id -> completion
PRICES = HERE / "reference" / "prices.csv"
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


def stored(results: Path, name: str) -> dict[str, Any]:
    """What tests/benchmarks/bench_NAME.py measured; {} where it did not run. UserError for a damaged file."""
    path = results / "benchmarks" / f"{name}.json"
    return read_json(path) if path.is_file() else {}


def published() -> pd.Series:
    """The figures of the paper's Table 8 with their units, counts without one; index (step, method)."""
    rows = pd.read_csv(HERE / "reference" / "pkg_table8_cost.csv").set_index(["step", "method"])
    figures = rows["value"].map("{:,.0f}".format) + " " + rows["unit"]
    return figures.str.removesuffix(" count")


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


def build_seconds(graph: Mapping[str, Any]) -> dict[str, float]:
    """Estimate how long it takes to build what PKG and Dense search.

    Encoding is an estimate: distinct texts over the measured texts per processor second. Dense encodes the
    documents as rows, cut at the same number of word pieces. Search is exact, so no HNSW index is built.

    Args:
        graph: What `tests/benchmarks/bench_graph.py` measured; {} without it.

    Returns:
        Seconds for "PKG: encoding", "PKG" (all steps) and "Dense"; {} where a part was not measured.
    """
    if "encoding" not in graph:
        return {}
    one, per_second = graph["build"]["one"], graph["encoding"]["texts_per_cpu_s"]
    encoding, rows = graph["payloads"] / per_second, graph["documents"] / per_second
    return {"PKG: encoding": encoding, "PKG": one["wall_s"] + one["save_s"] + encoding, "Dense": rows}


def token_counts(completions: Completions, count: Callable[[Generation], int]) -> pd.DataFrame:
    """`count` of each completion [task, column]; NaN where there is none."""
    columns = {c: {i: count(g) for i, g in tasks.items()} for c, tasks in completions.items()}
    return pd.DataFrame({c: pd.Series(counts, dtype=float) for c, counts in columns.items()})


def added_tokens(completions: Completions) -> pd.DataFrame:
    """Tokens of the prompt minus those of None's [task, column], the words around the context included."""
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
