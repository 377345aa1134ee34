"""The stored results of one model on cAST's benchmarks, as the tables and figures read them."""

import io
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.core.models import model_spec
from pkg_lib.core.reading import read_text
from pkg_lib.core.store import read_json
from pkg_lib.core.types import UnavailableError
from pkg_lib.evaluation.controls import check_controls
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import is_measured
from pkg_lib.papers.cast.cast_steps import MEAN, OWN, RANKERS, mappings
from pkg_lib.papers.cast.chunk_retrieval import SLIDING
from pkg_lib.papers.cast.function_bodies import table_variants

CHAT = "NoRAG, chat prompt"
PACKAGES_BENCHMARK = "packages"
CHAT_BENCHMARK = "packages-chat"
REPOEVAL = "repoeval"
REPOEVAL_TESTS = "repoeval-tests"
# The chunkings of Table 1, with the paper's names.
PAPER_NAME = {"cast": "cAST", "fixed-size": "Fixed-size"}


def chunking_label(chunking: str) -> str:
    """Write the name of a chunking as the paper does.

    Args:
        chunking: A name as in methods, such as "cast" or "cast+overlap".

    Returns:
        The name with "cAST" in place of "cast".
    """
    return re.sub(r"\bcast\b", "cAST", chunking)


# Rows of the table on RepoEval -> chunking and mapping.
REPOEVAL_ROWS = {
    "fixed-size, 60 lines": ("fixed-size", OWN),
    "fixed-size, 20 lines": ("fixed-size 20", OWN),
    "fixed-size, 10 lines": ("fixed-size 10", OWN),
    "windows of 20 lines in steps of 10": (SLIDING, OWN),
    "cAST, own chunks": ("cast", OWN),
    "cAST, mapped to 60 lines": ("cast", MEAN),
    "cAST, mapped to 20 lines": ("cast", f"{MEAN}, 20"),
    "cAST, mapped to 10 lines": ("cast", f"{MEAN}, 10"),
    "cAST, mapped to windows of 20 lines": ("cast", f"{MEAN}, {SLIDING}"),
    "cAST, mapped to 60 lines by the maximum": ("cast", "max"),
    "split-only, own chunks": ("split-only", OWN),
    "split-only, mapped to 60 lines": ("split-only", MEAN),
    "cAST, chunks of 1,000, mapped to 60 lines": ("cast 1000", MEAN),
    "cAST, chunks of 1,500, mapped to 60 lines": ("cast 1500", MEAN),
    "cAST, chunks of 2,500, mapped to 60 lines": ("cast 2500", MEAN),
    "cAST, chunks of 3,000, mapped to 60 lines": ("cast 3000", MEAN),
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

    @property
    def compared_methods(self) -> list[str]:
        """The methods that are measured on packages, without those of Tables 2 to 4 alone."""
        variants: set[str] = set()
        for ranker in RANKERS:
            variants.update(table_variants(ranker))
        return [method for method in map(str, self.verdicts) if method not in variants]

    @cached_property
    def repoeval_verdicts(self) -> pd.DataFrame:
        """Verdicts [task, method] on the functions of RepoEval that tests judge, as far as measured."""
        if REPOEVAL_TESTS not in self.runs:
            return pd.DataFrame()
        return self.runs[REPOEVAL_TESTS].verdicts().dropna(axis=1, how="all")

    def verdicts_of(self, method: str, benchmark: str = PACKAGES_BENCHMARK) -> pd.Series:
        """Return the verdicts of one method.

        Args:
            method: A method, such as "cast, BM25".
            benchmark: "packages" or "repoeval-tests".

        Returns:
            Verdict by task id; all missing if the method is not measured.
        """
        on_packages = benchmark == PACKAGES_BENCHMARK
        verdicts = self.verdicts if on_packages else self.repoeval_verdicts
        if method in verdicts:
            return verdicts[method]
        tasks = self.tasks if on_packages else verdicts.index
        return pd.Series(pd.NA, tasks, dtype="boolean")

    def body_match(
        self,
        method: str,
        measure: str,
        benchmark: str = PACKAGES_BENCHMARK,
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
            method = stats.BASELINE
            benchmark = CHAT_BENCHMARK
        frame = pd.DataFrame()
        run = self.runs.get(benchmark)
        if run and method in run.retrievers:
            frame = run.measures(method)
        if frame.empty:
            return pd.Series(dtype=float)
        if benchmark != REPOEVAL:
            frame = frame.reindex(self.tasks).dropna()
        return frame[measure]

    @cached_property
    def retrieval(self) -> dict[str, pd.DataFrame]:
        """Benchmark -> the retrieval measures of each ranker, chunking, mapping and task."""
        tables = {PACKAGES_BENCHMARK: self._retrieval_of(self.folder)}
        if list((self.folder / REPOEVAL).glob("retrieval.*")):
            tables[REPOEVAL] = self._retrieval_of(self.folder / REPOEVAL)
        return tables

    def _retrieval_of(self, folder: Path) -> pd.DataFrame:
        """Read the measures of a benchmark, and those of single chunkings beside them."""
        packed, plain = folder / "retrieval.csv.gz", folder / "retrieval.csv"
        measures = packed if packed.exists() else plain
        paths = [measures, *sorted(folder.glob("retrieval.*.csv.gz"))]
        stored = [path for path in paths if path.exists()]
        if not stored:
            raise UnavailableError(
                "no measures of retrieval are stored: run `pkg-lib cast prepare`"
            )
        tables = [pd.read_csv(io.StringIO(read_text(path))) for path in stored]
        return pd.concat(tables)

    @cached_property
    def chunk_statistics(self) -> pd.DataFrame:
        """How each chunker cuts: one row per language, method and mode."""
        path = self.folder / "chunk_statistics.csv"
        if not path.exists():
            raise UnavailableError(f"no {path.name} is stored: run `pkg-lib cast prepare`")
        return pd.read_csv(path)

    @cached_property
    def circumstances(self) -> dict[str, Any]:
        """Step of `cast prepare` -> what it was made from."""
        about = {}
        for step in ("tasks", "retrieval", "chunk_statistics"):
            path = self.folder / f"{step}.meta.json"
            about[step] = read_json(path)
        return about

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
        if benchmark not in self.retrieval:
            return pd.Series(dtype=float)
        rows = self.retrieval[benchmark]
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
        for row, passes in self.packages.benchmark_spec.controls.items():
            rates[row] = 100 if passes else 0
        check_controls(self.packages.controls(), self.tasks, rates)
        if REPOEVAL_TESTS in self.runs:
            run = self.runs[REPOEVAL_TESTS]
            ids = pd.Index([task.id for task in run.tasks])
            check_controls(run.controls(), ids, rates)

    def provenance(self) -> dict[str, Any]:
        """Collect what the results were made from.

        Returns:
            "generator" for the completions, and each step of `cast prepare`.
        """
        generator = self.packages.provenance()
        return {"generator": generator, **self.circumstances}


def load_further_results(results: Path, models: str) -> tuple[list[CastResults], list[str]]:
    """Return the results of further models.

    Args:
        results: The results directory.
        models: Models by name, joined by "+"; "" for none.

    Returns:
        The results of those that are measured on packages, and the names of the others.
    """
    found = []
    missing = []
    for name in filter(None, models.split("+")):
        model = model_spec(name).name
        if is_measured(results, model, PACKAGES_BENCHMARK):
            found.append(load_cast_results(results, model))
        else:
            missing.append(model)
    return found, missing


def load_cast_results(results: Path, model: str) -> CastResults:
    """Return a model's results on cAST's benchmarks.

    Args:
        results: The results directory.
        model: The model's name.

    Returns:
        The results on those of the benchmarks that are measured.

    Raises:
        UnavailableError: The model is not measured on packages.
    """
    names = (PACKAGES_BENCHMARK, CHAT_BENCHMARK, REPOEVAL, REPOEVAL_TESTS)
    stored = [name for name in names if is_measured(results, model, name)]
    if PACKAGES_BENCHMARK not in stored:
        command = f"./run_all.sh --model {model} --benchmark {PACKAGES_BENCHMARK}"
        raise UnavailableError(f"no verdicts of {model} are stored: run `{command}`")
    runs = {name: Results(model, name) for name in stored}
    return CastResults(model, runs, results / "repo_tasks")
