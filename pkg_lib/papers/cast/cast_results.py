"""The stored results of one model on cAST's benchmarks, as the tables and figures read them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.core.store import read_json
from pkg_lib.core.types import Unavailable
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import is_measured
from pkg_lib.papers.cast.cast_steps import LINES, MEAN, OWN, SIZES, mappings

CHAT = "NoRAG, chat prompt"
PACKAGES_BENCHMARK = "packages"
CHAT_BENCHMARK = "packages-chat"
REPOEVAL = "repoeval"
# The chunkings of Table 1, with the paper's names.
PAPER_NAME = {"cast": "cAST", "fixed-size": "Fixed-size"}
# Rows of the table on RepoEval -> chunking and mapping.
REPOEVAL_ROWS = {
    "fixed-size, 60 lines": ("fixed-size", OWN),
    **{f"fixed-size, {n} lines": (f"fixed-size {n}", OWN) for n in LINES},
    "cast, own chunks": ("cast", OWN),
    "cast on 60 lines": ("cast", MEAN),
    **{f"cast on {n} lines": ("cast", f"{MEAN}, {n}") for n in LINES},
    "cast on 60 lines by the max": ("cast", "max"),
    "split-only, own chunks": ("split-only", OWN),
    "split-only on 60 lines": ("split-only", MEAN),
    **{f"cast {size:,} on 60 lines": (f"cast {size}", MEAN) for size in SIZES},
}


@dataclass
class CastResults:
    """The results of one model, and the measurements of `cast prepare`.

    Attributes:
        model: The model's name.
        runs: Benchmark -> its results, of those that are measured.
        folder: Where `cast prepare` writes.
    """

    model: str
    runs: dict[str, Results]
    folder: Path

    @property
    def packages(self) -> Results:
        """The results on functions of packages."""
        return self.runs[PACKAGES_BENCHMARK]

    @cached_property
    def tasks(self) -> pd.Index:
        """The ids of the tasks of packages."""
        return pd.Index([task.id for task in self.packages.tasks])

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """Verdicts [task, method] of the methods that are measured on packages."""
        verdicts = self.packages.verdicts()
        if CHAT_BENCHMARK in self.runs:
            verdicts[CHAT] = self.runs[CHAT_BENCHMARK].verdicts()[stats.BASELINE]
        return verdicts.reindex(self.tasks).dropna(axis=1, how="all")

    def verdicts_of(self, method: str) -> pd.Series:
        """Return the verdicts of one method on packages.

        Args:
            method: A method, such as "cast, BM25".

        Returns:
            Verdict by task id; all missing if the method is not measured.
        """
        if method in self.verdicts:
            return self.verdicts[method]
        return pd.Series(pd.NA, self.tasks, dtype="boolean")

    def body_match(
        self, method: str, measure: str, benchmark: str = PACKAGES_BENCHMARK
    ) -> pd.Series:
        """Return how similar the bodies of a method are to the reference's.

        Args:
            method: A method, such as "cast, BM25".
            measure: A measure of the bodies, such as "edit".
            benchmark: "packages" or "repoeval".

        Returns:
            The measure by task id; empty if it was not measured.
        """
        if method == CHAT:
            method, benchmark = stats.BASELINE, CHAT_BENCHMARK
        run = self.runs.get(benchmark)
        if run is None or method not in run.retrievers:
            return pd.Series(dtype=float)
        frame = run.measures(method)
        if not len(frame):
            return pd.Series(dtype=float)
        if benchmark != REPOEVAL:
            frame = frame.reindex(self.tasks).dropna()
        return frame[measure]

    @cached_property
    def retrieval(self) -> dict[str, pd.DataFrame]:
        """Benchmark -> the retrieval measures of each ranker, chunking, mapping and task."""
        tables = {PACKAGES_BENCHMARK: self.prepared("retrieval.csv")}
        if (self.folder / REPOEVAL / "retrieval.csv").exists():
            tables[REPOEVAL] = self.prepared(f"{REPOEVAL}/retrieval.csv")
        return tables

    @cached_property
    def chunk_statistics(self) -> pd.DataFrame:
        """How each chunker cuts: one row per language, method and mode."""
        return self.prepared("chunk_statistics.csv")

    @cached_property
    def circumstances(self) -> dict[str, Any]:
        """Step of `cast prepare` -> what it was made from."""
        steps = ("tasks", "retrieval", "chunk_statistics")
        return {step: read_json(self.folder / f"{step}.meta.json") for step in steps}

    def prepared(self, name: str) -> pd.DataFrame:
        """Read a table that `cast prepare` has stored.

        Args:
            name: Its path below the folder.

        Raises:
            Unavailable: It is not stored.
        """
        path = self.folder / name
        if not path.exists():
            raise Unavailable(f"no {name} is stored: run python -m pkg_lib cast prepare")
        return pd.read_csv(path)

    def ranking(
        self,
        ranker: str,
        chunking: str,
        metric: str,
        mapping: str = "",
        benchmark: str = PACKAGES_BENCHMARK,
    ) -> pd.Series:
        """Return a retrieval measure of each task.

        Args:
            ranker: One of RANKERS.
            chunking: A name in VARIANTS or BASELINES.
            metric: A measure, such as "nDCG@5".
            mapping: How scores are measured on the baseline's chunks; "" for the tables' own mapping.
            benchmark: "packages" or "repoeval".

        Returns:
            Fraction by task id; empty if it was not measured.
        """
        rows = self.retrieval.get(benchmark, self.retrieval[PACKAGES_BENCHMARK].iloc[:0])
        wanted = {
            "ranker": ranker,
            "chunking": chunking,
            "mapping": mapping or mappings(chunking)[0],
        }
        for name, value in wanted.items():
            rows = rows[rows[name] == value]
        return rows.set_index("task_id")[metric].dropna()

    def repoeval_ranking(self, ranker: str, row: str, metric: str) -> pd.Series:
        """Return a retrieval measure of each task of RepoEval.

        Args:
            ranker: One of RANKERS.
            row: One of REPOEVAL_ROWS.
            metric: A measure, such as "nDCG@5".

        Returns:
            Fraction by task id; empty if it was not measured.
        """
        chunking, mapping = REPOEVAL_ROWS[row]
        return self.ranking(ranker, chunking, metric, mapping, REPOEVAL)

    def check_controls(self) -> None:
        """Check that a function's own body passes every task, and an empty one none.

        Raises:
            ControlError: A control row has another rate.
        """
        rates = {}
        for name, passes in self.packages.benchmark_spec.controls.items():
            rates[name] = 100 if passes else 0
        stats.check_controls(self.packages.controls(), self.tasks, rates)

    def provenance(self) -> dict[str, Any]:
        """Return what the results were made from."""
        return {"generator": self.packages.provenance(), **self.circumstances}


def load_cast_results(results: Path, model: str) -> CastResults:
    """Return a model's results on cAST's benchmarks.

    Args:
        results: The results directory.
        model: The model's name.

    Raises:
        Unavailable: The model is not measured on packages.
    """
    names = (PACKAGES_BENCHMARK, CHAT_BENCHMARK, REPOEVAL)
    stored = [name for name in names if is_measured(results, model, name)]
    if PACKAGES_BENCHMARK not in stored:
        advice = f"run --benchmark {PACKAGES_BENCHMARK} --model {model}"
        raise Unavailable(f"no verdicts of {model} are stored: {advice}")
    runs = {name: Results(model, name) for name in stored}
    return CastResults(model, runs, results / "repo_tasks")


def mean_interval(values: pd.Series) -> stats.Difference | None:
    """Return a mean over tasks with its 95 % percentile bootstrap interval.

    Args:
        values: Value by task.

    Returns:
        The mean; None without values.
    """
    known = np.asarray(values, float)
    if not len(known):
        return None
    shape = (stats.RESAMPLES, len(known))
    sampled = np.random.default_rng(0).integers(0, len(known), shape)
    tail = (1 - stats.CONFIDENCE) / 2
    low, high = np.quantile(known[sampled].mean(axis=1), [tail, 1 - tail])
    return stats.Difference(len(known), float(known.mean()), float(low), float(high))


def mean_difference(values: pd.Series, baseline: pd.Series) -> stats.Difference | None:
    """Return the mean difference over the tasks measured in both, with its paired interval.

    Args:
        values: Value by task.
        baseline: Value by task of what it is compared with.

    Returns:
        The difference; None if no task was measured in both.
    """
    joint = values.index.intersection(baseline.index, sort=False)
    return mean_interval(values.loc[joint] - baseline.loc[joint])
