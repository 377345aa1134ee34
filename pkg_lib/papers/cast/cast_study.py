"""What cast.ipynb reads of one model's stored runs, and the cells of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import CONFIDENCE, RESAMPLES, ControlError, Difference, pass_at_1, wilson
from pkg_lib.analysis.tables import DASH, HERE, interval, percent, points
from pkg_lib.core.models import model_spec
from pkg_lib.core.types import NotAtHand
from pkg_lib.papers.cast.context_columns import COLUMNS
from pkg_lib.papers.cast.function_benchmarks import BENCHMARKS, PackageFunctions, stored_table
from pkg_lib.papers.cast.repository_functions import CONTROLS
from pkg_lib.papers.cast.retrieval_quality import load, mappings, stored_in


@dataclass(frozen=True)
class CastRuns:
    """One model's stored runs; nothing is computed. UserError for an unknown model, or without runs."""

    results: Path
    model: str

    def __post_init__(self) -> None:
        model_spec(self.model)
        for name, wanted in CONTROLS.items():
            verdicts = self._verdicts(self.packages.verdicts("controls", name))
            wrong = verdicts.index[verdicts.isna() | (verdicts.fillna(not wanted) != wanted)]
            if len(wrong):
                where = f"{len(wrong)} tasks (first: {wrong[0]})"
                raise ControlError(f"control row '{name}' is wrong for {where}; no table is written")
        if not self.rows:
            step = f"python -m pkg_lib repo-tasks --model {self.model}"
            raise NotAtHand(f"no verdicts of {self.model} are stored: run {step}")

    @cached_property
    def packages(self) -> PackageFunctions:
        return PackageFunctions(self.results)

    @cached_property
    def ids(self) -> list[str]:
        return [row["id"] for row in self.packages.rows()]

    @cached_property
    def rows(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Column -> task -> its row of verdict and measures; columns that were judged only."""
        rows = {name: self.packages.verdicts(self.model, name) for name in COLUMNS}
        return {name: by_task for name, by_task in rows.items() if by_task}

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """Boolean [task, column], <NA> where not measured; columns that were judged only."""
        return pd.DataFrame({name: self._verdicts(rows) for name, rows in self.rows.items()}, index=self.ids)

    def _verdicts(self, rows: Mapping[str, Mapping[str, Any]]) -> pd.Series:
        known = {i: row["status"] == "passed" for i, row in rows.items() if row["status"] != "not_measured"}
        return pd.Series([known.get(i, pd.NA) for i in self.ids], self.ids, dtype="boolean")

    def column(self, name: str) -> pd.Series:
        """A column's verdicts, all <NA> where it was not judged."""
        return self._verdicts(self.rows.get(name, {}))

    def matches(self, name: str, measure: str, benchmark: str = "packages") -> pd.Series:
        """How far the bodies of a column are the reference's; empty where it was not judged."""
        rows = BENCHMARKS[benchmark](self.results).verdicts(self.model, name)
        return pd.Series({task: row[measure] for task, row in rows.items()}, dtype=float)

    @cached_property
    def retrieval(self) -> dict[str, pd.DataFrame]:
        """Benchmark -> its retrieval measures; RepoEval's where they are stored."""
        stored = ["repoeval"] if stored_in(self.results, "repoeval").exists() else []
        return {name: load(self.results, name) for name in ("packages", *stored)}

    def measure(
        self, ranker: str, chunking: str, metric: str, mapping: str = "", benchmark: str = "packages"
    ) -> pd.Series:
        """A retrieval measure of each task, as a fraction; empty where it was not measured."""
        rows = self.retrieval.get(benchmark, self.retrieval["packages"].iloc[:0])
        wanted = {"ranker": ranker, "chunking": chunking, "mapping": mapping or mappings(chunking)[0]}
        for name, value in wanted.items():
            rows = rows[rows[name] == value]
        return rows.set_index("task_id")[metric].dropna()

    @property
    def chunk_statistics(self) -> pd.DataFrame:
        return stored_table(self.packages.home / "chunk_statistics.csv", "chunk statistics", "chunks")

    def provenance(self) -> dict[str, Any]:
        """What the stored runs were made from."""
        column = next((c for c in COLUMNS if self.packages.context_file(c).exists()), "None")
        stem = self.packages.context_file(column).stem
        parts = {name: self.packages.meta(name) for name in ("tasks", "retrieval", "chunk_statistics")}
        return {"generator": self.packages.meta(f"contexts/{stem}"), **parts}


def mean_interval(values: Sequence[float] | pd.Series) -> Difference | None:
    """The mean over tasks with its percentile bootstrap interval; None without any."""
    known = np.asarray(values, float)
    if not len(known):
        return None
    drawn = np.random.default_rng(0).integers(0, len(known), (RESAMPLES, len(known)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(known[drawn].mean(axis=1), [tail, 1 - tail])
    return Difference(len(known), float(known.mean()), float(low), float(high))


def mean_difference(a: pd.Series, b: pd.Series) -> Difference | None:
    """The mean of a − b over the tasks measured in both, with its paired bootstrap interval."""
    joint = a.index.intersection(b.index, sort=False)
    return mean_interval(a.loc[joint] - b.loc[joint])


def mean_cell(values: pd.Series) -> str:
    """A mean in percent with its 95 % interval; a dash without values."""
    mean = mean_interval(values)
    return f"{percent(mean.value)} ({percent(mean.low)}{DASH}{percent(mean.high)})" if mean else DASH


def pass_cell(verdicts: pd.Series) -> str:
    """pass@1 in percent with its Wilson interval, and n where not every task was measured."""
    rate = pass_at_1(verdicts)
    bounds = wilson(rate.passed, rate.measured)
    if rate.value is None or bounds is None:
        return DASH
    partial = f", n={rate.measured}" if rate.measured < rate.total else ""
    return f"{percent(rate.value)} ({percent(bounds[0])}{DASH}{percent(bounds[1])}{partial})"


def difference_cells(difference: Difference | None) -> list[str]:
    """n, the difference in points and its interval."""
    if difference is None:
        return [DASH] * 3
    return [str(difference.n), points(difference.value), interval(difference.low, difference.high)]


def reference(name: str) -> pd.DataFrame:
    """A published table as text, numbers as printed."""
    return pd.read_csv(HERE / "reference" / f"cast_{name}.csv", dtype=str, keep_default_na=False)


def published(name: str, value: str = "", **wanted: str) -> str:
    """The one printed number (of the last column, if not named) of the rows with these values, or a dash."""
    rows = reference(name)
    for column, text in wanted.items():
        rows = rows[rows[column] == (f"Recall{text[1:]}" if text.startswith("R@") else text)]
    return rows[value or rows.columns[-1]].iloc[0] if len(rows) else DASH


def grid(
    title: str, rows: Mapping[str, Sequence[str]], columns: Sequence[Any], index: str, *notes: str
) -> Grid:
    """Rows of text by name as a table; columns that are pairs have a group."""
    frame = pd.DataFrame.from_dict({name: list(row) for name, row in rows.items()}, orient="index")
    names = pd.MultiIndex.from_tuples(columns) if isinstance(columns[0], tuple) else list(columns)
    return Grid(title, frame.set_axis(names, axis=1).rename_axis(index), notes)
