"""Tables 8 and 9 (Section 6.4): the tokens of a context, and after how many queries the graph has paid.

The paper says (Section 6.5) that the cost of building is amortized over many queries, and gives no number.
Here: extra seconds of building the graph over a row index, over the seconds that its shorter contexts save a
query. What a token of the prompt takes is not measured, so there are two bounds: no time, or as long as a new
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import stats

from pkg_lib.analysis.stats import BASELINE, CONFIDENCE
from pkg_lib.analysis.tables import HERE
from pkg_lib.core.types import Generation
from pkg_lib.papers.pkg.table8 import GRAPH, build_seconds, stored

GENERATION = Path("benchmarks", "generation.json")
TABLE9_AS = {"VoyageEmb": "Dense"}
ROWS, GRAPHS = ("Dense", "BM25"), ("Block-PKG", "Func-PKG")
Completions = Mapping[str, Mapping[str, Generation]]  # column -> task id -> completion


def prompt_tokens(completions: Completions) -> pd.DataFrame:
    """Tokens of each prompt [task, column]; NaN where there is no completion."""
    return _frame(completions, lambda g: g.prompt_tokens)


def new_tokens(completions: Completions) -> pd.DataFrame:
    """Tokens that the model wrote [task, column], without the end token; NaN where there is no completion."""
    return _frame(completions, lambda g: len(g.tokens))


def _frame(completions: Completions, count: Callable[[Generation], int]) -> pd.DataFrame:
    columns = {c: {i: count(g) for i, g in tasks.items()} for c, tasks in completions.items()}
    return pd.DataFrame({c: pd.Series(counts, dtype=float) for c, counts in columns.items()})


def added_tokens(completions: Completions) -> pd.DataFrame:
    """Tokens of the prompt minus those of None's for the same task [task, column].

    They include the words that introduce the context; a task for which nothing was found adds 0.
    """
    tokens = prompt_tokens(completions)
    return tokens.drop(columns=BASELINE).sub(tokens[BASELINE], axis=0)


def table9() -> pd.DataFrame:
    """The paper's mean tokens of a context on HumanEval: column x tokenizer."""
    rows = pd.read_csv(HERE / "reference" / "pkg_table9_context_tokens.csv")
    return rows.pivot(index="method", columns="tokenizer", values="avg_tokens").rename(index=TABLE9_AS)


def mean_interval(known: pd.Series) -> tuple[float, float]:
    """Student's interval of a mean; the mean itself where all are equal or there is but one."""
    error = stats.sem(known) if len(known) > 1 else 0.0
    if not error:
        return float(known.mean()), float(known.mean())
    low, high = stats.t.interval(CONFIDENCE, len(known) - 1, known.mean(), error)
    return float(low), float(high)


def rate(results: Path, model: str) -> dict[str, Any] | None:
    """The stored speed of this very model; None where it was not measured."""
    speed = stored(results, GENERATION)
    return speed if speed and speed.get("model") == model else None


@dataclass(frozen=True, slots=True)
class Saving:
    """What one query with a column of the graph saves against one with a column of rows, negative where it
    costs more.

    `extra_s`: seconds of building more; `prompt`, `new`: mean tokens saved; `search_s`: seconds of searching
    more.
    """

    name: str
    tasks: int
    extra_s: float | None
    prompt: float
    new: float | None
    search_s: float

    def seconds(self, per_second: float, prompt_share: float) -> float:
        """Seconds saved a query where a token of the prompt takes `prompt_share` of a new one's time."""
        return (prompt_share * self.prompt + (self.new or 0.0)) / per_second - self.search_s

    def queries(self, per_second: float, prompt_share: float) -> float | None:
        """Queries until the building has paid; infinite where nothing is saved, None if not measured."""
        if self.extra_s is None:
            return None
        saved = self.seconds(per_second, prompt_share)
        return math.inf if saved <= 0 else max(0.0, self.extra_s / saved)


def savings(completions: Completions, results: Path) -> list[Saving]:
    """Each measured column of the graph against each one of rows, over the tasks that both completed.

    BM25's row index and Dense's search are not measured and count as free, so a break-even is at most too
    late.
    """
    asked, wrote, built = prompt_tokens(completions), new_tokens(completions), build_seconds(results)
    graph = stored(results, GRAPH)
    search = (graph["search"]["exact_ms"] + graph["pruning"]["median_ms"]) / 1000 if graph else 0.0
    pairs = [(g, r) for g in GRAPHS for r in ROWS if g in completions and r in completions]
    measured = []
    for column, row in pairs:
        prompt, new = (asked[row] - asked[column]).dropna(), (wrote[row] - wrote[column]).dropna()
        extra = built["PKG"] - (built["Dense"] if row == "Dense" else 0.0) if "PKG" in built else None
        if len(prompt):
            name = f"{column} against {row}"
            measured.append(Saving(name, len(prompt), extra, prompt.mean(), new.mean(), search))
    return measured


def published_savings() -> dict[str, Saving]:
    """The same of the paper, by name: minutes of Table 8, mean tokens of Table 9; it prints no new tokens."""
    tokens = table9().mean(axis=1)
    figures = pd.read_csv(HERE / "reference" / "pkg_table8_cost.csv").set_index(["step", "method"])["value"]
    savings = {}
    for column in GRAPHS:
        for row, method in zip(ROWS, ("VoyageAI", "BM25"), strict=True):
            extra = 60.0 * (figures["Overall Time", "PKG"] - figures["Overall Time", method])
            search = float(figures["Query", "PKG"]) if method == "BM25" else 0.0
            name, saved = f"published: {column} against {method}", tokens[row] - tokens[column]
            savings[f"{column} against {row}"] = Saving(name, 0, extra, saved, None, search)
    return savings
