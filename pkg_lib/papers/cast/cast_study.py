"""What cast.ipynb shows, read from results/repo_tasks: tasks, retrieval measures, verdicts, contexts, chunk statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pkg_lib.analysis.stats import CONFIDENCE, RESAMPLES, ControlError, Difference
from pkg_lib.analysis.tables import HERE
from pkg_lib.core.models import model_spec
from pkg_lib.core.store import read_rows
from pkg_lib.core.types import NotAtHand
from pkg_lib.papers.cast import cast_store as store
from pkg_lib.papers.cast.cast_columns import COLUMNS
from pkg_lib.papers.cast.judging import CONTROLS
from pkg_lib.papers.cast.retrieving import load as load_retrieval
from pkg_lib.papers.cast.retrieving import mappings
from pkg_lib.papers.cast.verdicts import stored

BASELINE = "None"
MEASURES = ("exact", "edit", "identifiers_exact", "identifiers_f1")


@dataclass(frozen=True)
class Study:
    """The stored runs of one model. UserError for an unknown model, or where no tasks are stored."""

    results: Path
    model: str

    def __post_init__(self) -> None:
        model_spec(self.model)
        check_controls(self.controls)

    @cached_property
    def tasks(self) -> list[dict[str, Any]]:
        return store.stored_rows(self.results)

    @cached_property
    def ids(self) -> list[str]:
        return [t["id"] for t in self.tasks]

    @cached_property
    def rows(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Column -> task -> its row of verdict and measures; columns that were judged only."""
        found = {name: {r["task_id"]: r for r in stored(self.results, self.model, name)} for name in COLUMNS}
        return {name: rows for name, rows in found.items() if rows}

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """Boolean [task, column], <NA> where not measured; columns that were judged only."""
        return pd.DataFrame({name: self._verdicts(rows) for name, rows in self.rows.items()}, index=self.ids)

    def _verdicts(self, rows: Mapping[str, Mapping[str, Any]]) -> pd.Series:
        said = [rows[i]["status"] if i in rows else "not_measured" for i in self.ids]
        return pd.Series(
            [pd.NA if s == "not_measured" else s == "passed" for s in said], self.ids, dtype="boolean"
        )

    def column(self, name: str) -> pd.Series:
        """A column's verdicts, all <NA> where it was not judged."""
        return self.verdicts[name] if name in self.verdicts else pd.Series(pd.NA, self.ids, dtype="boolean")

    @cached_property
    def controls(self) -> pd.DataFrame:
        """Boolean [task, control]."""
        found = {c: store.load_outcomes(self.results, "controls", c) for c in CONTROLS}
        rows = {c: {i: {"status": o.status} for i, o in own.items()} for c, own in found.items()}
        return pd.DataFrame({c: self._verdicts(own) for c, own in rows.items()}, index=self.ids)

    @cached_property
    def retrieval(self) -> pd.DataFrame:
        return load_retrieval(self.results)

    def measure(self, ranker: str, chunking: str, metric: str, mapping: str = "") -> pd.Series:
        """A retrieval measure of each task, as a fraction; empty where it was not measured."""
        rows, mapping = self.retrieval, mapping or mappings(chunking)[0]
        own = rows[(rows["ranker"] == ranker) & (rows["chunking"] == chunking) & (rows["mapping"] == mapping)]
        return own.set_index("task_id")[metric].dropna()

    def matches(self, name: str, measure: str) -> pd.Series:
        """One of MEASURES for each completion of a column; empty where it was not judged."""
        own = self.rows.get(name, {})
        return pd.Series({i: own[i][measure] for i in self.ids if i in own}, dtype=float)

    @cached_property
    def contexts(self) -> dict[str, list[dict[str, Any]]]:
        """Column -> what stood in the prompts of its tasks."""
        paths = {name: store.context_file(self.results, name) for name in COLUMNS}
        return {
            name: read_rows(p, ("task_id", "chunks", "tokens", "holds_body"))
            for name, p in paths.items()
            if p.exists()
        }

    @cached_property
    def chunk_statistics(self) -> pd.DataFrame:
        path = store.home(self.results) / "chunk_statistics.csv"
        if not path.exists():
            raise store.missing("chunk statistics", "chunks")
        return pd.read_csv(path)

    @cached_property
    def meta(self) -> dict[str, Any]:
        """How the tasks were chosen, and what the parts were made with."""
        return store.load_meta(self.results, "tasks.meta.json")

    def made_with(self) -> dict[str, Any]:
        """The settings of the model's run."""
        columns = [c for c in COLUMNS if store.context_file(self.results, c).exists()]
        path = store.context_file(self.results, columns[0]) if columns else None
        return store.load_meta(self.results, f"contexts/{path.stem}.meta.json") if path else {}


def check_controls(controls: pd.DataFrame) -> None:
    """ControlError unless the canonical bodies pass every task and the empty ones none."""
    for name, wanted in CONTROLS.items():
        verdicts = controls[name]
        wrong = verdicts.index[verdicts.isna() | (verdicts.fillna(not wanted) != wanted)]
        if len(wrong):
            raise ControlError(
                f"control row '{name}' is wrong for {len(wrong)} tasks (first: {wrong[0]}); no table is written"
            )


def mean_interval(values: Sequence[float] | pd.Series, seed: int = 0) -> Difference | None:
    """The mean over tasks with its percentile bootstrap interval; None without any."""
    known = np.asarray(values, float)
    if not len(known):
        return None
    drawn = np.random.default_rng(seed).integers(0, len(known), (RESAMPLES, len(known)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(known[drawn].mean(axis=1), [tail, 1 - tail])
    return Difference(len(known), float(known.mean()), float(low), float(high))


def mean_difference(a: pd.Series, b: pd.Series) -> Difference | None:
    """The mean of a − b over the tasks measured in both, with its paired bootstrap interval."""
    joint = a.index.intersection(b.index, sort=False)
    return mean_interval(a.loc[joint] - b.loc[joint])


def reference(name: str) -> pd.DataFrame:
    """A published table as text, numbers as printed."""
    return pd.read_csv(HERE / "reference" / f"cast_{name}.csv", dtype=str, keep_default_na=False)


def published(frame: pd.DataFrame, value: str, **wanted: str) -> str:
    """The one printed number of the rows that have these values; "" where there is none. R@k is Recall@k there."""
    rows = frame
    for column, text in wanted.items():
        rows = rows[rows[column] == (f"Recall{text[1:]}" if text.startswith("R@") else text)]
    return rows[value].iloc[0] if len(rows) else ""


def judged(study: Study, names: Iterable[str]) -> list[str]:
    """Those of the columns that have verdicts."""
    return [n for n in names if n in study.verdicts]


def require_columns(study: Study) -> None:
    """UserError where no column was judged for the model."""
    if not study.rows:
        raise NotAtHand(
            f"no verdicts of {study.model} are stored: run python -m pkg_lib repo-tasks --model {study.model}"
        )
