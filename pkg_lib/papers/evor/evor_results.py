"""The stored results of one model on EVOR's benchmarks, as the tables and figures read them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.core.types import UnavailableError, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.evaluation.controls import check_controls
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import is_measured
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark
from pkg_lib.papers.evor.evor_methods import EVOR_METHODS, MPSC_SAMPLES, tokens_of
from pkg_lib.papers.evor.evor_run import EvorRun
from pkg_lib.retrieval.methods import NO_RAG

EVOR = "EVOR"
# The same tasks with the library's own names: what knowing the library is worth.
PUBLIC_NAMES = {
    "beatnum": "beatnum-public",
    "monkey": "monkey-public",
    "networkx-m": "networkx-public",
    "more-itertools-m": "more-itertools-public",
}


@dataclass
class BenchmarkResults:
    """The results of one model on one of EVOR's benchmarks.

    A method of EVOR has rounds, such as "EVOR@0" to "EVOR@4". Any other method is its own only round.

    Attributes:
        name: The benchmark.
        results: What is stored of the model on it.
    """

    name: str
    results: Results

    @property
    def title(self) -> str:
        """What tables call the benchmark."""
        return self.results.benchmark_spec.title

    @property
    def short_title(self) -> str:
        """The title without what it has in brackets."""
        return self.title.partition(" (")[0]

    @cached_property
    def tasks(self) -> pd.Index:
        """The ids of the tasks."""
        return pd.Index([task.id for task in self.results.tasks])

    @cached_property
    def held_out(self) -> list[str]:
        """The half of the tasks that was not looked at while prompts and queries were made.

        A digest of its id decides to which half a task belongs.
        """
        held_out = []
        for task_id in self.tasks:
            number = int(digest(task_id)[:8], 16)
            if number % 2:
                held_out.append(task_id)
        return held_out

    # The same model on related benchmarks

    def _related(self, benchmark: str) -> Results | None:
        results = self.results
        return stored_results(results.results, results.model, benchmark, results.limit)

    @cached_property
    def by_library(self) -> Results | None:
        """The results where programs run against the renamed library; None if not measured."""
        return self._related(f"{self.name}-module")

    @cached_property
    def verdicts_with_public_names(self) -> pd.Series | None:
        """The verdicts without retrieval where the library has its own names, by task id.

        None if that is not measured.
        """
        public = PUBLIC_NAMES.get(self.name)
        results = self._related(public) if public else None
        if results is None:
            return None
        return results.verdicts([NO_RAG])[NO_RAG]

    # Rounds

    def rounds(self, method: str) -> list[str]:
        """Return the stored rounds of a method in which every task has a verdict.

        The tasks that an incomplete round lacks are those that failed before. Without them it would
        look better than it is.

        Args:
            method: A method, such as "EVOR".

        Returns:
            The names of the rounds in order, such as "EVOR@0"; the method's own name if it has only
            one round, which may be incomplete.
        """
        names = [method]
        if method in EVOR_METHODS:
            names = EVOR_METHODS[method].round_names
        stored = [name for name in names if self.results.files(name).samples.exists()]
        if len(names) == 1:
            return stored
        return [name for name in stored if self.verdicts(name).notna().all()]

    def verdicts(self, round_name: str) -> pd.Series:
        """Return the verdicts of one round.

        Args:
            round_name: A round, such as "EVOR@0".

        Returns:
            Verdict by task id; missing where a task is not measured.
        """
        frame = self.results.verdicts([round_name])
        return frame[round_name].reindex(self.tasks)

    def last_verdicts(self, method: str) -> pd.Series:
        """Return the verdicts of a method's last complete round.

        Args:
            method: A method, such as "EVOR".

        Returns:
            Verdict by task id; all missing if no round is complete.
        """
        rounds = self.rounds(method)
        if rounds:
            return self.verdicts(rounds[-1])
        return pd.Series(pd.NA, self.tasks, dtype="boolean")

    def feedback(self, round_name: str) -> dict[str, dict[str, Any]]:
        """Return the stored execution feedback on a round's drafts.

        Args:
            round_name: A round, such as "EVOR@0".

        Returns:
            Task id -> row with ``ok`` and ``error``.
        """
        run: EvorRun = self.results.knowledge
        return run.feedback_rows(round_name)

    # Retrieval and use of the needed documents

    def recall(self, round_name: str) -> pd.Series:
        """Return the share of the needed documents that a prompt held.

        Args:
            round_name: A round, such as "EVOR@0".

        Returns:
            Share by task id, of the tasks with known needed documents.
        """
        shares = {}
        for context in self.results.contexts(round_name):
            if context.recall is not None:
                shares[context.task_id] = context.recall
        return pd.Series(shares, dtype=float)

    def used(self, round_name: str) -> pd.Series:
        """Return the share of the needed functions that a program names.

        Args:
            round_name: A round, such as "EVOR@0".

        Returns:
            Share by task id, of the tasks with known needed documents.
        """
        measures = self.results.measures(round_name)
        if "used" not in measures:
            return pd.Series(dtype=float)
        return measures["used"].dropna()

    # Tokens

    def tokens(self, round_name: str) -> pd.Series:
        """Return the tokens that one round read and wrote.

        Args:
            round_name: A round, such as "EVOR@0".

        Returns:
            Tokens by task id. A task that had ended before has those of its test inputs.
        """
        contexts = self.results.contexts_by_task(round_name)
        tokens = {}
        for task_id, answer in self.results.completions(round_name).items():
            context = contexts[task_id]
            tokens[task_id] = context.spent or 0
            had_ended = "@" in round_name and context.method != round_name
            if not had_ended:
                tokens[task_id] += tokens_of(answer)
        return pd.Series(tokens, dtype=float)

    def all_tokens(self, method: str) -> pd.Series:
        """Return the tokens that all rounds of a method read and wrote (Table 7).

        Args:
            method: A method. MPSC has its samples, its tests and checks, and the rounds of EVOR that
                it follows.

        Returns:
            Tokens by task id.
        """
        samples = MPSC_SAMPLES.get(method, ())
        spent: dict[str, int] = {}
        if samples:
            for context in self.results.contexts(method):
                spent[context.task_id] = context.spent or 0
        rounds: list[str] = []
        if method == "EVOR + MPSC":
            rounds = self.rounds(EVOR)
        elif method != "MPSC":
            rounds = self.rounds(method)
        total = pd.Series(spent, self.tasks, dtype=float)
        total = total.fillna(0)
        for name in (*rounds, *samples):
            total = total + self.tokens(name)
        return total

    def check_controls(self) -> None:
        """Check that reference solutions pass every task and empty ones pass none.

        Raises:
            ControlError: A control row has another rate.
        """
        controls = self.results.benchmark_spec.controls
        rates = {row: 100 * passes for row, passes in controls.items()}
        check_controls(self.results.controls(), self.tasks, rates)


@dataclass
class EvorResults:
    """The results of one model on several of EVOR's benchmarks.

    Attributes:
        model: The model's name.
        benchmarks: The measured benchmarks.
        missing: The names of the benchmarks that were requested and are not measured.
    """

    model: str
    benchmarks: list[BenchmarkResults] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def with_any_of(self, methods: Iterable[str]) -> list[BenchmarkResults]:
        """Return the benchmarks on which one of the methods is stored.

        Args:
            methods: The methods.
        """
        wanted = list(methods)
        return [b for b in self.benchmarks if any(map(b.rounds, wanted))]

    @property
    def evolved(self) -> list[BenchmarkResults]:
        """The benchmarks with more than one complete round of EVOR."""
        return [benchmark for benchmark in self.benchmarks if len(benchmark.rounds(EVOR)) > 1]

    def split(self, names: str) -> tuple["EvorResults", "EvorResults"]:
        """Separate some benchmarks from the others.

        Args:
            names: EVOR's benchmarks by name, separated by commas. Those that are not measured are ignored.

        Returns:
            The other benchmarks, and the named ones. If no other benchmark is measured, the first
            has all of them.

        Raises:
            UserError: A name is that of no benchmark of EVOR.
        """
        named = _benchmark_names(names)
        first = EvorResults(self.model, missing=self.missing)
        second = EvorResults(self.model)
        for benchmark in self.benchmarks:
            part = second if benchmark.name in named else first
            part.benchmarks.append(benchmark)
        if not first.benchmarks:
            return self, EvorResults(self.model)
        return first, second

    def check_controls(self) -> None:
        """Check the control rows of every benchmark.

        Raises:
            ControlError: A reference solution fails, or an empty one passes.
        """
        for benchmark in self.benchmarks:
            benchmark.check_controls()

    def provenance(self) -> dict[str, Any]:
        """Return what the results were made from, by title of the benchmark."""
        return {benchmark.title: benchmark.results.provenance() for benchmark in self.benchmarks}


def stored_results(
    folder: Path,
    model: str,
    benchmark: str,
    limit: int | None,
) -> Results | None:
    """Return a model's results on a benchmark.

    Args:
        folder: The results directory.
        model: The model's name.
        benchmark: A benchmark by name.
        limit: Number of tasks; None for all.

    Returns:
        The results; None if the model is not measured there.
    """
    if not is_measured(folder, model, benchmark):
        return None
    return Results(model, benchmark, limit=limit, results=folder)


def _benchmark_names(text: str) -> list[str]:
    """Split names that are separated by commas, and check that each is a benchmark of EVOR."""
    known = [name for name, spec in BENCHMARKS.items() if isinstance(spec, EvorBenchmark)]
    names = re.findall(r"[^,\s]+", text)
    wrong = [name for name in names if name not in known]
    if wrong:
        choices = ", ".join(known)
        raise UserError(f"no benchmark of EVOR: {', '.join(wrong)}; choose from: {choices}")
    return names


def load_evor_results(
    folder: Path,
    model: str,
    benchmarks: str,
    limit: int | None,
) -> EvorResults:
    """Return a model's results on the benchmarks where it is measured.

    Args:
        folder: The results directory.
        model: The model's name.
        benchmarks: EVOR's benchmarks by name, separated by commas.
        limit: Number of tasks of each benchmark; None for all.

    Returns:
        The results, with the names of the benchmarks that are not measured.

    Raises:
        UserError: A name is that of no benchmark of EVOR, or there is none.
        UnavailableError: The model is not measured on any of them.
    """
    requested = _benchmark_names(benchmarks)
    if not requested:
        raise UserError("no benchmark of EVOR is named; name one, such as networkx-m")
    evor = EvorResults(model)
    for name in requested:
        results = stored_results(folder, model, name, limit)
        if results is None:
            evor.missing.append(name)
        else:
            evor.benchmarks.append(BenchmarkResults(name, results))
    if not evor.benchmarks:
        names = ", ".join(evor.missing)
        advice = "make them with run --benchmark"
        raise UnavailableError(f"no verdicts of {model} on {names} are stored: {advice}")
    return evor
